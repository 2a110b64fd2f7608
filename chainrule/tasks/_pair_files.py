"""The files that a model which writes one text from another needs in its run, where it was imported, not trained."""

from collections.abc import Callable
from pathlib import Path

from chainrule.runs.folder import TOKENS_FOLDER
from chainrule.tasks._pairs import Settings, save_tokenizers
from chainrule.text.base import Tokenizer


def pair_files(target: Tokenizer, source: Tokenizer) -> Callable[[Path], None]:
    """For `extra` of `runs.write.store`: a function that writes both tokenizers and the task's settings to a folder."""

    def write(folder: Path) -> None:
        (folder / TOKENS_FOLDER).mkdir()
        save_tokenizers(folder, target, source, Settings())

    return write
