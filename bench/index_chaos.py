"""Kill -9 processes that write an index, at every kind of write; the index must verify after every kill.

One or two writers admit streams of fingerprints. Their memtable is so small that almost every batch freezes it, compacts
or cleans. Other processes compact the index, export it and enter the export, or rebuild one from documents. Each dies at a
random moment: at a write of one kind inside a transaction, before or after a commit, or at a step of replacing the file.

After each kill the index must verify. Every acknowledged document that still counts must be found exactly once, with no
other within the distance, and every position must replay its verdict. A tool that was killed runs again to its end, with
the result of an undisturbed run.

    python -m bench.index_chaos [--kills 120] [--seed N] [--json]
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import orjson
from rich.console import Console
from rich.progress import Progress
from rich.table import Table as Shown

from index.entry import Entries, Kind, Source, Verdict
from index.index import Index, internals_of
from index.lsm.compaction import TreeSizes
from index.session import ReadSession, Retention
from index.storage import journal, sources
from index.storage.counters import counters_of
from index.storage.file.commit_hooks import CommitHooks
from index.storage.layout import Table
from index.storage.store import Store, Transaction
from index.tools import verify
from streamer.demo.demo import documents as demo_documents
from streamer.fingerprint.scheme import scheme_with_parameters
from streamer.settings.settings import load

ROWS = 60
"""Rows of a batch."""
DOCUMENTS = 6_000
"""Documents of a stream."""
SIZES = TreeSizes(memtable_entries=150, segment_bytes=512)
KEPT = Retention(entries_max=1_500)
SETTINGS = {
    "simhash": (
        "fingerprint.scheme=simhash",
        "fingerprint.second_look=none",
        "fingerprint.bits=64",
        "index.distance_max=4",
        "index.insert=unique",
    ),
    "minhash": (
        "minhash.bins=64",
        "minhash.similarity_min=0.7",
        "index.root_similarity_min=0.5",
        "index.templates=false",
    ),
}
"""What an export enters a new index by."""
SCHEMES = {name: scheme_with_parameters(load(None, chosen, {}))[1] for name, chosen in SETTINGS.items()}
WRITES = {
    "append": (Table.LOG, "put"),
    "note positions": (Table.JOURNAL, "put"),
    "freeze or move on": (Table.META, "put"),
    "compaction slice": (Table.SEGMENTS, "put"),
    "slice of ids": (Table.IDS, "put"),
    "tombstone": (Table.TOMBSTONES, "put"),
    "clean": (Table.LOG, "delete"),
}
COMMITS = ("before commit", "after commit")
STEPS = ("sync", "replace file")


class Doom:
    """Killer of this process at the n-th passage of a point."""

    def __init__(self, point: str, passage: int) -> None:
        self._point, self._left = point, passage

    def pass_by(self, point: str) -> None:
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def lie_in_wait(self) -> None:
        """Count the passages of all points from now on."""
        for action in ("put", "delete"):
            points = {table: name for name, (table, of_point) in WRITES.items() if of_point == action}
            self._behind(Transaction, action, lambda arguments, points=points: points.get(arguments[1], ""))
        self._behind(os, "fsync", lambda _: "sync")
        self._behind(Path, "replace", lambda _: "replace file")
        hooks = CommitHooks(lambda: self.pass_by("before commit"), lambda: self.pass_by("after commit"))
        opened = Store.__init__

        def open_doomed(store: Store, *arguments: Any, **options: Any) -> None:
            opened(store, *arguments, **{**options, "hooks": hooks})

        Store.__init__ = open_doomed  # type: ignore[method-assign]

    def _behind(self, owner: Any, name: str, point: Callable[[tuple[Any, ...]], str]) -> None:
        done = getattr(owner, name)

        def doing(*arguments: Any, **options: Any) -> Any:
            result = done(*arguments, **options)
            self.pass_by(point(arguments))
            return result

        setattr(owner, name, doing)


def source_of(partition: int) -> Source:
    return Source("stream", partition)


def rows_of(partition: int, words: int, begin: int) -> Entries:
    """Rows of a stream from offset `begin` on. Some are near to each other and to the other stream's, some are equal."""
    offsets = np.arange(begin, min(begin + ROWS, DOCUMENTS), dtype=np.uint64)
    generator = np.random.default_rng([words, begin // ROWS])
    # Documents of a family differ in few bytes, so they are near in either scheme.
    families = np.random.default_rng(words).integers(1, 256, (400, 8 * words), dtype=np.uint8)
    octets = families[generator.integers(0, len(families), len(offsets))]
    changed = generator.integers(0, 3, len(offsets))
    for row, count in enumerate(changed.tolist()):
        octets[row, generator.integers(0, octets.shape[1], count)] = generator.integers(1, 256, count)
    if partition:
        octets = octets[::-1]
    return Entries(
        sources=(source_of(partition),),
        source_numbers=np.zeros(len(offsets), np.uint32),
        offsets=offsets,
        kinds=np.where(offsets % 11 == 0, Kind.EXACT, Kind.NEAR).astype(np.uint8),
        reasons=np.zeros(len(offsets), np.uint8),
        fingerprints=np.ascontiguousarray(octets).view(np.uint64).reshape(len(offsets), words),
        times_ms=offsets.astype(np.int64) + 1,
        ids=[f"{partition}/{offset}" for offset in offsets.tolist()],
    )


def opened(directory: Path, scheme: str) -> Index:
    return Index.open(directory, SCHEMES[scheme], map_bytes_max=2**32, sizes=SIZES, retention=KEPT)


def applied_of(index: Index, partition: int) -> int:
    at = index.applied().get(source_of(partition))
    return 0 if at is None else at.offset


def write(directory: Path, scheme: str, partition: int) -> None:
    """Body of a writer: go on from the applied offset, and print every acknowledged batch."""
    with opened(directory, scheme) as index:
        at = applied_of(index, partition)
        while at < DOCUMENTS:
            entries = rows_of(partition, index.parameters.words, at)
            decisions = index.admit(entries, {source_of(partition): at + len(entries)})
            at += len(entries)
            unique = decisions.originals[decisions.verdicts == Verdict.UNIQUE].tolist()
            print(at, max(unique, default=-1), *decisions.verdicts.tolist(), flush=True)


class Acknowledged:
    """Acknowledged batches, by stream and first offset: the highest number of a unique document, and the verdicts."""

    def __init__(self) -> None:
        self.batches: dict[int, dict[int, tuple[int, list[int]]]] = {0: {}, 1: {}}

    def end(self, partition: int) -> int:
        """Offset behind the last acknowledged one of a stream."""
        return max((begin + len(verdicts) for begin, (_, verdicts) in self.batches[partition].items()), default=0)

    def take(self, partition: int, output: str) -> None:
        for line in output.splitlines():
            fields = [int(field) for field in line.split()]
            at, number, *verdicts = fields
            self.batches[partition][at - len(verdicts)] = number, verdicts


def problems_of(directory: Path, scheme: str, acknowledged: Acknowledged) -> list[str]:
    """Everything that is wrong with an index after a kill."""
    with opened(directory, scheme) as index:
        findings = verify(index)
        found = [f"{finding.check}: {example}" for finding in findings for example in finding.examples]
        for partition, batches in acknowledged.batches.items():
            applied, end = applied_of(index, partition), acknowledged.end(partition)
            if applied < end:
                found.append(f"stream {partition}: acknowledged up to {end}, applied {applied}")
            found += _not_replayed(index, partition, batches)
        found += _found_once(index)
    return found


def _not_replayed(index: Index, partition: int, batches: dict[int, tuple[int, list[int]]]) -> list[str]:
    """Acknowledged batches whose positions are not known with their verdicts, though they have not expired."""
    return internals_of(index).read(lambda session: _not_replayed_in(session, partition, batches))


def _not_replayed_in(session: ReadSession, partition: int, batches: dict[int, tuple[int, list[int]]]) -> list[str]:
    transaction, words, horizon = session.transaction, session.words, session.visibility.horizon.number
    stream = sources.known_number(transaction, source_of(partition).stream)
    wrong = []
    for begin, (number, verdicts) in batches.items():
        assert stream is not None, "an acknowledged stream is not known"
        offsets = np.arange(begin, begin + len(verdicts), dtype=np.uint64)
        found = journal.find(transaction, stream, partition, offsets, words)
        expired = not found.known.any() and number < horizon
        if not expired and not (found.known.all() and found.rows["verdict"].tolist() == verdicts):
            wrong.append(f"stream {partition}, offset {begin}: other verdicts than acknowledged")
    return wrong


def _found_once(index: Index) -> list[str]:
    """Entries that count and are not found exactly once, or, with insert = unique, not alone within the distance."""
    parameters = index.parameters

    def counting(session: ReadSession) -> list[int]:
        next_number = counters_of(session.transaction).next_number
        numbers = np.arange(session.visibility.horizon.number, next_number, dtype=np.uint64)
        alive: list[int] = numbers[session.visibility.visible(numbers)].tolist()
        return alive

    entries = [document for document in index.documents(internals_of(index).read(counting)) if document is not None]
    near = [document for document in entries if document.kind is Kind.NEAR]
    fingerprints = np.array([document.fingerprint for document in near], np.uint64).reshape(-1, parameters.words)
    radius = parameters.distance_max if parameters.insert == "unique" else 0
    found = []
    for document, matches in zip(near, index.query(fingerprints, radius, limit=50), strict=True):
        own = [match.document.number for match in matches].count(document.number)
        if own != 1 or (parameters.insert == "unique" and len(matches) > 1):
            found.append(f"document {document.number}: found {own} times among {len(matches)}")
    return found


def doomed(point: str, passage: int, arguments: list[str]) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "bench.index_chaos", "doomed", point, str(passage), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: "subprocess.Popen[str]") -> tuple[str, bool]:
    """Output of a process, and whether it was killed. Raises ClickException for any other failure."""
    output, errors = process.communicate()
    if process.returncode not in (0, -signal.SIGKILL):
        raise click.ClickException(f"a process failed with exit code {process.returncode}:\n{errors}")
    return output, process.returncode == -signal.SIGKILL


class Chaos:
    """Rounds of kills, each on the index of its scheme. A full stream begins a new index."""

    def __init__(self, directory: Path, chance: random.Random) -> None:
        self._directory, self._chance = directory, chance
        self._count = 0
        self._news = directory / "news.jsonl"
        self._news.write_bytes(b"\n".join(demo_documents(1_500)) + b"\n")
        self._current: dict[str, tuple[Path, Acknowledged]] = {}
        self.kills: Counter[str] = Counter()
        self.by_deed: Counter[str] = Counter()
        self.problems: list[str] = []

    def _new(self, name: str) -> Path:
        self._count += 1
        return self._directory / f"{self._count}-{name}"

    def round(self) -> None:
        """Do one deed, which may be killed."""
        scheme = self._chance.choice(sorted(SCHEMES))
        directory, acknowledged = self._current.get(scheme) or (self._new(scheme), Acknowledged())
        self._current[scheme] = directory, acknowledged
        deed = self._chance.choice(("one writer", "two writers", "two writers", "compaction", "export", "rebuild"))
        if deed.endswith("writers") or deed == "one writer" or not directory.exists():
            self._write(directory, scheme, acknowledged, 2 if deed == "two writers" else 1)
        elif deed == "compaction":
            self._compact(directory, scheme, acknowledged)
        elif deed == "export":
            self._export(directory, scheme)
        else:
            self._rebuild()
        if max(acknowledged.end(partition) for partition in (0, 1)) > DOCUMENTS - 1_000:
            del self._current[scheme]

    def _write(self, directory: Path, scheme: str, acknowledged: Acknowledged, writers: int) -> None:
        points = [(self._chance.choice([*WRITES, *COMMITS]), self._chance.randint(1, 30)) for _ in range(writers)]
        processes = [
            doomed(point, passage, ["write", str(directory), scheme, str(partition)])
            for partition, (point, passage) in enumerate(points)
        ]
        for partition, process in enumerate(processes):
            output, killed = ended(process)
            acknowledged.take(partition, output)
            self._note(points[partition][0], f"{writers} writing", killed=killed)
        self.problems += problems_of(directory, scheme, acknowledged)

    def _compact(self, directory: Path, scheme: str, acknowledged: Acknowledged) -> None:
        arguments = ["streamer", "--set", f"index.directory={directory}", "index", "compact", "--in-place"]
        self._tool("compaction", [*STEPS], arguments, 3)
        self.problems += problems_of(directory, scheme, acknowledged)

    def _export(self, directory: Path, scheme: str) -> None:
        exported, target = self._new("export").with_suffix(".jsonl"), self._new("entered")
        self._in_peace(["streamer", "--set", f"index.directory={directory}", "index", "export", str(exported)])
        chosen = [word for each in ("fingerprint.key=public", *SETTINGS[scheme]) for word in ("--set", each)]
        arguments = ["streamer", *chosen, "index", "rebuild", str(target), "--export", str(exported)]
        self._tool("export", [*WRITES, *COMMITS], arguments, 6)
        self._in_peace(arguments)
        self._same(exported, target)

    def _rebuild(self) -> None:
        target, peaceful = self._new("rebuilt"), self._new("rebuilt-in-peace")
        base = ["streamer", "index", "rebuild"]
        self._tool("rebuild", [*WRITES, *COMMITS], [*base, str(target), str(self._news)], 12)
        for each in (target, peaceful):
            self._in_peace([*base, str(each), str(self._news)])
        exported = self._new("export").with_suffix(".jsonl")
        self._in_peace(["streamer", "--set", f"index.directory={peaceful}", "index", "export", str(exported)])
        self._same(exported, target)

    def _tool(self, deed: str, points: list[str], arguments: list[str], passages: int) -> None:
        point = self._chance.choice(points)
        _, killed = ended(doomed(point, self._chance.randint(1, passages), arguments))
        self._note(point, deed, killed=killed)

    def _in_peace(self, arguments: list[str]) -> None:
        _, killed = ended(doomed("", 0, arguments))
        assert not killed

    def _same(self, exported: Path, target: Path) -> None:
        """Note a problem unless the index verifies, and exports what it was made from."""
        again = self._new("again").with_suffix(".jsonl")
        at = ["streamer", "--set", f"index.directory={target}", "index"]
        self._in_peace([*at, "verify"])
        self._in_peace([*at, "export", str(again)])
        one, other = (sorted(map(_described, file.read_bytes().splitlines())) for file in (exported, again))
        if one != other:
            self.problems.append(f"{target.name} does not hold what {exported.name} does")

    def _note(self, point: str, deed: str, *, killed: bool) -> None:
        if killed:
            self.kills[point] += 1
            self.by_deed[deed] += 1


def _described(line: bytes) -> bytes:
    """Line of an export without the fields that differ between indexes of the same content: ids of streams, numbers."""
    fields = orjson.loads(line)
    for name in ("neardup_index_export", "streams", "number", "original", "applied", "stream"):
        fields.pop(name, None)
    return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)


@click.group(invoke_without_command=True)
@click.option("--kills", default=120, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=None, type=int, help="Seed of the moments and deeds; printed.")
@click.option("--json", "as_json", is_flag=True)
@click.pass_context
def main(context: click.Context, kills: int, seed: int | None, as_json: bool) -> None:
    """Kill -9 processes that write an index, at every kind of write."""
    if context.invoked_subcommand:
        return
    seed = seed if seed is not None else random.SystemRandom().randrange(2**32)
    errors = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="index-chaos-") as name, Progress(console=errors) as bar:
        task = bar.add_task(f"kills (seed {seed})", total=kills)
        chaos = Chaos(Path(name), random.Random(seed))
        while chaos.kills.total() < kills and not chaos.problems:
            chaos.round()
            bar.update(task, completed=chaos.kills.total())
    result = {
        "kills": chaos.kills.total(),
        "by_point": dict(chaos.kills),
        "by_deed": dict(chaos.by_deed),
        "problems": len(chaos.problems),
        "seed": seed,
    }
    for problem in chaos.problems[:20]:
        errors.print(problem)
    if as_json:
        click.echo(orjson.dumps(result))
    else:
        shown = Shown("", "", show_header=False, box=None)
        for key, value in result.items():
            shown.add_row(
                key, ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
            )
        Console().print(shown)
    if chaos.problems:
        raise click.ClickException("an index did not survive a kill")


@main.command("doomed", hidden=True, context_settings={"ignore_unknown_options": True})
@click.argument("point")
@click.argument("passage", type=int)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def doomed_command(point: str, passage: int, arguments: tuple[str, ...]) -> None:
    """Write a stream, or run the command line, until the n-th passage of a point."""
    Doom(point, passage).lie_in_wait()
    if arguments[0] == "write":
        write(Path(arguments[1]), arguments[2], int(arguments[3]))
    else:
        sys.argv = list(arguments)
        from streamer.cli.main import main as streamer

        streamer()


if __name__ == "__main__":
    main()
