"""The chat in a browser: what is shown is what the API answers to what was said, and no branch of it is lost."""

import json
import re
import time
from collections.abc import Iterator
from math import exp, log
from pathlib import Path
from typing import Any

import pytest

from chainrule.generation.batch import SampleBatch
from tests.serving.page.accessible import assert_accessible
from tests.serving.page.conftest import served
from tests.serving.page.waiting import until
from tests.serving.toys import store_chatml

FILTERS = {"temperature": 0.8, "top_k": 0, "top_p": 1, "min_p": 0, "repetition_penalty": 1}
QUESTION = "On day 7 the"


@pytest.fixture(scope="module")
def address(toys: list[Path], translators: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An n-gram, an LSTM and a Transformer of plain text, a Transformer that reads ChatML, and translators."""
    styled = store_chatml(tmp_path_factory.mktemp("styled") / "styled")
    with served([*toys, styled, *translators]) as found:
        yield found


@pytest.fixture
def asked(page: Any) -> list[dict[str, Any]]:
    """The bodies of all requests to the route, as they are sent."""
    bodies: list[dict[str, Any]] = []
    page.on("request", lambda request: bodies.append(request.post_data_json) if "/chat/" in request.url else None)
    return bodies


def begin(page: Any, model: str = "lstm", tokens: int = 12, seed: int = 5, **address: str) -> None:
    """A page that is ready, with a short answer and a seed of its own."""
    page.goto("/#/chat?" + "&".join(f"{name}={value}" for name, value in {"model": model, **address}.items()))
    page.wait_for_selector("#message")
    setting(page, "Most tokens", tokens)
    setting(page, "Seed", seed)


def setting(page: Any, label: str, value: object) -> None:
    page.get_by_label(label, exact=True).fill(str(value))
    page.get_by_label(label, exact=True).dispatch_event("change")


def finished(page: Any, answers: int) -> None:
    until(page, f"document.querySelectorAll('.answer[aria-busy=false]').length === {answers}")
    until(page, "document.querySelectorAll('.answer[aria-busy=true]').length === 0")


def say(page: Any, text: str, answers: int) -> None:
    """Say it, and wait until there are so many answers."""
    page.fill("#message", text)
    page.keyboard.press("Enter")
    finished(page, answers)


def texts(page: Any, kind: str) -> list[str]:
    found: list[str] = page.eval_on_selector_all(f".{kind} .message", "all => all.map(each => each.textContent)")
    return found


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def answer(page: Any, messages: list[dict[str, str]], **body: Any) -> dict[str, Any]:
    """What the API itself answers, with the page's settings."""
    settings = {"model": "lstm", "seed": 5, "max_completion_tokens": 12, **FILTERS}
    data = json.dumps({**settings, "messages": messages, **body})
    found = page.request.post("/v1/chat/completions", data=data, headers={"Content-Type": "application/json"})
    choice: dict[str, Any] = found.json()["choices"][0]
    return choice


def content(page: Any, messages: list[dict[str, str]], **body: Any) -> str:
    text: str = answer(page, messages, **body)["message"]["content"]
    return text


@pytest.mark.parametrize("model", ["ngram", "lstm", "transformer", "styled"])
def test_every_answer_is_the_apis_to_the_conversation_so_far(page: Any, model: str):
    begin(page, model, tokens=6)
    said: list[dict[str, str]] = []
    for place, question in enumerate(["On day 7", "the cow"] if model != "transformer" else ["On day 7"]):
        say(page, question, place + 1)
        said.append(user(question))
        said.append(assistant(content(page, said, model=model, max_completion_tokens=6)))
        assert texts(page, "question") == [each["content"] for each in said if each["role"] == "user"]
        assert texts(page, "answer") == [each["content"] for each in said if each["role"] == "assistant"]
    assert page.input_value("#message") == "" and page.evaluate("document.activeElement.id") == "message"


def test_without_a_seed_every_answer_has_a_new_one_which_gives_it_again(page: Any):
    begin(page)
    setting(page, "Seed", "")
    say(page, QUESTION, 1)
    seed = int(page.inner_text(".answer-foot .number").split("seed ")[1].split(" ")[0])
    assert texts(page, "answer") == [content(page, [user(QUESTION)], seed=seed)]


def slow(batch: SampleBatch, advance: Any = SampleBatch.advance) -> None:
    time.sleep(0.05)
    advance(batch)


def test_stopping_keeps_what_came_and_it_can_be_continued(
    page: Any, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
):
    begin(page, tokens=400)
    with monkeypatch.context() as patched:
        patched.setattr(SampleBatch, "advance", slow)
        page.fill("#message", QUESTION)
        page.keyboard.press("Enter")
        until(page, "document.querySelector('.answer .message')?.textContent.length > 3")
        page.get_by_role("button", name="Stop", exact=True).focus()
        page.keyboard.press("Enter")
        finished(page, 1)
    [kept] = texts(page, "answer")
    whole = content(page, [user(QUESTION)], max_completion_tokens=400)
    assert 3 < len(kept) < len(whole) and whole.startswith(kept)
    assert "stopped" in page.inner_text(".answer-foot")
    assert page.evaluate("document.activeElement.id") == "message"
    until(page, "fetch('/health').then(each => each.json()).then(({ decoding }) => decoding === 0)")

    setting(page, "Most tokens", 9)
    page.get_by_role("button", name="Continue").click()
    finished(page, 1)
    begun = [user(QUESTION), assistant(kept)]
    assert asked[-1]["messages"] == begun
    rest = content(page, begun, max_completion_tokens=9, continue_final_message=True)
    assert texts(page, "answer") == [kept + rest]


def test_shift_and_enter_is_a_new_line(page: Any):
    begin(page)
    page.focus("#message")
    page.keyboard.type("On day 7")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("the cow")
    page.keyboard.press("Enter")
    finished(page, 1)
    assert texts(page, "question") == ["On day 7\nthe cow"]
    page.keyboard.press("Enter")  # nothing to send
    assert len(texts(page, "question")) == 1


def test_an_edited_message_is_a_branch_and_the_first_one_is_kept(page: Any):
    begin(page)
    say(page, "On day 7", 1)
    say(page, "the cow", 2)
    before = texts(page, "question"), texts(page, "answer")
    page.get_by_role("button", name="Edit").first.click()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Edit your message"
    page.keyboard.press("Control+a")
    page.keyboard.type("She sings")
    page.keyboard.press("Enter")
    finished(page, 1)
    after = texts(page, "question"), texts(page, "answer")
    assert after == (["She sings"], [content(page, [user("She sings")])])

    versions = page.get_by_role("group", name="Versions of the message")
    assert versions.text_content() == "‹2 of 2›"
    page.get_by_role("button", name="Previous message").click()
    assert (texts(page, "question"), texts(page, "answer")) == before
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Next message"
    page.keyboard.press("Enter")
    assert (texts(page, "question"), texts(page, "answer")) == after


def test_an_edit_can_be_left_and_is_not_lost_on_the_way(page: Any):
    begin(page)
    say(page, "On day 7", 1)
    page.get_by_role("button", name="Edit").click()
    page.keyboard.type(" the moon")
    page.keyboard.press("Alt+Tab")
    page.get_by_role("button", name="Surprise").click()  # draws all anew
    field = page.get_by_label("Edit your message")
    assert field.input_value() == "On day 7 the moon"
    field.press("Escape")
    assert texts(page, "question") == ["On day 7"]
    assert page.evaluate("document.activeElement.textContent") == "Edit"


def test_an_answer_is_drawn_again_beside_the_first_and_what_followed_stays_with_it(page: Any):
    begin(page)
    say(page, "On day 7", 1)
    say(page, "the cow", 2)
    before = texts(page, "answer")
    page.get_by_role("button", name="Regenerate").first.click()
    finished(page, 1)
    page.get_by_role("button", name="Regenerate").first.click()
    finished(page, 1)
    expected = [content(page, [user("On day 7")], seed=5 + place) for place in range(3)]
    assert before[0] == expected[0] and texts(page, "answer") == [expected[2]]
    previous = page.get_by_role("button", name="Previous answer")
    previous.click()
    assert page.get_by_role("group", name="Versions of the answer").text_content() == "‹2 of 3›"
    assert texts(page, "answer") == [expected[1]]
    previous.click()
    assert texts(page, "answer") == before
    say(page, "She eats", 3)
    said = [user("On day 7"), assistant(before[0]), user("the cow"), assistant(before[1]), user("She eats")]
    assert texts(page, "answer")[2] == content(page, said)


def test_what_is_deleted_can_be_had_back(page: Any):
    begin(page)
    say(page, "On day 7", 1)
    say(page, "the cow", 2)
    before = texts(page, "question"), texts(page, "answer")
    page.get_by_role("button", name="Delete").first.click()
    assert page.locator(".turn").count() == 0
    page.get_by_role("button", name="Undo").click()
    assert (texts(page, "question"), texts(page, "answer")) == before
    page.get_by_role("button", name="Delete").last.click()  # the second answer
    assert texts(page, "answer") == before[1][:1]
    page.get_by_role("button", name="Answer this").click()
    finished(page, 2)
    assert texts(page, "answer") == before[1]


def test_the_system_message_reaches_the_model(page: Any, asked: list[dict[str, Any]]):
    begin(page, "styled", tokens=8)
    assert page.get_by_label("System message").get_attribute("placeholder") == "Be brief."  # its own
    page.get_by_label("System message").fill("the cat")
    say(page, "sat", 1)
    system = {"role": "system", "content": "the cat"}
    assert asked[-1]["messages"] == [system, user("sat")]
    own = {"model": "styled", "max_completion_tokens": 8}
    assert texts(page, "answer") == [content(page, [system, user("sat")], **own)]
    assert texts(page, "answer") != [content(page, [user("sat")], **own)]


def test_the_settings_of_sampling_reach_the_model(page: Any, asked: list[dict[str, Any]]):
    begin(page)
    page.get_by_role("slider", name="Temperature").fill("0")
    page.get_by_role("slider", name="Top-k").fill("7")
    say(page, QUESTION, 1)
    assert {name: asked[-1][name] for name in FILTERS} == FILTERS | {"temperature": 0, "top_k": 7}
    assert texts(page, "answer") == [content(page, [user(QUESTION)], temperature=0)]


def visible(text: str) -> str:
    """As the page shows it: signs that are not seen are written out."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda found: f"\\x{ord(found[0]):02x}", text)


@pytest.mark.parametrize("model", ["ngram", "lstm", "styled"])
def test_surprise_is_the_routes_log_probabilities(page: Any, model: str):
    begin(page, model)
    say(page, QUESTION, 1)
    page.get_by_role("button", name="Surprise").click()
    choice = answer(page, [user(QUESTION)], model=model, logprobs=True, top_logprobs=10)
    expected = choice["logprobs"]["content"]
    tokens = page.locator(".answer .token")
    levels = tokens.evaluate_all("all => all.map(each => Number(each.style.getPropertyValue('--level')))")
    bits = [-each["logprob"] / log(2) for each in expected]
    assert levels == pytest.approx([min(1, each / 12) for each in bits], abs=6e-4)
    assert f"{sum(bits) / len(bits):.2f} bits each" in page.inner_text(".answer-foot")
    shown = "".join(tokens.evaluate_all("all => all.filter(e => !e.matches('.silent')).map(e => e.textContent)"))
    assert shown.replace("⏎\n", "\n") == visible(choice["message"]["content"])
    for place in (0, 3):
        tokens.nth(place).click()
        bars = "all => all.map(each => Number(each.dataset.probability))"
        found = page.locator(".die-card .face:not(.others)").evaluate_all(bars)
        probabilities = [exp(each["logprob"]) for each in expected[place]["top_logprobs"]]
        assert found[: len(probabilities)] == pytest.approx(probabilities, rel=1e-9)
        assert exp(expected[place]["logprob"]) == pytest.approx(min(found, key=lambda p: abs(p - 2 ** -bits[place])))


@pytest.mark.parametrize(("model", "place"), [("ngram", 2), ("lstm", 2), ("styled", 0)])
def test_another_token_is_chosen_and_the_answer_goes_on_from_there(
    page: Any, asked: list[dict[str, Any]], model: str, place: int
):
    begin(page, model)
    say(page, QUESTION, 1)
    [before] = texts(page, "answer")
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Surprise").click()
    page.locator(".answer .token").nth(place).focus()
    page.keyboard.press("Enter")
    head = "".join(page.locator(".answer .token").all_text_contents()[:place]).replace("⏎\n", "\n")
    names = page.locator("button.face:not(.drawn) .name").all_text_contents()
    chosen = next(name for name in names if name.isascii() and not name.startswith(("bytes:", "\\x", "<")))
    page.locator("button.face:not(.drawn)").nth(names.index(chosen)).click()
    finished(page, 1)
    assert page.evaluate("document.activeElement.id") == "message"
    begun = asked[-1]["messages"][-1]["content"]
    assert before.startswith(head) and begun.startswith(head) and begun.removeprefix(head).strip() == chosen.strip()
    rest = answer(page, [user(QUESTION), assistant(begun)], model=model, seed=6, continue_final_message=True)
    page.get_by_role("button", name="Surprise").click()
    assert texts(page, "answer") == [begun + rest["message"]["content"]]
    page.get_by_role("button", name="Previous answer").click()
    assert texts(page, "answer") == [before]


def test_an_end_is_chosen_too_and_asks_for_nothing(page: Any, asked: list[dict[str, Any]]):
    begin(page, "ngram", tokens=40)
    say(page, QUESTION, 1)
    page.get_by_role("button", name="Surprise").click()
    names = page.locator(".answer .token").evaluate_all("all => all.map(each => each.textContent)")
    for place in range(len(names)):
        page.locator(".answer .token").nth(place).click()
        end = page.locator("button.face:not(.drawn):has-text('<eos>')")
        if end.count():
            break
    end.click()
    page.get_by_role("button", name="Surprise").click()
    assert texts(page, "answer") == ["".join(names[:place]).replace("⏎\n", "\n")]
    assert len(asked) == 1 and page.get_by_role("group", name="Versions of the answer").text_content() == "‹2 of 2›"


def test_two_models_answer_side_by_side_and_each_goes_on_with_its_own_answers(page: Any, asked: list[dict[str, Any]]):
    begin(page)
    page.get_by_label("Beside it").select_option("ngram")
    assert page.url.endswith("#/chat?model=lstm&with=ngram")
    say(page, "On day 7", 2)
    first = {model: content(page, [user("On day 7")], model=model) for model in ("lstm", "ngram")}
    assert texts(page, "answer") == list(first.values())
    say(page, "the cow", 4)
    said = {model: [user("On day 7"), assistant(text), user("the cow")] for model, text in first.items()}
    assert {body["model"]: body["messages"] for body in asked[-2:]} == said
    assert texts(page, "answer")[2:] == [content(page, messages, model=model) for model, messages in said.items()]
    boxes = [each.bounding_box() for each in page.locator(".answer").all()]
    assert boxes[0]["y"] == boxes[1]["y"] and boxes[0]["x"] < boxes[1]["x"]

    page.get_by_role("button", name="Regenerate").nth(3).click()  # the n-gram's second
    finished(page, 4)
    assert texts(page, "answer")[3] == content(page, said["ngram"], model="ngram", seed=6)
    assert texts(page, "answer")[2] == content(page, said["lstm"])


def saved(page: Any, tmp_path: Path) -> str:
    with page.expect_download() as download:
        page.get_by_role("button", name="Save").click()
    assert download.value.suggested_filename == "chat.jsonl"
    download.value.save_as(tmp_path / "chat.jsonl")
    return (tmp_path / "chat.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize("models", [{}, {"with": "ngram"}])
def test_what_is_saved_is_loaded_again(page: Any, tmp_path: Path, models: dict[str, str]):
    begin(page, **models)
    page.get_by_label("System message").fill("Speak of cows – größer.")
    say(page, "On day 7", 1 + len(models))
    say(page, 'the "cow"\nsings', 2 + 2 * len(models))
    questions, answers = texts(page, "question"), texts(page, "answer")
    written = saved(page, tmp_path)
    system = {"role": "system", "content": "Speak of cows – größer."}
    columns = [answers[place :: 1 + len(models)] for place in range(1 + len(models))]
    expected = [
        [system, user(questions[0]), assistant(one), user(questions[1]), assistant(other)] for one, other in columns
    ]
    assert [json.loads(line) for line in written.splitlines()] == [{"messages": each} for each in expected]

    page.goto("about:blank")
    begin(page, **models)
    page.set_input_files("input[type=file]", tmp_path / "chat.jsonl")
    until(page, f"document.querySelectorAll('.answer').length === {len(answers)}")
    assert (texts(page, "question"), texts(page, "answer")) == (questions, answers)
    assert page.get_by_label("System message").input_value() == "Speak of cows – größer."
    assert saved(page, tmp_path) == written
    say(page, "She eats", len(answers) + 1 + len(models))
    assert texts(page, "answer")[-1 - len(models)] == content(page, [*expected[0], user("She eats")])


def test_conversations_of_a_file_are_branches(page: Any, tmp_path: Path):
    conversations = [
        [user("Hay?"), assistant("Yes."), user("Why?"), assistant("It is winter.")],
        [user("Hay?"), assistant("No.")],
        [user("Hay?"), assistant("Yes."), user("When?")],
        [{"role": "system", "content": "Moo."}, user("Hay?")],
    ]
    lines = [json.dumps({"messages": each}) for each in conversations]
    (tmp_path / "cows.jsonl").write_text("\n".join(lines) + "\n")
    begin(page)
    page.set_input_files("input[type=file]", tmp_path / "cows.jsonl")
    page.wait_for_selector(".turn")
    assert (texts(page, "question"), texts(page, "answer")) == (["Hay?", "Why?"], ["Yes.", "It is winter."])
    assert "3 of 4 conversations were loaded" in page.text_content(".toast")
    page.get_by_role("button", name="Next message").click()
    assert (texts(page, "question"), texts(page, "answer")) == (["Hay?", "When?"], ["Yes."])
    page.get_by_role("button", name="Next answer").click()
    assert (texts(page, "question"), texts(page, "answer")) == (["Hay?"], ["No."])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "The file is empty"),
        ('{"messages": [{"role": "user", "content": "Hay?"}]}\n{"text": "Moo."}\n', "Line 2 of the file is not"),
        ("Moo.\n", "Line 1 of the file is not a conversation"),
        ('{"messages": [{"role": "cow", "content": "Moo."}]}\n', "Line 1 of the file is not a conversation"),
    ],
)
def test_a_file_of_something_else_is_refused_in_a_sentence(page: Any, tmp_path: Path, text: str, sentence: str):
    (tmp_path / "cows.jsonl").write_text(text)
    begin(page)
    say(page, QUESTION, 1)
    before = texts(page, "answer")
    page.set_input_files("input[type=file]", tmp_path / "cows.jsonl")
    until(page, f"document.querySelector('.undo').textContent.startsWith('{sentence}')")
    assert texts(page, "answer") == before


def test_a_conversation_that_is_too_long_is_told_beside_it_and_can_be_changed(page: Any):
    begin(page, "transformer", tokens=4)
    long = "On day 7 the red cow eats hay by the river and sings. " * 8
    page.fill("#message", long)
    page.keyboard.press("Enter")
    page.wait_for_selector(".answer .notice")
    assert "but this model reads 32; shorten it." in page.inner_text(".answer .notice")
    assert texts(page, "question") == [long.strip()]
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Edit your message").fill("On day 7")
    page.keyboard.press("Enter")
    finished(page, 1)
    assert texts(page, "answer") == [content(page, [user("On day 7")], model="transformer", max_completion_tokens=4)]


def test_a_server_that_is_gone_is_told_and_asked_again(page: Any):
    begin(page)
    page.route("**/v1/chat/completions", lambda route: route.abort())
    page.fill("#message", QUESTION)
    page.keyboard.press("Enter")
    page.wait_for_selector(".answer .notice")
    assert page.inner_text(".answer .notice span") == ("The server does not answer; is chainrule serve still running?")
    page.unroute("**/v1/chat/completions")
    page.get_by_role("button", name="Try again").click()
    finished(page, 1)
    assert texts(page, "answer") == [content(page, [user(QUESTION)])]
    assert page.locator(".answer .notice").count() == 0


def test_nothing_is_lost_in_another_view(page: Any):
    begin(page)
    say(page, QUESTION, 1)
    page.get_by_label("System message").fill("Moo.")
    page.fill("#message", "and then")
    before = texts(page, "answer")
    page.click("#tab-surprise")
    page.wait_for_selector(".summary")
    page.click("#tab-chat")
    page.wait_for_selector(".answer")
    assert texts(page, "answer") == before and texts(page, "question") == [QUESTION]
    assert page.input_value("#message") == "and then"
    assert page.get_by_label("System message").input_value() == "Moo."
    assert page.get_by_label("Most tokens").input_value() == "12"


def test_models_of_plain_text_are_said_to_be_and_others_are_not_offered(page: Any):
    begin(page)
    note = "lstm was not trained on conversations: it continues a transcript of “User:” and “Assistant:”."
    assert page.inner_text(".chat-note") == note
    assert page.locator("select").first.locator("option").evaluate_all("all => all.map(each => each.value)") == [
        "styled", "ngram", "lstm", "transformer",
    ]  # fmt: skip
    page.locator("select").first.select_option("styled")
    assert page.inner_text(".chat-note") == ""
    page.get_by_label("Beside it").select_option("ngram")
    assert page.inner_text(".chat-note").startswith("ngram was not trained on conversations")


def test_the_page_begins_with_the_chat_where_a_model_was_trained_on_conversations(page: Any):
    page.goto("/")
    page.wait_for_selector("#message")
    assert page.title() == "Chat · Chainrule"
    assert page.locator("select").first.input_value() == "styled"


HOSTILE = '<img src=x onerror="document.title=1"> <b>moo</b> &amp; \u202e'


@pytest.mark.parametrize("text", [HOSTILE, "x" * 400, "שלום עולם", "مرحبا", "日本語" * 60])
def test_text_is_text_in_every_direction_and_never_wider_than_the_page(page: Any, text: str):
    page.set_viewport_size({"width": 390, "height": 844})
    begin_narrow(page)
    say(page, text, 1)
    assert texts(page, "question") == [text]
    assert page.locator(".question .message *").count() == 0
    direction = page.eval_on_selector(".question .message", "each => getComputedStyle(each).direction")
    assert direction == ("rtl" if text in ("שלום עולם", "مرحبا") else "ltr")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def begin_narrow(page: Any) -> None:
    """Where the settings are folded away."""
    page.goto("/#/chat?model=ngram")
    page.wait_for_selector("#message")
    page.locator("summary").click()
    setting(page, "Most tokens", 12)
    page.locator("summary").click()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_problem_and_no_sideways_scrolling(page: Any, scheme: str, width: int):
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)
    page.goto("/#/chat?model=lstm&with=transformer")
    page.wait_for_selector("#message")
    assert_accessible(page)
    page.fill("#message", "On day 7 the cow eats by the river and sings. " * 3)
    page.keyboard.press("Enter")
    finished(page, 2)
    page.wait_for_selector(".answer .notice")
    page.get_by_role("button", name="Surprise").click()
    page.get_by_role("button", name="Regenerate").first.click()
    finished(page, 2)
    page.locator(".answer .token").nth(2).click()
    page.get_by_role("button", name="Edit").focus()
    assert_accessible(page)
