"""Why a record got its verdict, from the index; `texts` adds the words of the records."""

from collections.abc import Sequence
from dataclasses import replace

from index import Decided, Document, EntryState, Index, Kind, Position, Verdict, base_of
from streamer.explain.explanation import Answer, Explanation, Likeness, Link, Near, Protected, likeness_of
from streamer.explain.near import entry_without_frame, query_of, resembling
from streamer.explain.positions import position_text, positions_of
from streamer.explain.story import story_as_json
from streamer.explain.texts import with_texts
from streamer.explain.wording import deciding, measure_of, rules_of, wording_of
from streamer.protected.sets import ProtectedSets
from streamer.records.names import bounded_id
from streamer.records.reason import Reason, label
from streamer.settings.settings import Settings
from streamer.transports.output_log import RecordsAt
from streamer.transports.transport import NO_TIMESTAMP_MS

DECISIONS_MAX = 10
"""Decisions shown for an id by default."""

CHAIN_MAX = 16
"""Most originals after one decision."""

_FATES = {
    EntryState.COUNTS: "",
    EntryState.EXPIRED: "has expired: nothing is a duplicate of it any more",
    EntryState.FORGOTTEN: "was forgotten: nothing is a duplicate of it any more",
}

_NOT_ENTERED = {
    "unique": "It did not enter the index: only unique documents do (index.insert).",
    "root": "It did not enter the index: it is so near to its match that it would match nothing more.",
}


def explain(
    index: Index,
    settings: Settings,
    asked: str,
    *,
    limit: int | None = DECISIONS_MAX,
    over_files: bool = False,
    records_at: RecordsAt | None = None,
    full: bool = False,
    protected: ProtectedSets | None = None,
) -> Answer:
    """Every decision on an id, or the one on a position, newest first; `index` may be read-only. Raises IndexDamagedError.

    asked       an id; name/partition/offset; over files also name:line, with lines from 1
    limit       None: all
    records_at  reads records for their texts; None: no texts
    full        all of the texts, else excerpts around differing words
    protected   sets to ask what resembles a document: by its text, or without texts by its entry; None: no sets
    """
    positions = positions_of(asked, index.stream_names(), over_files=over_files)
    decisions = [*reversed(index.decided([bounded_id(asked)])), *(each for each in index.decided_at(positions) if each)]
    decisions = list({(each.position, each.verdict): each for each in decisions}.values())
    explanations = [_explanation(index, settings, each, protected) for each in decisions[:limit]]
    problem = "" if decisions else _problem(index, asked, positions)
    answer = Answer(asked, explanations, len(decisions) - len(explanations), problem)
    if records_at is None or not explanations:
        return answer
    return with_texts(answer, index, settings, records_at, full=full, protected=protected)


def _explanation(index: Index, settings: Settings, decided: Decided, sets: ProtectedSets | None) -> Explanation:
    parameters, names, entered = deciding(index.parameters, settings), index.stream_names(), decided.document
    verdict, reason = _labels(decided)
    wording = wording_of(verdict, reason)
    chain = _chain(index, decided)
    original = chain[0].decided.document if chain and chain[0].decided else None
    likeness = likeness_of(decided.distance, parameters)
    standing = fingerprint = None
    # A record that entered nothing, but has a fingerprint: its text is needed to know what is near.
    near: tuple[Near, ...] | None = None if decided.kind in (Kind.NEAR, Kind.EXACT) else ()
    if entered is not None:
        (standing,) = index.standings([entered.number])
        likeness, near, fingerprint = resembling(index, parameters, query_of(decided, entered, original))
    of_story = entered or original
    story = None if of_story is None else index.story(of_story.root)
    return Explanation(
        decided.id,
        decided.position,
        position_text(decided.position, names),
        decided.time_ms,
        decided,
        verdict,
        reason,
        wording.sentence,
        likeness,
        measure_of(wording.role if decided.verdict.names_original else None, likeness, parameters),
        rules_of(wording, settings, parameters, index.parameters),
        chain,
        near,
        fingerprint,
        standing,
        _notes(index, decided, standing),
        protected=_protected(sets, entered),
        story=None if story is None else story_as_json(story, names),
    )


def _protected(sets: ProtectedSets | None, entered: Document | None) -> tuple[Protected, ...] | None:
    """What an entered document resembles in protected sets, without texts."""
    if sets is None or not sets.names or entered is None:
        return None
    matches = (found.match for found in sets.found(entry_without_frame(entered)))
    return tuple(Protected(each.set_name, each.id, Likeness(each.similarity, each.distance)) for each in matches)


def _labels(decided: Decided) -> tuple[str, str]:
    return decided.verdict.label, label(decided.verdict, Reason(decided.reason))


def _chain(index: Index, decided: Decided) -> tuple[Link, ...]:
    """The original, then its own match, and so on. A retired root leaves duplicates as originals."""
    links: list[Link] = []
    names = index.stream_names()
    naming: Decided | None = decided
    while naming is not None and naming.original_position is not None and len(links) < CHAIN_MAX:
        at, id_ = naming.original_position, naming.original_id or ""
        role = wording_of(*_labels(naming)).role
        (naming,) = index.decided_at([at])
        links.append(_link(index, id_, at, position_text(at, names), naming, role))
        if index.are_given_back([at])[0]:
            links[-1] = replace(links[-1], note="was dropped, and given back since: it is an original")
            break
    return tuple(links)


def _link(index: Index, id_: str, position: Position, where: str, decided: Decided | None, role: str) -> Link:
    if (base := base_of(position.source.stream)) is not None:
        note = f"is an entry of the base set {base.name}"
        return Link(id_, position, where, NO_TIMESTAMP_MS, None, note=note, role=role)
    if decided is None:
        note = "its decision has left the index, so it has expired"
        return Link(id_, position, where, NO_TIMESTAMP_MS, None, note=note, role=role)
    likeness, standing, note = likeness_of(decided.distance, index.parameters), None, ""
    if decided.document is not None:
        (standing,) = index.standings([decided.document.number])
        note = _fate(index, decided, standing)
    return Link(id_, position, where, decided.time_ms, decided, *_labels(decided), likeness, standing, note, role)


def _fate(index: Index, decided: Decided, standing: EntryState) -> str:
    """An entry's fate and its consequence, in words after its name; empty while it counts."""
    if standing is EntryState.FORGOTTEN:
        for later in reversed(index.decided([decided.id])):
            if later.verdict is Verdict.UPDATE and later.original_position == decided.position:
                return f"was replaced by its version at {position_text(later.position, index.stream_names())}"
    return _FATES[standing]


def _notes(index: Index, decided: Decided, standing: EntryState | None) -> tuple[str, ...]:
    if decided.verdict is Verdict.DUPLICATE and index.are_given_back([decided.position])[0]:
        return ("It was given back since: the unique output got it, and it is an original.",)
    entered = decided.document
    if entered is not None and standing is not None and standing is not EntryState.COUNTS:
        return (f"It {_fate(index, decided, standing)}.",)
    if entered is not None and entered.root != entered.number:
        return ("It entered the index: a document near to it is a duplicate of the same original.",)
    if entered is None and decided.verdict.names_original and decided.kind is Kind.NEAR:
        note = _NOT_ENTERED.get(index.parameters.insert)
        return () if note is None else (note,)
    return ()


def _problem(index: Index, asked: str, positions: Sequence[Position]) -> str:
    names, applied = index.stream_names(), index.applied()
    for position in positions:
        end = applied.get(position.source)
        where = position_text(position, names)
        if end is None:
            return f"{where}: this index has no decision on this partition"
        if position.offset >= end.offset:
            name, _, _ = where.rpartition("/")
            return f"{where}: not decided yet; {name} is decided below offset {end.offset}"
        return (
            f"{where}: decided, as all below offset {end.offset}, but unknown: it has expired, is a gap that a transaction "
            "left, or is a duplicate and the index was restored"
        )
    inputs = ", ".join(sorted({name for name in names.values() if name})) or "none"
    return (
        f"nothing is known of {asked!r}: no record has this id, its decision has expired, or it is a duplicate and the index "
        f"was restored; a position is TOPIC/PARTITION/OFFSET of an input of the index ({inputs})"
    )
