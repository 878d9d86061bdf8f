"""Clusters in an output folder, written next to the outputs.

    DIR/clusters.jsonl  a line for each root with duplicates, and for each that names another document
    DIR/kept.jsonl      the best documents' lines, byte for byte, in verdict order; with counts each has four members more

Both are compressed as the outputs, and appear as a whole or not at all. Memory holds one batch, and one cluster's hosts.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import structlog

from index import Source
from streamer.clusters.keep import POLICIES, Policy, Rank
from streamer.clusters.table import ClusterTable, Counts, opened
from streamer.errors import RecoveryRefused, SettingsError
from streamer.records import any_json
from streamer.records.decode import DeadLetter, Decoder
from streamer.records.record import Destination, Record
from streamer.records.route import DESTINATIONS
from streamer.settings.settings import Settings
from streamer.transports.files.output_folder import CLUSTERS, KEPT, VERDICTS, DeliveryHooks, OutputFolder
from streamer.transports.transport import NO_TIMESTAMP_MS

log = structlog.get_logger(__name__)

Bar = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]
"""Progress bar by title and total; its block's callable takes the number done so far."""

_TABLE = "clusters.sqlite.unfinished"
_OUTPUTS = {verdict.label: destination for verdict, destination in DESTINATIONS.items()}


def write_clusters(
    out: Path, settings: Settings, policy: Policy | None, bar: Bar, *, with_counts: bool = False
) -> dict[str, int]:
    """Write clusters.jsonl and, with a policy, kept.jsonl into a folder that no filter has open.

    settings     as in the runs; they give hosts and times
    policy       None: the first document is the best, and kept.jsonl is not written
    with_counts  add each cluster's counts to its line in kept.jsonl (`counted`)

    Returns counts, as `ClusterTable.choose`. Raises SettingsError, RecoveryRefused, OutputUnwritable.
    """
    pointer = None if policy is None else policy.pointer
    # Metadata are texts and numbers of any record: what a policy ranks by.
    chosen = settings.replaced(decode={"metadata": None if pointer is None else [pointer]})
    decoder, folder = Decoder(chosen.decode), OutputFolder(out, DeliveryHooks())
    # Refuses an empty folder instead of initialising it.
    folder.look()
    with closing(folder):
        folder.open()
        total = sum(each.lines or 0 for each in folder.sources.values())
        with bar("clusters", total if policy is None else 2 * total) as done, opened(out / _TABLE) as table:
            for lines in _batches(folder, settings.batch.records_max):
                table.add(_decoded(lines, decoder, with_field=pointer is not None))
                done(lines[-1].number)
            ranked: set[bool] = set()
            totals = table.choose(_noting(ranked, (policy or POLICIES["first"]).rank))
            if ranked == {False}:
                log.warning("--keep: no document has what the policy ranks by, so each cluster's best is its first")
            with folder.further(CLUSTERS) as file:
                for root, best, counts, hosts, members in table.clusters():
                    begin = f'{{"root":{root},"best":{best},"documents":{counts.documents},"hosts":{hosts},'
                    begin += f'"first_ms":{_json(counts.first_ms)},"last_ms":{_json(counts.last_ms)},"members":['
                    file.write((begin + next(members, "")).encode())
                    for member in members:
                        file.write(f",{member}".encode())
                    file.write(b"]}\n")
            if policy is not None:
                with folder.further(KEPT) as file:
                    for lines in _batches(folder, settings.batch.records_max):
                        kept = _kept(table, lines, with_counts=with_counts)
                        file.write(b"".join(value + b"\n" for value in kept))
                        done(total + lines[-1].number)
    return totals


def _noting(ranked: set[bool], rank: Rank) -> Rank:
    """The same rank, which notes whether a document has one."""

    def noted(host: str | None, time_ms: int | None, length: float, field: str | None) -> float:
        place = rank(host, time_ms, length, field)
        ranked.add(place < math.inf)
        return place

    return noted


def _kept(table: ClusterTable, lines: list["_Line"], *, with_counts: bool) -> list[bytes]:
    first, last = lines[0].number, lines[-1].number
    if not with_counts:
        best = table.best(first, last)
        return [each.value for each in lines if each.number in best]
    found = table.counts_of_best(first, last)
    return [counted(each.value, found[each.number]) for each in lines if each.number in found]


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_COUNTED = b'"neardup.'


def counted(value: bytes, counts: Counts) -> bytes:
    """A line with its cluster's counts as its last members; itself if it is no JSON object.

    Such members of an earlier filter leave.

    >>> counted(b'{"id": "a"}', Counts(3, 2, 1_000, None))
    b'{"id": "a","neardup.documents":3,"neardup.hosts":2,"neardup.first_ms":1000,"neardup.last_ms":null}'
    """
    whole = value.strip()
    if not whole.removeprefix(_BYTE_ORDER_MARK).lstrip().startswith(b"{") or not whole.endswith(b"}"):
        return value
    if _COUNTED in whole:
        with suppress(ValueError, RecursionError):
            tree = any_json.loads(whole)
            whole = any_json.dumps({name: each for name, each in tree.items() if name not in _members(counts)})
    added = any_json.dumps(_members(counts))[1:]
    return whole[:-1] + (b"," if whole[:-1].strip() != b"{" else b"") + added


def _members(counts: Counts) -> dict[str, int | None]:
    return {f"neardup.{name}": each for name, each in counts._asdict().items()}


def _json(number: int | None) -> str:
    return "null" if number is None else str(number)


class _Line(NamedTuple):
    number: int
    fields: dict[str, Any]
    value: bytes


def _batches(folder: OutputFolder, size: int) -> Iterator[list[_Line]]:
    lines = _lines(folder)
    while batch := [*islice(lines, size)]:
        yield batch


def _lines(folder: OutputFolder) -> Iterator[_Line]:
    """Documents in verdict order. Raises RecoveryRefused."""
    lengths, _ = folder.look()
    files = {name: folder.lines(name, length) for name, length in lengths.items()}
    for number, line in enumerate(files[VERDICTS]):
        try:
            fields = orjson.loads(line)
            destination = Destination.UNIQUE if "shadow" in fields else _OUTPUTS[fields["verdict"]]
            value = next(files[f"{destination}.jsonl"])
        except (orjson.JSONDecodeError, KeyError, TypeError, StopIteration) as problem:
            raise RecoveryRefused(
                f"{folder.path(VERDICTS)}, line {number + 1}: does not fit the outputs: put the folder back from a copy, or "
                "filter again into another --out."
            ) from problem
        if destination is not Destination.DEAD_LETTER:
            yield _Line(number, fields, value)


def _decoded(lines: list[_Line], decoder: Decoder, *, with_field: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    """Members with host and time, and the field of a policy. Raises SettingsError if a document is none by these settings."""
    source = Source("", 0)
    records = [Record(source, "", number, None, value, NO_TIMESTAMP_MS) for number, _, value in lines]
    for (number, fields, _), document in zip(lines, decoder.decode(records), strict=True):
        if isinstance(document, DeadLetter):
            raise SettingsError(
                f"{fields['source']}, line {fields['line']}: {document.detail}: the run read a document there. Give the settings "
                "of that run (--config, --preset, --set)."
            )
        time_ms = None if document.time_ms == NO_TIMESTAMP_MS else document.time_ms
        field = {"field": next(iter(document.metadata), None)} if with_field else {}
        yield number, fields | {"host": document.host, "time_ms": time_ms} | field
