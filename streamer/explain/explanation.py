"""Explanations as plain values for the command line, the HTTP port and the page."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from index import Decided, EntryState, Parameters, Position, minhash
from streamer.explain.positions import place_as_json


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
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}


def likeness_of(distance: int | None, parameters: Parameters) -> Likeness | None:
    """Likeness for a decision's distance, if any."""
    if distance is None:
        return None
    if parameters.by_similarity:
        return Likeness(similarity=minhash.similarity_of(distance))
    return Likeness(distance=distance)


@dataclass(frozen=True, slots=True)
class Rule:
    """A setting that took part in a decision.

    value    as people write it
    from_    "index" if it is from the index's stamp, not the current settings
    meaning  its effect

    >>> as_json(Rule("decode.format", "json", "settings", "Format of a record."))["from"]
    'settings'
    """

    setting: str
    value: str
    from_: Literal["index", "settings"]
    meaning: str


@dataclass(frozen=True, slots=True)
class Place:
    """A record with its position, which is name/partition/offset in `where`.

    >>> from index import Source
    >>> Place("a", Position(Source("stream", 0), 7), "news/0/7", 0).where
    'news/0/7'
    """

    id: str
    position: Position
    where: str
    time_ms: int


@dataclass(frozen=True, slots=True)
class Link(Place):
    """A document between a decision and the kept document: the original, then its own match.

    decided   None if unknown to the index
    likeness  to its own original
    standing  whether it still counts; None if unknown, or it entered nothing
    note      its standing's consequence
    role      relation to the previous document: "original", "older version" that was replaced, or "lookalike"

    >>> from index import Source
    >>> at = Position(Source("stream", 0), 7)
    >>> link = Link("a", at, "news/0/7", 0, decided=None, role="older version", note="it was replaced")
    >>> Explanation("a", at, "news/0/9", 0, None, "update", "new-version", "Its text changed.", chain=(link,)).original.note
    'it was replaced'
    """

    decided: Decided | None
    verdict: str | None = None
    reason: str | None = None
    likeness: Likeness | None = None
    standing: EntryState | None = None
    note: str = ""
    role: str = "original"


@dataclass(frozen=True, slots=True)
class Near(Place):
    """An entry that is near now.

    relation  "original"; "member" with the same original; "copy", whose original is the record; or "other"
    later     whether it came after the record
    why_not   why the record is no duplicate by it, in words; empty if it is

    >>> from index import Source
    >>> at = Position(Source("stream", 0), 7)
    >>> near = Near("a", at, "news/0/7", 0, Likeness(similarity=0.6), "other", later=False, why_not=".6 similar, below .7")
    >>> near.why_not or "it makes the record a duplicate"
    '.6 similar, below .7'
    """

    likeness: Likeness
    relation: str
    later: bool
    why_not: str


class Span(NamedTuple):
    """Neighbouring words of one kind: `same`, `differing`, or `gap` for omitted ones.

    >>> Span("same", "a rose is ").kind
    'same'
    """

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Side:
    """One document's text.

    position    as text
    role        the document's relation: as in a `Link`, or "nearest"
    missing     why there is no text
    characters  the text's length; gaps mark the parts that `spans` omit

    >>> as_json(Side("a", "news/0/7", spans=(Span("same", "a rose"),)))["spans"]
    [['same', 'a rose']]
    """

    id: str
    position: str
    role: str = "this one"
    title: str = ""
    characters: int = 0
    spans: tuple[Span, ...] = ()
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Texts:
    """Differing words.

    changes  number of differing places; None if not compared
    hidden   number of omitted changes

    >>> Texts(Side("a", "news/0/7", missing="it was deleted")).changes is None
    True
    """

    own: Side
    other: Side | None = None
    changes: int | None = None
    hidden: int = 0


@dataclass(frozen=True, slots=True)
class Protected:
    """An entry in a protected set that the document resembles.

    set_   the set's name
    texts  this document's and the entry's; None unless requested

    >>> as_json(Protected("evaluation", "q17", Likeness(similarity=0.9)))["set"]
    'evaluation'
    """

    set_: str
    id: str
    likeness: Likeness
    texts: Texts | None = None


@dataclass(frozen=True, slots=True)
class Explanation(Place):
    """One decision and its causes.

    decided      the index's data on it
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
    protected    what it resembles now in protected sets. None unless sets were asked, with its fingerprint
    story        its story as JSON; None if the index counts none, or has no duplicate

    >>> from index import Source
    >>> at = Position(Source("stream", 0), 7)
    >>> Explanation("a", at, "news/0/7", 0, None, "unique", "no-match", "Nothing resembles it.").original is None
    True
    """

    decided: Decided
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
    protected: tuple[Protected, ...] | None = None
    story: Mapping[str, Any] | None = None

    @property
    def original(self) -> Link | None:
        """The document that the verdict names, if any."""
        return self.chain[0] if self.chain else None


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to a question.

    asked         an id, or a position
    explanations  decisions, newest first
    left_out      omitted older decisions
    problem       why nothing is known
    no_texts      why requested texts are missing

    >>> Answer("news/0/7", [], problem="not decided yet").as_json()["decisions"]
    []
    """

    asked: str
    explanations: Sequence[Explanation]
    left_out: int = 0
    problem: str = ""
    no_texts: str = ""

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        decisions = [{**as_json(each), "original": as_json(each.original)} for each in self.explanations]
        return {
            "asked": self.asked,
            "decisions": decisions,
            "left_out": self.left_out,
            "problem": self.problem,
            "no_texts": self.no_texts,
        }


_SHOWN_IN_PLACE = {field.name for field in dataclasses.fields(Place)} | {"decided", "likeness"}


def as_json(shown: Any) -> Any:
    """Any value above for machines: its fields by name, and its known measures. Texts only if requested."""
    if isinstance(shown, tuple):
        return [as_json(each) for each in shown]
    if not dataclasses.is_dataclass(shown):
        return shown
    values = {field.name: getattr(shown, field.name) for field in dataclasses.fields(shown)}
    if not isinstance(shown, Place):
        return {name.rstrip("_"): as_json(value) for name, value in values.items()}
    likeness = values["likeness"] or Likeness()
    place = place_as_json(shown.id, shown.position, shown.where, shown.time_ms) | likeness.as_json()
    hidden = _SHOWN_IN_PLACE if values.get("texts") else _SHOWN_IN_PLACE | {"texts"}
    return place | {name: as_json(value) for name, value in values.items() if name not in hidden}
