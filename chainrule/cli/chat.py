"""`chainrule chat`: a conversation with a run, in the terminal or with a question from a pipe."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chainrule.cli import options
from chainrule.cli.flags import Flags, option
from chainrule.generation.settings import OF_ANSWERS, Sampling

if TYPE_CHECKING:
    from chainrule.api.language import TrainedRun
    from chainrule.generation.chat_session import ChatSession

MAX_TOKENS = 512
DRAWING = tuple(name for name in OF_ANSWERS if name != "max_tokens")


def command(
    run: options.RunPath,
    system: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The system message: what the model is told beforehand.")
    ] = None,
    load_file: Annotated[
        Path | None, typer.Option("--load", metavar="FILE", help="Go on with the last conversation of this file.")
    ] = None,
    save_file: Annotated[
        Path | None,
        typer.Option(
            "--save", metavar="FILE", help="Keep the conversation in this file, a line of JSON beside what is there."
        ),
    ] = None,
    *,
    max_tokens: Annotated[int, option(Sampling, "max_tokens", help="Cut an answer off after this many tokens.")] = (
        MAX_TOKENS
    ),
    drawing: Annotated[Sampling, Flags(only=DRAWING)],
    greedy: options.Greedy = False,
    quantize: options.Quantize = None,
    as_json: options.Json = False,
) -> None:
    """Chat with a run: type, and it answers; /help lists the commands. A question from a pipe is answered alone.

    For example: echo "Who are you?" | chainrule chat runs/smollm2
    """
    options.let_threads_sleep()
    from dataclasses import replace

    from chainrule.api import load
    from chainrule.errors import UserError
    from chainrule.generation.chat_file import ChatFiles, check_chat_file
    from chainrule.generation.chat_session import ChatSession

    is_terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
    if as_json and is_terminal:
        raise UserError(f"--json is for a question from a pipe: echo 'Who are you?' | chainrule chat {run} --json")
    if save_file is not None:
        check_chat_file(save_file)
    loaded, files = load(run, "language"), ChatFiles()
    if quantize:
        options.quantize(loaded, quantize)
    sampling = replace(drawing, max_tokens=max_tokens, temperature=0.0 if greedy else drawing.temperature)
    session = ChatSession(loaded.model, loaded.tokenizer, sampling)
    if load_file is not None:
        session.history.load(files.load(load_file)[1])
    if system is not None:
        session.history.system = system
    if is_terminal:
        from chainrule.cli.chat_terminal import ChatTerminal

        _greet(loaded, session)
        ChatTerminal(session, files, save_file).run()
        return
    _answer_once(loaded, session, as_json)
    if save_file is not None:
        files.save(save_file, session.history.conversation)


def _greet(run: "TrainedRun", session: "ChatSession") -> None:
    from chainrule.cli.output import plural, say
    from chainrule.generation.conversation import chat_of

    say(f"{run.name}: type a message and press Enter; /help lists the commands, Ctrl-D ends")
    if chat_of(run.tokenizer).written.is_plain:
        say("note: not trained on conversations; it continues a transcript of one")
    if session.history.messages:
        say(f"({plural(len(session.history.messages), 'message')} so far; /history shows them)")
    if session.history.unanswered is not None:
        say("(the last question has no answer yet; /retry asks it)")


def _answer_once(run: "TrainedRun", session: "ChatSession", as_json: bool) -> None:
    """Print the answer to the question on standard input, or to the one that a conversation was left with."""
    from chainrule.cli.chat_terminal import show_pieces
    from chainrule.cli.output import print_json
    from chainrule.cli.sample import describe_token
    from chainrule.cli.standard_input import read_standard_input
    from chainrule.errors import UserError

    otherwise = "pipe one in, or chat in a terminal"
    question = read_standard_input("the question is read from standard input", otherwise).strip()
    if not question and session.history.unanswered is None:
        raise UserError(f"there is no question: standard input is empty; {otherwise}")
    pieces = session.ask(question) if question else session.retry()
    if not as_json:
        for text in show_pieces(pieces):
            print(text, end="", flush=True)
        print()
        return
    question = question or session.history.split()[1]
    about = {"run": str(run.path), "question": question, "answer": "".join(pieces)}
    tokens = [describe_token(token, run.tokenizer) for token in session.tokens]
    print_json({**about, "finish_reason": session.finish_reason, "seed": session.seed, "tokens": tokens})
