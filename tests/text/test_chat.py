"""Conversations: the ids that transformers makes of the well-known templates, and nothing that people say is a mark."""

import json
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
import tokenizers

from chainrule.errors import UserError
from chainrule.interop._chat_template import recognise
from chainrule.interop._sentencepiece import make_bpe_tokenizer as sentencepiece
from chainrule.text.base import Tokenizer
from chainrule.text.chat import STYLES, Chat, Message, Piece
from tests.text.samples import LINES, train

MARKS = (
    "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|begin_of_text|>",
    "[INST]", "[/INST]",
)  # fmt: skip
# Short forms of the templates by which these models were published: without their checks, tools and thoughts.
ASK = "{% if add_generation_prompt %}"
CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    + ASK
    + "{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA3 = (
    "{% for message in messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'"
    "+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}"
    "{% endif %}{{ content }}{% endfor %}"
    + ASK
    + "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
LLAMA2 = (
    "{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set system = messages[0]['content'] %}"
    "{% else %}{% set rest = messages %}{% set system = false %}{% endif %}{% for message in rest %}"
    "{% if loop.index0 == 0 and system != false %}"
    "{% set content = '<<SYS>>\n' + system + '\n<</SYS>>\n\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}"
    "{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% else %}{{ ' ' + content.strip() + ' ' + eos_token }}"
    "{% endif %}{% endfor %}"
)
ZEPHYR = (
    "{% for message in messages %}\n{% if message['role'] == 'user' %}\n"
    "{{ '<|user|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n"
    "{{ '<|system|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'assistant' %}\n"
    "{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n"
    "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}"
)
MISTRAL = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}"
    "{{ '[INST] ' + message['content'] + ' [/INST]' }}{% else %}{{ message['content'] + eos_token}}{% endif %}"
    "{% endfor %}"
)
_SYSTEM = (
    "{%- if messages[0]['role'] == 'system' %}{%- set system = messages[0]['content'] %}{%- set rest = messages[1:] %}"
    "{%- else %}{%- set rest = messages %}{%- endif %}{{- bos_token }}{%- for message in rest %}"
)
MISTRAL1 = _SYSTEM + (
    "{%- if message['role'] == 'user' %}{%- if loop.first and system is defined %}"
    "{{- ' [INST] ' + system + '\n\n' + message['content'] + ' [/INST]' }}"
    "{%- else %}{{- ' [INST] ' + message['content'] + ' [/INST]' }}{%- endif %}"
    "{%- else %}{{- ' ' + message['content'] + eos_token}}{%- endif %}{%- endfor %}"
)
MISTRAL3 = _SYSTEM + (
    "{%- if message['role'] == 'user' %}{%- if loop.last and system is defined %}"
    '{{- "[INST] " + system + "\n\n" + message["content"] + "[/INST]" }}'
    '{%- else %}{{- "[INST] " + message["content"] + "[/INST]" }}{%- endif %}'
    '{%- else %}{{- " " + message["content"]|trim + eos_token}}{%- endif %}{%- endfor %}'
)
TEMPLATES = {
    "chatml": CHATML, "llama-3": LLAMA3, "llama-2": LLAMA2, "zephyr": ZEPHYR, "mistral": MISTRAL,
    "mistral-v1": MISTRAL1, "mistral-v3": MISTRAL3,
}  # fmt: skip
USER = [Message("user", "Who sat on the mat?")]
LONG = [
    *USER, Message("assistant", " the cat, the naïve one "), Message("user", "  and 日本語 on\n\nday 3? \n"),
]  # fmt: skip
SYSTEM = [Message("system", "Be brief.\n"), *LONG]


@cache
def tokenizer_of(kind: str) -> Tokenizer:
    """Byte-level with special marks, or SentencePiece's, which puts a space before every text or the first alone."""
    if kind == "bytes":
        backend = tokenizers.Tokenizer.from_str(train("bpe", LINES).json)
        backend.add_special_tokens(list(MARKS))
        return Tokenizer(backend)
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"abcdeghimnorstuwy[]IN/S"]
    pieces += ["▁t", "▁s", "▁th", "at", "▁the", "[I"]
    scores = [0.0] * (len(pieces) - 6) + [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]
    made = json.loads(sentencepiece(pieces, scores, "of the test").json)
    if kind == "first space":
        made["normalizer"] = None
        made["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    tokenizer = Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(made)))
    tokenizer.start = 1
    return tokenizer


def kinds_of(style: str) -> tuple[str, ...]:
    return ("bytes",) if style in ("chatml", "llama-3") else ("bytes", "spaces", "first space")


def theirs(tokenizer: Tokenizer, template: str) -> Any:
    transformers = pytest.importorskip("transformers")
    start = str(tokenizer.backend.id_to_token(tokenizer.start))
    backend = tokenizers.Tokenizer.from_str(tokenizer.json)
    found = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, bos_token=start, eos_token=tokenizer.end)
    found.chat_template = template
    return found


@pytest.mark.parametrize("style", TEMPLATES)
def test_ids_are_those_of_transformers(style: str):
    chat = recognise(TEMPLATES[style])
    assert chat is not None and chat.style == style
    conversations = [USER, LONG] if style == "mistral" else [USER, LONG, SYSTEM]  # which has no system messages
    for kind, messages in product(kinds_of(style), conversations):
        tokenizer = tokenizer_of(kind)
        said = [{"role": each.role, "content": each.text} for each in messages]
        reader = theirs(tokenizer, TEMPLATES[style])
        expected = reader.apply_chat_template(said, add_generation_prompt=True, tokenize=True, return_dict=False)
        assert tokenizer.encode_pieces(chat.pieces(messages)).tolist() == list(expected), kind


@pytest.mark.parametrize("style", TEMPLATES)
def test_an_answer_that_has_begun_stays_open_as_in_transformers(style: str):
    chat = recognise(TEMPLATES[style])
    assert chat is not None
    messages = [*USER, Message("assistant", "the cat, the naïve")]
    for kind in kinds_of(style):
        tokenizer = tokenizer_of(kind)
        said = [{"role": each.role, "content": each.text} for each in messages]
        reader = theirs(tokenizer, TEMPLATES[style])
        expected = reader.apply_chat_template(said, continue_final_message=True, tokenize=True, return_dict=False)
        assert tokenizer.encode_pieces(chat.pieces(messages, continues_last=True)).tolist() == list(expected), kind


def test_the_default_system_message_is_the_templates():
    assert recognise(CHATML) == Chat("chatml", "You are a helpful assistant.")
    assert recognise(CHATML.replace("\n", "\\n")) == Chat("chatml", "You are a helpful assistant.")
    assert recognise(CHATML.replace("You are a helpful assistant.", "' + date + '")) == Chat("chatml", None)
    first, second = Chat("chatml", "Help.").pieces(USER), Chat("chatml").pieces([Message("system", "Help."), *USER])
    assert first == second
    assert Chat("chatml", "Help.").pieces(SYSTEM) == Chat("chatml").pieces(SYSTEM)


@pytest.mark.parametrize("style", TEMPLATES)
def test_nothing_that_people_say_is_a_mark(style: str):
    """All marks and ends are in the message, and each is counted as often as in a message without them."""
    for kind in kinds_of(style):
        tokenizer = tokenizer_of(kind)
        bad = "".join([*MARKS, "<s>", "</s>", "<eos>", "<unk>"])
        plain, hostile = (
            tokenizer.encode_pieces(Chat(style).pieces([Message("user", f"the cat {text} sat")])) for text in ("", bad)
        )
        special = list(tokenizer.special.values())
        assert np.isin(plain, special).sum() > 0
        assert hostile[np.isin(hostile, special)].tolist() == plain[np.isin(plain, special)].tolist()
        assert bad in tokenizer.decode(hostile)


def test_text_on_both_sides_of_a_seam_is_cut_as_one():
    tokenizer = tokenizer_of("bytes")
    seam = tokenizer.encode_pieces(
        [Piece("<|im_start|>the c", True), Piece("at sat", False), Piece("<|im_end|>", True)]
    )
    marks = [tokenizer.special["<|im_start|>"], tokenizer.special["<|im_end|>"]]
    assert seam.tolist() == [marks[0], *tokenizer.encode("the cat sat").tolist(), marks[1]]


def test_a_mark_that_the_tokenizer_has_not_is_text_and_no_start_is_none():
    tokenizer = tokenizer_of("spaces")
    assert tokenizer.encode_pieces([Piece("<|im_end|>", True)]).tolist() == tokenizer.encode("<|im_end|>").tolist()
    backend = tokenizers.Tokenizer.from_str(tokenizer.json)
    without = Tokenizer(backend)
    without.start = None
    assert without.encode_pieces([Piece("<s>the", True)]).tolist() == tokenizer.encode("the").tolist()


def test_a_system_message_without_a_user_is_said_by_one():
    written = "".join(piece.text for piece in Chat("llama-2").pieces([Message("system", "Be brief.")]))
    assert written == "<s>[INST] Be brief. [/INST]"


@pytest.mark.parametrize(
    "template",
    [
        "{% for m in messages %}<start_of_turn>{{ m.role }}\n{{ m.content }}<end_of_turn>\n{% endfor %}",
        "{{'<|user|>' + '\n' + message['content'] + '<|end|>' + '\n' + '<|assistant|>'}}",
        '{{- "[INST]" + message["content"] + "[/INST]" }}',
        "{{ 'a' * 10 ** 9 }}",
    ],
)
def test_other_templates_become_a_transcript(template: str):
    assert recognise(template) == Chat("transcript", None)


@pytest.mark.parametrize("template", [None, "", " ", 7, ["x"], {"default": CHATML}])
def test_no_template_is_no_chat(template: Any):
    assert recognise(template) is None


def test_a_style_that_is_not_there_is_refused():
    with pytest.raises(UserError, match="unknown style of conversations 'mine' \\(there are: transcript, chatml"):
        Chat("mine")
    assert set(TEMPLATES) == set(STYLES) - {"transcript"}
