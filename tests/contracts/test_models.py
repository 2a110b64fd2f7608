"""What every architecture in chainrule/models must hold, at size tiny. A new file there is tested by existing."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from chainrule import registry
from chainrule.errors import UserError
from chainrule.models._numpy import step, to_numpy
from chainrule.models.contract import IGNORE, Batch, LanguageModel, Loss, State, cross_entropy, log_softmax
from chainrule.nest import add_rows, remove_row, select_rows
from chainrule.training.resolve import MADE_OF_RUNS

VOCABULARY, EOS = 7, 6
ARCHITECTURES = [  # mixes: test_mixes.py; what is made for another task than text has a file of its own here
    name
    for name in registry.names("chainrule.models", without=(*registry.NOT_NAMED, *MADE_OF_RUNS))
    if not hasattr(registry.find("chainrule.models", name, "model"), "TASK")
]


def stream(seed: int, documents: int = 40) -> np.ndarray:
    """Random documents with some structure, as eos d1 eos d2 ... eos."""
    generator = np.random.default_rng(seed)
    parts = [np.array([EOS])]
    for _ in range(documents):
        words = np.cumsum(generator.integers(0, 3, generator.integers(0, 12))) % EOS
        parts += [words, np.array([EOS])]
    return np.concatenate(parts).astype(np.uint32)


def fit(architecture: str, ids: np.ndarray, vocabulary_size: int = VOCABULARY, eos: int = EOS) -> LanguageModel:
    """Counting models count; the others learn for a moment."""
    module = registry.find("chainrule.models", architecture, "model")
    if hasattr(module.Model, "fit"):
        held_out = stream(99, 10) if eos == EOS else None
        return module.Model(module.SIZES["tiny"], vocabulary_size, eos).fit([ids], held_out)
    import torch

    from chainrule.data.batches import Ring, StreamBatches
    from chainrule.training.callbacks import CallbackList
    from chainrule.training.context import Budget, TrainingContext
    from chainrule.training.recipe import Recipe
    from chainrule.training.trainer import Trainer

    torch.manual_seed(0)
    model = module.Model(module.SIZES["tiny"], vocabulary_size, eos)
    recipe = Recipe(batch_size=8, window=16, chain=2, steps=12)
    windows = StreamBatches([Ring([ids])], [1.0], recipe.batch_size, recipe.window, recipe.chain)
    return Trainer(model, recipe, TrainingContext(windows, Budget(steps=recipe.steps)), CallbackList(), None).run()


def learn_one_batch(model: LanguageModel, batch: Batch) -> None:
    """By nothing but the gradient of that batch."""
    from chainrule.training.optimizer import Optimizer
    from chainrule.training.recipe import Recipe

    optimizer = Optimizer(model, Recipe(optimizer="adamw", learning_rate=0.01))
    for _ in range(200):
        model.loss(batch).mean.backward()
        optimizer.step(1.0)


@pytest.fixture(scope="module", params=ARCHITECTURES)
def architecture(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def model(architecture: str) -> LanguageModel:
    return fit(architecture, stream(0))


@pytest.fixture
def tokens() -> np.ndarray:
    """(batch 3, time 9): each row starts a document, one starts a second within."""
    ids = np.random.default_rng(1).integers(0, EOS, (3, 9))
    ids[:, 0] = EOS
    ids[1, 5] = EOS
    return ids


def logits_of(model: LanguageModel, tokens: np.ndarray, state: State) -> tuple[np.ndarray, State]:
    logits, state = step(model, tokens, state)
    return to_numpy(logits), state


def run(model: LanguageModel, tokens: np.ndarray) -> np.ndarray:
    return logits_of(model, tokens, model.start(len(tokens)))[0]


def nats(loss: Loss) -> float:
    return loss.total.item()


def test_probabilities_sum_to_one(model, tokens):
    np.testing.assert_allclose(np.exp(log_softmax(run(model, tokens))).sum(-1), 1, atol=1e-5)
    if model.is_normalised and hasattr(model, "fit"):
        np.testing.assert_allclose(np.exp(run(model, tokens)).sum(-1), 1, atol=1e-5)


def test_one_step_over_time_equals_single_steps(model, tokens):
    state = model.start(len(tokens))
    singles = []
    for t in range(tokens.shape[1]):
        logits, state = logits_of(model, tokens[:, t : t + 1], state)
        singles.append(logits)
    np.testing.assert_allclose(np.concatenate(singles, 1), run(model, tokens), atol=1e-5)


def test_a_later_token_never_changes_an_earlier_prediction(model, tokens):
    changed = tokens.copy()
    changed[:, 6:] = (changed[:, 6:] + 1) % EOS
    np.testing.assert_array_equal(run(model, changed)[:, :6], run(model, tokens)[:, :6])


def test_earlier_tokens_do_change_a_prediction(model, tokens):
    """So that the tests above cannot pass by ignoring the input."""
    changed = tokens.copy()
    changed[:, 1:3] = (changed[:, 1:3] + 1) % EOS
    assert not np.array_equal(run(model, changed)[:, 2], run(model, tokens)[:, 2])


def test_select_rows_agrees_with_recomputation(model, tokens):
    _, state = logits_of(model, tokens[:, :6], model.start(3))
    rows = np.array([2, 0, 2, 1])
    logits, _ = logits_of(model, tokens[rows, 6:], select_rows(state, rows))
    np.testing.assert_allclose(logits, run(model, tokens[rows])[:, 6:], atol=1e-5)


def test_a_row_does_not_depend_on_its_batch_mates(model, tokens):
    for row in range(len(tokens)):
        np.testing.assert_allclose(run(model, tokens[row : row + 1])[0], run(model, tokens)[row], atol=1e-5)


def test_rows_that_come_and_go_at_any_length_are_as_if_alone(model):
    """Texts join a running batch with some of their tokens read, and leave it in another order, as in a server."""
    generator = np.random.default_rng(2)
    texts = [np.append(EOS, generator.integers(0, VOCABULARY, 20)) for _ in range(5)]
    alone = [run(model, text[None])[0] for text in texts]
    joins = {0: (0, 7), 1: (1, 2), 3: (2, 11), 4: (3, 1), 8: (4, 5)}  # at this step, this text, after so many tokens
    leaves = {2: 0, 6: 2, 9: 1, 10: 4}
    batch: list[list[int]] = []  # text and tokens read, of every row
    state: State = None
    for time in range(12):
        if time in joins:
            text, count = joins[time]
            _, row = logits_of(model, texts[text][None, :count], model.start(1))
            state = add_rows(state, row) if batch else row
            batch.append([text, count])
        if time in leaves:
            place = [text for text, _ in batch].index(leaves[time])
            state = remove_row(state, place, len(batch))
            batch[place] = batch[-1]
            batch.pop()
        size = 2 if time in (5, 8) else 1  # several tokens at once, too
        ids = np.array([texts[text][count : count + size] for text, count in batch])
        logits, state = logits_of(model, ids, state)
        for row, (text, count) in enumerate(batch):
            np.testing.assert_allclose(logits[row], alone[text][count : count + size], atol=1e-5)
            batch[row][1] += size


def test_a_state_may_be_stepped_from_more_than_once(model, tokens):
    _, state = logits_of(model, tokens[:, :4], model.start(3))
    _, state = logits_of(model, tokens[:, 4:5], state)
    changed = (tokens + 1) % VOCABULARY
    for ids in (tokens, changed, tokens):
        _, after = logits_of(model, ids[:, 5:6], state)
        logits, _ = logits_of(model, ids[:, 6:], after)
        expected = run(model, np.concatenate([tokens[:, :5], ids[:, 5:]], 1))
        np.testing.assert_allclose(logits, expected[:, 6:], atol=1e-5)


def test_padding_does_not_change_the_loss(model, tokens):
    inputs, targets = tokens[:, :-1], tokens[:, 1:].copy()
    short = model.loss(Batch(inputs[:1, :4], targets[:1, :4]))
    padded_targets = targets[:1].copy()
    padded_targets[:, 4:] = IGNORE
    padded = model.loss(Batch(inputs[:1], padded_targets))
    assert padded.count == short.count == 4
    np.testing.assert_allclose(nats(padded), nats(short), rtol=1e-5)


def test_losses_of_parts_add_up_to_the_loss_of_the_whole(model, tokens):
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    parts = [model.loss(Batch(inputs[i : i + 1], targets[i : i + 1])) for i in range(3)]
    whole = model.loss(Batch(inputs, targets))
    np.testing.assert_allclose(nats(parts[0] + parts[1] + parts[2]), nats(whole), rtol=1e-5)
    assert whole.count == targets.size


def test_the_models_own_loss_equals_the_default(model, tokens):
    batch = Batch(tokens[:, :-1], tokens[:, 1:])
    default = LanguageModel.loss(model, batch)
    np.testing.assert_allclose(nats(model.loss(batch)), nats(default), rtol=1e-5)


def test_scores_of_a_stream_equal_the_default_by_steps(model):
    for seed in (0, 5):
        ids = stream(seed)[: getattr(model, "context_length", None)]  # beyond it, windows overlap
        np.testing.assert_allclose(model.score(ids), LanguageModel.score(model, ids), rtol=1e-4, atol=1e-5)


def test_ids_beyond_the_vocabulary_are_refused(model):
    for bad in (VOCABULARY, 10**9):
        with pytest.raises(UserError, match="token ids must be from 0 to 6"):
            model.score(np.array([EOS, bad, EOS]))
        with pytest.raises(UserError, match="token ids must be from 0 to 6"):
            model.step(np.array([[EOS, bad]]), model.start(1))


def test_saved_equals_loaded(architecture, model, tokens, tmp_path: Path):
    path = tmp_path / "model.safetensors"
    model.save(path)
    loaded = registry.find("chainrule.models", architecture, "model").Model.load(path)
    np.testing.assert_array_equal(run(loaded, tokens), run(model, tokens))
    assert loaded.config == model.config


def test_training_twice_gives_the_same_model(architecture, model, tokens):
    np.testing.assert_array_equal(run(fit(architecture, stream(0)), tokens), run(model, tokens))


def test_one_batch_can_be_learned_to_near_zero_loss(architecture):
    """A document in which every word follows from the one before: nothing is left to chance."""
    document = np.array([EOS, 0, 3, 1, 5, 2, 4, EOS])
    batch = Batch(document[None, :-1], document[None, 1:])
    repeated = np.concatenate([document[:1], *[document[1:]] * 2000]).astype(np.uint32)
    model = fit(architecture, repeated)
    if not hasattr(model, "fit"):
        learn_one_batch(model, batch)
    assert model.loss(batch).mean.item() < 0.01


def test_probabilities_of_all_documents_sum_to_one(architecture):
    """Row 4: every document ends in eos, so the mass of all short documents and of all longer beginnings is one."""
    eos, words, length = 2, (0, 1), 5
    ids = np.array([2, 0, 1, 2, 1, 1, 2, 2, 0, 2, 0, 1, 0, 2], np.uint32)
    model = fit(architecture, ids, 3, eos)
    ended = going_on = 0.0
    for size in range(length + 1):
        for document in product(words, repeat=size):
            inputs = np.array([[eos, *document]])
            found = log_softmax(run(model, inputs))[0]
            before = sum(found[i, word] for i, word in enumerate(document))
            ended += np.exp(before + found[-1, eos])
            if size == length:
                going_on += np.exp(before) * (1 - np.exp(found[-1, eos]))
    assert ended + going_on == pytest.approx(1, abs=1e-5)
    assert ended > 0.5


def test_cross_entropy_of_numpy_equals_torch():
    import torch

    generator = np.random.default_rng(0)
    logits, targets = generator.normal(size=(4, 5, 9)).astype(np.float32), generator.integers(0, 9, (4, 5))
    targets[0, :2] = IGNORE
    ours = cross_entropy(logits, targets)
    theirs = cross_entropy(torch.tensor(logits), torch.tensor(targets))
    reference = torch.nn.functional.cross_entropy(
        torch.tensor(logits).reshape(-1, 9), torch.tensor(targets).reshape(-1), reduction="sum"
    )
    assert ours.count == theirs.count == 18
    np.testing.assert_allclose(nats(ours), float(reference), rtol=1e-6)
    np.testing.assert_allclose(nats(theirs), float(reference), rtol=1e-6)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_draft_changes_nothing_that_is_sampled(model: LanguageModel, temperature: float):
    from chainrule.generation import Sampling
    from chainrule.generation.batch import SampleBatch
    from chainrule.generation.drafts import PromptLookup
    from chainrule.generation.prompt import Prompt
    from chainrule.generation.speculative import SpeculativeDecoder
    from tests.generation.toys import letters

    prompt = Prompt(np.array([EOS, 0, 1, 2, 0, 1, 2, 0, 1]), "abcabcab")
    for seed in range(3):
        sampling = Sampling(temperature=temperature, max_tokens=25, seed=seed)
        batch = SampleBatch(model, letters(EOS))
        batch.add(prompt, sampling)
        plain = []
        while batch.rows:
            plain += [token.id for _, token in batch.emit()]
            batch.advance()
        speculation = SpeculativeDecoder(model, letters(EOS), PromptLookup())
        assert [token.id for token in speculation.stream(prompt, sampling)] == plain
