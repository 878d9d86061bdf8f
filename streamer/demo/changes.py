"""Where the words of two texts differ, for people: each change with its neighbourhood."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

from streamer.settings.settings import Fingerprint
from streamer.text.characters import normalise
from streamer.text.words import words

CONTEXT_WORDS = 5
"""Words shown on either side of a change."""
RUN_WORDS_MAX = 12
"""A longer change is shown by its ends."""
CHANGES_MAX = 3
"""More changes are counted, not shown."""

_BEHIND_WORD = re.compile(r"\W*\Z")
_BEHIND_SENTENCE = re.compile(r"\s*\Z")
_OPENING = {"Ps", "Pi"}


@dataclass(frozen=True, slots=True)
class Piece:
    """Neighbouring words of one kind in a comparison: `same`, `removed`, `added`, or `gap` for words left out."""

    kind: str
    text: str


def compare(before: str, after: str) -> tuple[list[Piece], int]:
    """Where the words of two texts differ, each change with its neighbourhood; and how many changes are not shown."""
    names = Fingerprint()
    old_words, new_words = words([before, after], names.segmenter, names.character_shingle_size)
    old, new = _as_written(before, old_words), _as_written(after, new_words)
    steps = SequenceMatcher(None, old_words, new_words, autojunk=False).get_opcodes()
    shown = [step for step in steps if step[0] != "equal"][:CHANGES_MAX]
    hidden = sum(step[0] != "equal" for step in steps) - len(shown)
    if not shown:
        return [], 0
    steps = steps[: steps.index(shown[-1]) + 2]
    pieces: list[Piece] = []
    for number, (kind, old_begin, old_end, new_begin, new_end) in enumerate(steps):
        if kind == "equal":
            written = new[new_begin:new_end]
            if old[old_end - 1].endswith(" ") and not written[-1].endswith(" "):
                # The new text ends here, what was removed goes on.
                written[-1] += " "
            pieces += _neighbourhood(written, first=number == 0, last=number == len(steps) - 1)
            continue
        pieces += _change(_shortened(old[old_begin:old_end]), _shortened(new[new_begin:new_end]))
    return pieces, hidden


def _change(removed: str, added: str) -> list[Piece]:
    """Where words replace others, what stands behind them (a comma, a blank) is no part of the change."""
    pattern = _BEHIND_WORD if removed and added else _BEHIND_SENTENCE
    behind = pattern.search(added or removed)
    assert behind
    pieces = [Piece("removed", pattern.sub("", removed)), Piece("added", pattern.sub("", added))]
    return [*(piece for piece in pieces if piece.text), Piece("same", behind[0])]


def _neighbourhood(written: Sequence[str], *, first: bool, last: bool) -> list[Piece]:
    """The words next to the changes, those farther off left out."""
    behind = 0 if first else CONTEXT_WORDS
    ahead = 0 if last else CONTEXT_WORDS
    if len(written) <= behind + ahead:
        return [Piece("same", "".join(written))]
    pieces = [Piece("same", "".join(written[:behind])), Piece("gap", "…")]
    return [*pieces, Piece("same", "".join(written[len(written) - ahead :]))]


def _shortened(written: Sequence[str]) -> str:
    if len(written) <= RUN_WORDS_MAX:
        return "".join(written)
    half = RUN_WORDS_MAX // 2
    begin, end = "".join(written[:half]).rstrip(), "".join(written[-half:])
    return f"{begin} … {len(written) - RUN_WORDS_MAX} more … {end}"


def _as_written(text: str, found: Sequence[str]) -> list[str]:
    """The words with what stands behind them, so that all together are the text.

    Opening brackets and quotes stand before a word. Letters keep their case unless normalising changed the length.
    """
    normal = normalise(text)
    shown = " ".join(text.split())
    if len(shown) != len(normal):
        shown = normal
    places: list[int] = []
    at = 0
    for word in found:
        behind, at = at, max(normal.find(word, at), at)
        begin = at
        while begin > behind and unicodedata.category(shown[begin - 1]) in _OPENING:
            begin -= 1
        places.append(begin)
        at += len(word)
    return [shown[begin:end] for begin, end in pairwise([0, *places[1:], len(shown)])] if places else []
