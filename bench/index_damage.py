"""Damage the file of an index in every place; nothing may come of it but the right answers, or IndexDamagedError.

Small indexes of both schemes hold something of everything. Each damage is done to a copy, which a process of its own
opens: it asks for statistics, looks documents up, verifies, and decides a batch of known and of new positions, twice. What
it is told must be what the sound index tells. With --unchecked the checksums and the pages are not checked, which shows what
the damages do.

zero    a page of zeros               flip   a single bit                   noise  a page of random bytes
swap    two pages change places       cut    the file ends early            patch  some random bytes within a page

    python -m bench.index_damage [--damages 2000] [--seed N] [--unchecked] [--json]
"""

import faulthandler
import os
import pickle
import random
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import orjson
from rich.console import Console
from rich.progress import Progress
from rich.table import Table as Shown

from index.entry import Decisions, Entries, Kind, Source
from index.errors import IndexDamagedError, NeardupIndexError
from index.index import Index
from index.lsm.compaction import TreeSizes
from index.matching.minhash import banding_for
from index.matching.root import RootRule
from index.session import Retention
from index.storage import data_file
from index.storage.data_file import DATA_FILE
from index.storage.file import checksums
from index.storage.parameters import Parameters
from index.tools import compile_kernels, verify

SOURCES = (Source("news", 0), Source("news", 1))
SIZES = TreeSizes(memtable_entries=120, segment_bytes=512)
KEPT = Retention(entries_max=700)
BANDING = banding_for(64, 8, 0.7)
ROOT = RootRule(distance_max=5_000)
SCHEMES = {
    "simhash": Parameters(64, 3, "unique"),
    "minhash": Parameters(BANDING.bits, 3_000, "root", {}, BANDING, root=ROOT),
}
ROWS, BATCHES = 25, 40
CENTRES = 150
MAP_BYTES = 2**26
PAGE_BYTES = 4096
SECONDS_MAX = 120


class Stream:
    """Endless batches of documents from one seed, many of them near-duplicates or equal; of two sources in turn."""

    def __init__(self, parameters: Parameters, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._parameters = parameters
        self._centres = self._random.integers(1, 256, (CENTRES, parameters.bits // 8), dtype=np.uint8)
        self._offset = 0

    def batch(self, count: int) -> Entries:
        """The next rows."""
        octets = self._centres[self._random.integers(0, CENTRES, count)].copy()
        changed = self._random.integers(0, octets.shape[1], (count, 2))
        for column in changed.T:
            octets[np.arange(count), column] ^= np.uint8(1 << int(self._random.integers(0, 8)))
        octets[octets == 0] = 1
        kinds = self._random.choice(np.array([0, 0, 0, 0, 0, 0, 1, 1, 2, 3], np.uint8), count)
        octets[(kinds == Kind.EXACT) & (self._random.random(count) < 0.7)] = self._centres[0]
        offsets = np.arange(self._offset, self._offset + count, dtype=np.uint64)
        self._offset += count
        return Entries(
            sources=SOURCES,
            source_numbers=(offsets % np.uint64(2)).astype(np.uint32),
            offsets=offsets,
            kinds=kinds,
            reasons=np.zeros(count, np.uint8),
            fingerprints=octets.view("<u8").astype(np.uint64),
            times_ms=offsets.astype(np.int64),
            ids=[f"document {offset}" for offset in offsets.tolist()],
        )


class World(NamedTuple):
    """An index, what it is asked, and what it answers where it is sound.

    asked    positions that it decided, and new ones
    answers  by the name of the question
    """

    directory: Path
    parameters: Parameters
    asked: Entries
    answers: dict[str, Any]


def world_of(directory: Path, parameters: Parameters, seed: int) -> World:
    """Make an index, and ask it."""
    stream = Stream(parameters, seed)
    parts = []
    with _opened(directory, parameters) as index:
        for source in SOURCES:
            index.begin(source, "news", 0)
        for number in range(BATCHES):
            parts.append(stream.batch(ROWS))
            index.admit(parts[-1], dict.fromkeys(SOURCES, (number + 1) * ROWS))
        index.forget({f"document {offset}" for offset in range(500, 1_000, 60)})
    again = np.sort(np.random.default_rng(seed).choice(ROWS, 12, replace=False))
    asked = _joined([*(part.take(again) for part in parts[2::6]), stream.batch(3 * ROWS)])
    answers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        shutil.copy(directory / DATA_FILE, name)
        for question, ask in QUESTIONS.items():
            answers[question] = ask(World(Path(name), parameters, asked, {}))
    return World(directory, parameters, asked, answers)


def _joined(parts: list[Entries]) -> Entries:
    def column(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])

    names = ("source_numbers", "offsets", "kinds", "reasons", "fingerprints", "times_ms")
    return Entries(
        sources=SOURCES, ids=[id_ for part in parts for id_ in part.ids], **{name: column(name) for name in names}
    )


def _opened(directory: Path, parameters: Parameters | None, *, read_only: bool = False) -> Index:
    return Index.open(
        directory, parameters, map_bytes_max=MAP_BYTES, map_bytes_initial=MAP_BYTES, read_only=read_only, sizes=SIZES,
        retention=KEPT,
    )  # fmt: skip


def _statistics(world: World) -> Any:
    with _opened(world.directory, None, read_only=True) as index:
        found = index.statistics()
        counted = (found.entries, found.exact_entries, found.expired_below, found.forgotten, found.journal_rows)
        return counted, index.applied(), index.stream_names()


def _query(world: World) -> Any:
    with _opened(world.directory, None, read_only=True) as index:
        near = index.query(world.asked.fingerprints, limit=3)
        return near, index.query_exact(world.asked.fingerprints), index.find({"document 777", "document 980"})


def _verify(world: World) -> Any:
    with _opened(world.directory, None, read_only=True) as index:
        wrong = [example for finding in verify(index) for example in finding.examples]
    if wrong:
        raise IndexDamagedError(wrong[0])


def _admit(world: World) -> Any:
    answers = []
    for _ in range(2):
        with _opened(world.directory, world.parameters) as index:
            answers.append(_told(index.admit(world.asked, {})))
    return answers


def _told(decisions: Decisions) -> tuple[Any, ...]:
    columns = (decisions.verdicts, decisions.distances, decisions.originals, decisions.replayed)
    return *(column.tolist() for column in columns), decisions.original_ids, decisions.original_positions


QUESTIONS: dict[str, Callable[[World], Any]] = {
    "statistics": _statistics,
    "query": _query,
    "verify": _verify,
    "admit": _admit,
}


class Damage(NamedTuple):
    """A kind of damage, and a place to do it."""

    kind: str
    page: int


def zero(data: bytearray, page: int, _: random.Random) -> None:
    """A page of zeros."""
    data[page * PAGE_BYTES : (page + 1) * PAGE_BYTES] = bytes(PAGE_BYTES)


def flip(data: bytearray, page: int, chance: random.Random) -> None:
    """A single bit; every other time in the first 64 bytes of the page, where most pages have what counts."""
    data[page * PAGE_BYTES + chance.randrange(chance.choice((64, PAGE_BYTES)))] ^= 1 << chance.randrange(8)


def noise(data: bytearray, page: int, chance: random.Random) -> None:
    """A page of random bytes."""
    data[page * PAGE_BYTES : (page + 1) * PAGE_BYTES] = chance.randbytes(PAGE_BYTES)


def swap(data: bytearray, page: int, chance: random.Random) -> None:
    """Two pages change places."""
    other = chance.randrange(len(data) // PAGE_BYTES)
    one, two = (slice(each * PAGE_BYTES, (each + 1) * PAGE_BYTES) for each in (page, other))
    data[one], data[two] = data[two], data[one]


def cut(data: bytearray, page: int, chance: random.Random) -> None:
    """The file ends in this page, or where it begins."""
    del data[page * PAGE_BYTES + chance.choice((0, chance.randrange(PAGE_BYTES))) :]


def patch(data: bytearray, page: int, chance: random.Random) -> None:
    """Some random bytes within a page."""
    begin, count = page * PAGE_BYTES + chance.randrange(PAGE_BYTES - 16), chance.randrange(1, 16)
    data[begin : begin + count] = chance.randbytes(count)


KINDS = {each.__name__: each for each in (zero, flip, noise, swap, cut, patch)}


def outcome_of(world: World, damage: Damage, seed: int, *, unchecked: bool = False) -> str:
    """What comes of a damage: "harmless", or where it was noticed: "open", "use", "verify"; else what went wrong."""
    data = bytearray((world.directory / DATA_FILE).read_bytes())
    before = bytes(data)
    KINDS[damage.kind](data, damage.page, random.Random(f"{seed} {damage}"))
    if data == before:
        return "harmless"
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / DATA_FILE).write_bytes(data)
        told, status = _asked_apart(world._replace(directory=Path(name)), unchecked=unchecked)
    if status:
        return f"died of {signal.Signals(status).name}"
    return _judged(told)


def _judged(told: dict[str, str]) -> str:
    """told: "right", "damaged", "refused at opening", or what else happened, by question."""
    odd = [f"{question}: {each}" for question, each in told.items() if each not in ("right", "damaged", "at opening")]
    if odd:
        return odd[0]
    if all(each == "at opening" for each in told.values()):
        return "open"
    if any(told[question] != "right" for question in ("statistics", "query", "admit")):
        return "use" if told["verify"] != "right" else "used and noticed, but verified as sound"
    return "verify" if told["verify"] != "right" else "harmless"


def _asked_apart(world: World, *, unchecked: bool) -> tuple[dict[str, str], int]:
    """What a process of its own is told, by question; and the signal that it died of, 0 if none."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        signal.alarm(SECONDS_MAX)
        # Whoever asks may have it on: a death by a signal is counted here, and needs no picture of the stack.
        faulthandler.disable()
        if unchecked:
            _check_nothing()
        try:
            os.write(writing, pickle.dumps({question: _asked(world, question) for question in QUESTIONS}))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        octets = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return (pickle.loads(octets), 0) if octets else ({}, -status)


def _asked(world: World, question: str) -> str:
    try:
        answer = QUESTIONS[question](world)
    except NeardupIndexError as problem:
        if not isinstance(problem, IndexDamagedError):
            return type(problem).__name__
        return "at opening" if _is_of_opening(problem) else "damaged"
    except Exception as problem:  # noqa: BLE001 - whatever it is, it is counted
        return f"{type(problem).__name__}: {problem}"[:100]
    return "right" if answer == world.answers[question] else "WRONG ANSWER"


def _is_of_opening(problem: BaseException) -> bool:
    trace, names = problem.__traceback__, set()
    while trace is not None:
        names.add(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    return "_opened" in names


def _check_nothing() -> None:
    checksums.Checksums.fits = lambda *_, **__: True  # type: ignore[method-assign]
    data_file.structure_problems = lambda _: []


def damages_of(world: World, count: int, seed: int) -> Iterator[Damage]:
    """Damages of all kinds, spread evenly over the pages of a file."""
    pages = (world.directory / DATA_FILE).stat().st_size // PAGE_BYTES
    chance = random.Random(seed)
    each = max(1, count // len(KINDS))
    for kind in KINDS:
        yield from (
            Damage(kind, chance.randrange(at * pages // each, max(at * pages // each + 1, (at + 1) * pages // each)))
            for at in range(each)
        )


def outcomes(
    directory: Path, scheme: str, damages: int, seed: int, *, unchecked: bool = False
) -> Counter[tuple[str, str]]:
    """How often each kind of damage had each outcome."""
    world = world_of(directory, SCHEMES[scheme], seed)
    found: Counter[tuple[str, str]] = Counter()
    with Progress(console=Console(stderr=True)) as progress:
        for damage in progress.track(list(damages_of(world, damages, seed)), description=scheme):
            found[damage.kind, outcome_of(world, damage, seed, unchecked=unchecked)] += 1
    return found


NOTICED = ("harmless", "open", "use", "verify")


@click.command(help=__doc__)
@click.option("--damages", default=2_000, show_default=True, type=click.IntRange(1), help="Of each scheme.")
@click.option("--seed", default=1, show_default=True)
@click.option("--unchecked", is_flag=True, help="Negative control: check neither checksums nor pages.")
@click.option("--json", "as_json", is_flag=True)
def main(damages: int, seed: int, *, unchecked: bool, as_json: bool) -> None:
    compile_kernels()
    found: dict[str, dict[str, dict[str, int]]] = {}
    for scheme in SCHEMES:
        with tempfile.TemporaryDirectory() as name:
            counted = outcomes(Path(name) / "index", scheme, damages, seed, unchecked=unchecked)
        found[scheme] = {kind: {each: n for (of, each), n in sorted(counted.items()) if of == kind} for kind in KINDS}
    bad = sum(
        n for kinds in found.values() for each in kinds.values() for name, n in each.items() if name not in NOTICED
    )
    if as_json:
        click.echo(orjson.dumps({"seed": seed, "unchecked": unchecked, "outcomes": found, "bad": bad}))
    else:
        table = Shown("scheme", "damage", *NOTICED, "else")
        for scheme, kinds in found.items():
            for kind, each in kinds.items():
                others = {name: n for name, n in each.items() if name not in NOTICED}
                table.add_row(scheme, kind, *(str(each.get(name, 0)) for name in NOTICED), str(others or 0))
        Console().print(table)
    raise SystemExit(1 if bad and not unchecked else 0)


if __name__ == "__main__":
    main()
