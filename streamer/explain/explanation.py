"""Why a record was decided as it was, as plain values: the command line, the HTTP port and a page show the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from index import Decided, Position, Standing
from streamer.explain.positions import time_text


@dataclass(frozen=True, slots=True)
class Likeness:
    """How alike two documents are, by what the index compares; None where it does not compare by that.

    similarity  estimated Jaccard similarity, or with metadata that of texts and metadata together
    distance    bits in which their fingerprints differ
    cosine      of their feature weights, by which a second look judges
    """

    similarity: float | None = None
    distance: int | None = None
    cosine: float | None = None

    def as_json(self) -> dict[str, float]:
        """What is known of it."""
        found = {"similarity": self.similarity, "distance": self.distance, "cosine": self.cosine}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Rule:
    """A setting that had a say.

    setting   section.key
    value     as people write it
    of_index  whether the index is stamped with the value; else it is that of the settings in force
    meaning   what the setting does
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
    """A document on the way from a decision to what was kept: the original, and what that one resembled itself.

    role      what it is to the document before: "original", "older version" that was replaced, or "lookalike"
    decided   the decision on it; None where the index knows it no more
    likeness  to its own original; None where it has none
    standing  whether it still counts; None where that is not known, or it entered nothing
    note      what follows from its standing, in words; empty where nothing does
    """

    id: str
    position: Position
    where: str
    decided: Decided | None
    verdict: str | None
    reason: str | None
    likeness: Likeness | None
    standing: Standing | None
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

    relation  "original"; "member", which resembles the same original; "copy", whose original the record is; or "other"
    later     whether it came after the record
    why_not   why it would not make the record a duplicate, in words; empty where it would
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
    """Neighbouring words of one kind: `same`, `differing`, or `gap` for words left out."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Side:
    """The text of one document.

    missing     why the text cannot be shown; empty where it can
    characters  length of the text; what `spans` leave out is marked by gaps
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
    """The words that differ.

    other    the document compared with; None where there is none
    role     what the other one is: as of a `Link`, or "nearest"
    changes  places where their words differ; None where they were not compared
    hidden   changes that are not shown
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
    """One decision, and why it fell so.

    decided      what the index knows of it
    where        position as people write it: name/partition/offset
    verdict      label, as headers and verdict lines have it; so is `reason`
    sentence     what became of the record, and why
    likeness     to the original, or to the match that the index measured; None where there is none
    measure      what that likeness says beside the settings, in words; empty where there is none
    rules        the settings that spoke, the first one first
    chain        the document that the verdict names, as an original mostly, then what that one named itself, and so on
    near         what is near now, the nearest first; None: not known, as the fingerprint is not (see `notes`)
    fingerprint  in hexadecimal; None where it is not known
    standing     whether the record's own entry still counts; None where it entered nothing
    notes        what else a reader has to know: what follows from its standing, what is not known and why
    texts        None where texts were not asked for
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
    standing: Standing | None = None
    notes: tuple[str, ...] = ()
    texts: Texts | None = None

    @property
    def original(self) -> Link | None:
        """The document that the verdict names; None where it names none."""
        return self.chain[0] if self.chain else None

    def as_json(self) -> dict[str, Any]:
        """For machines. `texts` stands there only where they were asked for."""
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
    """All that is told of what was asked for.

    asked         an id, or a position
    explanations  decisions, newest first
    left_out      further, older decisions
    problem       why nothing is known of it; empty where something is
    no_texts      why no texts could be read; empty where they could, or were not asked for
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
