"""A little treebank whose tags follow from words and order: 'fish' after 'the' is a noun, after 'we' a verb."""

import numpy as np

DETERMINERS, NOUNS, PRONOUNS = ("the", "a"), ("cat", "dog", "fish", "walk", "bird"), ("we", "they")
VERBS = ("fish", "walk", "sing", "sleep")


def row(number: int, word: str, upos: str, xpos: str) -> str:
    return "\t".join([str(number), word, "_", upos, xpos, "_", "_", "_", "_", "_"])


def sentence(generator: np.random.Generator) -> list[tuple[str, str, str]]:
    if generator.random() < 0.5:
        subject = [(str(generator.choice(PRONOUNS)), "PRON", "PRP")]
    else:
        noun = str(generator.choice(NOUNS)) + "s"
        subject = [(str(generator.choice(DETERMINERS)), "DET", "DT"), (noun, "NOUN", "NNS")]
    words = [*subject, (str(generator.choice(VERBS)), "VERB", "VBP")]
    if generator.random() < 0.5:
        words += [("the", "DET", "DT"), (str(generator.choice(NOUNS)), "NOUN", "NN")]
    return [*words, (".", "PUNCT", ".")]


def write(sentences: int, seed: int) -> str:
    generator = np.random.default_rng(seed)
    made = [sentence(generator) for _ in range(sentences)]
    return "".join("\n".join(row(at, *each) for at, each in enumerate(words, 1)) + "\n\n" for words in made)
