"""Reasons for verdicts: a fixed list. The journal holds their numbers, which never change their meaning."""

from enum import IntEnum

from index import Verdict


class Reason(IntEnum):
    """The streamer's knowledge about a record before it asks the index, and about new versions of a page."""

    ORDINARY = 0
    NO_FEATURES = 1
    SHORT_TEXT = 2
    RECRAWLED = 3
    RECRAWLED_SHORT_TEXT = 4
    UPDATE_MINOR = 5
    UPDATE_MINOR_SHORT_TEXT = 6
    SAME_TEXT = 7
    CRAFTED = 8
    RECRAWLED_CRAFTED = 9
    TOMBSTONE = 16
    TOO_LARGE = 17
    NOT_UTF_8 = 18
    NOT_JSON = 19
    NESTED_TOO_DEEP = 20
    NO_TEXT = 21
    TEXT_NOT_STRING = 22
    UNREADABLE = 23
    POISON = 24
    NOT_OF_REGISTRY = 25
    SCHEMA_UNKNOWN = 26
    NOT_AVRO = 27


AS_NEW = {
    Reason.ORDINARY: Reason.RECRAWLED,
    Reason.SHORT_TEXT: Reason.RECRAWLED_SHORT_TEXT,
    Reason.CRAFTED: Reason.RECRAWLED_CRAFTED,
}
"""Reason for a new version that is unique next to the old one, by the reason of its fingerprint."""

_COMPARED = (Verdict.UNIQUE, Verdict.DUPLICATE, Verdict.UPDATE, Verdict.SUSPECT, Verdict.UNDECIDABLE)
MINOR = {
    Reason.ORDINARY: Reason.UPDATE_MINOR,
    Reason.SHORT_TEXT: Reason.UPDATE_MINOR_SHORT_TEXT,
    Reason.CRAFTED: Reason.UPDATE_MINOR,
}
"""Reason for a new version with unchanged substance, by the reason of its fingerprint."""

SAME = {Reason.ORDINARY: Reason.SAME_TEXT}
"""Reason for a duplicate with its original's text, by the reason of its fingerprint."""


def _hyphenated(reason: Reason) -> str:
    return reason.name.lower().replace("_", "-")


_LABELS = {
    (Verdict.UNIQUE, Reason.ORDINARY): "no-match",
    (Verdict.DUPLICATE, Reason.ORDINARY): "similar",
    (Verdict.DUPLICATE, Reason.SAME_TEXT): "same-text",
    (Verdict.TEMPLATE, Reason.ORDINARY): "template",
    (Verdict.UNIQUE, Reason.SHORT_TEXT): "short-text-new",
    (Verdict.DUPLICATE, Reason.SHORT_TEXT): "short-text-same",
    (Verdict.UNDECIDABLE, Reason.NO_FEATURES): "no-features",
    **{(verdict, Reason.CRAFTED): "crafted" for verdict in _COMPARED},
    (Verdict.TEMPLATE, Reason.CRAFTED): "crafted-template",
    (Verdict.UNIQUE, Reason.RECRAWLED): "recrawled",
    (Verdict.UNIQUE, Reason.RECRAWLED_SHORT_TEXT): "short-text-recrawled",
    (Verdict.UNIQUE, Reason.RECRAWLED_CRAFTED): "crafted-recrawled",
    (Verdict.UPDATE, Reason.ORDINARY): "recrawled",
    (Verdict.UPDATE, Reason.SHORT_TEXT): "short-text-recrawled",
    **{
        (verdict, reason): _hyphenated(reason)
        for verdict in (Verdict.DUPLICATE, Verdict.UPDATE, Verdict.UNIQUE)
        for reason in (Reason.UPDATE_MINOR, Reason.UPDATE_MINOR_SHORT_TEXT)
    },
    (Verdict.SUSPECT, Reason.ORDINARY): "host-beyond-limits",
    (Verdict.GIVEN_BACK, Reason.ORDINARY): "given-back",
    **{(Verdict.DEAD_LETTER, reason): _hyphenated(reason) for reason in Reason if reason >= Reason.TOMBSTONE},
}

_VERDICTS = {(verdict.label, text): verdict for (verdict, _), text in _LABELS.items()}
_BY_LABEL = {verdict.label: verdict for verdict in reversed(Verdict)}


def label(verdict: Verdict, reason: Reason) -> str:
    """Label of a reason in headers, verdict lines, logs and metrics: lower case, words joined by hyphens.

    Raises KeyError for a pair that cannot occur. The list is closed, because every label is a metric that starts at zero.
    """
    return _LABELS[verdict, reason]


def verdict_of(verdict: str, reason: str) -> Verdict | None:
    """Verdict for these labels; None if the first is none. Only the reason separates a TEMPLATE from a UNIQUE."""
    return _VERDICTS.get((verdict, reason), _BY_LABEL.get(verdict))


def labels() -> list[tuple[str, str]]:
    """Every (verdict, reason) pair that the service can decide, as labels. The metrics start each of them at zero."""
    return [(verdict.label, text) for (verdict, _), text in _LABELS.items() if verdict is not Verdict.GIVEN_BACK]
