"""Bytes from a word n-gram: sums of p(word | context) over all words that go on with a byte, or with a range of bytes.

Interpolated smoothing is a sum over contexts, p(w | h) = a(h, w) + leftover(h) p(w | h'), and words are numbered in the
order of their spellings, so the words with a given beginning are a range R of ids, and a range of the children of each
context. With the sums of a(h, w) over earlier siblings kept,

    S(R | h) = sum over w in R of a(h, w) + leftover(h) S(R | h')

costs a binary search a context, however many words are in R.

The symbols are 256 bytes and, as 256, the end of the document. Where a text is read, a cursor holds: `context`, the
node of the tokens before the current one; `prefix`, the node of what was read of the current one (BETWEEN: nothing,
LEFT: no word of the vocabulary begins so); `kind`, the id as which it counts should it be unknown (-1 as long as it is
but a space); `speller`, the node of its last bytes in the spelling model; and `unknown`, p(kind | context) times the
probability of that spelling so far.

Most functions are inlined, as a call would count the references to all arrays of a model. The largest that are called
once a symbol are not, nor the smallest, which LLVM inlines by itself: Numba's own inlining takes time that grows with
all that is in a kernel, and with these in it a kernel took three times as long to compile and was no faster.
"""

from typing import NamedTuple

import numpy as np

from chainrule.kernels.jit import inlined, kernel
from chainrule.ngram.trie import find_child

END = 256  # the symbol that ends a document; in the spelling model, the end of a word
SYMBOLS = 257
SPACE = 32
BETWEEN, LEFT = 0, -1  # prefixes that are no prefix
MOST_CONTEXTS = 16  # of the words before, or of the bytes before: longer orders are refused
FIRST_BIT = np.array([8] + [8 - difference.bit_length() for difference in range(1, 256)])  # in which two bytes differ
SMALLEST = 2.0**-22  # a bit is never surer than this: its probability is a float32


class Sums(NamedTuple):
    """A smoothed trie whose ranges of children can be summed; children of the root have their whole probability."""

    word: np.ndarray  # as in chainrule.ngram.trie
    first_child: np.ndarray
    suffix: np.ndarray
    upto: np.ndarray  # float64 (nodes): a(h, w) summed over the siblings up to and including this one
    leftover: np.ndarray  # float64 (contexts)
    top: int  # the first node that is no context


class Current(NamedTuple):
    """What the current token's probabilities are read from."""

    sums: Sums
    has_contexts: bool  # whether they depend on the node of the tokens before; else all of it is in the root's children


class Prefixes(NamedTuple):
    """All beginnings of the vocabulary's words as a trie, level by level; node 0 is the empty one."""

    symbol: np.ndarray  # uint16 (nodes): the last symbol
    first_child: np.ndarray  # int64 (nodes + 1)
    first_id: np.ndarray  # int64 (nodes): the words that begin so are first_id ... last_id - 1
    last_id: np.ndarray
    is_word: np.ndarray  # bool (nodes): whether first_id is spelled exactly so


class Tables(NamedTuple):
    """A fitted model, as the kernels read it."""

    words: Sums
    spelling: Sums
    prefixes: Prefixes
    kinds: int  # ids below stand for unknown words, one id a kind
    space: int  # the prefix " ", or -2 where there is no space
    single: np.ndarray  # int64 (SYMBOLS): the id of a symbol that is always a token by itself, or -1
    joins: np.ndarray  # bool (classes, SYMBOLS): whether a token of the class goes on with the symbol
    kind_of: np.ndarray  # int64 (2, SYMBOLS): without and with a space before, the kind of unknown words by first byte
    class_of_kind: np.ndarray  # int64 (kinds)
    class_of_word: np.ndarray  # int64 (words): what a token may not be followed by, see `root`
    has_space: np.ndarray  # bool (kinds): whether a space is before
    first_bytes: (
        np.ndarray
    )  # float64 (kinds, SYMBOLS + 1): p(first byte after any space | kind), summed over those below
    root: np.ndarray  # float64 (classes, SYMBOLS + 1): unigram mass of tokens by first symbol that may follow, summed
    spelling_root: np.ndarray  # float64 (classes, SYMBOLS + 1): unigram mass of bytes that a class goes on with, summed


@kernel
def _range(upto, start, low, high):
    """The sum over siblings low ... high - 1 of those that begin at start."""
    if high <= low:
        return 0.0
    return upto[high - 1] - (upto[low - 1] if low > start else 0.0)


@kernel
def _first_not_below(values, low, high, wanted):
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _follow(sums, node, word):
    """The longest context that the trie has of this one and a word after it."""
    while True:
        child = find_child(sums.word, sums.first_child, node, word)
        if child >= 0:
            break
        node = np.int64(sums.suffix[node])
    return child if child < sums.top else np.int64(sums.suffix[child])


@inlined
def _probability(sums, node, word):
    """p(word | node), and the weight that the empty context has in it."""
    total, weight = 0.0, 1.0
    while node != 0:
        child = find_child(sums.word, sums.first_child, node, word)
        if child >= 0:
            total += weight * _range(sums.upto, np.int64(sums.first_child[node]), child, child + 1)
        weight *= sums.leftover[node]
        node = np.int64(sums.suffix[node])
    return total + weight * _range(sums.upto, 1, 1 + word, 2 + word), weight


@inlined
def _open(sums, node, first, last, places, weights):
    """Where the ids first ... last - 1 are among the children of each context from `node` to that of one word.

    Rows of `places` become (first sibling, low, high). Returns how many rows, and the weight of the empty context.
    """
    count, weight = 0, 1.0
    while node != 0:
        start, stop = np.int64(sums.first_child[node]), np.int64(sums.first_child[node + 1])
        low = high = start
        if start < stop and sums.word[stop - 1] >= first:
            low = _first_not_below(sums.word, start, stop, first)
            high = stop if sums.word[stop - 1] < last else _first_not_below(sums.word, low, stop, last)
        if low < high:
            places[count, 0], places[count, 1], places[count, 2] = start, low, high
            weights[count] = weight
            count += 1
        weight *= sums.leftover[node]
        node = np.int64(sums.suffix[node])
    return count, weight


@inlined
def _split(sums, places, weights, count, boundary):
    """The sums over the ids below the boundary and over the others; the fourth column says where that is."""
    lower, upper = 0.0, 0.0
    for i in range(count):
        start, low, high = places[i, 0], places[i, 1], places[i, 2]
        is_root = start == 1  # whose children are all words: nothing has to be searched
        middle = min(max(1 + boundary, low), high) if is_root else _first_not_below(sums.word, low, high, boundary)
        places[i, 3] = middle
        lower += weights[i] * _range(sums.upto, start, low, middle)
        upper += weights[i] * _range(sums.upto, start, middle, high)
    return lower, upper


@inlined
def _keep(places, weights, count, side):
    """One side of a split (0: below, 1: the others), without the rows that are empty there; returns how many remain."""
    kept = 0
    for i in range(count):
        low = places[i, 3] if side else places[i, 1]
        high = places[i, 2] if side else places[i, 3]
        if low < high:
            places[kept, 0], places[kept, 1], places[kept, 2] = places[i, 0], low, high
            weights[kept] = weights[i]
            kept += 1
    return kept


@inlined
def _list_kinds(tables, words, node, have_space, kinds, masses):
    """p(kind | node) by `words` in parts, one a context, of kinds that have a space before or of those that have none.

    Returns how many, and the sum over the other kinds. The empty context is left out where there is no space before:
    `Tables.root` has it.
    """
    weight, count, others = 1.0, 0, 0.0
    while node != 0:
        start, stop = np.int64(words.first_child[node]), np.int64(words.first_child[node + 1])
        child, before = start, 0.0
        while child < stop and words.word[child] < tables.kinds:  # kinds are the first ids
            mass = weight * (words.upto[child] - before)
            before = words.upto[child]
            if tables.has_space[words.word[child]] == have_space:
                kinds[count], masses[count] = words.word[child], mass
                count += 1
            else:
                others += mass
            child += 1
        weight *= words.leftover[node]
        node = np.int64(words.suffix[node])
    if have_space:
        for kind in range(tables.kinds):
            if tables.has_space[kind]:
                kinds[count], masses[count] = kind, weight * _range(words.upto, 1, 1 + kind, 2 + kind)
                count += 1
    return count, others


@inlined
def _list_bytes(spelling, node, symbols, masses):
    """p(byte | node) of the spelling model in parts: how many, p(end of the word), the weight of the empty context."""
    weight, end, count = 1.0, 0.0, 0
    while node != 0:
        start, before = np.int64(spelling.first_child[node]), 0.0
        for child in range(start, np.int64(spelling.first_child[node + 1])):
            symbols[count], masses[count] = spelling.word[child], weight * (spelling.upto[child] - before)
            before = spelling.upto[child]
            count += 1
        if count and symbols[count - 1] == END:
            count -= 1
            end += masses[count]
        weight *= spelling.leftover[node]
        node = np.int64(spelling.suffix[node])
    return count, end + weight * (spelling.upto[1 + END] - spelling.upto[END]), weight


@inlined
def _child(prefixes, node, symbol):
    """The prefix with one more symbol, or LEFT."""
    low, high = prefixes.first_child[node], prefixes.first_child[node + 1]
    found = _first_not_below(prefixes.symbol, low, high, symbol)
    return found if found < high and prefixes.symbol[found] == symbol else np.int64(LEFT)


@inlined
def _word_id(tables, prefix, kind):
    """The id of the current token if it ends here."""
    return tables.prefixes.first_id[prefix] if prefix > 0 and tables.prefixes.is_word[prefix] else kind


@inlined
def _spelling_total(tables, kind, root_weight):
    """What the spelling model gives to the bytes that may come and to the end: others are only in the empty context."""
    upto = tables.spelling.upto
    may_come = tables.spelling_root[tables.class_of_kind[kind], SYMBOLS] + upto[1 + END] - upto[END]
    return 1.0 - root_weight * (1.0 - may_come)


@inlined
def _ends_token(tables, symbol, cursor):
    """Whether a symbol does not belong to the token that was begun, or none was begun."""
    prefix, kind = cursor[1], cursor[2]
    if prefix == tables.space:
        return tables.kind_of[1, symbol] < 0
    return prefix == BETWEEN or not tables.joins[tables.class_of_kind[kind], symbol]


@kernel
def _advance(tables, current, symbol, cursor, after):
    """The cursor after one more symbol; `after` is the context once the current token has ended.

    `current` has p(token): that of the token which the symbol belongs to, where it is not the n-gram's.
    """
    context, prefix, kind, speller, unknown = cursor
    has_ended = _ends_token(tables, symbol, cursor)
    if has_ended:
        context, prefix, kind, speller, unknown = after, np.int64(BETWEEN), np.int64(-1), np.int64(0), 0.0
    if has_ended and tables.kind_of[0, symbol] < 0:
        if symbol == SPACE:
            prefix = np.int64(tables.space)
        else:
            context = _follow(tables.words, context, tables.single[symbol])
    else:
        if prefix == BETWEEN or prefix == tables.space:
            kind = tables.kind_of[1 if prefix == tables.space else 0, symbol]
            unknown, _ = _probability(current.sums, context if current.has_contexts else np.int64(0), kind)
            unknown *= tables.first_bytes[kind, symbol + 1] - tables.first_bytes[kind, symbol]
            speller = np.int64(1 + END)
        elif prefix != LEFT:
            share, root_weight = _probability(tables.spelling, speller, symbol)
            unknown *= share / _spelling_total(tables, kind, root_weight)
        speller = _follow(tables.spelling, speller, symbol)
        prefix = _child(tables.prefixes, prefix, symbol) if prefix != LEFT else prefix
        unknown = 1.0 if prefix == LEFT else unknown  # nothing is left to weigh it against
    return context, prefix, kind, speller, unknown


class Work(NamedTuple):
    """Room for the terms of a prediction: ranges in the current word and in the token after it, and lists."""

    word_places: np.ndarray  # int64 (MOST_CONTEXTS, 4)
    word_weights: np.ndarray  # float64 (MOST_CONTEXTS)
    next_places: np.ndarray
    next_weights: np.ndarray
    bytes: np.ndarray  # int64: of the spelling model
    byte_masses: np.ndarray
    kinds: np.ndarray  # int64: after a space
    kind_masses: np.ndarray
    next_kinds: np.ndarray  # int64: of the token after the current one
    next_kind_masses: np.ndarray
    leaving: np.ndarray  # float64 (9)
    staying: np.ndarray


@kernel
def _make_work(kinds):
    contexts, most = MOST_CONTEXTS, MOST_CONTEXTS * kinds
    return Work(
        np.empty((contexts, 4), np.int64), np.empty(contexts), np.empty((contexts, 4), np.int64), np.empty(contexts),
        np.empty(contexts * SYMBOLS, np.int64), np.empty(contexts * SYMBOLS),
        np.empty(most, np.int64), np.empty(most), np.empty(most, np.int64), np.empty(most),
        np.empty(9), np.empty(9),
    )  # fmt: skip


class Parts(NamedTuple):
    """The terms of p(next symbol): how many are in each list of `Work`, and by how much they count."""

    word_rows: int
    word_mass: float
    bytes: int
    byte_scale: float
    byte_root: float  # the weight of the spelling model's empty context
    class_now: int
    kinds: int
    kind_scale: float
    next_rows: int
    next_kinds: int
    next_space: float  # all unknown words that have a space before
    next_scale: float
    next_root: float  # the weight of the empty context
    next_class: int
    after: int  # the context once the current token has ended


@kernel
def _prepare(tables, current, cursor, work):
    """Every term of p(next symbol), scaled so that the sum of all is one."""
    context, prefix, kind, speller, unknown = cursor
    words, prefixes = tables.words, tables.prefixes
    node = context if current.has_contexts else np.int64(0)
    word_rows, word_mass, end, byte_count, byte_scale, byte_root = 0, 0.0, 0.0, 0, 0.0, 0.0
    class_now, kinds, kind_scale = 0, 0, 0.0
    after, next_class, next_scale = context, 0, 1.0
    if prefix != BETWEEN:
        places, weights = work.word_places, work.word_weights
        if prefix > 0:
            first, last = prefixes.first_id[prefix], prefixes.last_id[prefix]
            word_rows, root_weight = _open(current.sums, node, first, last, places, weights)
            weights[word_rows] = root_weight
            places[word_rows, 0], places[word_rows, 1], places[word_rows, 2] = 1, 1 + first, 1 + last
            word_rows += 1
            for i in range(word_rows):
                start, low = places[i, 0], places[i, 1]
                if prefixes.is_word[prefix] and words.word[low] == first:
                    end += weights[i] * _range(current.sums.upto, start, low, low + 1)
                    places[i, 1] = low + 1
                word_mass += weights[i] * _range(current.sums.upto, start, places[i, 1], places[i, 2])
        total = end + word_mass
        if prefix == tables.space:
            kinds, _ = _list_kinds(tables, current.sums, node, True, work.kinds, work.kind_masses)
            for i in range(kinds):
                total += work.kind_masses[i]
            kind_scale = 1.0 / total
        else:
            class_now = tables.class_of_kind[kind]
            byte_count, spelled_end, byte_root = _list_bytes(tables.spelling, speller, work.bytes, work.byte_masses)
            byte_scale = unknown / _spelling_total(tables, kind, byte_root)
            end += byte_scale * spelled_end
            total += unknown
            byte_scale /= total
        for i in range(word_rows):
            weights[i] /= total
        word_mass /= total
        next_scale = end / total
        word = _word_id(tables, prefix, kind)
        after = _follow(words, context, word)
        next_class = tables.class_of_word[word]
    next_rows, next_root = _open(
        words, after, tables.kinds, len(tables.class_of_word), work.next_places, work.next_weights
    )
    next_kinds, next_space = _list_kinds(tables, words, after, False, work.next_kinds, work.next_kind_masses)
    next_scale /= 1.0 - next_root * (1.0 - tables.root[next_class, SYMBOLS])
    return Parts(
        word_rows, word_mass, byte_count, byte_scale, byte_root, class_now, kinds, kind_scale,
        next_rows, next_kinds, next_space, next_scale, next_root, next_class, after,
    )  # fmt: skip


@inlined
def _sum_edge(sums, places, weights, rows, first, last):
    """The sum over ids first ... last - 1 of the ranges in `places`."""
    total = 0.0
    for i in range(rows):
        low = _first_not_below(sums.word, places[i, 1], places[i, 2], first)
        high = _first_not_below(sums.word, low, places[i, 2], last)
        total += weights[i] * _range(sums.upto, places[i, 0], low, high)
    return total


@inlined
def _distribution(tables, current, cursor, work, out):
    """p(symbol) for every symbol after this cursor; returns the context once the current token has ended."""
    parts, prefix = _prepare(tables, current, cursor, work), cursor[1]
    prefixes = tables.prefixes
    root, byte_root = tables.root[parts.next_class], tables.spelling_root[parts.class_now]
    for symbol in range(SYMBOLS):
        out[symbol] = parts.next_scale * parts.next_root * (root[symbol + 1] - root[symbol])
        out[symbol] += parts.byte_scale * parts.byte_root * (byte_root[symbol + 1] - byte_root[symbol])
        for i in range(parts.next_kinds):
            each = work.next_kinds[i]
            share = tables.first_bytes[each, symbol + 1] - tables.first_bytes[each, symbol]
            out[symbol] += parts.next_scale * work.next_kind_masses[i] * share
        for i in range(parts.kinds):
            each = work.kinds[i]
            share = tables.first_bytes[each, symbol + 1] - tables.first_bytes[each, symbol]
            out[symbol] += parts.kind_scale * work.kind_masses[i] * share
    out[SPACE] += parts.next_scale * parts.next_space
    for i in range(parts.bytes):
        out[work.bytes[i]] += parts.byte_scale * work.byte_masses[i]
    for edge in range(prefixes.first_child[0], prefixes.first_child[1]):
        first, last = prefixes.first_id[edge], prefixes.last_id[edge]
        share = _sum_edge(tables.words, work.next_places, work.next_weights, parts.next_rows, first, last)
        out[prefixes.symbol[edge]] += parts.next_scale * share
    if parts.word_rows:
        for edge in range(prefixes.first_child[prefix], prefixes.first_child[prefix + 1]):
            first, last = prefixes.first_id[edge], prefixes.last_id[edge]
            out[prefixes.symbol[edge]] += _sum_edge(
                current.sums, work.word_places, work.word_weights, parts.word_rows, first, last
            )
    return parts.after


@inlined
def _split_edges(words, symbols, first_id, places, weights, rows, first, last, mass, boundary):
    """As `_split`, by the prefixes first ... last - 1 below and from a symbol on: (first of these, lower, upper).

    `mass` is the sum of all: where every prefix is on one side, nothing has to be searched.
    """
    middle = _first_not_below(symbols, first, last, boundary)
    if middle == last:
        return middle, mass, 0.0
    if middle == first:
        return middle, 0.0, mass
    lower, upper = _split(words, places, weights, rows, first_id[middle])
    return middle, lower, upper


@inlined
def _split_kinds(kinds, masses, count, cumulative, low, middle, high):
    """What the unknown words of a list add to the symbols low ... middle - 1, and to middle ... high - 1."""
    below, above = 0.0, 0.0
    for i in range(count):
        kind, mass = kinds[i], masses[i]
        at = cumulative[kind, middle]
        below += mass * (at - cumulative[kind, low])
        above += mass * (cumulative[kind, high] - at)
    return below, above


@inlined
def _follow_path(parts, work, leaf, leaving, staying):
    """How much of what is known byte by byte leaves the path to one at each bit (the ninth: never), and what stays.

    These are the parts of the spelling model, and the space before an unknown word.
    """
    leaving[:] = 0.0
    leaving[FIRST_BIT[SPACE ^ leaf]] = parts.next_scale * parts.next_space
    for i in range(parts.bytes):
        leaving[FIRST_BIT[work.bytes[i] ^ leaf]] += parts.byte_scale * work.byte_masses[i]
    staying[8] = 0.0
    for level in range(7, -1, -1):
        staying[level] = staying[level + 1] + leaving[level + 1]


@inlined
def _path(tables, current, symbol, cursor, work, bits):
    """The probability that each bit on the way to a symbol is one; returns log p, and as `_distribution`."""
    parts, prefix = _prepare(tables, current, cursor, work), cursor[1]
    words, symbols, first_id = tables.words, tables.prefixes.symbol, tables.prefixes.first_id
    root, byte_root = tables.root[parts.next_class], tables.spelling_root[parts.class_now]
    first_child = tables.prefixes.first_child
    word_rows, next_rows = parts.word_rows, parts.next_rows
    word_first, word_last = np.int64(0), np.int64(0)
    if word_rows:
        word_first, word_last = first_child[prefix], first_child[prefix + 1]
    next_first, next_last = first_child[0], first_child[1]
    word_mass, next_mass = parts.word_mass, 0.0
    for i in range(next_rows):
        start, low, high = work.next_places[i, 0], work.next_places[i, 1], work.next_places[i, 2]
        next_mass += work.next_weights[i] * _range(words.upto, start, low, high)
    leaving, staying = work.leaving, work.staying
    _follow_path(parts, work, min(symbol, 255), leaving, staying)
    low, high = 0, SYMBOLS
    found = 1.0
    bits[8] = 0.5
    for level in range(9):
        middle = END if level == 8 else low + (128 >> level)
        side = 1 if symbol >= middle else 0
        word_edge, lower, upper = _split_edges(
            current.sums, symbols, first_id, work.word_places, work.word_weights, word_rows,
            word_first, word_last, word_mass, middle,
        )  # fmt: skip
        next_edge, next_lower, next_upper = _split_edges(
            words, symbols, first_id, work.next_places, work.next_weights, next_rows,
            next_first, next_last, next_mass, middle,
        )  # fmt: skip
        below, above = _split_kinds(
            work.next_kinds, work.next_kind_masses, parts.next_kinds, tables.first_bytes, low, middle, high
        )
        below += next_lower + parts.next_root * (root[middle] - root[low])
        above += next_upper + parts.next_root * (root[high] - root[middle])
        below = below * parts.next_scale + lower
        above = above * parts.next_scale + upper
        if parts.kinds:
            kind_lower, kind_upper = _split_kinds(
                work.kinds, work.kind_masses, parts.kinds, tables.first_bytes, low, middle, high
            )
            below += kind_lower * parts.kind_scale
            above += kind_upper * parts.kind_scale
        if parts.byte_scale > 0.0:
            below += parts.byte_scale * parts.byte_root * (byte_root[middle] - byte_root[low])
            above += parts.byte_scale * parts.byte_root * (byte_root[high] - byte_root[middle])
        if side or level == 8:  # the end of a document is never spelled
            below += leaving[level]
            above += staying[level]
        else:
            below += staying[level]
            above += leaving[level]
        bits[level] = min(max(above / (below + above), SMALLEST), 1.0 - SMALLEST)
        found = above if side else below
        if word_first < word_edge < word_last:
            word_rows = _keep(work.word_places, work.word_weights, word_rows, side)
        if next_first < next_edge < next_last:
            next_rows = _keep(work.next_places, work.next_weights, next_rows, side)
        if side:
            low, word_first, next_first, word_mass, next_mass = middle, word_edge, next_edge, upper, next_upper
        else:
            high, word_last, next_last, word_mass, next_mass = middle, word_edge, next_edge, lower, next_lower
        if level == 7 and low != 255:
            break
    return np.log(found), parts.after


@kernel
def step_symbols(tables, symbols, nodes, unknown, out):
    """Distributions after every symbol (batch, time) from the states (nodes, unknown), which move on."""
    work, current = _make_work(tables.kinds), Current(tables.words, True)
    for row in range(symbols.shape[0]):
        cursor, after = _load(nodes[row], unknown[row]), nodes[row, 4]
        for i in range(symbols.shape[1]):
            cursor = _advance(tables, current, symbols[row, i], cursor, after)
            after = _distribution(tables, current, cursor, work, out[row, i])
        _store(cursor, after, nodes, unknown, row)


@inlined
def _load(nodes, unknown):
    return nodes[0], nodes[1], nodes[2], nodes[3], unknown


@inlined
def _store(cursor, after, nodes, unknown, row):
    nodes[row, 0], nodes[row, 1], nodes[row, 2], nodes[row, 3] = cursor[0], cursor[1], cursor[2], cursor[3]
    nodes[row, 4] = after
    unknown[row] = cursor[4]


@inlined
def _by_network(words, upto):
    """What a network says of the current token: upto (1 + ids) are its probabilities, summed, behind a zero."""
    return Current(Sums(words.word, words.first_child, words.suffix, upto, words.leftover, words.top), False)


@kernel
def score_symbols(tables, symbols, token_of, upto, nodes, unknown, unscored, bits, scores):
    """The path to every symbol but the first `unscored`, which are only read.

    It begins at the state (nodes (1, 5), unknown (1)), which moves along. Where there are any `upto` (tokens, 1 + ids),
    the current token's probabilities are those of a network, and token_of (1 + symbols) says which of these rows is
    that of the symbol before the first, and of each symbol; else they are the n-gram's.
    """
    work = _make_work(tables.kinds)
    has_network = len(upto) > 0
    current = Current(tables.words, True)
    cursor, after = _load(nodes[0], unknown[0]), nodes[0, 4]
    for i in range(len(symbols)):
        symbol = np.int64(symbols[i])
        if has_network:
            current = _by_network(tables.words, upto[token_of[i]])
        if i >= unscored:
            scores[i - unscored], after = _path(tables, current, symbol, cursor, work, bits[i - unscored])
        if has_network:
            current = _by_network(tables.words, upto[token_of[i + 1]])
        cursor = _advance(tables, current, symbol, cursor, after)
    _store(cursor, after, nodes, unknown, 0)


@kernel
def end_tokens(tables, symbols, nodes, ended):
    """For each row, the id of the token that a symbol brings to an end because it does not belong to it, or -1."""
    for row in range(len(symbols)):
        cursor = _load(nodes[row], 0.0)
        ended[row] = -1
        if cursor[1] != BETWEEN and _ends_token(tables, symbols[row], cursor):
            ended[row] = _word_id(tables, cursor[1], cursor[2])


@kernel
def read_symbols(tables, symbols, upto, nodes, unknown, ended):
    """Move every row's state on by one symbol; `ended` is the id of a symbol that is a token by itself, or -1."""
    for row in range(len(symbols)):
        symbol, cursor = np.int64(symbols[row]), _load(nodes[row], unknown[row])
        is_single = symbol != SPACE and tables.kind_of[0, symbol] < 0
        ended[row] = tables.single[symbol] if is_single and _ends_token(tables, symbol, cursor) else -1
        cursor = _advance(tables, _by_network(tables.words, upto[row]), symbol, cursor, nodes[row, 4])
        _store(cursor, nodes[row, 4], nodes, unknown, row)


@kernel
def distribute(tables, upto, nodes, unknown, out):
    """p(symbol) for every symbol after each row's state: out (rows, SYMBOLS)."""
    work = _make_work(tables.kinds)
    for row in range(len(nodes)):
        cursor = _load(nodes[row], unknown[row])
        nodes[row, 4] = _distribution(tables, _by_network(tables.words, upto[row]), cursor, work, out[row])
