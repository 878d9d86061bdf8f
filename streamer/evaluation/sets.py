"""Document sets with known truth, one per folder: a stream with similarities, or labelled pairs.

`docs.jsonl.xz`        one JSON object per line, in stream order: id, text, optional title and metadata (a text list)
  with `stream_truth.tsv.gz`  a comment line that ends in the smallest listed similarity, a line of column names,
                              then ids with their largest Jaccard similarity to an earlier document
  or with `base`, `op`, `label` in every document: pairs with the document of the same base whose op is `base`
`pairs.jsonl.xz`       one pair per line: a, b, label; also as a single file
"""

import gzip
import lzma
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from index import Longer, Parameters
from streamer.errors import InputUnreadable
from streamer.evaluation import scores
from streamer.evaluation.dice import Dice
from streamer.fingerprint.documents import fingerprint_documents
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.fingerprint.scheme import Scheme
from streamer.records.decode import Document
from streamer.transports.files.line_reader import lines

GROWTH = Longer(1_000)
"""Growth by letters from which EXTENDS answers a duplicate: a tenth."""


Documents = Sequence[Document]


@dataclass(frozen=True, slots=True)
class SetFingerprints:
    """Fingerprints of a stream, or of both sides of pairs.

    >>> from streamer.fingerprint.scheme import scheme_for
    >>> from streamer.settings.settings import Settings
    >>> sides = [scheme_for(Settings()).fingerprint([text]) for text in ("one text", "another")]
    >>> len(SetFingerprints(sides[0], None)), len(SetFingerprints(*sides))
    (1, 2)
    """

    documents: Fingerprints
    others: Fingerprints | None

    def __len__(self) -> int:
        return len(self.documents) + (0 if self.others is None else len(self.others))

    def decided(self, parameters: Parameters, longer: Longer | None = None) -> scores.Decided:
        """Decisions by an index with these parameters; a pair's first document is the original."""
        if self.others is None:
            return scores.admit(self.documents, parameters, longer)
        return scores.pairs_decided(self.documents, self.others, parameters, longer)

    def grown(self, decided: scores.Decided) -> npt.NDArray[np.bool_]:
        """EXTENDS rows that are longer than their original by at least GROWTH: bool [n]."""
        originals = self.documents.rows(np.maximum(decided.extended, 0))
        return (decided.extended >= 0) & scores.longer_rows(originals, self.others or self.documents, GROWTH)

    def distances(self, parameters: Parameters) -> npt.NDArray[np.int64]:
        """`scores.nearest_distances` or `scores.pair_distances`, int64 [n]."""
        if self.others is None:
            return scores.nearest_distances(self.documents, parameters)
        return scores.pair_distances(self.documents, self.others, parameters)


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """Documents with known truth: a stream, or with `others` the pairs (documents[i], others[i]).

    floor         see `scores.truth_of_similarities`
    nearest       in a stream, each document's most similar earlier row, or -1
    similarities  in a stream, its similarity to that row, 0 below `floor`: float64 [n]
    groups        as a stream's truth, int64 [n], group or -1
    labels        each pair's edit operator, else its label

    >>> truth = scores.truth_of_labels(["dup"])
    >>> pairs = EvaluationSet("one pair", [Document("", "a text")], [Document("", "A text")], truth)
    >>> int(pairs.truth.duplicate.sum())
    1
    """

    name: str
    documents: Documents
    others: Documents | None
    truth: scores.Truth
    floor: float = 0.0
    nearest: Sequence[int] = ()
    similarities: npt.NDArray[np.float64] | None = None
    groups: npt.NDArray[np.int64] | None = None
    labels: Sequence[str] = ()

    def scores(self, fingerprints: SetFingerprints, decided: scores.Decided) -> scores.Scores:
        """Score decisions against the truth.

        DUPLICATE answers a true duplicate, and so does EXTENDS if the document is at least GROWTH longer than the one
        that it names; any other EXTENDS misses it. EXTENDS is no false duplicate: its text is delivered. With groups,
        EXTENDS must name a document from the group, and a duplicate across groups is a false one.
        """
        dropped, grown = decided.originals >= 0, fingerprints.grown(decided) & self.truth.duplicate
        if self.groups is None:
            return scores.score(dropped | grown, self.truth)
        originals = np.maximum(decided.originals, decided.extended)
        strange = (self.groups < 0) | (self.groups != self.groups[originals])
        wrong = dropped & strange
        truth = scores.Truth(self.truth.duplicate & ~wrong, self.truth.different | wrong)
        return scores.score(dropped | (grown & ~strange), truth)

    def fingerprint(self, scheme: Scheme) -> SetFingerprints:
        """Fingerprint all documents."""
        others = None if self.others is None else fingerprint_documents(scheme, self.others)
        return SetFingerprints(fingerprint_documents(scheme, self.documents), others)


def read_set(folder: Path, groups: str | None = None) -> EvaluationSet:
    """Read a set from a folder, or pairs from a file. Raises InputUnreadable for a missing or malformed set.

    groups  field with a document's group (topic, cluster), whose members are duplicates; also for a JSON Lines file
    """
    if folder.is_file() and groups is None:
        return read_pairs(folder)
    try:
        if groups is not None:
            return _grouped(folder, groups)
        if (folder / "stream_truth.tsv.gz").exists():
            return _stream(folder)
        if (folder / "docs.jsonl.xz").exists():
            return _variants(folder)
        return _pairs_of(folder.name, list(_lines(folder / "pairs.jsonl.xz")))
    except OSError as error:
        raise InputUnreadable(f"{folder}: is not a set: {error.filename or error}: {error.strerror}.") from error
    except (lzma.LZMAError, EOFError, orjson.JSONDecodeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise InputUnreadable(f"{folder}: is a malformed set (see docs/methods.md): {error!r}.") from error


def _stream(folder: Path) -> EvaluationSet:
    rows = list(_lines(folder / "docs.jsonl.xz"))
    comment, _, *listed = gzip.decompress((folder / "stream_truth.tsv.gz").read_bytes()).decode().splitlines()
    cells = ([*line.split("\t"), ""] for line in listed)
    by_id = {identity: (float(similarity), best) for identity, similarity, best, *_ in cells}
    similarities = np.array([by_id.get(str(row["id"]), (0.0, ""))[0] for row in rows])
    floor = _floor(comment)
    truth = scores.truth_of_similarities(similarities, floor)
    numbers = {str(row["id"]): number for number, row in enumerate(rows)}
    nearest = [numbers.get(by_id.get(str(row["id"]), (0.0, ""))[1], -1) for row in rows]
    return EvaluationSet(folder.name, [_document(row) for row in rows], None, truth, floor, nearest, similarities)


def _grouped(folder: Path, field: str) -> EvaluationSet:
    if folder.is_file():
        rows = [orjson.loads(line) for line in lines(folder) if line.strip()]
    else:
        rows = list(_lines(folder / "docs.jsonl.xz"))
    if not any(field in row for row in rows):
        raise KeyError(field)
    numbers: dict[str, int] = {}
    labels = [row.get(field) for row in rows]
    groups = np.array([-1 if label in (None, "") else numbers.setdefault(str(label), len(numbers)) for label in labels])
    firsts = np.zeros(len(rows), np.bool_)
    firsts[np.unique(groups, return_index=True)[1]] = True
    duplicate = (groups >= 0) & ~firsts
    return EvaluationSet(
        folder.name,
        [_document(row) for row in rows],
        None,
        scores.Truth(duplicate, ~duplicate),
        groups=groups.astype(np.int64),
    )


def _variants(folder: Path) -> EvaluationSet:
    rows = list(_lines(folder / "docs.jsonl.xz"))
    bases = {row["base"]: row for row in rows if row["op"] == "base"}
    variants = [row for row in rows if row["op"] != "base"]
    return EvaluationSet(
        folder.name,
        [_document(bases[row["base"]]) for row in variants],
        [_document(row) for row in variants],
        scores.truth_of_labels([row["label"] for row in variants]),
        labels=[row["op"] for row in variants],
    )


def read_pairs_of_set(folder: Path) -> EvaluationSet:
    """A set as labelled pairs, the same for all judges. Raises as `read_set`.

    A stream gives each duplicate with its most similar earlier document, and as many different pairs by a fixed seed.
    """
    whole = read_set(folder)
    if whole.others is not None:
        return whole
    dice = Dice(2026)
    duplicates = [row for row in np.flatnonzero(whole.truth.duplicate).tolist() if whole.nearest[row] >= 0]
    different = [row for row in np.flatnonzero(whole.truth.different).tolist() if row > 0]
    drawn = dice.some(different, min(len(duplicates), len(different)))
    pairs = [(row, whole.nearest[row]) for row in duplicates] + [(row, dice.number(0, row - 1)) for row in drawn]
    labels = np.arange(len(pairs)) < len(duplicates)
    return EvaluationSet(
        whole.name,
        [whole.documents[row] for row, _ in pairs],
        [whole.documents[earlier] for _, earlier in pairs],
        scores.Truth(labels, ~labels),
    )


def read_pairs(file: Path) -> EvaluationSet:
    """Pairs from a JSON Lines file (plain, .gz, .zst) with a, b and label on each line. Raises InputUnreadable.

    Labels: `scores.truth_of_labels`.
    """
    try:
        return _pairs_of(file.name, [orjson.loads(line) for line in lines(file) if line.strip()])
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise InputUnreadable(f"{file}: must have labelled pairs (a, b, label on each line): {error!r}.") from error


def _pairs_of(name: str, rows: Sequence[dict[str, Any]]) -> EvaluationSet:
    labels = [str(row["label"]).lower().removesuffix(".0") for row in rows]
    one, other = ([Document("", row[side]) for row in rows] for side in ("a", "b"))
    if not all(isinstance(each.text, str) for each in [*one, *other]):
        raise TypeError("a and b must be texts")
    return EvaluationSet(name, one, other, scores.truth_of_labels(labels), labels=labels)


def _document(row: dict[str, Any]) -> Document:
    metadata = tuple(row.get("metadata") or ())
    return Document(str(row.get("id", "")), row["text"], row.get("title") or "", metadata=metadata)


def _floor(comment: str) -> float:
    last = comment.rsplit(maxsplit=1)[-1]
    return float(last) if last.replace(".", "", 1).isdecimal() else 0.0


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with lzma.open(path, "rb") as lines:
        yield from map(orjson.loads, lines)
