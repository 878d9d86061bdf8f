"""Protected sets, open for reading, and their answers about a batch."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from index import Decisions, Entries, Index, Kind, Parameters, Position, errors, minhash, naming_originals
from streamer.errors import SettingsError
from streamer.fingerprint.differences import by_settings
from streamer.fingerprint.scheme import Scheme, parameters_for
from streamer.protected.folders import INDEX_FOLDER, set_folders
from streamer.records.record import ProtectedMatch
from streamer.settings.settings import Settings


class Reported(NamedTuple):
    """What protected sets say about a batch's documents.

    rows    for each document the nearest entry in every set that has one near enough, in the settings' order
    counts  documents with a match, by set; 0 for a set without one

    >>> Reported([(), ()], {"evaluation": 0}).counts
    {'evaluation': 0}
    """

    rows: list[tuple[ProtectedMatch, ...]]
    counts: dict[str, int]


class Found(NamedTuple):
    """A set's nearest entry, and its record's position there.

    >>> from index import Source
    >>> Found(ProtectedMatch("evaluation", "q17"), Position(Source("stream", 0), 7)).match.id
    'q17'
    """

    match: ProtectedMatch
    position: Position


class ProtectedSets(AbstractContextManager["ProtectedSets"]):
    """Open sets by name. Without any, nothing is asked.

    A document is compared by its text: ids, hosts, times and scopes play no role.

    >>> ProtectedSets({}, {}).names
    ()
    """

    def __init__(self, indexes: Mapping[str, Index], folders: Mapping[str, Path]) -> None:
        """Use `open_sets`. `folders`: those that people name, by set."""
        self._indexes, self.folders = indexes, folders

    @property
    def names(self) -> tuple[str, ...]:
        """The sets' names, in the settings' order."""
        return tuple(self._indexes)

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all sets. A second time changes nothing."""
        for index in self._indexes.values():
            index.close()

    def matches(self, entries: Entries) -> Reported:
        """What the sets say about a batch, row for row. Raises IndexDamagedError."""
        rows: list[tuple[ProtectedMatch, ...]] = [()] * len(entries)
        counts = dict.fromkeys(self._indexes, 0)
        for row, found in self._found(entries):
            rows[row] += (found.match,)
            counts[found.match.set_name] += 1
        return Reported(rows, counts)

    def found(self, entries: Entries) -> list[Found]:
        """Each set's nearest entry for a batch with one document."""
        return [found for _, found in self._found(entries)]

    def _found(self, entries: Entries) -> Iterator[tuple[int, Found]]:
        rows = np.flatnonzero(entries.kinds <= Kind.EXACT)
        if not len(rows):
            return
        asked = _nameless(entries.take(rows))
        for name, index in self._indexes.items():
            decisions = index.check(asked)
            by_similarity = index.parameters.by_similarity
            for place in np.flatnonzero(naming_originals(decisions.verdicts)).tolist():
                yield int(rows[place]), _found_in(name, decisions, place, by_similarity=by_similarity)


def _nameless(entries: Entries) -> Entries:
    """Documents of which nothing but the text is known."""
    count = len(entries)
    return replace(
        entries,
        ids=[""] * count,
        times_ms=np.zeros(count, np.int64),
        hosts=None,
        host_digests=None,
        named=np.zeros(count, np.bool_),
    )


def _found_in(name: str, decisions: Decisions, place: int, *, by_similarity: bool) -> Found:
    id_, position = decisions.original_ids[place], decisions.original_positions[place]
    assert id_ is not None, "a match has a name"
    assert position is not None, "and a position"
    distance = int(decisions.distances[place])
    if by_similarity:
        return Found(ProtectedMatch(name, id_, similarity=minhash.similarity_of(distance)), position)
    return Found(ProtectedMatch(name, id_, distance=distance), position)


def open_sets(settings: Settings, scheme: Scheme) -> ProtectedSets:
    """Open the sets that `index.protected` names, for fingerprints of this scheme. Raises SettingsError, NeardupIndexError."""
    folders = set_folders(settings.index)
    if not folders:
        return ProtectedSets({}, {})
    asked = parameters_for(settings, scheme.stamp())
    indexes: dict[str, Index] = {}
    with ExitStack() as opening:
        for name, folder in folders.items():
            indexes[name] = opening.enter_context(_set_in(folder, asked, settings))
        opening.pop_all()
    return ProtectedSets(indexes, folders)


def _set_in(folder: Path, asked: Parameters, settings: Settings) -> Index:
    try:
        return Index.open(folder / INDEX_FOLDER, asked, read_only=True)
    except errors.ParametersDifferError as problem:
        differences = "; ".join(map(str, by_settings(problem, settings.fingerprint.scheme).differences))
        raise SettingsError(
            f"index.protected: {folder}: was made with other settings or another key: {differences}. Make it again with those "
            f"of this index (streamer protect FILES --out FOLDER --index {settings.index.directory}), or leave it out."
        ) from None
