"""The filter beside other programs, in turn, in one run: accuracy, and documents a second of processor time.

    python -m bench.peers SET [SET ...] [--scheme minhash|simhash] [--peer NAME ...] [--rounds N] [--set SETTING] [--json]

A set is a folder with `docs.jsonl.xz` (id, text, in stream order). With `pairs.tsv.gz` and `stream_truth.tsv.gz` beside it,
as `bench.accuracy` reads them, decisions are scored too. The filter goes the whole way: JSON Lines in, index on disk and
synced, output files and verdicts out. With `--scheme simhash` it counts words, as the peer of that scheme does.

A peer reads the same lines, keeps an index of unique documents in memory, and takes the nearest document that its index
finds. Texts are not normalised for a peer, which saves it time.

    rensa, datasketch  signatures of 128 values over character shingles of the filter's length; candidates by bands,
                       verified by the peer's own estimate of at least the same similarity
    simhash            the words that rjieba cuts, each as often as it occurs, within the same distance
    datatrove          its four MinHash stages as shipped (words of the script's language, 14 buckets of 8 values), in files
    incrededup         its program on the PATH (`cargo install incrededup`), from an SQLite table, with the same similarity

datatrove and incrededup see all documents before they decide, so the first document of a group counts as its original.

Bytes a document are, for the filter, those that its index on disk uses, ids included; for datatrove and incrededup, their
files without texts; for other peers, the memory by which a process of its own grows.

Every round measures the start and the end of a program apart, with one document. The ratio is given with both and
without, because a small set is little else. Tables and modules that a process loads once are loaded before.
"""

import gc
import logging
import os
import resource
import sqlite3
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from uuid import UUID

import click
import jieba
import numpy as np
import numpy.typing as npt
import orjson
import regex
from rich.console import Console
from rich.table import Table

from bench.accuracy import Stream
from bench.conditions import machine, read_lines
from bench.index import anonymous_mib
from streamer.fingerprint.scheme import scheme_for
from streamer.observe.logs import configure_logging
from streamer.service.file_job import filter_files
from streamer.service.wiring import open_index
from streamer.settings.settings import Settings, load

VALUES = 128
BANDS = 32
SCHEMES = {
    "minhash": ["fingerprint.scheme=minhash"],
    # As the peer: words, and no second look.
    "simhash": [
        "fingerprint.scheme=simhash",
        "fingerprint.features=words",
        "fingerprint.weight=tf",
        "fingerprint.second_look=none",
    ],
}

Originals = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Asked:
    """Task of the programs. `is_wide`: most documents are Chinese. `shingle_characters`: length for their script."""

    is_wide: bool
    shingle_characters: int
    similarity_min: float
    distance_max: int


Peer = Callable[[Iterable[str], Asked], tuple[Originals, object]]


def task_of(texts: Iterable[str], settings: Settings) -> Asked:
    """What these settings ask, with the shingles for the script of the first texts."""
    sample = "".join(islice(texts, 200))
    # A third, because a Han character stands for several letters. Peers take one length for all texts, which suits them.
    is_wide = 3 * len(regex.findall(r"\p{Han}", sample)) > len(regex.findall(r"\p{L}", sample))
    sizes = settings.minhash.shingle_characters_wide, settings.minhash.shingle_characters_narrow
    return Asked(is_wide, sizes[not is_wide], settings.minhash.similarity_min, settings.index.distance_max)


def by_rensa(texts: Iterable[str], asked: Asked) -> tuple[Originals, object]:
    """Row of each document's original, -1 where it is unique; and all that the peer keeps."""
    import rensa

    def signature_of(text: str) -> Any:
        signature = rensa.RMinHash(VALUES, 42)
        signature.update(shingles(text, asked.shingle_characters))
        return signature

    return _by_signatures(texts, asked, rensa.RMinHashLSH(asked.similarity_min, VALUES, BANDS), signature_of)


def by_datasketch(texts: Iterable[str], asked: Asked) -> tuple[Originals, object]:
    """Row of each document's original, -1 where it is unique; and all that the peer keeps."""
    import datasketch

    def signature_of(text: str) -> Any:
        signature = datasketch.MinHash(num_perm=VALUES)
        signature.update_batch([shingle.encode() for shingle in shingles(text, asked.shingle_characters)])
        return signature

    index = datasketch.MinHashLSH(num_perm=VALUES, params=(BANDS, VALUES // BANDS))
    return _by_signatures(texts, asked, index, signature_of)


def by_simhash(texts: Iterable[str], asked: Asked) -> tuple[Originals, object]:
    """Row of each document's original, and all that the peer keeps. A text without words is unique and not kept."""
    import rjieba
    import simhash

    # The package warns of every look-up in a large bucket.
    logging.getLogger("simhash").setLevel(logging.ERROR)
    index = simhash.SimhashIndex([], k=asked.distance_max)
    kept: dict[str, Any] = {}

    def decided(row: int, text: str) -> int:
        # A list, because the package fails on weighted words where one occurs more than 255 times.
        words = [word for word in rjieba.cut(text) if word[0].isalnum()]
        if not words:
            return -1
        fingerprint = simhash.Simhash(words)
        near = [(kept[other].distance(fingerprint), int(other)) for other in index.get_near_dups(fingerprint)]
        if near:
            return min(near)[1]
        index.add(str(row), fingerprint)
        kept[str(row)] = fingerprint
        return -1

    return np.array([decided(row, text) for row, text in enumerate(texts)], np.int64), (index, kept)


def by_datatrove(texts: Iterable[str], asked: Asked) -> tuple[Originals, object]:
    """Row of each document's original, -1 where it is the first of its cluster; and the size of all signatures."""
    # Its progress bars and its words' dictionary would write between the rows.
    os.environ["TQDM_DISABLE"] = "1"
    jieba.setLogLevel(logging.ERROR)
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup import (
        MinhashDedupBuckets,
        MinhashDedupCluster,
        MinhashDedupFilter,
        MinhashDedupSignature,
    )
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import JsonlWriter
    from loguru import logger

    def run(stage: str, *steps: Any, tasks: int = 1) -> None:
        # A run adds sinks of its own.
        logger.disable("datatrove")
        LocalPipelineExecutor(list(steps), tasks=tasks, workers=1, logging_dir=path("logs", stage)).run()

    with tempfile.TemporaryDirectory(prefix="datatrove-") as name:

        def path(*parts: str) -> str:
            return str(Path(name).joinpath(*parts))

        reader, kept = _lines_for(texts, Path(path("in"))), JsonlWriter(path("out"), compression=None)
        config, language = MinhashConfig(), "cmn_Hani" if asked.is_wide else "eng_Latn"
        run("1", JsonlReader(reader), MinhashDedupSignature(path("signatures"), config=config, language=language))
        run(
            "2",
            MinhashDedupBuckets(path("signatures"), path("buckets"), config=config),
            tasks=config.num_buckets,
        )
        run("3", MinhashDedupCluster(path("buckets"), path("clusters"), config=config, save_cluster_id=True))
        removed = JsonlWriter(path("removed"), compression=None)
        run("4", JsonlReader(reader), MinhashDedupFilter(path("clusters"), removed, load_cluster_ids=True), kept)
        clusters = {}
        for file in (*Path(name).glob("out/*"), *Path(name).glob("removed/*")):
            for line in file.read_bytes().splitlines():
                document = orjson.loads(line)
                clusters[int(document["id"])] = document["metadata"].get("minhash_cluster_id", -1)
        size = sum(file.stat().st_size for file in Path(path("signatures")).rglob("*") if file.is_file())
    firsts: dict[int, int] = {}
    originals = np.full(len(clusters), -1, np.int64)
    for row in range(len(clusters)):
        if clusters[row] != -1 and firsts.setdefault(clusters[row], row) != row:
            originals[row] = firsts[clusters[row]]
    return originals, size


def by_incrededup(texts: Iterable[str], asked: Asked) -> tuple[Originals, object]:
    """Row of each document's original, -1 where it is the first of its group; and the size of its files."""
    with tempfile.TemporaryDirectory(prefix="incrededup-") as name:
        table, data = Path(name) / "documents.sqlite", Path(name) / "data"
        with sqlite3.connect(table) as database:
            database.execute(
                "CREATE TABLE documents (id TEXT PRIMARY KEY, content TEXT NOT NULL, content_len INTEGER NOT NULL, "
                "filename TEXT, is_parent INTEGER)"
            )
            rows = ((str(UUID(int=row)), text, len(text.encode()), None, None) for row, text in enumerate(texts))
            count = database.executemany("INSERT INTO documents VALUES (?, ?, ?, ?, ?)", rows).rowcount
        options = ["--sqlite", str(table), "--data-dir", str(data), "--threshold", str(asked.similarity_min)]
        command = ["incrededup", *options, "--min-content-len", "1", "--workers", "1"]
        subprocess.run(command, check=True, capture_output=True)
        with sqlite3.connect(table) as database:
            found = database.execute("SELECT child_id, parent_id FROM dupes").fetchall()
            pairs = np.array([[UUID(each).int for each in pair] for pair in found], np.int64)
        size = sum(file.stat().st_size for file in data.rglob("*") if file.is_file())
    firsts, originals = np.arange(count), np.full(count, -1, np.int64)
    children, parents = pairs.reshape(-1, 2).T
    np.minimum.at(firsts, parents, children)
    firsts[children] = firsts[parents]
    repeats = firsts != np.arange(count)
    originals[repeats] = firsts[repeats]
    return originals, size


def _lines_for(texts: Iterable[str], folder: Path) -> str:
    """Folder with the texts as JSON Lines, whose ids are their rows."""
    folder.mkdir()
    with (folder / "in.jsonl").open("wb") as lines:
        lines.writelines(orjson.dumps({"id": str(row), "text": text}) + b"\n" for row, text in enumerate(texts))
    return str(folder)


def shingles(text: str, size: int) -> list[str]:
    """Runs of `size` characters of a text without its white space."""
    solid = "".join(text.split())
    return [solid[begin : begin + size] for begin in range(max(1, len(solid) - size + 1))]


def _by_signatures(
    texts: Iterable[str], asked: Asked, index: Any, signature_of: Callable[[str], Any]
) -> tuple[Originals, object]:
    kept: dict[int, Any] = {}

    def decided(row: int, text: str) -> int:
        signature = signature_of(text)
        similar = [(-signature.jaccard(kept[other]), other) for other in index.query(signature)]
        nearest = min((one for one in similar if -one[0] >= asked.similarity_min), default=None)
        if nearest is not None:
            return nearest[1]
        index.insert(row, signature)
        kept[row] = signature
        return -1

    return np.array([decided(row, text) for row, text in enumerate(texts)], np.int64), (index, kept)


PEERS: dict[str, Peer] = {
    "rensa": by_rensa,
    "datasketch": by_datasketch,
    "simhash": by_simhash,
    "datatrove": by_datatrove,
    "incrededup": by_incrededup,
}
USUAL_PEERS = {"minhash": ("rensa",), "simhash": ("simhash", "rensa")}


def texts_of(lines: Path) -> Iterator[str]:
    """Text of every line, decoded one at a time."""
    with lines.open("rb") as documents:
        for line in documents:
            yield orjson.loads(line)["text"]


def processor_seconds() -> float:
    """Processor time of this process and of those that it ran to their end."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def by_filter(lines: Path, directory: Path, settings: Settings) -> float:
    """Seconds of processor time that the filter takes for a file; its outputs go to `directory`."""
    begin = processor_seconds()
    filter_files(settings, [lines], directory, Console(quiet=True))
    return processor_seconds() - begin


def originals_in(directory: Path) -> Originals:
    """Decisions of the filter: row of each document's original, -1 where it is unique."""
    verdicts = [orjson.loads(line) for line in (directory / "verdicts.jsonl").read_bytes().splitlines()]
    rows = {verdict["id"]: row for row, verdict in enumerate(verdicts)}
    return np.array([rows.get(verdict["original"], -1) for verdict in verdicts], np.int64)


def bytes_kept(peer: str, first: Path, lines: Path, asked: Asked) -> float:
    """Bytes of a peer's index of `lines`: those that it tells, or by which this process grows after one of `first`."""
    PEERS[peer](texts_of(first), asked)
    gc.collect()
    before = anonymous_mib()
    _, kept = PEERS[peer](texts_of(lines), asked)
    gc.collect()
    return float(kept) if isinstance(kept, int) else (anonymous_mib() - before) * 2**20


@dataclass(slots=True)
class Taken:
    """Measurements of one program.

    one, all   seconds of processor time, one a round, for one document and for all
    originals  row of each document's original, -1 where it is unique
    bytes      size of its index of all documents
    """

    one: list[float]
    all: list[float]
    originals: Originals
    bytes: float = 0.0


def run(lines: Path, scheme: str, peers: Sequence[str], rounds: int, overrides: Sequence[str]) -> dict[str, Taken]:
    """Measurements of all programs over a file of lines, the filter first."""
    taken = {program: Taken([], [], np.zeros(0, np.int64)) for program in ("filter", *peers)}
    directory = lines.parent
    first = directory / "first.jsonl"
    with lines.open("rb") as documents:
        first.write_bytes(documents.readline())
    for number in range(rounds):
        out = directory / f"out-{number}"
        for name, file in (("one", first), ("all", lines)):
            own = [f"index.directory={directory / f'index-{number}-{name}'}", "fingerprint.key=public"]
            settings = load(None, [*SCHEMES[scheme], *own, *overrides], {})
            scheme_for(settings)
            getattr(taken["filter"], name).append(by_filter(file, out / name, settings))
            asked = task_of(texts_of(lines), settings)
            for peer in peers:
                begin = processor_seconds()
                taken[peer].originals, _ = PEERS[peer](texts_of(file), asked)
                getattr(taken[peer], name).append(processor_seconds() - begin)
        taken["filter"].originals = originals_in(out / "all")
        with open_index(settings, scheme_for(settings)) as index:
            taken["filter"].bytes = index.statistics().used_bytes
    for peer in peers:
        with ProcessPoolExecutor(1, get_context("spawn")) as own_process:
            taken[peer].bytes = own_process.submit(bytes_kept, peer, first, lines, asked).result()
    return taken


def measure(
    folder: Path, scheme: str, peers: Sequence[str], rounds: int, overrides: Sequence[str]
) -> list[dict[str, Any]]:
    """One row per program: medians of the rounds. Scores are None where the set has no truth."""
    stream = Stream(folder) if (folder / "pairs.tsv.gz").exists() else None
    rows = list(read_lines(folder / "docs.jsonl.xz"))
    characters = sum(len(row["text"]) for row in rows)
    megabytes = sum(len(row["text"].encode()) for row in rows) / 1e6
    with tempfile.TemporaryDirectory(prefix="peers-") as name:
        lines = Path(name) / "in.jsonl"
        lines.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
        taken = run(lines, scheme, peers, rounds, overrides)
    filtered = taken["filter"]
    results = []
    for program, own in taken.items():
        score = None
        if stream is not None:
            score = stream.judge(own.originals, "unique")
        running = [whole - one for whole, one in zip(own.all, own.one, strict=True)]
        filter_running = [whole - one for whole, one in zip(filtered.all, filtered.one, strict=True)]
        results.append(
            {
                "set": folder.name,
                "scheme": scheme,
                "program": program,
                "precision": score and score.precision.value,
                "recall": score and score.recall.value,
                "f1": score and score.f1.value,
                "same_verdict": float(np.mean((own.originals >= 0) == (filtered.originals >= 0))),
                "documents_per_cpu_second": len(rows) / statistics.median(own.all),
                "mb_per_cpu_second": megabytes / statistics.median(own.all),
                "characters_per_cpu_second": characters / statistics.median(own.all),
                "bytes_per_document": own.bytes / len(rows),
                "one_document_cpu_ms": 1e3 * statistics.median(own.one),
                "filter_is_faster_by": _ratio(own.all, filtered.all),
                "without_start": _ratio(running, filter_running),
            }
        )
    return results


def _ratio(own: Sequence[float], filtered: Sequence[float]) -> float:
    return statistics.median(one / other for one, other in zip(own, filtered, strict=True))


@click.command(help=__doc__)
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--scheme", default="minhash", show_default=True, type=click.Choice(list(SCHEMES)))
@click.option("--peer", "peers", multiple=True, type=click.Choice(list(PEERS)), help="As is usual for the scheme.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--set", "overrides", multiple=True, help="A setting of the filter.")
@click.option("--json", "as_json", is_flag=True)
def main(
    folders: tuple[Path, ...],
    scheme: str,
    peers: tuple[str, ...],
    rounds: int,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    configure_logging("warning", "console")
    chosen = peers or USUAL_PEERS[scheme]
    results = [row for folder in folders for row in measure(folder, scheme, chosen, rounds, overrides)]
    if as_json:
        click.echo(orjson.dumps({"conditions": machine(), "results": results}, option=orjson.OPT_INDENT_2))
        return
    table = Table(*results[0])
    for result in results:
        table.add_row(*(f"{value:,.4g}" if isinstance(value, float) else str(value) for value in result.values()))
    Console(width=200).print(table)


if __name__ == "__main__":
    main()
