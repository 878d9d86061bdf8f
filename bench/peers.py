"""The filter beside other MinHash programs: accuracy, and documents a second of processor time, in turn, in one run.

    python -m bench.peers SET [SET ...] [--peer rensa --peer datasketch] [--rounds N] [--set SETTING] [--json]

A set is a stream as `bench.accuracy` reads it. The filter goes the whole way: JSON Lines in, index on disk and synced,
output files and verdicts out; its character tables are loaded once a process, before the clock starts. A peer reads the
same lines and keeps its index in memory: its signatures of 128 values over character shingles of the same length,
candidates by bands, verified by its own estimate of at least the same similarity, only unique documents kept. Nothing is
normalised for a peer, which is to its advantage in time.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import orjson
import regex
from rich.console import Console
from rich.table import Table

from bench.accuracy import Stream, machine
from streamer import config
from streamer.backfill import filter_files
from streamer.scheme import scheme_for

VALUES = 128
BANDS = 32

Decider = Callable[[Iterable[list[str]], float], npt.NDArray[np.int64]]


def by_rensa(documents: Iterable[list[str]], similarity_min: float) -> npt.NDArray[np.int64]:
    """Per document the row of its original, -1 where it is unique."""
    import rensa

    def signature_of(shingles: list[str]) -> Any:
        signature = rensa.RMinHash(VALUES, 42)
        signature.update(shingles)
        return signature

    return _decided(documents, similarity_min, rensa.RMinHashLSH(similarity_min, VALUES, BANDS), signature_of)


def by_datasketch(documents: Iterable[list[str]], similarity_min: float) -> npt.NDArray[np.int64]:
    """Per document the row of its original, -1 where it is unique."""
    import datasketch

    def signature_of(shingles: list[str]) -> Any:
        signature = datasketch.MinHash(num_perm=VALUES)
        signature.update_batch([shingle.encode() for shingle in shingles])
        return signature

    index = datasketch.MinHashLSH(num_perm=VALUES, params=(BANDS, VALUES // BANDS))
    return _decided(documents, similarity_min, index, signature_of)


def _decided(
    documents: Iterable[list[str]], similarity_min: float, index: Any, signature_of: Callable[[list[str]], Any]
) -> npt.NDArray[np.int64]:
    kept: dict[int, Any] = {}
    originals: list[int] = []
    for row, shingles in enumerate(documents):
        signature = signature_of(shingles)
        similar = [(-signature.jaccard(kept[other]), other) for other in index.query(signature)]
        nearest = min((one for one in similar if -one[0] >= similarity_min), default=None)
        originals.append(-1 if nearest is None else nearest[1])
        if nearest is None:
            index.insert(row, signature)
            kept[row] = signature
    return np.array(originals, np.int64)


PEERS: dict[str, Decider] = {"rensa": by_rensa, "datasketch": by_datasketch}


def shingled(lines: Path, size: int) -> Iterable[list[str]]:
    """The character shingles of every line's text, white space left out."""
    with lines.open("rb") as documents:
        for line in documents:
            text = "".join(orjson.loads(line)["text"].split())
            yield [text[begin : begin + size] for begin in range(max(1, len(text) - size + 1))]


def by_filter(lines: Path, directory: Path, settings: config.Settings) -> tuple[npt.NDArray[np.int64], float]:
    """The filter's decisions on a file, and the seconds of processor time it took."""
    scheme_for(settings)
    begin = time.process_time()
    filter_files(settings, [lines], directory / "out", Console(quiet=True))
    seconds = time.process_time() - begin
    verdicts = [orjson.loads(line) for line in (directory / "out" / "verdicts.jsonl").read_bytes().splitlines()]
    rows = {verdict["id"]: row for row, verdict in enumerate(verdicts)}
    return np.array([rows.get(verdict["original"], -1) for verdict in verdicts], np.int64), seconds


def measure(stream: Stream, peers: Sequence[str], rounds: int, overrides: Sequence[str]) -> list[dict[str, Any]]:
    """One row per program: the median of the rounds, and how many times as long as the filter it took."""
    characters = sum(map(len, stream.texts.texts))
    sample = "".join(stream.texts.texts[:200])
    # A third: a Han character takes the place of several letters, and peers have one length for all (what suits them).
    is_wide = 3 * len(regex.findall(r"\p{Han}", sample)) > len(regex.findall(r"\p{L}", sample))
    seconds: dict[str, list[float]] = {}
    decided: dict[str, npt.NDArray[np.int64]] = {}
    with tempfile.TemporaryDirectory(prefix="peers-") as name:
        lines = Path(name) / "in.jsonl"
        lines.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in stream.rows))
        for number in range(rounds):
            directory = Path(name) / str(number)
            directory.mkdir()
            chosen = ["fingerprint.scheme=minhash", f"index.directory={directory / 'index'}", *overrides]
            settings = config.load(None, chosen, {})
            minhash = settings.minhash
            size = minhash.shingle_characters_wide if is_wide else minhash.shingle_characters_narrow
            decided["filter"], took = by_filter(lines, directory, settings)
            seconds.setdefault("filter", []).append(took)
            for peer in peers:
                begin = time.process_time()
                decided[peer] = PEERS[peer](shingled(lines, size), minhash.similarity_min)
                seconds.setdefault(peer, []).append(time.process_time() - begin)
    results = []
    for program, taken in seconds.items():
        found = stream.judge(decided[program], np.zeros(len(decided[program]), np.bool_), "unique")
        ratios = [own / filtered for own, filtered in zip(taken, seconds["filter"], strict=True)]
        results.append(
            {
                "set": stream.name,
                "program": program,
                "precision": found.precision,
                "recall": found.recall,
                "f1": found.f1,
                "documents_per_cpu_second": len(stream.texts) / statistics.median(taken),
                "characters_per_cpu_second": characters / statistics.median(taken),
                "filter_is_faster_by": statistics.median(ratios),
            }
        )
    return results


@click.command(help=__doc__)
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--peer", "peers", multiple=True, type=click.Choice(list(PEERS)), default=("rensa",))
@click.option("--rounds", default=3, show_default=True)
@click.option("--set", "overrides", multiple=True, help="A setting of the filter.")
@click.option("--json", "as_json", is_flag=True)
def main(
    folders: tuple[Path, ...], peers: tuple[str, ...], rounds: int, overrides: tuple[str, ...], as_json: bool
) -> None:
    results = [row for folder in folders for row in measure(Stream(folder), peers, rounds, overrides)]
    if as_json:
        click.echo(orjson.dumps({"conditions": machine(), "results": results}, option=orjson.OPT_INDENT_2))
        return
    table = Table(*results[0])
    for result in results:
        table.add_row(*(f"{value:,.4g}" if isinstance(value, float) else str(value) for value in result.values()))
    Console(width=170).print(table)


if __name__ == "__main__":
    main()
