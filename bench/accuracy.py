"""Precision and recall of the filter over documents with known truth.

    python -m bench.accuracy SET [SET ...] [--setting NAME ...] [--insert unique|root|all|both] [--links] [--json]

A set is a folder with one of

    docs.jsonl.xz, pairs.tsv.gz, stream_truth.tsv.gz  documents in stream order (id, text, perhaps title and metadata), and
                                                      their Jaccard similarities
    docs.jsonl.xz                                     documents labelled by edit operator (`base`, `op`, `label`)
    pairs.jsonl.xz                                    labelled pairs
    articles_N.jsonl.xz, articles_N.truth.tsv         articles, and the pairs among them that are duplicates

Fingerprints, index, decisions and counts are those of `streamer evaluate`. What it does not know is the truth about a policy:
with `insert = "unique"` a duplicate resembles a document that is kept itself.
A setting is named by `default` or a preset, and what differs from it: `--setting 'simhash-best fingerprint.bits=128'`.
With `--links` the addresses in a text are the metadata of a document of a stream that brings none, as its references.
"""

import gzip
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

import click
import numpy as np
import numpy.typing as npt
import orjson
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.conditions import PROGRESS, machine, read_lines
from bench.named_settings import NAMED, Policy, Setting
from index.entry import Kind
from streamer.evaluation.join import SimilarPairs, similar_pairs, tokens_in_a_run
from streamer.evaluation.scores import (
    DUPLICATE_MIN,
    UNIQUE_BELOW,
    Decided,
    Scores,
    Truth,
    near_pairs,
    score,
)
from streamer.evaluation.sets import EvaluationSet, SetFingerprints, read_set
from streamer.fingerprint.documents import fingerprint_documents
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


class Labelled:
    """A set with known truth. Each way to hash fingerprints it once."""

    def __init__(self, whole: EvaluationSet) -> None:
        self.name, self.whole = whole.name, whole
        self._prints: dict[object, tuple[SetFingerprints, float]] = {}

    def fingerprint(self, setting: Setting) -> tuple[SetFingerprints, float]:
        """Fingerprints, with what a second look compares, and the seconds that they took."""
        settings, look = setting.settings, setting.parameters.look
        # The kind of the second look changes the fingerprints; its thresholds do not.
        key = settings.fingerprint, settings.minhash, 0 if look is None else look.bytes
        if key not in self._prints:
            begin = time.perf_counter()
            prints = self.whole.fingerprint(scheme_for(settings))
            self._prints[key] = prints, time.perf_counter() - begin
        return self._prints[key]

    def run(self, setting: Setting) -> Result:
        """Decide the set by a temporary index, or each pair by itself."""
        prints, seconds = self.fingerprint(setting)
        begin = time.perf_counter()
        decided = prints.decided(setting.parameters)
        seconds += time.perf_counter() - begin
        truth, flagged = self.truth_of(decided.originals, setting.insert), decided.originals >= 0
        is_stream = prints.others is None
        return Result(
            self.name,
            setting.name,
            len(flagged),
            self.scores(prints, decided, setting.insert),
            int((flagged & ~truth.duplicate & ~truth.different).sum()),
            int((prints.documents.kinds == Kind.UNDECIDABLE).sum()) if is_stream else 0,
            len(prints) / seconds,
            self._recalls(flagged & truth.duplicate),
        )

    def _recalls(self, hits: npt.NDArray[np.bool_]) -> dict[str, float]:
        labels, duplicate = np.array(self.whole.labels), self.whole.truth.duplicate
        rows_by_label = {label: (labels == label) & duplicate for label in np.unique(labels).tolist()}
        return {label: float(hits[rows].mean()) for label, rows in rows_by_label.items() if rows.any()}

    def scores(self, prints: SetFingerprints, decided: Decided, insert: Policy) -> Scores:
        """Score decisions on these fingerprints, as `streamer evaluate` does, by the truth about the policy."""
        return replace(self.whole, truth=self.truth_of(decided.originals, insert)).scores(prints, decided)

    def judge(self, originals: npt.NDArray[np.int64], insert: Policy) -> Scores:
        """Score a program's decisions: int64 [n], row of each document's original, -1 where it is unique."""
        return score(originals >= 0, self.truth_of(originals, insert))

    def truth_of(self, originals: npt.NDArray[np.int64], insert: Policy) -> Truth:
        """Truth about a policy, whose decisions name these originals."""
        del originals, insert
        return self.whole.truth


class Stream(Labelled):
    """A set with documents in stream order and the similarity of every pair above a floor."""

    def __init__(self, folder: Path, *, links: bool = False) -> None:
        whole = read_set(folder)
        assert whole.similarities is not None
        if links:
            found = [each.metadata or tuple(_LINK.findall(each.text)) for each in whole.documents]
            pairs = zip(whole.documents, found, strict=True)
            whole = replace(whole, documents=[replace(each, metadata=metadata) for each, metadata in pairs])
        super().__init__(whole)
        self.earlier, self.texts = whole.similarities, [each.text for each in whole.documents]
        numbers = {each.id: number for number, each in enumerate(whole.documents)}
        pair_rows = read_table(folder / "pairs.tsv.gz")
        both = np.array([[numbers[one], numbers[other]] for one, other, _ in pair_rows], np.int64).reshape(-1, 2)
        values = np.array([float(row[2]) for row in pair_rows])
        order = np.lexsort((both.min(axis=1), both.max(axis=1)))
        similar = SimilarPairs(both.max(axis=1)[order], both.min(axis=1)[order], values[order])
        self._kept = {insert: policy_similarities(similar, len(self.texts), insert) for insert in get_args(Policy)}
        self._computed: dict[tuple[int, int], float] = {}

    def truth_of(self, originals: npt.NDArray[np.int64], insert: Policy) -> Truth:
        """Truth about a policy: a duplicate resembles a document that the policy keeps, any other document none at all."""
        return Truth(self._kept[insert] >= DUPLICATE_MIN, self._similarities(originals) < UNIQUE_BELOW)

    def _similarities(self, originals: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Similarities with earlier documents. Where the truth's floor hides the grey, those of flagged rows are computed."""
        if self.whole.floor <= UNIQUE_BELOW:
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


def policy_similarities(pairs: SimilarPairs, count: int, insert: Policy) -> npt.NDArray[np.float64]:
    """Largest exact similarity of each row with an earlier document that this policy would have kept.

    With `unique` those that are themselves below DUPLICATE_MIN; with `all`, and so with `root`, which may find less, every
    earlier document.
    """
    if insert != "unique":
        return pairs.nearest(count)[0]
    largest = np.zeros(count)
    borders = np.flatnonzero(np.diff(pairs.later, prepend=-1, append=-1)).tolist()
    for begin, end in pairwise(borders):
        kept = largest[pairs.earlier[begin:end]] < DUPLICATE_MIN
        largest[pairs.later[begin]] = pairs.similarities[begin:end].max(initial=0.0, where=kept)
    return largest


class AllPairs:
    """A set of articles. Some pairs are known to be duplicates; no other pair is."""

    def __init__(self, articles: Path) -> None:
        rows = list(read_lines(articles))
        self.name = f"{articles.parent.name}/{articles.name.removesuffix('.jsonl.xz')}"
        self.documents = [Document(row["id"], row["text"]) for row in rows]
        numbers = {row["id"]: number for number, row in enumerate(rows)}
        lines = articles.with_name(articles.name.replace(".jsonl.xz", ".truth.tsv")).read_text("utf-8").splitlines()
        self.truth = {frozenset((numbers[one], numbers[other])) for one, other, *_ in map(str.split, lines)}

    def run(self, setting: Setting) -> Result:
        """Flag every pair within the distance."""
        begin = time.perf_counter()
        prints = fingerprint_documents(scheme_for(setting.settings), self.documents)
        seconds = time.perf_counter() - begin
        flagged = set(map(frozenset, near_pairs(prints, setting.parameters)))
        every, right = len(prints) * (len(prints) - 1) // 2, len(flagged & self.truth)
        wrong, missed = len(flagged) - right, len(self.truth) - right
        scores = Scores(right, wrong, missed, every - len(self.truth) - wrong)
        undecidable = int((prints.kinds == Kind.UNDECIDABLE).sum())
        return Result(self.name, setting.name, len(prints), scores, 0, undecidable, len(prints) / seconds, {})


def without_unknown(pairs: EvaluationSet) -> EvaluationSet:
    """Pairs without those labelled `unknown`, and without titles: a label is about texts."""
    assert pairs.others is not None
    rows = [row for row, label in enumerate(pairs.labels) if label != "unknown"]
    left, right = ([Document("", side[row].text) for row in rows] for side in (pairs.documents, pairs.others))
    truth = Truth(pairs.truth.duplicate[rows], pairs.truth.different[rows])
    return EvaluationSet(pairs.name, left, right, truth, labels=[pairs.labels[row] for row in rows])


def open_sets(folder: Path, *, links: bool = False) -> Iterator[Stream | Labelled | AllPairs]:
    """Sets in a folder, by the files that it has. Raises click.BadParameter."""
    if (folder / "stream_truth.tsv.gz").exists():
        yield Stream(folder, links=links)
    elif (folder / "docs.jsonl.xz").exists() or (folder / "pairs.jsonl.xz").exists():
        yield Labelled(without_unknown(read_set(folder)))
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
@click.option("--setting", "settings", multiple=True, default=("default",), type=NAMED, help="May be repeated.")
@click.option("--insert", type=click.Choice(["unique", "root", "all", "both"]), help="Overrides what the settings say.")
@click.option("--links", is_flag=True, help="Take the links in a text as metadata, where a stream brings none.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable results instead of tables.")
def main(
    folders: tuple[Path, ...],
    settings: tuple[Setting, ...],
    insert: Literal["unique", "root", "all", "both"] | None,
    links: bool,
    as_json: bool,
) -> None:
    policies: tuple[Policy, ...] = ("unique", "all") if insert == "both" else (insert,) if insert else ()
    tried = [one.entering(policy) for one in settings for policy in policies] or list(settings)
    results: list[Result] = []
    for folder in folders:
        for each in open_sets(folder, links=links):
            steps = track(tried, description=each.name, console=PROGRESS)
            results += [each.run(setting) for setting in steps]
    if as_json:
        answer = {"conditions": machine(), "results": [result.as_dict() for result in results]}
        click.echo(orjson.dumps(answer, option=orjson.OPT_INDENT_2))
    else:
        show(results, machine())


if __name__ == "__main__":
    main()
