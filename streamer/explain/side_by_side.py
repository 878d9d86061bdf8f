"""Two texts side by side: differing words in their context, as written."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple

import regex

from streamer.explain.explanation import Span
from streamer.explain.printable import printable
from streamer.text.characters import UNSPACED_SCRIPTS
from streamer.text.unicode_forms import unicode_form

CONTEXT_CHARACTERS = 80
"""Approximate characters on each side of a change."""
RUN_CHARACTERS_MAX = 400
"""Longest part of a run of words, or of a single text."""
BRIEF_CONTEXT_CHARACTERS, BRIEF_RUN_CHARACTERS_MAX, BRIEF_CHANGES_MAX = 25, 60, 3
"""The same limits for two texts in one."""
CHANGES_MAX = 6
"""Most shown changes; further ones are counted."""
COMPARED_WORDS_MAX = 20_000
"""A longer part between the first and the last difference is one change: more words take above 50 MB."""
EQUAL_CHARACTERS_MIN = 8
"""Fewer equal characters between two changes belong to the change: a lone article or ideograph means nothing."""

_BY_CHARACTER = (
    rf"(?=[\p{{L}}\p{{N}}])(?:{UNSPACED_SCRIPTS}|[\p{{Script=Han}}\p{{Ideographic}}\p{{Script=Yi}}])\p{{M}}*"
)
_WORD = regex.compile(
    rf"{_BY_CHARACTER}|(?:(?!{_BY_CHARACTER})[\p{{L}}\p{{N}}]\p{{M}}*|(?<=\p{{L}})['\u2019](?=\p{{L}}))+"
)


class Compared(NamedTuple):
    """Spans of both texts, and the numbers of differing and of omitted places.

    letters, new_letters  letters and digits of the later text, and those in its differing words
    longest_new           its longest run of differing words, as written

    >>> side_by_side("the old harbour", "the new harbour").changes
    1
    """

    before: tuple[Span, ...]
    after: tuple[Span, ...]
    changes: int
    hidden: int
    letters: int = 0
    new_letters: int = 0
    longest_new: str = ""


class _Step(NamedTuple):
    """A run of equal words, or a change."""

    equal: bool
    sides: tuple[Sequence[str], Sequence[str]]


def side_by_side(before: str, after: str, *, full: bool = False) -> Compared:
    """Compare the words of two texts, as matching does: without case, white space and punctuation.

    full  show all; else the first changes in context, or the beginnings of equal texts
    """
    steps = _steps(_words(before), _words(after))
    changes = sum(not step.equal for step in steps)
    added = ["".join(step.sides[1]) for step in steps if not step.equal]
    letters, new_letters = _letters(after), sum(map(_letters, added))
    figures = letters, new_letters, max(added, key=_letters, default="").strip()
    if full:
        return Compared(_whole(steps, 0), _whole(steps, 1), changes, 0, *figures)
    if not changes:
        return Compared(excerpt(before), excerpt(after), 0, 0, *figures)
    shown = list(_first(steps, CHANGES_MAX))
    old, new = (_bounded(shown, {side: "differing"}, CONTEXT_CHARACTERS, RUN_CHARACTERS_MAX) for side in (0, 1))
    return Compared(old, new, changes, max(0, changes - CHANGES_MAX), *figures)


def _letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def in_one(before: str, after: str) -> tuple[tuple[Span, ...], int]:
    """Changes between two texts in one short text, and how many it omits. Kinds: same, removed, added, gap.

    >>> [(span.kind, span.text) for span in in_one("the old harbour", "the new harbour")[0]]
    [('same', 'the '), ('removed', 'old '), ('added', 'new '), ('same', 'harbour')]
    """
    steps = _steps(_words(before), _words(after))
    changes = sum(not step.equal for step in steps)
    shown = list(_first(steps, BRIEF_CHANGES_MAX)) if changes else []
    spans = _bounded(shown, {0: "removed", 1: "added"}, BRIEF_CONTEXT_CHARACTERS, BRIEF_RUN_CHARACTERS_MAX)
    return spans, max(0, changes - BRIEF_CHANGES_MAX)


def excerpt(text: str, *, full: bool = False) -> tuple[Span, ...]:
    """A text's beginning, or all of it."""
    written = [written for _, written in _words(text)] or [printable(text)]
    shown = len(written) if full else _reach(written, RUN_CHARACTERS_MAX)
    left_out = [_gap(len(written) - shown)] if shown < len(written) else []
    return _spans([("same", "".join(written[:shown])), *left_out])


def _words(text: str) -> list[tuple[str, str]]:
    """Words: the compared form, and the written one with everything up to the next. Joined, they are the printable text."""
    shown = printable(text).strip()
    matches = list(_WORD.finditer(shown))
    bounds = [0, *(match.start() for match in matches[1:]), len(shown)] if matches else []
    return [
        (unicode_form("NFKC", match[0].replace("\u2019", "'")).casefold(), shown[begin:end])
        for match, (begin, end) in zip(matches, pairwise(bounds), strict=True)
    ]


def _steps(before: Sequence[tuple[str, str]], after: Sequence[tuple[str, str]]) -> list[_Step]:
    old, new = [word for word, _ in before], [word for word, _ in after]
    steps: list[_Step] = []
    for equal, begin, end, new_begin, new_end in _merged(_opcodes(old, new), old):
        of_before = [written for _, written in before[begin:end]]
        of_after = [written for _, written in after[new_begin:new_end]]
        steps.append(_Step(equal, (of_before, of_after)))
    return steps


_Opcode = tuple[bool, int, int, int, int]


def _opcodes(old: Sequence[str], new: Sequence[str]) -> Iterator[_Opcode]:
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    tail = next((at for at in range(shorter - head) if old[-1 - at] != new[-1 - at]), shorter - head)
    ends = len(old) - tail, len(new) - tail
    pairs: list[tuple[int, int]] = []
    if max(ends) - head <= COMPARED_WORDS_MAX:
        pairs = [(head + one, head + other) for one, other in common(old[head : ends[0]], new[head : ends[1]])]
    at, new_at = 0, 0
    for one, other in [
        *((at, at) for at in range(head)),
        *pairs,
        *zip(range(ends[0], len(old)), range(ends[1], len(new)), strict=True),
    ]:
        if (one, other) != (at, new_at):
            yield False, at, one, new_at, other
        yield True, one, one + 1, other, other + 1
        at, new_at = one + 1, other + 1
    if (at, new_at) != (len(old), len(new)):
        yield False, at, len(old), new_at, len(new)


def common(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """A longest common subsequence: places of its words in both texts, ascending.

    A row of the length table is one integer, with a zero bit at each increase (Hyyrö, "Bit-parallel LCS-length
    computation revisited", AWOCA 2004).
    """
    places: dict[str, int] = {}
    for place, word in enumerate(new):
        places[word] = places.get(word, 0) | 1 << place
    everything = row = (1 << len(new)) - 1
    rows = [row]
    for word in old:
        matching = row & places.get(word, 0)
        row = ((row + matching) | (row - matching)) & everything
        rows.append(row)
    pairs: list[tuple[int, int]] = []
    at, new_at = len(old), len(new)
    while at and new_at:
        bit = new_at - 1
        if rows[at] >> bit & 1:
            new_at -= 1
            continue
        at -= 1
        if rows[at] >> bit & 1:
            new_at -= 1
            pairs.append((at, new_at))
    return pairs[::-1]


def _merged(steps: Iterable[_Opcode], words: Sequence[str]) -> list[_Opcode]:
    """Joined neighbours of one kind; short equal runs between two changes become changes."""
    runs = list(_joined(steps))
    for number in range(1, len(runs) - 1):
        equal, begin, end, new_begin, new_end = runs[number]
        if equal and sum(map(len, words[begin:end])) < EQUAL_CHARACTERS_MIN:
            runs[number] = False, begin, end, new_begin, new_end
    return list(_joined(runs))


def _joined(steps: Iterable[_Opcode]) -> Iterator[_Opcode]:
    for equal, of_kind in groupby(steps, lambda step: step[0]):
        run = list(of_kind)
        yield equal, run[0][1], run[-1][2], run[0][3], run[-1][4]


def _first(steps: Sequence[_Step], changes: int) -> Iterator[_Step]:
    seen = 0
    for step in steps:
        if not step.equal and seen == changes:
            return
        seen += not step.equal
        yield step


def _whole(steps: Sequence[_Step], side: int) -> tuple[Span, ...]:
    return _spans([("same" if step.equal else "differing", "".join(step.sides[side])) for step in steps])


def _bounded(steps: Sequence[_Step], kinds: Mapping[int, str], context: int, run_max: int) -> tuple[Span, ...]:
    """Spans of the sides in `kinds`, which name the differing words; equal words are those of the last side."""
    pieces: list[tuple[str, str]] = []
    for number, step in enumerate(steps):
        if step.equal:
            begin = 0 if number == 0 else context
            end = 0 if number == len(steps) - 1 else context
            pieces += _ends(step.sides[max(kinds)], begin, end, "same")
        else:
            for side, kind in kinds.items():
                pieces += _ends(step.sides[side], run_max // 2, run_max // 2, kind)
    return _spans(pieces)


def _ends(written: Sequence[str], begin: int, end: int, kind: str) -> list[tuple[str, str]]:
    first, last = _reach(written, begin), _reach(written[::-1], end)
    left_out = len(written) - first - last
    if left_out <= 1:
        return [(kind, "".join(written))]
    return [(kind, "".join(written[:first])), _gap(left_out), (kind, "".join(written[len(written) - last :]))]


def _reach(written: Sequence[str], characters: int) -> int:
    return bisect_left(list(accumulate(map(len, written), initial=0)), characters, hi=len(written))


def _gap(words: int) -> tuple[str, str]:
    return "gap", f" … {words:,} more … "


def _spans(pieces: Sequence[tuple[str, str]]) -> tuple[Span, ...]:
    return tuple(Span(kind, text) for kind, text in pieces if text)
