"""The tagger against plain torch, alone and in padded batches."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from chainrule.models.contract import IGNORE, Batch
from chainrule.models.tagger import SIZES, Model
from chainrule.tagging.case import Sightings
from chainrule.tagging.collate import collate
from chainrule.tagging.spelling import spell
from chainrule.training.optimizer import Optimizer
from chainrule.training.recipe import Recipe

COLUMNS = (3, 5)
SENTENCES = [["The", "cat", "sat", "down"], ["Cats", "sit"], ["Go"]]
IDS = [np.array([1, 2, 3, 4]), np.array([0, 3]), np.array([5])]
TAGS = [np.array([[0, 1], [1, 2], [2, 4], [IGNORE, 3]]), np.array([[1, 2], [2, 0]]), np.array([[2, IGNORE]])]
PADDING = 6


def make(**changes: object) -> Model:
    torch.manual_seed(0)
    model = Model(replace(SIZES["tiny"], columns=COLUMNS, **changes), 7, PADDING)
    for vectors in (member.embedding for member in model.members):  # which begin as nothing
        nn.init.normal_(vectors.parts.weight, std=0.3)
        nn.init.normal_(vectors.cases.weight, std=0.3)
    return model


def batch(rows: slice = slice(None)) -> Batch:
    window = collate(SENTENCES[rows], IDS[rows], TAGS[rows], PADDING, Sightings(SENTENCES))
    condition = {name: torch.from_numpy(each) for name, each in window.condition.items()}
    return Batch(torch.from_numpy(window.inputs), torch.from_numpy(window.targets), condition)


def as_torch(model: Model, row: int) -> list[torch.Tensor]:
    """One sentence by torch's own bidirectional LSTM on the same weights, its vectors put together by hand."""
    config = model.config
    reference = nn.LSTM(config.input_width, config.width, bidirectional=True, batch_first=True)
    with torch.no_grad():
        for ending, cell in zip(("", "_reverse"), model.members[0].encoder.recurrent.cells, strict=True):
            getattr(reference, f"weight_ih_l0{ending}").copy_(cell.input_weight)
            getattr(reference, f"weight_hh_l0{ending}").copy_(cell.recurrent_weight)
            getattr(reference, f"bias_ih_l0{ending}").copy_(cell.bias)
            getattr(reference, f"bias_hh_l0{ending}").zero_()
        embedding = model.members[0].embedding
        spelled = spell([SENTENCES[row]], len(SENTENCES[row]), Sightings(SENTENCES), is_learned=True)
        vectors = []
        for place, number in enumerate(IDS[row]):
            sums = [
                sum(table[1 + each % (len(table) - 1)] for each in spelled[name][0, place].tolist() if each)
                for name, table in (("parts", embedding.parts.weight), ("cases", embedding.cases.weight))
            ]
            vectors.append(torch.cat([embedding.words.weight[number], *sums]))
        hidden = reference(torch.stack(vectors)[None])[0][0]
        return [hidden @ head.weight.t() + head.bias for head in model.members[0].heads]


@pytest.mark.parametrize("row", [0, 1, 2])
def test_a_row_in_a_padded_batch_is_the_row_alone_and_torchs(row: int):
    model = make().eval()
    together = model.logits(batch().inputs, batch().condition)
    alone = model.logits(*[getattr(batch(slice(row, row + 1)), name) for name in ("inputs", "condition")])
    for column, expected in enumerate(as_torch(model, row)):
        torch.testing.assert_close(alone[column][0], expected, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(together[column][row, : len(expected)], expected, rtol=1e-5, atol=1e-6)


def test_the_loss_is_the_sum_over_columns_of_torchs():
    model = make().eval()
    expected = torch.zeros(())
    for row, tags in enumerate(TAGS):
        for column, logits in enumerate(as_torch(model, row)):
            expected += F.cross_entropy(logits, torch.from_numpy(tags[:, column]), ignore_index=IGNORE, reduction="sum")
    loss = model.loss(batch())
    assert float(loss.total.detach()) == pytest.approx(float(expected), rel=1e-5)
    assert loss.count == 12  # of 14 tags two are not asked for


def test_members_learn_each_by_itself_and_speak_as_one():
    model = make(members=2, input_dropout=0.0, spelling_dropout=0.0, case_dropout=0.0, dropout=0.0)
    one, other = (member(batch().inputs, batch().condition) for member in model.members)
    for together, first, second in zip(model.logits(batch().inputs, batch().condition), one, other, strict=True):
        torch.testing.assert_close(together.exp(), (first.softmax(-1) + second.softmax(-1)) / 2)
    expected = [
        F.cross_entropy(logits.flatten(0, 1), batch().targets[..., column].flatten(), reduction="sum")
        for said in (one, other)
        for column, logits in enumerate(said)
    ]
    torch.testing.assert_close(model.train().loss(batch()).total, sum(expected) / 2)
    with torch.no_grad():
        assert model.eval().loss(batch()).total < sum(expected) / 2  # as the logarithm is concave


def test_words_on_both_sides_count_with_two_directions_and_only_those_before_with_one():
    for directions, is_changed in ((2, True), (1, False)):
        model = make(directions=directions).eval()
        changed = [[*SENTENCES[0][:3], "up"]]
        windows = [collate(each, IDS[:1], TAGS[:1], PADDING, Sightings(SENTENCES)) for each in (SENTENCES[:1], changed)]
        first = [
            model.logits(
                torch.from_numpy(window.inputs),
                {name: torch.from_numpy(each) for name, each in window.condition.items()},
            )[0][0, 0]
            for window in windows
        ]
        assert torch.equal(*first) is not is_changed


def test_a_transformers_row_in_a_padded_batch_is_the_row_alone():
    model = make(encoder="transformer").eval()
    together = model.logits(batch().inputs, batch().condition)
    for row, words in enumerate(SENTENCES):
        one = batch(slice(row, row + 1))
        for all_rows, alone in zip(together, model.logits(one.inputs, one.condition), strict=True):
            torch.testing.assert_close(all_rows[row, : len(words)], alone[0], rtol=1e-5, atol=1e-6)


def test_whole_parts_are_dropped_and_cases_are_not():
    vectors = make(spelling_dropout=0.5, input_dropout=0.0, case_dropout=0.0).members[0].embedding.train()
    words, spelled = torch.zeros(1, 400, dtype=torch.long), spell([["Walk"] * 400], 400, Sightings())
    hashes = {name: torch.from_numpy(each) for name, each in spelled.items()}
    for name, table, expected in (("parts", vectors.parts, {0.0, 2.0}), ("cases", vectors.cases, {1.0})):
        row = 1 + int(hashes[name][0, 0, 0]) % (len(table.weight) - 1)
        nn.init.zeros_(vectors.parts.weight)
        nn.init.zeros_(vectors.cases.weight)
        nn.init.ones_(table.weight.detach()[row])
        found = vectors(words, hashes["parts"], hashes["cases"])[0, :, vectors.words.embedding_dim :]
        assert set(found.flatten().unique().tolist()) - {0.0} == expected - {0.0}
        assert len(set(found.sum(1).tolist())) == len(expected)


def test_what_was_never_seen_says_nothing():
    fresh = Model(replace(SIZES["tiny"], columns=COLUMNS), 7, PADDING).eval()
    words, others = (
        batch(slice(0, 1)),
        collate([["Xy", "Qq", "zz", "!"]], IDS[:1], TAGS[:1], PADDING, Sightings(SENTENCES)).condition,
    )
    condition = {name: torch.from_numpy(each) for name, each in others.items()}
    for one, other in zip(
        fresh.logits(words.inputs, words.condition), fresh.logits(words.inputs, condition), strict=True
    ):
        assert torch.equal(one, other)


@pytest.mark.parametrize("encoder", ["elman", "gru", "lstm", "transformer"])
def test_a_batch_can_be_learned_by_heart(encoder: str):
    model = make(encoder=encoder, input_dropout=0.0, spelling_dropout=0.0, case_dropout=0.0, dropout=0.0)
    optimizer = Optimizer(model, Recipe(optimizer="adamw", learning_rate=0.02))
    for _ in range(120):
        model.loss(batch()).mean.backward()
        optimizer.step(1.0)
    assert float(model.loss(batch()).mean.detach()) < 0.02


def test_saved_is_loaded(tmp_path):
    model = make().eval()
    model.save(tmp_path / "model.safetensors")
    loaded = Model.load(tmp_path / "model.safetensors").eval()
    assert loaded.config == model.config
    for ours, theirs in zip(*[each.logits(batch().inputs, batch().condition) for each in (model, loaded)], strict=True):
        assert torch.equal(ours, theirs)
