"""Deduplication of scholarly papers: the set CORE 2020, with the figures that text-dedup publishes for it.

    python -m bench.core FOLDER [--way NAME ...] [--json]

FOLDER holds the set `pinecone/core-2020-05-10-deduplication` as Parquet or JSON Lines, with the columns `core_id`,
`processed_title`, `processed_abstract`, `labelled_duplicates` (a list of ids) and `cat`. A text is title and abstract in lower
case. `streamer filter --clusters` groups them; a document's prediction is the rest of its cluster. With labels L and predictions
P a document is

    TP  L and P are not empty, and P has all of L      FN  P is empty, L is not
    FP  P is not empty, and it is no TP                TN  both are empty

`accuracy` is the share of documents with P = L. Precision and recall of duplicates follow from TP, FP and FN, those of others
from TN, FN and FP. `macro` is the mean of both precisions; text-dedup's table calls it "Macro F1 score".

Ways: `words` and `pairs` are as near as settings come to text-dedup's (words or pairs of words, a similarity of .5, 200
permutations, clusters by transitive closure). `shipped` is the default. `longer` drops longer versions too, as the labels have
it. `simhash` is the preset simhash-best.
"""

import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import orjson
from rich.console import Console
from rich.table import Table

from streamer.transports.files.expand import input_files
from streamer.transports.files.line_reader import lines

Labels = Mapping[str, Set[str]]
"""By id, the ids of its duplicates."""

_LONGER = "index.longer=duplicate"
_THEIRS = (
    *("minhash.shingles=words", "minhash.similarity_min=0.5", "minhash.bins=256", "minhash.features_min=1"),
    *("index.root_similarity_min=0.01", "index.templates=false", _LONGER),
)
WAYS: dict[str, tuple[str, ...]] = {
    "words": (*_THEIRS, "minhash.shingle_words=1"),
    "pairs": (*_THEIRS, "minhash.shingle_words=2"),
    "shipped": (),
    "longer": (_LONGER,),
    "simhash": ("preset=simhash-best",),
}
"""Settings by name."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One row of text-dedup's table."""

    way: str
    documents: int
    precision_duplicates: float
    recall_duplicates: float
    precision_others: float
    recall_others: float
    macro: float
    accuracy: float
    seconds: float


def papers(folder: Path) -> tuple[list[bytes], Labels]:
    """Lines for the filter, and the labels. Raises click.ClickException for a file without the columns."""
    documents: list[bytes] = []
    labels: dict[str, Set[str]] = {}
    for file in input_files(folder):
        for line in lines(file):
            try:
                row = orjson.loads(line)
                identity, duplicates = str(row["core_id"]), row["labelled_duplicates"]
                text = " ".join((row["processed_title"] or "", row["processed_abstract"] or "")).lower()
            except (orjson.JSONDecodeError, KeyError, TypeError) as problem:
                raise click.ClickException(f"{file}: a line is no paper of the set: {problem!r}") from problem
            labels[identity] = set(map(str, duplicates or ()))
            documents.append(orjson.dumps({"id": identity, "text": text}))
    if not documents:
        raise click.ClickException(f"{folder}: holds no papers")
    return documents, labels


def predictions(documents: Sequence[bytes], settings: Iterable[str]) -> dict[str, Set[str]]:
    """What the filter groups: by id, the ids of the rest of its cluster; absent without a cluster."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "papers.jsonl").write_bytes(b"\n".join([*documents, b""]))
        options = [option for each in settings for option in _option(each)]
        command = [sys.executable, "-m", "streamer", "filter", str(folder / "papers.jsonl"), "--clusters", "--out"]
        command += [str(folder / "out"), "--index", str(folder / "index"), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise click.ClickException(done.stderr)
        clusters = map(orjson.loads, (folder / "out" / "clusters.jsonl").read_bytes().splitlines())
        members = [{each["id"] for each in (cluster["root"], *cluster["members"])} for cluster in clusters]
    return {identity: together - {identity} for together in members for identity in together if len(together) > 1}


def _option(setting: str) -> tuple[str, str]:
    preset = setting.removeprefix("preset=")
    return ("--set", setting) if preset == setting else ("--preset", preset)


def classify(labelled: Set[str], predicted: Set[str]) -> str:
    """TP, FP, FN or TN."""
    if not predicted:
        return "FN" if labelled else "TN"
    return "TP" if labelled and labelled <= predicted else "FP"


def score(way: str, labels: Labels, predicted: Labels, seconds: float) -> Outcome:
    """The row for these predictions."""
    pairs = [(labelled, predicted.get(identity, frozenset())) for identity, labelled in labels.items()]
    counts = Counter(classify(*pair) for pair in pairs)
    accuracy = sum(labelled == group for labelled, group in pairs) / len(pairs)
    precisions = _share(counts["TP"], counts["FP"]), _share(counts["TN"], counts["FN"])
    recalls = _share(counts["TP"], counts["FN"]), _share(counts["TN"], counts["FP"])
    each = (precisions[0], recalls[0], precisions[1], recalls[1], sum(precisions) / 2)
    return Outcome(way, len(pairs), *each, accuracy, seconds)


def _share(right: int, wrong: int) -> float:
    return right / (right + wrong) if right + wrong else 0.0


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--way", "ways", multiple=True, type=click.Choice(list(WAYS)), help="Repeat it for more; else all.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def main(folder: Path, ways: Sequence[str], as_json: bool) -> None:
    documents, labels = papers(folder)
    outcomes = []
    for way in ways or WAYS:
        begin = time.perf_counter()
        predicted = predictions(documents, WAYS[way])
        outcomes.append(score(way, labels, predicted, time.perf_counter() - begin))
    if as_json:
        click.echo(orjson.dumps([asdict(each) for each in outcomes], option=orjson.OPT_INDENT_2))
        return
    rows = Table("way", box=None, pad_edge=False, header_style="dim")
    for heading in ("precision, duplicates", "recall", "precision, others", "recall", "macro", "accuracy", "seconds"):
        rows.add_column(heading, justify="right")
    for each in outcomes:
        _, _, *shares, seconds = asdict(each).values()
        rows.add_row(each.way, *(f"{share:.4f}" for share in shares), f"{seconds:.1f}")
    Console().print(rows)


if __name__ == "__main__":
    main()
