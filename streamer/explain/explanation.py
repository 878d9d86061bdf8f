"""Explanations as plain values for the command line, the HTTP port and the page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from index import Decided, EntryState, Position
from streamer.explain.positions import time_text


@dataclass(frozen=True, slots=True)
class Likeness:
    """Likeness between two documents by the index's measures.

    similarity  estimated Jaccard similarity, by texts and any compared metadata
    distance    differing bits of the fingerprints
    cosine      of feature weights, by a second look

    >>> Likeness(similarity=0.9).as_json()
    {'similarity': 0.9}
    """

    similarity: float | None = None
    distance: int | None = None
    cosine: float | None = None

    def as_json(self) -> dict[str, float]:
        """The known measures."""
        found = {"similarity": self.similarity, "distance": self.distance, "cosine": self.cosine}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Rule:
    """A setting that took part in a decision.

    value     as people write it
    of_index  whether it is from the index's stamp, not the current settings
    meaning   its effect
    """

    setting: str
    value: str
    of_index: bool
    meaning: str

    def as_json(self) -> dict[str, str]:
        """For machines."""
        place = "index" if self.of_index else "settings"
        return {"setting": self.setting, "value": self.value, "from": place, "meaning": self.meaning}


@dataclass(frozen=True, slots=True)
class Link:
    """A document between a decision and the kept document: the original, then its own match.

    role      relation to the previous document: "original", "older version" that was replaced, or "lookalike"
    decided   None if unknown to the index
    likeness  to its own original
    standing  whether it still counts; None if unknown, or it entered nothing
    note      its standing's consequence
    """

    id: str
    position: Position
    where: str
    decided: Decided | None
    verdict: str | None
    reason: str | None
    likeness: Likeness | None
    standing: EntryState | None
    note: str
    role: str = "original"

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "role": self.role,
            "id": self.id,
            "position": self.where,
            "stream": self.position.source.stream,
            "time": None if self.decided is None else time_text(self.decided.time_ms),
            "verdict": self.verdict,
            "reason": self.reason,
            **({} if self.likeness is None else self.likeness.as_json()),
            "standing": self.standing,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Near:
    """An entry that is near now.

    relation  "original"; "member" with the same original; "copy", whose original is the record; or "other"
    later     whether it came after the record
    why_not   why the record is no duplicate by it, in words; empty if it is
    """

    id: str
    position: Position
    where: str
    time_ms: int
    likeness: Likeness
    relation: str
    later: bool
    why_not: str

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "id": self.id,
            "position": self.where,
            "stream": self.position.source.stream,
            "time": time_text(self.time_ms),
            **self.likeness.as_json(),
            "relation": self.relation,
            "later": self.later,
            "why_not": self.why_not,
        }


@dataclass(frozen=True, slots=True)
class Span:
    """Neighbouring words of one kind: `same`, `differing`, or `gap` for omitted ones."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Side:
    """One document's text.

    missing     why there is no text
    characters  the text's length; gaps mark the parts that `spans` omit
    """

    id: str
    where: str
    title: str = ""
    characters: int = 0
    spans: tuple[Span, ...] = ()
    missing: str = ""

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "id": self.id,
            "position": self.where,
            "title": self.title,
            "characters": self.characters,
            "spans": [[span.kind, span.text] for span in self.spans],
            "missing": self.missing,
        }


@dataclass(frozen=True, slots=True)
class Texts:
    """Differing words.

    role     the other document's relation: as in a `Link`, or "nearest"
    changes  number of differing places; None if not compared
    hidden   number of omitted changes
    """

    own: Side
    other: Side | None = None
    role: str = "original"
    changes: int | None = None
    hidden: int = 0

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "own": self.own.as_json(),
            "other": None if self.other is None else {"role": self.role, **self.other.as_json()},
            "changes": self.changes,
            "hidden": self.hidden,
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """One decision and its causes.

    decided      the index's data on it
    where        name/partition/offset
    verdict      label, as in headers; `reason` likewise
    sentence     the record's fate and its cause
    likeness     to the original, or to the measured match
    measure      that likeness compared with the settings
    rules        settings that took part, in order of weight
    chain        the named document, then that document's own, and so on
    near         the nearest first; None without a known fingerprint
    fingerprint  in hexadecimal
    standing     whether its own entry still counts; None if it entered nothing
    notes        its standing's consequences, and unknown facts with reasons
    texts        None unless requested
    """

    decided: Decided
    where: str
    verdict: str
    reason: str
    sentence: str
    likeness: Likeness | None = None
    measure: str = ""
    rules: tuple[Rule, ...] = ()
    chain: tuple[Link, ...] = ()
    near: tuple[Near, ...] | None = None
    fingerprint: str | None = None
    standing: EntryState | None = None
    notes: tuple[str, ...] = ()
    texts: Texts | None = None

    @property
    def original(self) -> Link | None:
        """The document that the verdict names, if any."""
        return self.chain[0] if self.chain else None

    def as_json(self) -> dict[str, Any]:
        """For machines; `texts` only if requested."""
        return {
            "id": self.decided.id,
            "position": self.where,
            "stream": self.decided.position.source.stream,
            "time": time_text(self.decided.time_ms),
            "verdict": self.verdict,
            "reason": self.reason,
            "sentence": self.sentence,
            **({} if self.likeness is None else self.likeness.as_json()),
            "measure": self.measure,
            "original": None if self.original is None else self.original.as_json(),
            "chain": [link.as_json() for link in self.chain],
            "near": None if self.near is None else [each.as_json() for each in self.near],
            "rules": [rule.as_json() for rule in self.rules],
            "fingerprint": self.fingerprint,
            "standing": self.standing,
            "notes": list(self.notes),
            **({} if self.texts is None else {"texts": self.texts.as_json()}),
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to a question.

    asked         an id, or a position
    explanations  decisions, newest first
    left_out      omitted older decisions
    problem       why nothing is known
    no_texts      why requested texts are missing
    """

    asked: str
    explanations: Sequence[Explanation]
    left_out: int = 0
    problem: str = ""
    no_texts: str = ""

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "asked": self.asked,
            "decisions": [each.as_json() for each in self.explanations],
            "left_out": self.left_out,
            "problem": self.problem,
            "no_texts": self.no_texts,
        }
