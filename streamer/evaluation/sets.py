"""Sets of documents with known truth, one a folder: a stream with similarities, or labelled pairs.

`docs.jsonl.xz`        one JSON object a line: id, text, title; in stream order
  with `stream_truth.tsv.gz`  a comment line whose last word is the smallest similarity listed, a line of column names,
                              then the id and the largest Jaccard similarity with an earlier document
  or with `base`, `op`, `label` in every document: each is paired with the document of its base whose op is `base`
`pairs.jsonl.xz`       one pair a line: a, b, label

Labelled pairs may also stand in a file of their own, without a folder.
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

from index import Parameters
from streamer.errors import InputUnreadable
from streamer.evaluation.scores import (
    Truth,
    admit,
    nearest_distances,
    pair_distances,
    pairs_flagged,
    truth_of_labels,
    truth_of_similarities,
)
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.fingerprint.scheme import Scheme
from streamer.transports.files.line_reader import lines

Documents = Sequence[tuple[str, str]]
"""Each a title and a text."""


@dataclass(frozen=True, slots=True)
class SetFingerprints:
    """The fingerprints of a set: of its stream, or of both sides of its pairs."""

    documents: Fingerprints
    others: Fingerprints | None

    def __len__(self) -> int:
        return len(self.documents) + (0 if self.others is None else len(self.others))

    def flagged(self, parameters: Parameters) -> npt.NDArray[np.bool_]:
        """Which documents or pairs an index with these parameters calls duplicates: bool [n]."""
        if self.others is None:
            return admit(self.documents, parameters).originals >= 0
        return pairs_flagged(self.documents, self.others, parameters)

    def distances(self, parameters: Parameters) -> npt.NDArray[np.int64]:
        """The distance of each document to its nearest earlier one, or of each pair: int64 [n].

        `scores.unreachable` stands for none.
        """
        if self.others is None:
            return nearest_distances(self.documents, parameters)
        return pair_distances(self.documents, self.others, parameters)


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """Documents with known truth: a stream, or with `others` the pairs (documents[i], others[i]).

    floor  as in `scores.truth_of_similarities`
    """

    name: str
    documents: Documents
    others: Documents | None
    truth: Truth
    floor: float = 0.0

    def fingerprint(self, scheme: Scheme) -> SetFingerprints:
        """The fingerprints of all documents."""
        others = None if self.others is None else fingerprint_documents(scheme, self.others)
        return SetFingerprints(fingerprint_documents(scheme, self.documents), others)


def read_set(folder: Path) -> EvaluationSet:
    """The set of a folder, or the pairs of a file. Raises InputUnreadable where there is none, or a malformed one."""
    if folder.is_file():
        return EvaluationSet(folder.name, *read_pairs(folder))
    try:
        if (folder / "stream_truth.tsv.gz").exists():
            return _stream(folder)
        if (folder / "docs.jsonl.xz").exists():
            return _variants(folder)
        return _pairs(folder)
    except OSError as error:
        raise InputUnreadable(f"{folder}: holds no set: {error.filename or error}: {error.strerror}.") from error
    except (lzma.LZMAError, EOFError, orjson.JSONDecodeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise InputUnreadable(f"{folder}: is not of the form of a set: {error!r}.") from error


def _stream(folder: Path) -> EvaluationSet:
    rows = list(_lines(folder / "docs.jsonl.xz"))
    comment, _, *listed = gzip.decompress((folder / "stream_truth.tsv.gz").read_bytes()).decode().splitlines()
    by_id = {identity: float(similarity) for identity, similarity, *_ in (line.split("\t") for line in listed)}
    similarities = np.array([by_id.get(str(row["id"]), 0.0) for row in rows])
    floor = _floor(comment)
    truth = truth_of_similarities(similarities, floor)
    return EvaluationSet(folder.name, [_document(row) for row in rows], None, truth, floor)


def _variants(folder: Path) -> EvaluationSet:
    rows = list(_lines(folder / "docs.jsonl.xz"))
    bases = {row["base"]: row for row in rows if row["op"] == "base"}
    variants = [row for row in rows if row["op"] != "base"]
    return EvaluationSet(
        folder.name,
        [_document(bases[row["base"]]) for row in variants],
        [_document(row) for row in variants],
        truth_of_labels([row["label"] for row in variants]),
    )


def _pairs(folder: Path) -> EvaluationSet:
    one, other, truth = _pairs_of(list(_lines(folder / "pairs.jsonl.xz")))
    return EvaluationSet(folder.name, one, other, truth)


def read_pairs(file: Path) -> tuple[Documents, Documents, Truth]:
    """The labelled pairs of a JSON Lines file (plain, .gz, .zst): texts a and b, and a label on each line.

    `scores.truth_of_labels` says what labels mean. Raises InputUnreadable.
    """
    try:
        return _pairs_of([orjson.loads(line) for line in lines(file) if line.strip()])
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise InputUnreadable(f"{file}: is no file of labelled pairs (a, b, label on each line): {error!r}.") from error


def fingerprint_documents(scheme: Scheme, documents: Documents) -> Fingerprints:
    """The fingerprints of documents, row for row."""
    return scheme.fingerprint([text for _, text in documents], [title for title, _ in documents])


def _pairs_of(rows: Sequence[dict[str, Any]]) -> tuple[Documents, Documents, Truth]:
    labels = [str(row["label"]).lower().removesuffix(".0") for row in rows]
    one, other = [("", row["a"]) for row in rows], [("", row["b"]) for row in rows]
    if not all(isinstance(text, str) for _, text in [*one, *other]):
        raise TypeError("a and b must be texts")
    return one, other, truth_of_labels(labels)


def _document(row: dict[str, Any]) -> tuple[str, str]:
    return row.get("title") or "", row["text"]


def _floor(comment: str) -> float:
    """The smallest similarity that the file lists; 0 where its comment ends in no number."""
    last = comment.rsplit(maxsplit=1)[-1]
    return float(last) if last.replace(".", "", 1).isdecimal() else 0.0


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with lzma.open(path, "rb") as lines:
        yield from map(orjson.loads, lines)
