"""Stop strings: text is held back while it may still become one."""


class StopStrings:
    """Cuts a stream of text pieces before the first stop string, however the text is split into pieces."""

    def __init__(self, strings: tuple[str, ...]) -> None:
        self.strings = strings
        self.longest = max(map(len, strings), default=0)
        self.beginnings = {string[:length] for string in strings for length in range(1, len(string))}
        self.held = ""
        self.found = False

    def feed(self, text: str) -> str:
        """Add text; returns what is now certain to come before any stop string."""
        self.held += text
        cut = self._cut()
        self.found = cut is not None
        if cut is None:
            cut = len(self.held) - self._uncertain()
        certain, self.held = self.held[:cut], self.held[cut:]
        return certain

    def flush(self) -> str:
        """The text held back, once no more follows."""
        held, self.held = self.held, ""
        return held

    def _cut(self) -> int | None:
        """Where the first stop string to be completed begins; if several end there, the longest."""
        starts = ((self.held.find(string), string) for string in self.strings)
        complete = [(start + len(string), start) for start, string in starts if start >= 0]
        return min(complete)[1] if complete else None

    def _uncertain(self) -> int:
        """The length of the longest suffix of the text that is a prefix of a stop string."""
        longest = min(self.longest - 1, len(self.held))
        return next((length for length in range(longest, 0, -1) if self.held[-length:] in self.beginnings), 0)
