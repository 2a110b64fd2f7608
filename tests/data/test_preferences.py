"""Pairs of answers from files: the forms that they are written in, and what is said of mistakes."""

import json
from pathlib import Path
from typing import Any

import pytest

from chainrule.data.preferences import Preference, read_preferences
from chainrule.errors import UserError

USER, YES, NO = (
    {"role": role, "content": text}
    for role, text in (("user", "Is it far?"), ("assistant", "No."), ("assistant", "Eh"))
)
EXPECTED = ("user: Is it far?", "No.", "Eh")
TALK = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello"},
]
WHOLE = ("system: Be kind.\nuser: Hi\nassistant: Hello\nuser: Is it far?", "No.", "Eh")


def write(path: Path, *values: Any) -> str:
    path.write_text("".join(json.dumps(each) + "\n" for each in values), encoding="utf-8")
    return str(path)


def shown(pair: Preference) -> tuple[str, str, str]:
    prompt = "\n".join(f"{message.role}: {message.text}" for message in pair.prompt)
    assert [each.role for each in pair.answers] == ["assistant", "assistant"]
    return prompt, pair.chosen.text, pair.rejected.text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"prompt": "Is it far?", "chosen": "No.", "rejected": "Eh"}, EXPECTED),
        ({"Prompt": "Is it far?", "Chosen": "No.", "Rejected": "Eh", "score": 3}, EXPECTED),
        ({"prompt": [USER], "chosen": [YES], "rejected": [NO]}, EXPECTED),
        ({"prompt": [USER], "chosen": "No.", "rejected": "Eh"}, EXPECTED),
        ({"chosen": [USER, YES], "rejected": [USER, NO]}, EXPECTED),
        ({"prompt": "Is it far?", "chosen": [USER, YES], "rejected": [USER, NO]}, EXPECTED),
        ({"prompt": [USER], "chosen": [USER, YES], "rejected": [USER, NO]}, EXPECTED),
        ({"question": "Is it far?", "chosen": "No.", "rejected": "Eh"}, EXPECTED),
        ({"prompt": [*TALK, USER], "chosen": [YES], "rejected": [NO]}, WHOLE),
        ({"chosen": [*TALK, USER, YES], "rejected": [*TALK, USER, NO]}, WHOLE),
        ({"prompt": "Is it far?", "chosen": [*TALK, USER, YES], "rejected": [*TALK, USER, NO]}, WHOLE),
        ({"prompt": TALK, "chosen": [USER, YES], "rejected": [USER, NO]}, WHOLE),
        (
            {"system": "Be kind.", "question": "Is it far?", "chosen": "No.", "rejected": "Eh"},
            ("system: Be kind.\nuser: Is it far?", "No.", "Eh"),
        ),
        (
            {
                "chosen": "\n\nHuman: Hi\n\nAssistant: Hello\n\nHuman: Is it far?\n\nAssistant: No.",
                "rejected": "\n\nHuman: Hi\n\nAssistant: Hello\n\nHuman: Is it far?\n\nAssistant: Eh",
            },
            ("user: Hi\nassistant: Hello\nuser: Is it far?", "No.", "Eh"),
        ),
    ],
    ids=str,
)
def test_forms(value: dict[str, Any], expected: tuple[str, str, str], tmp_path: Path):
    found = read_preferences([write(tmp_path / "pairs.jsonl", value)])
    assert [shown(each) for each in found.all] == [expected]
    assert (found.all[0].place, found.notes) == (f"{tmp_path}/pairs.jsonl:1", [])


def test_an_array_and_tables_are_read_alike(tmp_path: Path):
    value = {"prompt": "Is it far?", "chosen": "No.", "rejected": "Eh"}
    (tmp_path / "pairs.json").write_text(json.dumps([value, value], indent=1), encoding="utf-8")
    (tmp_path / "pairs.csv").write_text('rejected,prompt,chosen\nEh,Is it far?,No.\nEh,"Is it far?",No.\n')
    (tmp_path / "pairs.tsv").write_text("prompt\tchosen\trejected\nIs it far?\tNo.\tEh\nIs it far?\tNo.\tEh\n")
    for name in ("pairs.json", "pairs.csv", "pairs.tsv"):
        assert [shown(each) for each in read_preferences([str(tmp_path / name)]).all] == [EXPECTED, EXPECTED]


def test_pairs_that_say_nothing_are_left_out_and_counted(tmp_path: Path):
    good = {"prompt": "Is it far?", "chosen": "No.", "rejected": "Eh"}
    path = write(
        tmp_path / "pairs.jsonl",
        good, {**good, "rejected": "No. "}, {**good, "chosen": ""}, {**good, "rejected": " "}, {**good, "prompt": " "},
        {"chosen": [USER, YES], "rejected": [USER, YES]},
    )  # fmt: skip
    found = read_preferences([path])
    assert [shown(each) for each in found.all] == [EXPECTED]
    assert found.notes == [
        f"2 pairs of two equal answers left out, the first at {path}:2",
        f"2 pairs with an empty answer left out, the first at {path}:3",
        f"1 pair with an empty message left out, the first at {path}:5",
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"prompt": "Hi", "chosen": "a"}, ":1 has no field 'rejected' (found 'prompt', 'chosen'); a pair has prompt"),
        ({"prompt": "Hi", "choosen": "a", "rejected": "b"}, ":1 has no field 'chosen'; did you mean 'choosen'?"),
        ({"chosen": "a", "rejected": "b"}, ":1 has no prompt, and chosen and rejected do not begin alike"),
        (
            {"chosen": [USER, YES], "rejected": [{"role": "user", "content": "Hi"}, NO]},
            ":1 has no prompt, and chosen and rejected do not begin alike",
        ),
        ({"chosen": [USER, YES, USER, YES], "rejected": [USER, NO]}, "chosen has 3 messages"),
        ({"chosen": [USER, YES], "rejected": [USER, YES, USER, NO]}, "chosen has 0 messages"),
        ({"chosen": [USER, USER], "rejected": [USER, NO]}, "chosen has a message of the user"),
        ({"prompt": "Hi", "chosen": 3, "rejected": "b"}, ":1, chosen, has 3 where a text is needed"),
        ({"prompt": 3, "chosen": "a", "rejected": "b"}, ":1 has 3 where a text is needed"),
        (
            {"prompt": "Hi", "chosen": [{"role": "bot", "content": "a"}, 3], "rejected": "b"},
            "message 2, does not say who",
        ),
        (["a", "b"], ":1 is no pair of answers but 'a'; write an object such as"),
        (
            {"prompt": "Hi", "chosen": "a", "rejected": "a"},
            "no pair of answers to learn from: 1 pair of two equal answers",
        ),
        ("prompt", "is no pair of answers but 'prompt'"),
    ],
    ids=str,
)
def test_mistakes(value: Any, message: str, tmp_path: Path):
    with pytest.raises(UserError) as error:
        read_preferences([write(tmp_path / "pairs.jsonl", value)])
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("pairs.csv", "prompt,chosen\na,b\n", "pairs.csv' has no column 'rejected' (found 'prompt', 'chosen')"),
        ("pairs.csv", "chosen,rejected\na,b\n", "pairs.csv' has no column 'prompt'"),
        ("pairs.csv", "prompt,chosen,rejected\na,b,c\nd,e\n", "pairs.csv:3 has 2 columns, but the first row has 3"),
        ("pairs.jsonl", '{"prompt": "a",\n', "pairs.jsonl:2 is not JSON"),
        ("pairs.jsonl", "", "pairs.jsonl' has no pair of answers to learn from; write one object of JSON a line"),
        ("pairs.txt", "User: Hi\nAssistant: Hello\n", "pairs.txt' is not a file of pairs of answers; write them as"),
    ],
)  # fmt: skip
def test_mistakes_in_files(name: str, text: str, message: str, tmp_path: Path):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError) as error:
        read_preferences([str(tmp_path / name)])
    assert message in str(error.value) and "\n" not in str(error.value)
