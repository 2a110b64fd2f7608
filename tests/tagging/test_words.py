"""Raw text cut as treebanks cut it."""

import pytest

from chainrule.data import conllu
from chainrule.tagging.words import cut_words
from tests.shared_data import FOLDER, requires


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("I don't stop.", "I do n't stop ."),
        ("They'll say it's John's, won’t they?", "They 'll say it 's John 's , wo n’t they ?"),
        ("The U.S. paid $3.14 at 10:30 ...", "The U.S. paid $ 3.14 at 10:30 ..."),
        ("in the 1990s -- (really!!)", "in the 1990s -- ( really !! )"),
        ("see http://a.b/c?d=1 or me.too@x-y.org", "see http://a.b/c?d=1 or me.too@x-y.org"),
        ("naïve café 中文 😀", "naïve café 中文 😀"),
        ("  ", ""),
        ("Dr. Smith went.", "Dr. Smith went ."),
        (
            "Mr. and Mrs. J. R. Brown met Prof. Ray, e.g. in St. Louis.",
            "Mr. and Mrs. J. R. Brown met Prof. Ray , e.g. in St. Louis .",
        ),
        (
            "Acme Inc. sold No. 5, i.e. all, on Jan. 3 at 5 p.m.",
            "Acme Inc. sold No. 5 , i.e. all , on Jan. 3 at 5 p.m.",
        ),
        (
            "J.R.R. Tolkien, Ph.D. and Lee et al. wrote cats, dogs, etc.",
            "J.R.R. Tolkien , Ph.D. and Lee et al. wrote cats , dogs , etc.",
        ),
        ("No. He sat. So did I. We saw Al.", "No . He sat . So did I . We saw Al ."),
        ("I saw the Dr. yesterday; she is a Dr.", "I saw the Dr. yesterday ; she is a Dr ."),
    ],
)
def test_cuts(line: str, words: str):
    assert cut_words(line)[0] == words.split()


@pytest.mark.parametrize("line", ["I don't stop.", "a  b\tc", " a,b ", "snake_case"])
def test_words_and_spaces_make_the_line_again(line: str):
    words, spaced = cut_words(line)
    joined = "".join(word + " " * is_spaced for word, is_spaced in zip(words, spaced, strict=True))
    assert joined.split() == line.split()


@requires("ud-english-ewt")
def test_most_words_of_a_treebank_are_found_in_its_raw_text():
    """As a share of the treebank's own words, in order: what raw text costs before any tagging."""
    found = total = 0
    for sentence in conllu.read([FOLDER / "ud-english-ewt" / "en_ewt-ud-dev.conllu"])[:500]:
        text = next(line for line in sentence.lines if line.startswith("# text = ")).removeprefix("# text = ")
        places = set(spans(text, sentence.words))
        found += len(places & set(spans(text, cut_words(text)[0])))
        total += len(places)
    assert found / total > 0.97


def spans(text: str, words: list[str] | tuple[str, ...]) -> list[tuple[int, int]]:
    """Where each word stands in a text."""
    places, at = [], 0
    for word in words:
        begin = text.find(word, at)
        if begin >= 0:
            at = begin + len(word)
            places.append((begin, at))
    return places
