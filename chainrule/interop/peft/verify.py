"""Which programs read an adapter back: our own reader, and peft on transformers' model with the base's weights."""

import tempfile
from pathlib import Path

from chainrule.interop._adapter import base_model, base_run, require_adapter, take_in, with_updates
from chainrule.interop._parity import Question
from chainrule.interop._profile import require_transformer
from chainrule.interop._quiet import quiet
from chainrule.interop._readers import Ours, Transformers
from chainrule.interop._weights import LoadedTransformer
from chainrule.interop.huggingface.folder import read_json
from chainrule.interop.huggingface.write import write_huggingface
from chainrule.interop.peft.files import SETTINGS
from chainrule.interop.peft.read import pairs_of, read_tensors
from chainrule.models.transformer import Model
from chainrule.runs.folder import Run
from chainrule.text.base import Tokenizer


def questions(run: Run, folder: Path) -> list[Question]:
    model, adapter = require_transformer(run.model), require_adapter(run)
    base, notes = base_model(run, adapter)
    begun = base_run(adapter)
    there = base if begun is None else require_transformer(begun.model)  # may have fewer tokens
    return [
        Question("chainrule", "chainrule", lambda: _ours(base, run.tokenizer, folder), model, note="; ".join(notes)),
        Question("peft", "peft transformers", lambda: Peft(there, run.tokenizer, folder), model),
    ]


def _ours(base: Model, tokenizer: Tokenizer, folder: Path) -> Ours:
    pairs, scale = pairs_of(read_tensors(folder), read_json(folder / SETTINGS))
    return Ours(LoadedTransformer(with_updates(base, take_in(base, pairs), scale), tokenizer))


class Peft(Transformers):
    """peft, with the adapter on a model of transformers that has the weights of the base."""

    def __init__(self, base: Model, tokenizer: Tokenizer, folder: Path):
        import peft
        import transformers

        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place, quiet():
            write_huggingface(base, tokenizer, Path(place))
            super().__init__(Path(place))
            if base.vocabulary_size < tokenizer.vocabulary_size:
                self._model.resize_token_embeddings(tokenizer.vocabulary_size, mean_resizing=False)
            self._model = peft.PeftModel.from_pretrained(self._model, str(folder), torch_device="cpu").eval()
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.name = f"peft {peft.__version__} on {self.name}"
