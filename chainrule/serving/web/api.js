// The server's answers: JSON whole, or event by event. What goes wrong is an ApiError with the server's own sentence.

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

export function get(path, signal) {
  return ask(path, { signal }).then((response) => response.json());
}

export function post(path, body, signal) {
  return ask(path, { method: "POST", body: JSON.stringify(body), headers: JSON_HEADERS, signal }).then((response) =>
    response.json(),
  );
}

/**
 * POST and hear every event of the answer, as it comes; abort the signal to stop it.
 * @param {(event: any) => void} hear
 */
export async function stream(path, body, hear, signal) {
  const response = await ask(path, { method: "POST", body: JSON.stringify(body), headers: JSON_HEADERS, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.replace(/^data: /, "");
      if (data === "[DONE]") return;
      const found = JSON.parse(data);
      if (found.error) throw new ApiError(found.error.message, 400);
      hear(found);
    }
  }
}

const JSON_HEADERS = { "Content-Type": "application/json" };

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("the server does not answer; is chainrule serve still running?", 0);
  }
  if (!response.ok) {
    const told = await response.json().catch(() => null);
    throw new ApiError(told?.error?.message ?? `the server answered ${response.status}`, response.status);
  }
  return response;
}
