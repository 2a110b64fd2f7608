"""The loop of `chainrule chat`: read a line, do it or answer it, until the person leaves."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from types import FrameType

from chainrule.cli.chat_commands import COMMANDS, ChatCommands, ExitChat
from chainrule.cli.line_editor import LineEditor, read_message
from chainrule.cli.output import say
from chainrule.cli.word_wrap import WordWrap
from chainrule.errors import UserError
from chainrule.generation.chat_file import ChatFiles
from chainrule.generation.chat_session import STOPPED, Answer, ChatSession
from chainrule.generation.decoder import PREFILL_CHUNK
from chainrule.progress import is_quiet, visible

PROMPT, FURTHER = ">>> ", "... "
HOW_TO_LEAVE = "(Ctrl-D or /exit ends the chat)"


class ChatTerminal:
    """A person at a terminal, in conversation with a session that is written to the file `save` after every line."""

    def __init__(self, session: ChatSession, files: ChatFiles, save: Path | None = None) -> None:
        self.session, self._files, self._save = session, files, save
        self._editor = LineEditor(tuple(COMMANDS))
        self._commands = ChatCommands(session, files, self._edit if self._editor.can_edit else None)

    def run(self) -> None:
        """Talk until Ctrl-D or /exit; no mistake and no Ctrl-C ends the chat."""
        while True:
            try:
                self._take_line()
            except (EOFError, ExitChat) as reason:
                if isinstance(reason, EOFError):
                    print(file=sys.stderr)
                return
            except KeyboardInterrupt:
                print(f"\n{HOW_TO_LEAVE}", file=sys.stderr)
            except UserError as error:
                _complain(error.sentence)
            except UnicodeDecodeError:
                _complain("what was typed is not UTF-8; type it again")

    def _take_line(self) -> None:
        text, is_quoted = read_message(self._editor.read, PROMPT, FURTHER)
        if not text.strip():
            return
        answer = self._commands.run(text) if text.startswith("/") and not is_quoted else self.session.ask(text)
        try:
            if answer is not None:
                self._show(answer)
        finally:
            self._keep()

    def _edit(self, question: str) -> str:
        return self._editor.read(PROMPT, question)

    def _keep(self) -> None:
        messages = self.session.history.conversation
        if self._save is not None and any(each.role != "system" for each in messages):
            self._files.save(self._save, messages)

    def _show(self, answer: Answer) -> None:
        begun = False
        with interrupts() as is_interrupted, closing(answer):
            for text in self._tell_reading(show_pieces(answer)):
                print(text, end="", flush=True)
                begun |= bool(text)
                if is_interrupted():
                    break
        print("\n" if begun and sys.stdout.isatty() else "")
        self._tell_end(begun)

    def _tell_end(self, begun: bool) -> None:
        """Say how an answer ended, where that was not by itself."""
        reason, count = self.session.finish_reason, len(self.session.tokens)
        if reason == STOPPED:
            say("(stopped)")
        elif reason == "length":
            say(f"(cut off after {count} tokens; /set max_tokens={2 * count} lets it say more)")
        elif not begun:
            say("(the answer is empty; /retry draws another)")

    def _tell_reading(self, pieces: Iterator[str]) -> Iterator[str]:
        """The same pieces; on a terminal, a line says how much is read before the first one, if that is much."""
        is_told = False
        try:
            for piece in pieces:
                count = self.session.reader.tokens_read
                if self.session.tokens and is_told:
                    is_told = _print_remark("")
                elif not self.session.tokens and count > PREFILL_CHUNK:
                    is_told = _print_remark(f"reading {count:,} tokens ...")
                yield piece
        finally:
            if is_told:
                _print_remark("")


def _print_remark(text: str) -> bool:
    """Print a line for the time being, which the next one replaces; returns whether there is one now."""
    if is_quiet() or not sys.stderr.isatty():
        return False
    print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)
    return bool(text)


def _complain(sentence: str) -> None:
    """Print what went wrong; on a terminal, with lines broken between words."""
    columns = get_terminal_size().columns if sys.stderr.isatty() else len(sentence) + 1
    print(fill(sentence, max(columns, 20), break_long_words=False, break_on_hyphens=False), file=sys.stderr)


def show_pieces(pieces: Answer) -> Iterator[str]:
    """An answer as standard output gets it: as it is or, on a terminal, with lines broken between words and control
    characters spelled out."""
    if not sys.stdout.isatty():
        yield from pieces
        return
    wrap = WordWrap(get_terminal_size().columns) if os.environ.get("TERM", "dumb") != "dumb" else None
    for piece in pieces:
        yield wrap.feed(visible(piece)) if wrap else visible(piece)


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """A context in which Ctrl-C is noted instead of raised, so that no computation is left half done."""
    seen: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        seen.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(seen)
    finally:
        signal.signal(signal.SIGINT, before)
