"""Raw text cut into words as treebanks of English have them: "don't stop." -> do, n't, stop, ."""

import re

WORD = re.compile(
    r"""
      https?://\S+ | \w[\w.+-]*@\w[\w.-]*\w      # addresses
    | (?:[^\W\d_]\.){2,}                        # U.S., e.g.
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
