"""Admission: decide a batch and write it, in one transaction.

`prepare` first does all work without storage, outside the writer lock. Then, chunk by chunk, `decide` gathers, loads and
walks, the guard counts, and `Batch.enter` writes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from index.decide import retention
from index.decide.batch import Batch
from index.decide.decide import decide
from index.decide.guard import guarded
from index.decide.prepare import Prepared, prepared, prepared_batch
from index.decide.retire import remove
from index.entry import Decisions, Entries, HostShare, Position, Source, Verdict
from index.frames.hosts import learn_frames, note_kept
from index.matching.outcome import ROW_ORDER, Outcome
from index.session import OpenIndex, ReadSession, WriteSession
from index.storage import sources
from index.storage.journal import JournaledDecisions
from index.storage.log import Origin
from index.stories.fold import fold
from index.versions.reasons import with_reasons


def admit(opened: OpenIndex, entries: Entries, ends: Mapping[Source, int], marks: Mapping[Source, bytes]) -> Decisions:
    """Implementation of `Index.admit`."""
    entries, chunks = prepared_batch(entries, opened.parameters)
    return opened.write(lambda session: _admitted(session, entries, chunks, ends, marks))


def _admitted(
    session: WriteSession,
    entries: Entries,
    chunks: list[Prepared],
    ends: Mapping[Source, int],
    marks: Mapping[Source, bytes],
) -> Decisions:
    batch = Batch(session, entries)
    is_new = ~batch.journaled.known
    framed = learn_frames(session, entries, np.flatnonzero(is_new))
    # Learnt frames change fingerprints, and replayed rows match nothing: both invalidate what was prepared.
    if framed is not entries or not is_new.all():
        entries = framed
        chunks = prepared(entries, np.flatnonzero(is_new), session.parameters)
    retention.move_horizons(session, batch, is_new)
    candidates = np.zeros(len(entries), np.int64)
    crossings: list[HostShare] = []
    for chunk in chunks:
        outcome, equal, compared = decide(session, chunk)
        outcome, crossed = guarded(session, chunk, outcome, equal)
        crossings += crossed
        chunk = replace(chunk, entries=with_reasons(session, chunk.entries, outcome))
        origins = _enter(session, batch, chunk, outcome)
        note_kept(session, chunk.hosts[outcome.verdicts == Verdict.TEMPLATE])
        candidates[chunk.rows] = compared
        fill_in(batch.journaled, chunk, outcome, origins)
    retention.note_ages_and_clean(session, batch)
    sources.move_applied(session.transaction, ends, marks)
    fold(session)
    return decisions(session, batch.journaled, candidates, crossings)


def _enter(session: WriteSession, batch: Batch, chunk: Prepared, outcome: Outcome) -> dict[int, Origin]:
    """Enter decided rows, as `Batch.enter`, and retire the versions they replace."""
    replaced, leaving = outcome.replaced, np.zeros(len(outcome.entering), np.bool_)
    # Versions to replace are entries, which leave first, or rows of this batch, which enter and leave at once.
    in_batch = replaced >= np.uint64(ROW_ORDER)
    # Orders [9, ROW_ORDER + 2]: entry 9 is in the index, row 2 in this batch.
    leaving[(replaced[in_batch] - np.uint64(ROW_ORDER)).astype(np.int64)] = True
    if not in_batch.all():
        remove(session, np.unique(replaced[~in_batch]))
    origins = batch.enter(session, chunk.entries, outcome, leaving=leaving, hashes=chunk.hashes)
    if leaving.any():
        remove(session, outcome.numbers[leaving])
    return origins


def fill_in(batch: JournaledDecisions, chunk: Prepared, outcome: Outcome, origins: Mapping[int, Origin]) -> None:
    """Fill a chunk's decisions into those of its batch; origins: by row of the chunk."""
    columns = {
        "offset": chunk.entries.offsets,
        "number": outcome.originals,
        "distance": outcome.distances,
        "verdict": outcome.verdicts,
        "reason": chunk.entries.reasons,
        "ratio": outcome.ratios,
    }
    for name, column in columns.items():
        batch.rows[name][chunk.rows] = column
    batch.origins.update(zip(chunk.rows[list(origins)].tolist(), origins.values(), strict=True))


def decisions(
    session: ReadSession,
    batch: JournaledDecisions,
    candidates: npt.NDArray[np.int64],
    crossings: Sequence[HostShare] = (),
) -> Decisions:
    """Decisions for the caller; `known` rows are replayed."""
    rows, count = batch.rows, len(batch.rows)
    ids: list[str | None] = [None] * count
    positions: list[Position | None] = [None] * count
    origins = batch.origins.values()
    streams = sources.streams_of(session.transaction, {origin.stream for origin in origins}) | session.streams_of_bases
    keys = {(origin.stream, origin.partition) for origin in origins}
    named = {(stream, partition): Source(streams[stream], partition) for stream, partition in keys}
    for row, (id_, stream, partition, offset) in batch.origins.items():
        ids[row], positions[row] = id_, Position(named[stream, partition], offset)
    return Decisions(
        verdicts=rows["verdict"].astype(np.uint8),
        reasons=rows["reason"].astype(np.uint8),
        distances=rows["distance"].astype(np.int16),
        originals=rows["number"].astype(np.uint64),
        original_ids=ids,
        original_positions=positions,
        replayed=batch.known,
        candidates=candidates,
        crossings=crossings,
        ratios=rows["ratio"].astype(np.uint16),
    )
