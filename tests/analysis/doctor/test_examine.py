"""The whole visit: a clean bill for a healthy run, the gravest first for a sick one, unfinished trainings too."""

import pytest

import chainrule
from chainrule.analysis.doctor.examine import examine
from chainrule.analysis.doctor.subject import load_subject
from chainrule.errors import Stopped, UserError
from chainrule.runs.folder import unfinished
from chainrule.training.callbacks import Callback
from chainrule.training.finding import SEVERITIES
from tests.analysis.doctor.conftest import QUICK, chain_text


def test_a_healthy_run_gets_a_clean_bill(healthy):
    found = healthy.doctor()
    assert {(each.name, each.severity) for each in found} == {
        (name, "good")
        for name in ("overfitting", "learning rate", "units", "gradients by depth", "picture", "text", "quality")
    }
    assert (healthy.path / "report" / "depth.svg").is_file()
    assert chainrule.load(healthy.path).verify() == []


def test_findings_come_the_gravest_first_and_each_that_is_not_good_says_what_to_do(train):
    text = chain_text(30, 0)
    run = train(text, text[:300], steps=60)
    found = examine(run.path)
    ranks = [SEVERITIES.index(each.severity) for each in found]
    assert ranks == sorted(ranks)
    assert {"validation text in training", "passages in training"} <= {each.name for each in found}
    assert all(each.advice for each in found if each.severity != "good")


def test_a_model_that_counts_gets_the_looks_that_apply(count):
    run = count(chain_text(500, 0))
    assert {each.name for each in run.doctor()} == {"text", "quality"}
    assert not (run.path / "report").exists()


class Interrupt(Callback):
    def step(self, record):
        import signal

        if record["step"] == 60:
            signal.raise_signal(signal.SIGINT)


def test_an_unfinished_training_is_looked_at_as_its_checkpoint_has_it(tmp_path, monkeypatch):
    from chainrule.training import learn

    (tmp_path / "text.txt").write_text(chain_text(300, 0))
    real = learn.learn
    monkeypatch.setattr(
        learn, "learn", lambda folder, job, tokenizer, callbacks: real(folder, job, tokenizer, (Interrupt(),))
    )
    with pytest.raises(Stopped):
        chainrule.train(tmp_path / "text.txt", path=tmp_path / "run", steps=100, **QUICK)
    found = {each.name: each for each in examine(tmp_path / "run")}
    assert "it stopped at step 60, 60% of its budget" in found["unfinished"].found
    assert f"--resume {tmp_path / 'run'}" in found["unfinished"].advice
    subject = load_subject(tmp_path / "run")
    best = min((each for each in subject.records("evaluation")), key=lambda each: each["loss"])
    held_out = subject.shards("validation").tokens(0)
    assert float(-subject.model.score(held_out).mean()) == pytest.approx(best["loss"], rel=1e-5)
    assert not (unfinished(tmp_path / "run") / "report").exists()  # which the finished run would inherit


def test_what_is_no_run_is_refused_in_one_sentence(tmp_path):
    with pytest.raises(UserError, match="not found"):
        examine(tmp_path / "nothing")
