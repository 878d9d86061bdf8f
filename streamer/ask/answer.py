"""Answer: what the filter says of one document, for whoever asked. Pure."""

from dataclasses import dataclass

from streamer.records.record import Decision, Destination
from streamer.records.route import DESTINATIONS


@dataclass(frozen=True, slots=True)
class Answer:
    """What the filter says of one document; docs/headers.md explains verdicts and reasons.

    id                 the document's own, None where it has none
    verdict            `unique`, `duplicate`, `update`, `suspect`, `undecidable`, `dead-letter`, or a later one of docs/headers.md
    reason             one of a fixed list
    kept               whether a filter passes the document on to the unique output
    similarity         of a document that names an original: 0 to 1, where the index measures similarity; else None
    distance           the same in bits, where the index measures distance; else None
    original_id        id of the document that it resembles; None where it resembles none
    original_position  where that document stood, as name/partition/offset
    detail             of a dead letter: what is wrong with the document, for people
    replayed           whether an earlier call decided the same position, and this is what it said
    """

    id: str | None
    verdict: str
    reason: str
    kept: bool
    similarity: float | None = None
    distance: int | None = None
    original_id: str | None = None
    original_position: str | None = None
    detail: str | None = None
    replayed: bool = False


def answer_of(decision: Decision, position: str) -> Answer:
    """Answer for a decision. `position` is the document's own, which stands for an id where there is none."""
    return Answer(
        id=None if decision.id == position else decision.id,
        verdict=decision.verdict.label,
        reason=decision.reason,
        kept=DESTINATIONS[decision.verdict] is Destination.UNIQUE,
        similarity=decision.similarity,
        distance=decision.distance,
        original_id=decision.original_id,
        original_position=decision.original_position,
        detail=decision.detail,
        replayed=decision.replayed,
    )
