"""The answer for one document. Pure."""

from dataclasses import dataclass, fields
from typing import Any

from index import Verdict
from streamer.records.record import Decision, Destination, ProtectedMatch
from streamer.records.route import DESTINATIONS


@dataclass(frozen=True, slots=True)
class Answer:
    """The filter's decision on one document; docs/headers.md explains verdicts and reasons.

    >>> Answer(id="a", verdict="unique", reason="no-match", kept=True).original_id is None
    True

    kept               whether the document is to be kept: all but duplicates. What cannot be read is kept too, with a `problem`
    similarity         to the original, 0 to 1, if the index measures it
    distance           to the original in bits, if the index measures it
    relation           to the original: same, edited, shorter, longer or contained
    length_ratio       the document's length divided by the original's
    new_share          estimated share of its text that the original lacks, if the index measures it
    original_position  name/partition/offset
    base               the base set that has the original, by name
    protected          what it resembles in protected sets, which decides nothing
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
    base: str | None = None
    protected: tuple[ProtectedMatch, ...] = ()
    detail: str | None = None
    replayed: bool = False

    @property
    def problem(self) -> str | None:
        """Why the document could not be read, with the reason's name; None if it could.

        >>> Answer(None, "dead-letter", "no-text", kept=True, detail="there is no text at /text").problem
        'no-text: there is no text at /text'
        """
        if self.verdict != Verdict.DEAD_LETTER.label:
            return None
        return self.reason if self.detail is None else f"{self.reason}: {self.detail}"


def answer_of(decision: Decision, position: str) -> Answer:
    """Answer for a decision; without an id, it has the document's `position` as its id."""
    shown: dict[str, Any] = {field.name: getattr(decision, field.name, None) for field in fields(Answer)}
    shown["id"] = None if decision.id == position else decision.id
    shown |= {"length_ratio": decision.length, "new_share": decision.new}
    shown |= {"verdict": decision.verdict.label, "kept": DESTINATIONS[decision.verdict] is not Destination.DUPLICATE}
    return Answer(**shown)
