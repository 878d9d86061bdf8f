"""The answer for one document. Pure."""

from dataclasses import dataclass, fields
from typing import Any

from streamer.records.record import Decision, Destination
from streamer.records.route import DESTINATIONS


@dataclass(frozen=True, slots=True)
class Answer:
    """The filter's decision on one document; docs/headers.md explains verdicts and reasons.

    >>> Answer(id="a", verdict="unique", reason="no-match", kept=True).original_id is None
    True

    kept               whether the unique output gets the document
    similarity         to the original, 0 to 1, if the index measures it
    distance           to the original in bits, if the index measures it
    relation           to the original: same, edited, shorter, longer or contained
    length_ratio       the document's length divided by the original's
    new_share          estimated share of its text that the original lacks, if the index measures it
    original_position  name/partition/offset
    detail             what is wrong with a dead letter, for people
    replayed           whether an earlier call decided this position
    """

    id: str | None
    verdict: str
    reason: str
    kept: bool
    similarity: float | None = None
    distance: int | None = None
    relation: str | None = None
    length_ratio: float | None = None
    new_share: float | None = None
    original_id: str | None = None
    original_position: str | None = None
    detail: str | None = None
    replayed: bool = False


def answer_of(decision: Decision, position: str) -> Answer:
    """Answer for a decision; without an id, it has the document's `position` as its id."""
    shown: dict[str, Any] = {field.name: getattr(decision, field.name, None) for field in fields(Answer)}
    shown["id"] = None if decision.id == position else decision.id
    shown |= {"length_ratio": decision.length, "new_share": decision.new}
    shown |= {"verdict": decision.verdict.label, "kept": DESTINATIONS[decision.verdict] is Destination.UNIQUE}
    return Answer(**shown)
