"""Raw text cut into words as treebanks of English have them: "don't stop." -> do, n't, stop, .

The full stop of an abbreviation is part of it: "Dr. Smith" -> Dr., Smith. Where an abbreviation may also be a word that
ends a sentence ("No.", "sat."), what follows decides.
"""

import re

TITLES = "Dr Mr Mrs Ms Mx Prof Rev Hon Fr St Gen Col Maj Capt Cpt Cmdr Lt Sgt Gov Sen Rep Pres Supt Mt Ft"
ALWAYS = "Inc Ltd Corp Co Bros Jr Sr Ph.D etc vs approx dept"
BEFORE_A_NUMBER = "No Nos Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Fig Vol Ch Sec p pp"


def _any_of(words: str) -> str:
    return "|".join(map(re.escape, words.split()))


WORD = re.compile(
    rf"""
      https?://\S+ | \w[\w.+-]*@\w[\w.-]*\w      # addresses
    | (?:[^\W\d_]\.){{2,}}                      # U.S., e.g., J.R.R.
    | \b(?-i:{_any_of(TITLES)})\.(?=\s+\w)       # Dr. Smith
    | \b(?-i:{_any_of(ALWAYS)})\.                # Inc., etc.
    | \b(?-i:{_any_of(BEFORE_A_NUMBER)})\.(?=\s*\d)  # No. 5, Jan. 3
    | \b(?<=\bet[ ])al\.                        # et al.
    | \b(?-i:[A-HJ-Z])\.(?=\s+(?-i:[A-Z]))      # J. Smith; not I, which ends sentences
    | \w+(?=n['’]t\b) | n['’]t\b                # do n't
    | ['’](?:s|m|d|re|ve|ll)\b                  # she 's, they 'll
    | \d+(?:[.,:/]\d+)*\w* | \w+                # 3.14, 10:30, 1990s; words
    | ([^\w\s])\1*                              # signs, equal ones together: ..., --, !!
    """,
    re.VERBOSE | re.IGNORECASE,
)


def cut_words(line: str) -> tuple[list[str], list[bool]]:
    """The words of a line, and after which of them there is a space."""
    matches = list(WORD.finditer(line))
    ends = [each.end() for each in matches]
    spaced = [end == len(line) or line[end].isspace() for end in ends]
    return [each.group() for each in matches], spaced
