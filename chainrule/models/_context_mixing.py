"""The compiled loops of context mixing: contexts, the symbols seen in them, and the network that mixes their votes.

A symbol is a byte and is predicted bit by bit, the most significant first. For each bit, every context votes: it looks
at the symbols seen in it that agree with the bits so far, how often each occurred and which came last, and a table that
is learned says what such a state has meant so far. The votes, as log-odds, are added up with weights that depend on
small contexts of their own (Mahoney, 2005: "Adaptive weighing of context models for lossless data compression").
"""

from math import exp, log
from typing import NamedTuple

import numpy as np

from chainrule.kernels.jit import inlined, kernel, kernel_of_sums

REACH = 64  # bytes back that a context may look; histories begin with so many zeros
LONGEST = 60  # match that is looked back for
MATCHED = np.array([24, 12, 1])  # a match by the last 24, 12 or 5 bytes is sought where there is none of this length
END = 255  # the byte that stands for the end of a document
CONTEXTS = 22
SYMBOLS = 7  # different symbols that a context remembers, the latest first
LEVELS = np.array([0, 1, 2, 3, 4, 5, 7, 10, 15, 25, 50, 100])  # how finely counts are told apart
LEVEL_OF = (np.searchsorted(LEVELS, np.arange(2048), side="right") - 1).astype(np.uint8)
SHARED_BITS = np.array([8 - int(i).bit_length() for i in range(256)], np.uint8)  # of two symbols, by their exclusive or
BIT_GROUP = np.array([0, 1, 1, 2, 2, 3, 3, 3], np.uint8)
STATES = CONTEXTS * 3 * len(LEVELS) ** 2 * 2 * 4  # context, symbols seen, counts of 0 and 1, latest, group of the bit
MATCH_LENGTHS = 64  # states of the longest match, behind those of the contexts; the last one is for contexts not seen
NO_STATE = STATES + MATCH_LENGTHS - 1
INPUTS = CONTEXTS + 4  # contexts, frequencies of bytes, of pairs, the longest match, a constant
WEIGHT_ROWS = np.cumsum([0, 256, 256, 200, 128, 768, 256])  # where the rows of each set of weights begin
SETS = len(WEIGHT_ROWS) - 1
STRETCH = np.log((np.arange(4096) + 0.5) / (4095.5 - np.arange(4096))).astype(np.float32)  # log-odds by probability
CURVES = 65536
STEPS = 33  # of the curves that correct the final probability, half a nat of log-odds apart
SMALLEST = 1e-6  # probability of a bit
MOST_SEEN = 255.0  # how slow a learned probability gets to change


class Tables(NamedTuple):
    """All that is counted and learned."""

    slots: np.ndarray  # uint8 (contexts, slots + 1, 2 + 2 * symbols): check, then symbols and counts; the last is empty
    latest: np.ndarray  # int64 (3, entries): where hashes of 24, of 12 and of 5 bytes occurred last in the text
    chances: np.ndarray  # float32 (states): the probability of a 1
    seen: np.ndarray  # float32 (states)
    frequencies: (
        np.ndarray
    )  # float32 (257, 256): the probability of a 1 by the byte before (256: whatever it is) and bits
    weights: np.ndarray  # float32 (rows, inputs)
    final_weights: np.ndarray  # float32 (256, sets)
    curves: np.ndarray  # float32 (2, 65536, steps): corrections by the byte before, and by a hash of the two before
    forced: np.ndarray  # int8 (256): the bit that must come where only one side of the tree has symbols, else -1


@inlined
def _hash(a, b):
    x = (np.uint64(a) + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    x += np.uint64(b) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    x *= np.uint64(0x9E3779B97F4A7C15)
    x ^= x >> np.uint64(29)
    return x


@inlined
def _is_letter(byte):
    return 97 <= byte <= 122 or 65 <= byte <= 90 or 128 <= byte < END or byte == 39


@inlined
def _find_words(history, t, words):
    """Hashes of the letters right before t, and of the three words before those; the end of a document is a word."""
    first, i = t - REACH, t - 1
    for k in range(4):
        words[k] = 0
        if k > 0:
            while i >= first and history[i] != END and not _is_letter(history[i]):
                i -= 1
            if i >= first and history[i] == END:
                words[k] = END
                i -= 1
                continue
        while i >= first and _is_letter(history[i]):
            words[k] = _hash(words[k], history[i] | 32 if history[i] <= 90 else history[i])
            i -= 1


@inlined
def _hash_bytes(history, t, count):
    value = np.uint64(0)
    for back in range(1, count + 1):
        value = _hash(value, np.uint64(history[t - back]))
    return value


@inlined
def _hash_punctuation(history, t):
    """The last three bytes that are no letters, among the last 24."""
    value, found, back = np.uint64(0), 0, 1
    while back < 24 and found < 3:
        if not _is_letter(history[t - back]):
            value = _hash(value, np.uint64(history[t - back]))
            found += 1
        back += 1
    return value


@inlined
def _fill_contexts(history, t, words, contexts):
    """What each context is at position t: hashes of the bytes before it, and of words."""
    eight = np.uint64(8)
    c1, c2, c3 = np.uint64(history[t - 1]), np.uint64(history[t - 2]), np.uint64(history[t - 3])
    c4, c5, c6 = np.uint64(history[t - 4]), np.uint64(history[t - 5]), np.uint64(history[t - 6])
    two = c1 | c2 << eight
    three = two | c3 << np.uint64(16)
    four = three | c4 << np.uint64(24)
    five = four | c5 << np.uint64(32)
    six = five | c6 << np.uint64(40)
    _find_words(history, t, words)
    word, w1, w2, w3 = words[0], words[1], words[2], words[3]
    bigram = _hash(word, w1)
    column = 0
    while column < REACH - 1 and history[t - 1 - column] != 10 and history[t - 1 - column] != END:
        column += 1
    contexts[0] = c1
    contexts[1] = two
    contexts[2] = three
    contexts[3] = four
    contexts[4] = five
    contexts[5] = six
    contexts[6] = _hash(_hash(six, history[t - 7]), history[t - 8])
    contexts[7] = word
    contexts[8] = bigram
    contexts[9] = _hash(bigram, w2)
    contexts[10] = _hash(_hash(bigram, w2), w3)
    contexts[11] = _hash(word, w2)  # words apart: the one between is left out
    contexts[12] = _hash(word, w3)
    contexts[13] = _hash(c1, w1)
    contexts[14] = _hash(two, w1)
    contexts[15] = _hash(three, w1)
    contexts[16] = c2 | c3 << eight  # bytes apart
    contexts[17] = c1 | c3 << eight | c4 << np.uint64(16)
    contexts[18] = c2 | c3 << eight | c4 << np.uint64(16)
    contexts[19] = np.uint64(column) | c1 << eight
    contexts[20] = _hash_bytes(history, t, 12)
    contexts[21] = _hash(_hash_punctuation(history, t), word)
    return five


@inlined
def _find_slot(table, context, number):
    """(slot, whether the context is in it): one of two neighbours; where neither has it, the one that counted less."""
    value = _hash(context, np.uint64(number + 1))
    slot = value & np.uint64(len(table) - 2)
    low, high = np.uint8(value >> np.uint64(48)), np.uint8(value >> np.uint64(56))
    if table[slot, 0] == low and table[slot, 1] == high:
        return slot, True
    other = slot ^ np.uint64(1)
    if table[other, 0] == low and table[other, 1] == high:
        return other, True
    return (other if table[slot, 3] > table[other, 3] else slot), False


@inlined
def _claim_slot(table, context, number):
    """The slot of the context, emptied for it if it held another one."""
    slot, is_found = _find_slot(table, context, number)
    if not is_found:
        value = _hash(context, np.uint64(number + 1))
        table[slot, 0], table[slot, 1] = np.uint8(value >> np.uint64(48)), np.uint8(value >> np.uint64(56))
        for k in range(2, 2 + 2 * SYMBOLS):
            table[slot, k] = 0
    return slot


@inlined
def _count_symbol(slot, symbol):
    """One more of this symbol, which becomes the latest; of too many, the one not seen for longest is forgotten."""
    k, last = 2, 2 * SYMBOLS
    while k < last and slot[k + 1] > 0 and slot[k] != symbol:
        k += 2
    count = np.uint8(1)
    if slot[k] == symbol and slot[k + 1] > 0:
        count = np.uint8(min(slot[k + 1] + 1, 250))
    while k > 2:
        slot[k], slot[k + 1] = slot[k - 2], slot[k - 1]
        k -= 2
    slot[2], slot[3] = symbol, count


@inlined
def _fill_states(slot, symbol, number, states, counts):
    """The state of one context for each of the 8 bits of a symbol: what was seen there of symbols that begin alike.

    Returns how many symbols the context has seen.
    """
    for bit in range(9):
        counts[bit] = 0
    symbols, total, longest, agrees = 0, 0, np.int64(-1), np.int64(0)
    k = 3
    while k < 2 + 2 * SYMBOLS and slot[k] > 0:
        shared = np.int64(SHARED_BITS[slot[k - 1] ^ symbol])
        counts[shared] += slot[k]  # these part from the symbol at this bit
        total += slot[k]
        if shared > longest:  # the latest that agrees so far; `agrees` has a bit for each bit that it gets right
            agrees |= ((1 << shared) - 1) & ~((1 << (longest + 1)) - 1)
            longest = shared
        symbols += 1
        k += 2
    base = (number * 3 + min(max(symbols - 1, 0), 2)) * len(LEVELS)
    for bit in range(8):
        if bit > longest:
            states[bit, number] = NO_STATE
        else:
            total -= counts[bit]
            against, agreeing, latest = LEVEL_OF[counts[bit]], LEVEL_OF[total], (agrees >> bit) & 1
            if (symbol >> (7 - bit)) & 1:
                state = ((base + against) * len(LEVELS) + agreeing) * 2 + latest
            else:
                state = ((base + agreeing) * len(LEVELS) + against) * 2 + 1 - latest
            states[bit, number] = state * 4 + BIT_GROUP[bit]
    return symbols


@inlined
def _count_matched(text, history, t, place):
    """How many bytes before `place` in the text are those before t of the history, LONGEST at the most."""
    length = 0
    while length < LONGEST and text[place - 1 - length] == history[t - 1 - length]:
        length += 1
    return length


@inlined
def _find_entries(history, t, five, twelve, entries, size):
    """Where the index keeps the latest places of the last 24, 12 and 5 bytes."""
    long = twelve
    for back in range(13, 25):
        long = _hash(long, np.uint64(history[t - back]))
    mask = np.uint64(size - 1)
    entries[0], entries[1], entries[2] = long & mask, twelve & mask, _hash(five, np.uint64(12345)) & mask


@inlined
def _choose_rows(rows, history, t, node, bit, length, known, word_known):
    """The row of each set of weights that goes with the bits so far, the bytes before, the match, what is known."""
    rows[0] = WEIGHT_ROWS[0] + node
    rows[1] = WEIGHT_ROWS[1] + np.int64(history[t - 1])
    rows[2] = WEIGHT_ROWS[2] + min(length, 24) * 8 + bit
    rows[3] = WEIGHT_ROWS[3] + known * 8 + bit
    rows[4] = WEIGHT_ROWS[4] + word_known * 256 + node
    rows[5] = WEIGHT_ROWS[5] + np.int64(history[t - 2])


@inlined
def _stretch(probability):
    return STRETCH[np.uint32(probability * np.float32(4095.9))]


@kernel_of_sums
def _mix(tables, rows, node, inputs, votes, chances):
    """The log-odds that the sets of weights agree on; `votes` and `chances` are what each says by itself."""
    total = np.float32(0)
    for k in range(SETS):
        weights = tables.weights[rows[k]]
        vote = np.float32(0)
        for i in range(INPUTS):
            vote += weights[i] * inputs[i]
        vote = max(min(vote, np.float32(12)), np.float32(-12))
        votes[k] = vote
        chances[k] = np.float32(1) / (np.float32(1) + np.float32(exp(-vote)))
        total += tables.final_weights[node, k] * vote
    return total


@kernel_of_sums
def _teach_weights(tables, rows, node, inputs, votes, chances, bit, chance, rate):
    """Move all weights in the direction that would have predicted the bit better."""
    final = np.float32(0.002) * (bit - chance)
    for k in range(SETS):
        tables.final_weights[node, k] += final * votes[k]
        error = rate * (bit - chances[k])
        weights = tables.weights[rows[k]]
        for i in range(INPUTS):
            weights[i] += error * inputs[i]


@inlined
def _teach_chance(tables, state, bit):
    seen = tables.seen[state]
    tables.chances[state] += (bit - tables.chances[state]) / (seen + np.float32(1.5))
    tables.seen[state] = min(seen + np.float32(1), np.float32(MOST_SEEN))


@inlined
def _teach_curve(curve, low, share, bit):
    curve[low] += (bit - curve[low]) * np.float32(0.02) * (np.float32(1) - share)
    curve[low + 1] += (bit - curve[low + 1]) * np.float32(0.02) * share


@kernel
def _vote(tables, states, node, bit, before, match_state, match_bit, inputs):
    """The log-odds of every context, and of the frequencies of bytes, at one bit."""
    for number in range(CONTEXTS):
        inputs[number] = _stretch(tables.chances[states[bit, number]])
    inputs[CONTEXTS] = _stretch(tables.frequencies[256, node])
    inputs[CONTEXTS + 1] = _stretch(tables.frequencies[before, node])
    inputs[CONTEXTS + 2] = 0
    if match_state >= 0:
        certainty = _stretch(tables.chances[match_state])
        inputs[CONTEXTS + 2] = certainty if match_bit else -certainty
    inputs[CONTEXTS + 3] = np.float32(0.3)


@inlined
def _match_at(predicted, node, bit, length):
    """(state, bit) of the longest match at one bit; no state where the bits so far are not those it predicted."""
    if predicted < 0 or ((predicted | 256) >> (8 - bit)) != node:
        return -1, 0, 0
    step = length if length < 16 else min(16 + (length - 16) // 12, 23)
    return STATES + step, (predicted >> (7 - bit)) & 1, step


@inlined
def _predict_bit(tables, states, history, t, node, bit, vote, known, word_known, inputs, rows, votes, chances):
    """(P(1), the same before the curves, place on the curves, share of the next point, rows of the two curves)"""
    before = np.int64(history[t - 1])
    _vote(tables, states, node, bit, before, vote[0], vote[1], inputs)
    _choose_rows(rows, history, t, node, bit, vote[2], known, word_known)
    log_odds = _mix(tables, rows, node, inputs, votes, chances)
    chance = np.float32(1) / (np.float32(1) + np.float32(exp(-log_odds)))
    pair = np.uint64(history[t - 1]) | np.uint64(history[t - 2]) << np.uint64(8)
    first, second = before * 256 + node, np.int64(_hash(pair, np.uint64(node)) & np.uint64(CURVES - 1))
    place = (max(min(log_odds, np.float32(7.99)), np.float32(-7.99)) + np.float32(8)) * np.float32(2)
    low = np.int64(place)
    share = place - np.float32(low)
    bent = (tables.curves[0, first, low] + tables.curves[1, second, low]) * (np.float32(1) - share)
    bent += (tables.curves[0, first, low + 1] + tables.curves[1, second, low + 1]) * share
    final = np.float32(0.5) * chance + np.float32(0.25) * bent
    return max(min(final, np.float32(1 - SMALLEST)), np.float32(SMALLEST)), chance, low, share, first, second


@inlined
def _summarise(symbols):
    """(how many of the contexts of two to eight bytes are known, whether the word and the pair of words are)"""
    known = 0
    for number in range(1, 7):
        known += symbols[number] > 0
    return known, 0 if symbols[7] == 0 else (1 if symbols[8] == 0 else 2)


@inlined
def _follow_match(text, history, t, entries, latest, match):
    """The symbol that a match predicts at t, or -1. match: its place in the text and its length, as they were at t - 1.

    A match is followed for as long as it is right. A new one is sought where there is none, or only a short one, by the
    last 24 bytes, then by 12, then by 5.
    """
    if match[1] > 0 and text[match[0]] == history[t - 1] and match[0] + 1 < len(text):
        match[0] += 1
        match[1] += 1
    else:
        match[1] = 0
    for i in range(3):
        place = latest[i, entries[i]]
        if match[1] < MATCHED[i] and place > REACH:
            length = _count_matched(text, history, t, place)
            if length >= 5 and length > match[1]:
                match[0], match[1] = place, length
    return np.int64(text[match[0]]) if match[1] > 0 else np.int64(-1)


@kernel
def read(text, history, start, stop, tables, rates, match, bits):
    """Predict history[start:stop]: bits (stop - start, 8) are P(1) of each bit. Learn from it where the rates say so.

    `text` is what matches are sought in: the history itself while learning, else the text that was learned. Both begin
    with REACH zeros. rates: of the weights at last, of the weights more at first, whether anything is learned. match:
    place and length of the match that is followed, which go on with it.
    """
    learns = rates[2] > 0
    words, contexts = np.zeros(4, np.uint64), np.zeros(CONTEXTS, np.uint64)
    slots, symbols = np.zeros(CONTEXTS, np.uint64), np.zeros(CONTEXTS, np.int64)
    states, counts = np.zeros((8, CONTEXTS), np.uint32), np.zeros(9, np.uint32)
    inputs, rows = np.zeros(INPUTS, np.float32), np.zeros(SETS, np.int64)
    votes, chances = np.zeros(SETS, np.float32), np.zeros(SETS, np.float32)
    entries, empty = np.zeros(3, np.uint64), np.uint64(tables.slots.shape[1] - 1)
    for t in range(start, stop):
        symbol = history[t]
        five = _fill_contexts(history, t, words, contexts)
        for number in range(CONTEXTS):
            table = tables.slots[number]
            if learns:
                slots[number] = _claim_slot(table, contexts[number], number)
            else:
                slot, is_found = _find_slot(table, contexts[number], number)
                slots[number] = slot if is_found else empty
            symbols[number] = _fill_states(table[slots[number]], symbol, number, states, counts)
        known, word_known = _summarise(symbols)
        _find_entries(history, t, five, contexts[20], entries, tables.latest.shape[1])
        predicted = _follow_match(text, history, t, entries, tables.latest, match)
        rate = np.float32(rates[0] + rates[1] / (1.0 + 1e-4 * (t - REACH)))
        node, before = np.int64(1), np.int64(history[t - 1])
        for place in range(8):
            bit = np.float32((symbol >> (7 - place)) & 1)
            if tables.forced[node] >= 0:
                bits[t - start, place] = tables.forced[node]
                node = node * 2 + np.int64(bit)
                continue
            vote = _match_at(predicted, node, place, match[1])
            final, chance, low, share, first, second = _predict_bit(
                tables, states, history, t, node, place, vote, known, word_known, inputs, rows, votes, chances
            )
            bits[t - start, place] = final
            if learns:
                _teach_weights(tables, rows, node, inputs, votes, chances, bit, chance, rate)
                _teach_curve(tables.curves[0, first], low, share, bit)
                _teach_curve(tables.curves[1, second], low, share, bit)
                for number in range(CONTEXTS):
                    _teach_chance(tables, states[place, number], bit)
                tables.chances[NO_STATE] = 0.5
                if vote[0] >= 0:
                    _teach_chance(tables, vote[0], np.float32(vote[1] == np.int64(bit)))
                tables.frequencies[256, node] += (bit - tables.frequencies[256, node]) * np.float32(0.02)
                tables.frequencies[before, node] += (bit - tables.frequencies[before, node]) * np.float32(0.03)
            node = node * 2 + np.int64(bit)
        if learns:
            for i in range(3):
                tables.latest[i, entries[i]] = t
            for number in range(CONTEXTS):
                _count_symbol(tables.slots[number, slots[number]], symbol)


@kernel
def count(history, start, stop, first, last, slots):
    """Count history[start:stop] in the slots of contexts [first, last), as `read` does, and predict nothing."""
    words, contexts = np.zeros(4, np.uint64), np.zeros(CONTEXTS, np.uint64)
    for t in range(start, stop):
        _fill_contexts(history, t, words, contexts)
        for number in range(first, last):
            slot = _claim_slot(slots[number], contexts[number], number)
            _count_symbol(slots[number, slot], history[t])


@kernel
def index(history, start, stop, latest):
    """Enter history[start:stop] into the index of matches, as `read` does."""
    entries = np.zeros(3, np.uint64)
    for t in range(start, stop):
        five = np.uint64(0)
        for back in range(5):
            five |= np.uint64(history[t - 1 - back]) << np.uint64(8 * back)
        _find_entries(history, t, five, _hash_bytes(history, t, 12), entries, latest.shape[1])
        for i in range(3):
            latest[i, entries[i]] = t


@kernel
def distributions(text, histories, matches, tables, out):
    """log P of each of the 256 symbols after every history (rows, REACH + time): out (rows, time, 256).

    A history has REACH bytes, then one for each position to predict after; matches (rows, 2) go on with them.
    Nothing is learned.
    """
    words, contexts = np.zeros(4, np.uint64), np.zeros(CONTEXTS, np.uint64)
    slots, symbols = np.zeros(CONTEXTS, np.uint64), np.zeros(CONTEXTS, np.int64)
    states, counts = np.zeros((8, CONTEXTS), np.uint32), np.zeros(9, np.uint32)
    inputs, rows = np.zeros(INPUTS, np.float32), np.zeros(SETS, np.int64)
    votes, chances = np.zeros(SETS, np.float32), np.zeros(SETS, np.float32)
    nodes = np.zeros(256, np.float64)
    entries, empty = np.zeros(3, np.uint64), np.uint64(tables.slots.shape[1] - 1)
    for row in range(len(histories)):
        history = histories[row]
        for t in range(REACH + 1, len(history) + 1):
            five = _fill_contexts(history, t, words, contexts)
            for number in range(CONTEXTS):
                slot, is_found = _find_slot(tables.slots[number], contexts[number], number)
                slots[number] = slot if is_found else empty
            _find_entries(history, t, five, contexts[20], entries, tables.latest.shape[1])
            predicted = _follow_match(text, history, t, entries, tables.latest, matches[row])
            for symbol in range(0, 256, 2):
                for number in range(CONTEXTS):
                    slot_of = tables.slots[number, slots[number]]
                    symbols[number] = _fill_states(slot_of, np.uint8(symbol), number, states, counts)
                known, word_known = _summarise(symbols)
                for bit in range(8):
                    if symbol & ((1 << (8 - bit)) - 1):
                        continue  # each node is visited with the first symbol below it
                    node = (symbol | 256) >> (8 - bit)
                    if tables.forced[node] >= 0:
                        nodes[node] = tables.forced[node]
                        continue
                    vote = _match_at(predicted, node, bit, matches[row, 1])
                    nodes[node] = _predict_bit(
                        tables, states, history, t, node, bit, vote, known, word_known, inputs, rows, votes, chances
                    )[0]
            for symbol in range(256):
                total = 0.0
                for bit in range(8):
                    one = nodes[(symbol | 256) >> (8 - bit)]
                    total += log(one if (symbol >> (7 - bit)) & 1 else 1 - one)
                out[row, t - REACH - 1, symbol] = total
