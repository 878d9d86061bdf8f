"""The audit's estimates against exact counting, over many samples of one set of documents.

    python -m bench.audit DOCUMENTS.jsonl [--seeds 40] [--one-in 1,4,16,64] [--set SECTION.KEY=VALUE ...]

`streamer filter` decides the documents once, in order. Exact recall and precision follow from all pairs of feature sets. Each
seed draws another sample.
"""

import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import click
import numpy as np
import numpy.typing as npt
import orjson
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.conditions import machine
from streamer.audit import store
from streamer.audit.estimates import Estimate, Limits, precision, recall
from streamer.audit.report import limits_of
from streamer.audit.store import FILE_NAME, Audited, AuditStore, Judged
from streamer.cli.main import cli
from streamer.fingerprint.key import PUBLIC
from streamer.fingerprint.sample import samples
from streamer.settings.settings import load


def decided(file: Path, folder: Path, settings: Sequence[str]) -> list[Audited]:
    """Every document that has features, as the filter decided it, in order."""
    index = folder / "index"
    chosen = [f"--set={each}" for each in (*settings, "audit.one_in=1")]
    # In this process, so that the features of copies are stored too.
    with patch.object(store, "COPY_MIN", 2.0), redirect_stdout(StringIO()):
        cli.main(["filter", str(file), "--out", str(folder), "--index", str(index), *chosen], standalone_mode=False)
    with (folder / "verdicts.jsonl").open("rb") as lines:
        originals = {each["line"]: each.get("original_line") for each in map(orjson.loads, lines)}
    with closing(sqlite3.connect(index / FILE_NAME)) as connection:
        rows = connection.execute("SELECT position, id, host, dropped, named, features FROM sample ORDER BY number")
        documents = []
        for position, id_, host, dropped, named, features in rows:
            line = int(position.rpartition("/")[2]) + 1
            original = originals[line]
            documents.append(
                Audited(
                    *(str(line), position, id_, host, 0, np.frombuffer(features, np.uint32)),
                    dropped=bool(dropped),
                    named=bool(named),
                    original="" if original is None else str(original),
                )
            )
    return documents


def exactly(documents: Sequence[Audited]) -> list[Judged]:
    """What an audit of all pairs would note: each document is a group by itself."""
    numbers = {document.place: number for number, document in enumerate(documents)}
    sizes = np.array([len(document.features) for document in documents])
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    features = np.unique(np.concatenate([each.features for each in documents]), return_inverse=True)[1]
    # Holders of feature f, ascending: holders[begins[f]:begins[f + 1]].
    holders = np.repeat(np.arange(len(documents)), sizes)[np.argsort(features, kind="stable")]
    begins = np.concatenate([[0], np.cumsum(np.bincount(features))])
    dropped = np.array([document.dropped for document in documents])
    judged = []
    for number, document in enumerate(track(documents, "all pairs", console=Console(stderr=True))):
        own = features[bounds[number] : bounds[number + 1]]
        counts = begins[own + 1] - begins[own]
        places = np.repeat(begins[own] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        common = np.bincount(holders[places], minlength=len(documents))[:number]
        similarities = common / (sizes[:number] + sizes[number] - common)
        judged.append(
            Judged(
                *(document.position, document.id, document.host, number.to_bytes(8, "big"), 0.0),
                *(document.dropped, document.named),
                *(
                    float(np.where(dropped[:number], 0, similarities).max(initial=0)),
                    "",
                    float(similarities.max(initial=0)),
                ),
                *(float(similarities[numbers[document.original]]) if document.dropped else None, None),
            )
        )
    return judged


def sampled(documents: Sequence[Audited], one_in: int, seed: int) -> list[Judged]:
    """What the audit notes of a sample."""
    features = np.concatenate([document.features for document in documents]).astype(np.uint64)
    bounds = np.concatenate([[0], np.cumsum([len(document.features) for document in documents])])
    chosen = samples(features, bounds, one_in, replace(PUBLIC, seed=seed)).tolist()
    with tempfile.TemporaryDirectory() as folder:
        kept = AuditStore(Path(folder), 2**40)
        kept.add(
            [
                replace(each, least=sample.least, one_in=one_in)
                for each, sample in zip(documents, chosen, strict=True)
                if sample
            ],
            0.0,
        )
        return kept.judged()


def share(hits: Sequence[bool]) -> float:
    """Share of hits."""
    return sum(hits) / max(1, len(hits))


def exact(judged: Sequence[Judged], limits: Limits) -> dict[str, float]:
    """Recall and precision by the definitions of `estimates`, unweighted."""
    due = [each for each in judged if each.kept >= limits.similarity_min]
    right = [each.near >= limits.similarity_min and each.original >= limits.root for each in judged if each.original]
    return {"recall": share([each.named for each in due]), "precision": share(right)}


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True))
@click.option("--seeds", default=40, show_default=True)
@click.option("--one-in", "chances", default="1,4,16,64", show_default=True)
@click.option("--set", "overrides", multiple=True)
def main(file: Path, seeds: int, chances: str, overrides: tuple[str, ...]) -> None:
    """Print bias, deviation and coverage of the audit's estimates."""
    limits = limits_of(load(overrides=overrides, over_files=True))
    with tempfile.TemporaryDirectory() as folder:
        documents = decided(file, Path(folder), overrides)
    truth = exact(exactly(documents), limits)
    table = Table("one in", "measured", "exact", "mean", "deviation", "interval covers", "estimates", "pairs", box=None)
    for one_in in map(int, chances.split(",")):
        seen = [
            sampled(documents, one_in, seed)
            for seed in track(range(1, seeds + 1), f"1 in {one_in}", console=Console(stderr=True))
        ]
        for name, estimates in (
            ("recall", [recall(each, limits.similarity_min) for each in seen]),
            ("precision", [precision(each, limits) for each in seen]),
        ):
            table.add_row(str(one_in), name, f"{truth[name]:.4f}", *figures(estimates, truth[name]))
    Console().print(table)
    print(f"{len(documents):,} documents; {', '.join(map(str, machine().values()))}")


def figures(estimates: Sequence[Estimate], truth: float) -> list[str]:
    """Mean, deviation, coverage, how many seeds gave an estimate, and pairs on average."""
    given = [each for each in estimates if each.estimate is not None]
    shares: npt.NDArray[np.float64] = np.array([each.estimate for each in given])
    pairs = f"{np.mean([each.seen for each in estimates]):.0f}"
    if not given:
        return ["-", "-", "-", "0", pairs]
    covers = share([each.low <= truth <= each.high for each in given])  # type: ignore[operator]
    return [f"{shares.mean():.4f}", f"{shares.std():.4f}", f"{covers:.2f}", str(len(given)), pairs]


if __name__ == "__main__":
    main()
