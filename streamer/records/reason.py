"""Why a record got its verdict: a fixed list. The numbers stand in the journal and never change their meaning."""

from enum import IntEnum

from index.entry import Verdict


class Reason(IntEnum):
    """What the streamer knew before the index was asked."""

    ORDINARY = 0
    NO_FEATURES = 1
    SHORT_TEXT = 2
    TOMBSTONE = 16
    TOO_LARGE = 17
    NOT_UTF_8 = 18
    NOT_JSON = 19
    NESTED_TOO_DEEP = 20
    NO_TEXT = 21
    TEXT_NOT_STRING = 22


_LABELS = {
    (Verdict.UNIQUE, Reason.ORDINARY): "no-match",
    (Verdict.DUPLICATE, Reason.ORDINARY): "similar",
    (Verdict.UNIQUE, Reason.SHORT_TEXT): "short-text-new",
    (Verdict.DUPLICATE, Reason.SHORT_TEXT): "short-text-same",
    (Verdict.UNDECIDABLE, Reason.NO_FEATURES): "no-features",
    (Verdict.DEAD_LETTER, Reason.TOMBSTONE): "tombstone",
    (Verdict.DEAD_LETTER, Reason.TOO_LARGE): "too-large",
    (Verdict.DEAD_LETTER, Reason.NOT_UTF_8): "not-utf-8",
    (Verdict.DEAD_LETTER, Reason.NOT_JSON): "not-json",
    (Verdict.DEAD_LETTER, Reason.NESTED_TOO_DEEP): "nested-too-deep",
    (Verdict.DEAD_LETTER, Reason.NO_TEXT): "no-text",
    (Verdict.DEAD_LETTER, Reason.TEXT_NOT_STRING): "text-not-string",
}


def label(verdict: Verdict, reason: Reason) -> str:
    """The reason as headers, verdict lines, logs and metrics print it: lower case, words joined by hyphens.

    Raises KeyError for a pair that cannot occur: the list is closed, for every label is a metric that starts at zero.
    """
    return _LABELS[verdict, reason]


def labels() -> list[tuple[str, str]]:
    """Every (verdict, reason) pair that can occur, as labels: the metrics start all of them at zero."""
    return [(verdict.label, text) for (verdict, _), text in _LABELS.items()]
