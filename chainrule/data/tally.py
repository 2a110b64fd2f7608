"""Counts of what reading a file changed or left out, and one note for each kind of change."""

from collections import Counter


class Tally:
    """Counts by kind; a kind is a phrase such as "empty record{s} skipped"."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, kind: str, count: int = 1) -> None:
        """Count something that happened `count` times."""
        if count:
            self.counts[kind] += count

    def notes(self, name: str) -> list[str]:
        """One sentence per kind: "poems.txt: 120 CRLF line ends read as LF"."""
        return [f"{name}: {count} {kind.format(s='' if count == 1 else 's')}" for kind, count in self.counts.items()]


def line_feeds_only(text: str, tally: Tally) -> str:
    """The text with CRLF and lone CR as LF, counted."""
    if "\r" not in text:
        return text
    pairs = text.count("\r\n")
    count_carriage_returns(tally, pairs, text.count("\r") - pairs)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def count_carriage_returns(tally: Tally, pairs: int, lone: int) -> None:
    """Count line ends that were written with carriage returns."""
    tally.add("CRLF line end{s} read as LF", pairs)
    tally.add("CR line end{s} read as LF", lone)
