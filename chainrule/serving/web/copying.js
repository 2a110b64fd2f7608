// What is shown, as a command or a program that gives the same.

/** The request as it goes to /v1/completions, without what only the page needs. */
export function plainRequest(request) {
  const { stream, logprobs, echo, return_token_ids, ...rest } = request;
  return rest;
}

export function asCurl(request) {
  const body = JSON.stringify(plainRequest(request), null, 1).replaceAll("'", "'\\''");
  return `curl ${location.origin}/v1/completions -H 'Content-Type: application/json' -d '${body}'\n`;
}

export function asPython(request) {
  const { model, prompt, max_tokens, temperature, top_p, seed, stop, ...others } = plainRequest(request);
  const given = Object.entries({ model, prompt, max_tokens, temperature, top_p, seed, stop });
  const known = given.filter(([, value]) => value !== undefined);
  const lines = known.map(([name, value]) => `    ${name}=${python(value)},`);
  if (Object.keys(others).length) lines.push(`    extra_body=${python(others)},`);
  return [
    "from openai import OpenAI",
    "",
    `client = OpenAI(base_url="${location.origin}/v1", api_key="none")`,
    "answer = client.completions.create(",
    ...lines,
    ")",
    "print(answer.choices[0].text)",
    "",
  ].join("\n");
}

function python(value) {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value === "object") {
    return `{${Object.entries(value).map(([name, each]) => `${python(name)}: ${python(each)}`).join(", ")}}`;
  }
  return JSON.stringify(value);
}

/** To the clipboard; where the browser has none to give, by the old way of a selected field. */
export async function copy(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}
