"""Word differences between two texts, in context."""

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
"""Longer changes show only their ends."""
CHANGES_MAX = 3
"""Maximum shown changes."""

_AFTER_WORD = re.compile(r"\W*\Z")
_AFTER_SENTENCE = re.compile(r"\s*\Z")
_OPENING = {"Ps", "Pi"}


@dataclass(frozen=True, slots=True)
class Span:
    """Adjacent words with one kind: `same`, `removed`, `added`, or `gap` for omitted words."""

    kind: str
    text: str


def compare(before: str, after: str) -> tuple[list[Span], int]:
    """Word changes between two texts in context, and how many are hidden.

    >>> [(span.kind, span.text) for span in compare("the old harbour", "the new harbour")[0]]
    [('same', 'the '), ('removed', 'old'), ('added', 'new'), ('same', ' '), ('same', 'harbour')]
    """
    defaults = Fingerprint()
    old_words, new_words = words([before, after], defaults.segmenter, defaults.character_shingle_size)
    old, new = _as_written(before, old_words), _as_written(after, new_words)
    steps = SequenceMatcher(None, old_words, new_words, autojunk=False).get_opcodes()
    shown = [step for step in steps if step[0] != "equal"][:CHANGES_MAX]
    hidden = sum(step[0] != "equal" for step in steps) - len(shown)
    if not shown:
        return [], 0
    steps = steps[: steps.index(shown[-1]) + 2]
    spans: list[Span] = []
    for number, (kind, old_begin, old_end, new_begin, new_end) in enumerate(steps):
        if kind == "equal":
            written = new[new_begin:new_end]
            if old[old_end - 1].endswith(" ") and not written[-1].endswith(" "):
                # The new text ends here, and removed words follow.
                written[-1] += " "
            spans += _context(written, first=number == 0, last=number == len(steps) - 1)
            continue
        spans += _change(_shortened(old[old_begin:old_end]), _shortened(new[new_begin:new_end]))
    return spans, hidden


def _change(removed: str, added: str) -> list[Span]:
    pattern = _AFTER_WORD if removed and added else _AFTER_SENTENCE
    ending = pattern.search(added or removed)
    assert ending
    spans = [Span("removed", pattern.sub("", removed)), Span("added", pattern.sub("", added))]
    return [*(span for span in spans if span.text), Span("same", ending[0])]


def _context(written: Sequence[str], *, first: bool, last: bool) -> list[Span]:
    head = 0 if first else CONTEXT_WORDS
    tail = 0 if last else CONTEXT_WORDS
    if len(written) <= head + tail:
        return [Span("same", "".join(written))]
    spans = [Span("same", "".join(written[:head])), Span("gap", "…")]
    return [*spans, Span("same", "".join(written[len(written) - tail :]))]


def _shortened(written: Sequence[str]) -> str:
    if len(written) <= RUN_WORDS_MAX:
        return "".join(written)
    half = RUN_WORDS_MAX // 2
    begin, end = "".join(written[:half]).rstrip(), "".join(written[-half:])
    return f"{begin} … {len(written) - RUN_WORDS_MAX} more … {end}"


def _as_written(text: str, text_words: Sequence[str]) -> list[str]:
    """Words with the characters after them; joined, they equal the text with collapsed white space."""
    normal = normalise(text)
    shown = " ".join(text.split())
    if len(shown) != len(normal):
        shown = normal
    places: list[int] = []
    at = 0
    for word in text_words:
        previous_end, at = at, max(normal.find(word, at), at)
        begin = at
        while begin > previous_end and unicodedata.category(shown[begin - 1]) in _OPENING:
            begin -= 1
        places.append(begin)
        at += len(word)
    return [shown[begin:end] for begin, end in pairwise([0, *places[1:], len(shown)])] if places else []
