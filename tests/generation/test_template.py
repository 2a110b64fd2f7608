"""Templates: what is declared is filled, once and all together; what is wrong with one is said in one sentence."""

from pathlib import Path

import pytest

from chainrule.errors import UserError
from chainrule.generation import Sampling
from chainrule.generation.template import find_template, names

OWN = """
about = "Name the opposite."
text = '''
hot: cold
{word} {{not this}} {other}:'''
[fields]
word = "any word"
[sampling]
temperature = 0
stop = ["\\n", ";"]
"""


def write(folder: Path, text: str) -> str:
    path = folder / "own.toml"
    path.write_text(text)
    return str(path)


def test_there_are_the_three_with_their_fields():
    found = {name: find_template(name) for name in names()}
    assert {name: list(each.fields) for name, each in found.items()} == {
        "grammar": ["sentence"],
        "news": ["title", "subtitle"],
        "qa": ["passage", "question"],
    }
    assert found["grammar"].sampling.temperature == found["qa"].sampling.temperature == 0
    assert found["grammar"].sampling.stop == ("\n",)
    assert found["news"].sampling.temperature > 0


def test_a_prompt_ends_where_the_answer_begins_and_its_examples_stop_where_answers_do():
    """An example's answer holds none of the stop strings, so a model that follows it is not cut off."""
    for name in ("grammar", "qa"):
        template = find_template(name)
        text = template.fill(dict.fromkeys(template.fields, "X"))
        label = text[text.rindex("\n") + 1 :]  # 'Answer:'
        answers = [part.split("\n\n")[0] for part in text.split(f"\n{label} ")[1:]]
        assert label.endswith(":") and answers and text.count("X") == len(template.fields)
        assert not any(stop in answer for stop in template.sampling.stop for answer in answers)


def test_a_file_of_ones_own(tmp_path: Path):
    template = find_template(write(tmp_path, OWN))
    assert template.sampling == Sampling(temperature=0.0, stop=("\n", ";"))
    assert template.fill({"word": " wet \n"}) == "hot: cold\nwet {{not this}} {other}:"


def test_what_is_filled_in_is_not_filled_again(tmp_path: Path):
    own = OWN.replace('word = "any word"', 'word = "any word"\nother = "another"')
    template = find_template(write(tmp_path, own))
    assert template.fill({"word": "{other}", "other": "{word}\\1"}) == "hot: cold\n{other} {{not this}} {word}\\1:"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"passage": "a"}, "'qa' lacks question (its fields are: passage, question)"),
        ({}, "'qa' lacks passage and question (its fields are: passage, question)"),
        ({"passage": " ", "question": "b"}, "'qa' lacks passage (its fields are: passage, question)"),
        (
            {"passage": "a", "qestion": "b"},
            "'qa' has no field 'qestion'; did you mean 'question'? (its fields are: passage, question)",
        ),
    ],
)
def test_wrong_fields_are_told_with_those_that_are_right(values: dict[str, str], sentence: str):
    with pytest.raises(UserError) as error:
        find_template("qa").fill(values)
    assert str(error.value) == sentence


def test_an_unknown_template_is_told():
    with pytest.raises(UserError) as error:
        find_template("grammer")
    assert str(error.value) == (
        "there is no template 'grammer'; did you mean 'grammar'? (there are: grammar, news, qa, or name a .toml file)"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("about =", "is not valid TOML"),
        ('about = "a"', "is no template: it has no text"),
        ('text = "{a}"', "is no template: it has no fields"),
        ('text = 3\n[fields]\na = "x"', "text in '.*' must be text, got 3"),
        ('text = "{a}"\nfields = "a"', "fields in '.*' must be a table, got 'a'"),
        ('text = "{a}"\nfield = "x"', "has an unknown part 'field'; did you mean 'fields'?"),
        ('text = "b"\n[fields]\na = "x"', "declares the field 'a', but its text has no {a}"),
        ('text = "{a}"\n[fields]\na = 3', "the field 'a' in '.*' must say in words what it is, got 3"),
        ('text = "{seed}"\n[fields]\nseed = "x"', "'seed' in '.*' cannot be a field"),
        ('text = "{A b}"\n[fields]\n"A b" = "x"', "'A b' in '.*' cannot be a field"),
        (
            'text = "{a}"\n[fields]\na = "x"\n[sampling]\ntemperatur = 1',
            "unknown setting 'temperatur' in '.*'; did you",
        ),
        (
            'text = "{a}"\n[fields]\na = "x"\n[sampling]\ntemperature = "hot"',
            "temperature in '.*' must be of type float",
        ),
        ('text = "{a}"\n[fields]\na = "x"\n[sampling]\ntemperature = -1.0', "temperature must be"),
    ],
)
def test_a_file_that_is_no_template_is_refused(tmp_path: Path, text: str, sentence: str):
    with pytest.raises(UserError, match=sentence):
        find_template(write(tmp_path, text))
