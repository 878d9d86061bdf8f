"""Logs for a flow, and what one index says of them."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

from index.entry import Decisions, Entries, Kind, Source, Verdict
from index.frames import samples
from index.index import Index
from index.matching.minhash import Banding
from index.matching.root import RootRule
from index.storage import layout
from index.storage.parameters import Parameters
from tests.support.brute_force_signatures import as_number, clustered_bins
from tests.support.crawls import with_named
from tests.support.dataflow import STREAM, Answer, Batch, in_order
from tests.support.entries import Row, clustered_fingerprints, entries_of
from tests.support.framed_sites import PARAMETERS as FRAMED

BANDING = Banding(64, 8, 12, 5)
INSERTS = ["unique", "root"]


def logs_of(rows: list[Row], bits: int, partitions: int, generator: np.random.Generator) -> dict[int, list[Batch]]:
    """Rows dealt to partitions and cut into batches; clocks stand still, step on, and at times step back."""
    logs: dict[int, list[Batch]] = {partition: [] for partition in range(partitions)}
    dealt: dict[int, list[Row]] = {partition: [] for partition in range(partitions)}
    for row in rows:
        partition = int(generator.integers(partitions))
        gap = int(generator.integers(1, 3))
        offset = dealt[partition][-1].offset + gap if dealt[partition] else gap
        dealt[partition].append(row._replace(source=Source(STREAM, partition), offset=offset))
    for partition, own in dealt.items():
        time_ms, end, at = int(generator.integers(0, 20)), 0, 0
        while at < len(own) or generator.random() < 0.3:
            some = own[at : at + int(generator.integers(0, 6))]
            at += len(some)
            time_ms = max(0, time_ms + int(generator.choice([0, 0, 1, 7, 60, -5])))
            begin, end = end, some[-1].offset + 1 + int(generator.integers(2)) if some else end
            entries = batch_of(some, bits, partition, own)
            logs[partition].append(Batch(time_ms, partition, begin, end, entries))
            if at < len(own):
                # The next batch begins where this one ended.
                end = min(end, own[at].offset)
                logs[partition][-1] = logs[partition][-1]._replace(end=end)
    return logs


def with_forgets(logs: dict[int, list[Batch]], generator: np.random.Generator, count: int) -> dict[int, list[Batch]]:
    """Logs that forget so many times between batches: some ids, of which documents may come later, or a scope."""
    ids = [id_ for log in logs.values() for batch in log for id_ in batch.entries.ids]
    found = {partition: log.copy() for partition, log in logs.items()}
    for _ in range(count if ids else 0):
        log = found[int(generator.choice([partition for partition, log in found.items() if log]))]
        at = int(generator.integers(len(log))) + 1
        names = tuple(generator.choice(ids, int(generator.integers(1, 1 + max(2, len(ids) // 4)))).tolist())
        if generator.random() < 0.2:
            names = tuple({name.partition("/")[0] + "/" for name in names[:1] if "/" in name})
        before = log[at - 1]
        nothing = before.entries.take(np.arange(0))
        log.insert(at, before._replace(begin=before.end, entries=nothing, floor=None, forgets=names))
    return found


def with_given_back(
    index: Index, logs: dict[int, list[Batch]], generator: np.random.Generator, share: float
) -> dict[int, list[Batch]]:
    """Logs in which such a share of all batches is followed by some of the duplicates so far, which a person gave back.

    index  empty; decides them as the logs have them then
    """
    found = {partition: log.copy() for partition, log in logs.items()}
    dropped: dict[int, list[Entries]] = {partition: [] for partition in logs}
    done = 0
    while done < len(order := in_order(found)):
        batch = order[done]
        done += 1
        answers, own = parse_headers(index, [batch]), dropped[batch.partition]
        verdicts = [answers[batch.partition, at].verdict for at in batch.entries.offsets.tolist() if answers]
        duplicates = np.flatnonzero(np.array(verdicts) == Verdict.DUPLICATE)
        if len(duplicates):
            own.append(batch.entries.take(duplicates))
        if own and not batch.given_back and generator.random() < share:
            entries = own.pop(int(generator.integers(len(own))))
            at = next(place for place, each in enumerate(found[batch.partition]) if each is batch)
            given_back = batch._replace(begin=batch.end, entries=entries, forgets=(), given_back=True)
            found[batch.partition].insert(at + 1, given_back)
    return found


def with_lengths(rows: list[Row], seed: int) -> list[Row]:
    """Lengths that differ by up to a half, many of them equal; a few are unknown, and the copies' differ too."""
    lengths = (
        np.random.default_rng(seed).choice([0, *range(100, 150, 7)], len(rows), p=[0.05, *[0.95 / 8] * 8]).tolist()
    )
    return [row._replace(length=length) for row, length in zip(rows, lengths, strict=True)]


def batch_of(rows: list[Row], bits: int, partition: int, all_rows: list[Row]) -> Entries:
    if rows:
        return with_named(entries_of(rows, bits), rows)
    if all_rows:
        return entries_of(all_rows[:1], bits).take(np.arange(0))
    return entries_of([Row(0, 0, Source(STREAM, partition))], bits).take(np.arange(0))


def parse_headers(index: Index, batches: Iterable[Batch]) -> dict[tuple[int, int], Answer]:
    """What an index says of batches, one after the other, by partition and offset."""
    found: dict[tuple[int, int], Answer] = {}
    for batch in batches:
        index.forget({name for name in batch.forgets if not name.endswith("/")})
        for beginning in (name for name in batch.forgets if name.endswith("/")):
            index.forget_names(beginning)
        if batch.given_back:
            index.give_back(batch.entries, delivered=True)
            continue
        if not len(batch.entries):
            continue
        decisions: Decisions = index.admit(batch.entries, {Source(STREAM, batch.partition): batch.end})
        for row, offset in enumerate(batch.entries.offsets.tolist()):
            found[batch.partition, offset] = Answer(
                int(decisions.verdicts[row]),
                int(decisions.distances[row]),
                decisions.original_ids[row],
                decisions.original_positions[row],
                int(decisions.ratios[row]),
                int(decisions.reasons[row]),
            )
    return found


def simhash_rows(seed: int, count: int, bits: int, *, centres: int = 4) -> list[Row]:
    generator = np.random.default_rng(seed)
    rows: list[Row] = []
    for place, fingerprint in enumerate(clustered_fingerprints(generator, count, bits, centres=centres)):
        kind = Kind(int(generator.choice(4, p=[0.75, 0.15, 0.05, 0.05])))
        if rows and generator.random() < 0.2:
            fingerprint = rows[int(generator.integers(len(rows)))].fingerprint
        if kind is Kind.EXACT:
            fingerprint = 1 << int(generator.integers(3))
        rows.append(Row(0, fingerprint, kind=kind, reason=int(generator.integers(9)), id=f"文档-{place}"))
    return rows


def minhash_rows(seed: int, count: int, *, centres: int = 4) -> list[Row]:
    generator = np.random.default_rng(seed)
    bins = clustered_bins(generator, count, BANDING, centres=centres)
    numbers = [as_number(row, BANDING.bin_bits) for row in bins]
    for place in np.flatnonzero(generator.random(count) < 0.2).tolist():
        numbers[place] = numbers[int(generator.integers(place + 1))]
    kinds = generator.choice(4, size=count, p=[0.75, 0.15, 0.05, 0.05])
    return [
        Row(0, number if kind != Kind.EXACT else number % 3, kind=Kind(int(kind)), id=f"id-{place}")
        for place, (number, kind) in enumerate(zip(numbers, kinds, strict=True))
    ]


def hosted_rows(seed: int, count: int, *, hosts: int) -> list[Row]:
    """Articles in the templates of hosts: the same on several hosts, changed a little, and again; some have no host."""
    generator = np.random.default_rng(seed)
    bins = BANDING.bins
    templates, articles = (generator.integers(1, 256, (number, bins)).astype(np.uint8) for number in (hosts + 1, 6))
    own = generator.permutation(bins)[: int(generator.integers(8, 44))]
    rows: list[Row] = []
    for place in range(count):
        if rows and generator.random() < 0.25:
            rows.append(rows[int(generator.integers(place))]._replace(id=f"id-{place}"))
            continue
        host, is_copy = int(generator.integers(hosts + 1)), generator.random() < 0.6
        page, article = templates[host].copy(), int(generator.integers(len(articles)))
        page[own] = articles[article][own] if is_copy else generator.integers(1, 256, len(own))
        changed = generator.choice(own if generator.random() < 0.5 else bins, int(generator.integers(6)))
        page[changed] = generator.integers(1, 256, len(changed))
        kind = Kind.EXACT if generator.random() < 0.05 else Kind.NEAR
        fingerprint = as_number(page, BANDING.bin_bits) if kind is Kind.NEAR else article
        rows.append(Row(0, fingerprint, kind=kind, id=f"id-{place}", host=f"host-{host}" if host < hosts else ""))
    return rows


@contextmanager
def crawl_of_hosts(data: st.DataObject) -> Iterator[tuple[Parameters, list[Row]]]:
    """Pages of some hosts, and parameters with frames; at times with so few samples that hosts lose theirs all the time."""
    hosts, count = data.draw(st.integers(1, 5), label="hosts"), data.draw(st.integers(1, 150))
    rows = hosted_rows(data.draw(st.integers(0, 2**32)), count, hosts=hosts)
    root = RootRule(data.draw(st.sampled_from([3_000, 6_000])), data.draw(st.sampled_from([500, 2_000])))
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans(), label="few samples"):
            patch.setattr(layout, "HOSTS_MAX", 1)
            patch.setattr(samples, "HALVED_EVERY", 5)
        yield replace(FRAMED, root=root), rows
