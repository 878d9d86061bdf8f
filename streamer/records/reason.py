"""Reasons for verdicts: a fixed list. The journal holds their numbers, so each keeps its meaning for ever."""

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING

from index import Verdict

if TYPE_CHECKING:
    from index import Recrawl, RecrawlPolicy


class Reason(IntEnum):
    """The streamer's knowledge about a record before the index decides, and about new versions of a page.

    >>> label(Verdict.UNIQUE, Reason.ORDINARY)
    'no-match'
    """

    # 3, 4 and 9 are taken: versions that earlier programs kept next to their older ones, of ordinary, short and crafted texts.
    ORDINARY = 0
    NO_FEATURES = 1
    SHORT_TEXT = 2
    UPDATE_MINOR = 5
    UPDATE_MINOR_SHORT_TEXT = 6
    SAME_TEXT = 7
    CRAFTED = 8
    OTHER_TEXT = 10
    SHARED_ID = 11
    RETURNED = 12
    RETURNED_SHORT_TEXT = 13
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

    @classmethod
    def _missing_(cls, value: object) -> "Reason | None":
        return {3: cls.ORDINARY, 4: cls.SHORT_TEXT, 9: cls.CRAFTED}.get(value) if isinstance(value, int) else None


_COMPARED = (
    *(Verdict.UNIQUE, Verdict.DUPLICATE, Verdict.UPDATE, Verdict.SUSPECT, Verdict.EXTENDS),
    Verdict.UNDECIDABLE,
)
MINOR = {
    Reason.ORDINARY: Reason.UPDATE_MINOR,
    Reason.SHORT_TEXT: Reason.UPDATE_MINOR_SHORT_TEXT,
    Reason.CRAFTED: Reason.UPDATE_MINOR,
}
"""A new version with unchanged substance: its reason, by the fingerprint's."""

RETURNED = {
    Reason.ORDINARY: Reason.RETURNED,
    Reason.SHORT_TEXT: Reason.RETURNED_SHORT_TEXT,
    Reason.CRAFTED: Reason.RETURNED,
}
"""A version that has returned to an earlier text of its page too often: its reason, by the fingerprint's."""

OTHER = {Reason.ORDINARY: Reason.OTHER_TEXT}
"""An update with nothing in common with the text before: its reason, by the fingerprint's."""

SHARED = {Reason.ORDINARY: Reason.SHARED_ID}
"""A unique document whose id many documents share: its reason, by the fingerprint's."""

SAME = {Reason.ORDINARY: Reason.SAME_TEXT}
"""A duplicate with its original's text: its reason, by the fingerprint's."""


EQUAL_REASONS: Mapping[int, int] = {int(came): int(decided) for came, decided in SAME.items()}
"""`SAME`, as an index takes it."""


def recrawl_by(policy: "RecrawlPolicy") -> "Recrawl":
    """This policy for pages crawled again, with the reasons above.

    >>> recrawl_by("update").other_reasons[Reason.ORDINARY] == Reason.OTHER_TEXT
    True
    """
    # A supervisor knows reasons, and loads nothing that opens an index.
    from index import Recrawl

    tables = ({int(came): int(decided) for came, decided in each.items()} for each in (MINOR, RETURNED, OTHER, SHARED))
    return Recrawl(policy, *tables)


def _hyphenated(reason: Reason) -> str:
    return reason.name.lower().replace("_", "-")


_LABELS = {
    (Verdict.UNIQUE, Reason.ORDINARY): "no-match",
    (Verdict.UNIQUE, Reason.SHARED_ID): "shared-id",
    (Verdict.DUPLICATE, Reason.ORDINARY): "similar",
    (Verdict.DUPLICATE, Reason.SAME_TEXT): "same-text",
    (Verdict.TEMPLATE, Reason.ORDINARY): "template",
    (Verdict.UNIQUE, Reason.SHORT_TEXT): "short-text-new",
    (Verdict.DUPLICATE, Reason.SHORT_TEXT): "short-text-same",
    (Verdict.UNDECIDABLE, Reason.NO_FEATURES): "no-features",
    **{(verdict, Reason.CRAFTED): "crafted" for verdict in _COMPARED},
    (Verdict.TEMPLATE, Reason.CRAFTED): "crafted-template",
    (Verdict.UPDATE, Reason.ORDINARY): "recrawled",
    (Verdict.UPDATE, Reason.OTHER_TEXT): "other-text",
    (Verdict.UPDATE, Reason.SHORT_TEXT): "short-text-recrawled",
    (Verdict.DUPLICATE, Reason.UPDATE_MINOR): "update-minor",
    (Verdict.DUPLICATE, Reason.UPDATE_MINOR_SHORT_TEXT): "update-minor-short-text",
    (Verdict.DUPLICATE, Reason.RETURNED): "returned",
    (Verdict.DUPLICATE, Reason.RETURNED_SHORT_TEXT): "returned-short-text",
    (Verdict.SUSPECT, Reason.ORDINARY): "host-beyond-limits",
    (Verdict.EXTENDS, Reason.ORDINARY): "longer",
    (Verdict.ADDS, Reason.ORDINARY): "new-text",
    (Verdict.ADDS, Reason.CRAFTED): "crafted-new-text",
    (Verdict.GIVEN_BACK, Reason.ORDINARY): "given-back",
    **{(Verdict.DEAD_LETTER, reason): _hyphenated(reason) for reason in Reason if reason >= Reason.TOMBSTONE},
}

_FORMER = {
    (verdict, minor): own for verdict in (Verdict.UNIQUE, Verdict.UPDATE) for own, minor in reversed(MINOR.items())
}
"""Minor versions that earlier programs could keep: the reason that they have now."""

_VERDICTS = {(verdict.label, text): verdict for (verdict, _), text in _LABELS.items()}
_BY_LABEL = {verdict.label: verdict for verdict in reversed(Verdict)}


def label(verdict: Verdict, reason: Reason) -> str:
    """Label in headers, verdict lines, logs and metrics: lower case, words joined by hyphens.

    Metrics start every label at zero, so the list is closed: an impossible pair raises KeyError.
    """
    return _LABELS[verdict, _FORMER.get((verdict, reason), reason)]


def verdict_of(verdict: str, reason: str) -> Verdict | None:
    """Verdict for two labels; None if the first is none.

    Only the reason separates a TEMPLATE from a UNIQUE, and an ADDS from an EXTENDS.
    """
    return _VERDICTS.get((verdict, reason), _BY_LABEL.get(verdict))


def labels() -> list[tuple[str, str]]:
    """Every (verdict, reason) label pair that the service can decide."""
    return [(verdict.label, text) for (verdict, _), text in _LABELS.items() if verdict is not Verdict.GIVEN_BACK]
