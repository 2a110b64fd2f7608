"""Texts that are in memory: documents that a program passes in place of files.

An input is always named by a text, so these get a name made of their content, 'texts:1a2b3c4d5e6f'. It can be read as
long as the Texts object exists.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from weakref import WeakValueDictionary

from chainrule.errors import UserError

PREFIX = "texts:"


class Texts:
    """Documents to train or to measure on: `Texts(["first document", "second document"])`."""

    def __init__(self, documents: str | Iterable[str]) -> None:
        self.documents = (documents,) if isinstance(documents, str) else tuple(documents)
        for number, document in enumerate(self.documents, start=1):
            if not isinstance(document, str):
                raise UserError(f"texts must be strings, but number {number} is of type {type(document).__name__}")
        if not any(document.strip() for document in self.documents):
            raise UserError("all of these texts are empty; pass at least one that is not")
        content = b"\0".join(document.encode(errors="surrogatepass") for document in self.documents)
        self.name = f"{PREFIX}{sha256(content).hexdigest()[:12]}"
        _in_memory[self.name] = self

    def __iter__(self) -> Iterator[str]:
        return iter(self.documents)

    def __len__(self) -> int:
        return len(self.documents)

    def __repr__(self) -> str:
        return f"<{len(self)} texts, '{self.name}'>"

    @property
    def size(self) -> int:
        """The bytes of all documents as UTF-8."""
        return sum(len(document.encode(errors="surrogatepass")) for document in self.documents)


_in_memory: WeakValueDictionary[str, Texts] = WeakValueDictionary()


def is_texts(name: str) -> bool:
    """Whether an input names texts in memory rather than a file."""
    return name.startswith(PREFIX)


def find_texts(name: str) -> Texts:
    """The texts of that name, or a UserError where they are no longer in memory."""
    found = _in_memory.get(name)
    if found is None:
        raise UserError(f"'{name}' names texts that are no longer in memory; pass them again, or name a file")
    return found
