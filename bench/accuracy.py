"""Precision and recall of the filter over documents with known truth.

    python -m bench.accuracy SET [SET ...] [--setting NAME ...] [--index disk|memory] [--links] [--json]

A set is a folder with one of

    docs.jsonl.xz, pairs.tsv.gz, stream_truth.tsv.gz  documents in stream order (id, text, perhaps title and metadata), and
                                                      their Jaccard similarities
    docs.jsonl.xz                                     documents labelled by edit operator (`base`, `op`, `label`)
    pairs.jsonl.xz                                    labelled pairs
    articles_N.jsonl.xz, articles_N.truth.tsv         articles, and the pairs among them that are duplicates

Documents pass through the product's own Fingerprinter and Index. `--index memory` replaces the index by brute force over
all pairs, which decides the same and lets many settings share one fingerprinting. With MinHash, brute force also finds
pairs that share no band: the difference is what bands miss.
A setting is named as in `shingles2-log-tf-64-3-min8-unique`, `minhash-128x8-k5/12-0.7-min8-unique` or, for words,
`minhash-128x8-w3-0.7`. `minhash` and `simhash` are the schemes as shipped, `default` the one of them that is the default.
With `--links` the addresses in a text are the metadata of a document of a stream that brings none, as its references.
"""

import gzip
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np
import numpy.typing as npt
import orjson
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.conditions import PROGRESS, machine, read_lines
from bench.named_settings import Hashing, Policy, Setting, parse
from bench.scoring import Pairs, counting, decide, near_pairs, policy_similarities
from index.entry import Kind
from index.matching.minhash import DISTANCE_UNITS
from streamer.evaluation.join import similar_pairs, tokens_in_a_run
from streamer.evaluation.scores import (
    DUPLICATE_MIN,
    UNIQUE_BELOW,
    Scores,
    Truth,
    admit,
    pairs_flagged,
    score,
)
from streamer.evaluation.sets import Documents, EvaluationSet, read_set
from streamer.fingerprint.documents import fingerprint_documents
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.fingerprint.scheme import scheme_for
from streamer.records.decode import Document

_LINK = re.compile(r"https?://[^\s<>()\[\]\"'`]+")


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one setting on one set.

    flagged_grey  flagged rows in the grey, which count neither way
    operators     recall per edit operator, in a set that has them
    """

    set_name: str
    setting: str
    documents: int
    scores: Scores
    flagged_grey: int
    undecidable: int
    documents_per_second: float
    operators: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """All fields, and the figures derived from the counts."""
        fields = asdict(self)
        return fields | fields.pop("scores") | figures(self.scores)


def figures(scores: Scores) -> dict[str, float]:
    """Shares that follow from the counts."""
    shares = {name: getattr(scores, name).value for name in ("precision", "recall", "f1")}
    return shares | {"false_per_million": scores.false_per_million}


class Fingerprinted:
    """Documents of a set. Each way to hash fingerprints them once."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self._prints: dict[tuple[Hashing, int], tuple[Fingerprints, float]] = {}

    def fingerprint(self, setting: Setting) -> tuple[Fingerprints, float]:
        """Fingerprints, with what a second look compares, and the seconds that they took."""
        # The kind of the second look changes the fingerprints; its thresholds do not.
        key = setting.hashing, 0 if setting.look is None else setting.look.bytes
        if key not in self._prints:
            scheme = scheme_for(setting.settings)
            begin = time.perf_counter()
            prints = fingerprint_documents(scheme, self.documents)
            self._prints[key] = prints, time.perf_counter() - begin
        return self._prints[key]


class Stream:
    """A set with documents in stream order and the similarity of every pair above a floor."""

    def __init__(self, folder: Path, *, links: bool = False) -> None:
        whole = read_set(folder)
        assert whole.similarities is not None
        documents = whole.documents
        if links:
            documents = [replace(each, metadata=each.metadata or tuple(_LINK.findall(each.text))) for each in documents]
        self.name, self.floor, self.earlier = folder.name, whole.floor, whole.similarities
        self.documents, self.texts = Fingerprinted(documents), [each.text for each in documents]
        numbers = {each.id: number for number, each in enumerate(documents)}
        pair_rows = read_table(folder / "pairs.tsv.gz")
        both = np.array([[numbers[one], numbers[other]] for one, other, _ in pair_rows], np.int64).reshape(-1, 2)
        values = np.array([float(row[2]) for row in pair_rows])
        order = np.lexsort((both.min(axis=1), both.max(axis=1)))
        self.pairs = Pairs(both.max(axis=1)[order], both.min(axis=1)[order], values[order])
        self._kept = {
            insert: policy_similarities(self.pairs, len(documents), insert) for insert in ("unique", "root", "all")
        }
        self._computed: dict[tuple[int, int], float] = {}
        self._near: dict[Hashing, Pairs] = {}

    def run(self, setting: Setting, place: Literal["disk", "memory"], distance_max: int) -> Result:
        """Stream the documents through one setting. `distance_max` is the largest of all settings with its hashing."""
        prints, seconds = self.documents.fingerprint(setting)
        begin = time.perf_counter()
        if place == "disk":
            originals = admit(prints, setting.parameters).originals
            seconds += time.perf_counter() - begin
        else:
            if setting.hashing not in self._near:
                self._near = {setting.hashing: near_pairs(prints, distance_max, setting.parameters.banding)}
            near = counting(self._near[setting.hashing], prints, setting.distance_max, setting.look)
            originals = decide(near, len(prints), DISTANCE_UNITS, setting.insert)
        truth = self.truth_of(originals, setting.insert)
        return result(self.name, setting, originals >= 0, truth, prints, seconds)

    def judge(self, originals: npt.NDArray[np.int64], insert: Policy) -> Scores:
        """Score decisions on this stream: int64 [n], row of each document's original, -1 where it is unique."""
        return score(originals >= 0, self.truth_of(originals, insert))

    def truth_of(self, originals: npt.NDArray[np.int64], insert: Policy) -> Truth:
        """Truth about a policy: a duplicate resembles a document that the policy keeps, any other document none at all."""
        return Truth(self._kept[insert] >= DUPLICATE_MIN, self._similarities(originals) < UNIQUE_BELOW)

    def _similarities(self, originals: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Similarities with earlier documents. Where the truth's floor hides the grey, those of flagged rows are computed."""
        if self.floor <= UNIQUE_BELOW:
            return self.earlier
        similarities = self.earlier.copy()
        for row in np.flatnonzero((originals >= 0) & (similarities < UNIQUE_BELOW)).tolist():
            pair = row, int(originals[row])
            if pair not in self._computed:
                texts = [self.texts[number] for number in pair]
                self._computed[pair] = similar_pairs(texts, UNIQUE_BELOW, self._shingle_tokens()).nearest(2)[0][1]
            similarities[row] = self._computed[pair]
        return similarities

    @cache  # noqa: B019  a set lives as long as the program
    def _shingle_tokens(self) -> int:
        return tokens_in_a_run(self.texts)


class Labelled:
    """A set of pairs with labels; those labelled `unknown` are left out."""

    def __init__(self, pairs: EvaluationSet) -> None:
        assert pairs.others is not None
        rows = [row for row, label in enumerate(pairs.labels) if label != "unknown"]
        self.name = pairs.name
        self.texts, self.other_texts = ([side[row].text for row in rows] for side in (pairs.documents, pairs.others))
        # A label is about texts, whatever their titles.
        self._sides = [Fingerprinted([Document("", text) for text in side]) for side in (self.texts, self.other_texts)]
        self.truth = Truth(pairs.truth.duplicate[rows], pairs.truth.different[rows])
        self.operators = np.array(pairs.labels)[rows]

    def run(self, setting: Setting, place: Literal["disk", "memory"], distance_max: int) -> Result:
        """Compare each pair by itself, without index and policy."""
        del place, distance_max
        (left, one), (right, other) = (side.fingerprint(setting) for side in self._sides)
        flagged = pairs_flagged(left, right, setting.parameters)
        recalls = {}
        for operator in np.unique(self.operators).tolist():
            rows = (self.operators == operator) & self.truth.duplicate
            if rows.any():
                recalls[operator] = float(flagged[rows].mean())
        return result(self.name, setting, flagged, self.truth, None, (one + other) / 2, recalls)

    def judge(self, flagged: npt.NDArray[np.bool_]) -> Scores:
        """Score decisions on these pairs: bool [pairs]."""
        return score(flagged, self.truth)


class AllPairs:
    """A set of articles. Some pairs are known to be duplicates; no other pair is."""

    def __init__(self, articles: Path) -> None:
        rows = list(read_lines(articles))
        self.name = f"{articles.parent.name}/{articles.name.removesuffix('.jsonl.xz')}"
        self.documents = Fingerprinted([Document(row["id"], row["text"]) for row in rows])
        numbers = {row["id"]: number for number, row in enumerate(rows)}
        lines = articles.with_name(articles.name.replace(".jsonl.xz", ".truth.tsv")).read_text("utf-8").splitlines()
        self.truth = {frozenset((numbers[one], numbers[other])) for one, other, *_ in map(str.split, lines)}

    def run(self, setting: Setting, place: Literal["disk", "memory"], distance_max: int) -> Result:
        """Flag every pair within the distance."""
        del place, distance_max
        prints, seconds = self.documents.fingerprint(setting)
        near = near_pairs(prints, setting.distance_max, setting.parameters.banding)
        near = counting(near, prints, setting.distance_max, setting.look)
        flagged = {frozenset(pair) for pair in zip(near.later.tolist(), near.earlier.tolist(), strict=True)}
        every, right = len(prints) * (len(prints) - 1) // 2, len(flagged & self.truth)
        wrong, missed = len(flagged) - right, len(self.truth) - right
        scores = Scores(right, wrong, missed, every - len(self.truth) - wrong)
        undecidable = int((prints.kinds == Kind.UNDECIDABLE).sum())
        return Result(self.name, setting.name, len(prints), scores, 0, undecidable, len(prints) / seconds, {})


def result(
    name: str,
    setting: Setting,
    flagged: npt.NDArray[np.bool_],
    truth: Truth,
    prints: Fingerprints | None,
    seconds: float,
    operators: dict[str, float] | None = None,
) -> Result:
    """Result of decisions, bool [n], that took so many seconds."""
    grey = int((flagged & ~truth.duplicate & ~truth.different).sum())
    undecidable = 0 if prints is None else int((prints.kinds == Kind.UNDECIDABLE).sum())
    speed = len(flagged) / seconds
    return Result(name, setting.name, len(flagged), score(flagged, truth), grey, undecidable, speed, operators or {})


def open_sets(folder: Path, *, links: bool = False) -> Iterator[Stream | Labelled | AllPairs]:
    """Sets in a folder, by the files that it has. Raises click.BadParameter."""
    if (folder / "stream_truth.tsv.gz").exists():
        yield Stream(folder, links=links)
    elif (folder / "docs.jsonl.xz").exists() or (folder / "pairs.jsonl.xz").exists():
        yield Labelled(read_set(folder))
    elif articles := sorted(folder.glob("articles_*.jsonl.xz")):
        yield from map(AllPairs, articles)
    else:
        raise click.BadParameter(f"{folder} holds no set that this bench can read.")


def read_table(path: Path) -> list[list[str]]:
    """Rows below the remark and the line of column names."""
    return [row.split("\t") for row in gzip.decompress(path.read_bytes()).decode("utf-8").splitlines()[2:]]


def show(results: Sequence[Result], conditions: dict[str, Any]) -> None:
    """One table a set, best F1 first, and the machine that it was measured on."""
    console = Console(width=None if sys.stdout.isatty() else 170)
    for name in dict.fromkeys(result.set_name for result in results):
        of_set = [result for result in results if result.set_name == name]
        table = Table(title=f"{name}: {of_set[0].documents:,} documents or pairs", title_justify="left")
        columns = [
            "precision",
            "recall",
            "F1",
            "false/million",
            "false",
            "missed",
            "grey",
            "undecidable",
            "documents/s",
        ]
        table.add_column("setting", no_wrap=True)
        for column in columns:
            table.add_column(column, justify="right")
        for result in sorted(of_set, key=lambda result: -result.scores.f1.value):
            scores = result.scores
            table.add_row(
                result.setting,
                *(f"{share.value:.4f}" for share in (scores.precision, scores.recall, scores.f1)),
                f"{scores.false_per_million:,.0f}",
                *map(str, (scores.false_duplicates, scores.missed, result.flagged_grey, result.undecidable)),
                f"{result.documents_per_second:,.0f}",
            )
        console.print(table)
        if of_set[0].operators:
            operators = Table(title=f"{name}: recall by operator or label", title_justify="left")
            operators.add_column("")
            for result in of_set:
                operators.add_column(result.setting, justify="right")
            for operator in of_set[0].operators:
                operators.add_row(operator, *(f"{result.operators[operator]:.3f}" for result in of_set))
            console.print(operators)
    console.print(" | ".join(f"{name}: {value}" for name, value in conditions.items()))


@click.command(help=__doc__)
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--setting", "names", multiple=True, default=("default",), help="Name of a setting; may be repeated.")
@click.option("--index", "place", type=click.Choice(["disk", "memory"]), default="disk", show_default=True)
@click.option("--insert", type=click.Choice(["unique", "root", "all", "both"]), help="Overrides what the settings say.")
@click.option("--links", is_flag=True, help="Take the links in a text as metadata, where a stream brings none.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable results instead of tables.")
def main(
    folders: tuple[Path, ...],
    names: tuple[str, ...],
    place: Literal["disk", "memory"],
    insert: Literal["unique", "root", "all", "both"] | None,
    links: bool,
    as_json: bool,
) -> None:
    try:
        settings = [parse(name) for name in names]
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from problem
    policies: tuple[Policy, ...] = ("unique", "all") if insert == "both" else (insert,) if insert else ()
    if policies:
        settings = [replace(one, insert=policy) for one in settings for policy in policies]
    if place == "memory" and any(setting.insert == "root" for setting in settings):
        raise click.BadParameter("roots are looked up on disk alone: leave --index memory out")
    farthest: dict[Hashing, int] = {}
    for setting in settings:
        farthest[setting.hashing] = max(setting.distance_max, farthest.get(setting.hashing, 0))
    # Settings that follow each other share fingerprints and pairs.
    settings.sort(key=lambda setting: setting.hashing.model_dump_json())
    results: list[Result] = []
    for folder in folders:
        for each in open_sets(folder, links=links):
            steps = track(settings, description=each.name, console=PROGRESS)
            results += [each.run(setting, place, farthest[setting.hashing]) for setting in steps]
    if as_json:
        answer = {"conditions": machine(), "results": [result.as_dict() for result in results]}
        click.echo(orjson.dumps(answer, option=orjson.OPT_INDENT_2))
    else:
        show(results, machine())


if __name__ == "__main__":
    main()
