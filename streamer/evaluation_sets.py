"""Folders of documents with known truth: a stream with similarities, or labelled pairs.

`docs.jsonl.xz`        one JSON object a line: id, text, title; in stream order
  and `stream_truth.tsv.gz`  a remark whose last word is the least similarity told, a line of column names, then
                             id and largest Jaccard similarity with an earlier document
  or the documents have `base`, `op`, `label`: each is held against the document of its base whose op is `base`
`pairs.jsonl.xz`       one pair a line: a, b, label
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

from streamer.errors import InputUnreadable
from streamer.evaluation import Truth, nearest_earlier, pair_distances, truth_of_labels, truth_of_similarities
from streamer.fingerprint import Fingerprinter, Fingerprints


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """Documents, each a title and a text, with truth.

    Without `others` it is a stream, with them row i is the pair (documents[i], others[i]). `floor` as of
    `evaluation.truth_of_similarities`.
    """

    name: str
    documents: Sequence[tuple[str, str]]
    others: Sequence[tuple[str, str]] | None
    truth: Truth
    floor: float = 0.0

    def distances(self, fingerprinter: Fingerprinter) -> npt.NDArray[np.int64]:
        """Bits of each pair, or from each document to the nearest earlier one (`evaluation.unreachable`: none)."""
        prints = _fingerprints(fingerprinter, self.documents)
        if self.others is None:
            return nearest_earlier(prints)[0]
        return pair_distances(prints, _fingerprints(fingerprinter, self.others))


def read_set(folder: Path) -> EvaluationSet:
    """The set of a folder. Raises InputUnreadable where there is none, or where it is not of this form."""
    try:
        if (folder / "stream_truth.tsv.gz").exists():
            return _stream(folder)
        if (folder / "docs.jsonl.xz").exists():
            return _variants(folder)
        return _pairs(folder)
    except OSError as error:
        raise InputUnreadable(f"{folder}: holds no set: {error.filename or error}: {error.strerror}.") from error
    except (lzma.LZMAError, EOFError, orjson.JSONDecodeError, KeyError, IndexError, ValueError) as error:
        raise InputUnreadable(f"{folder}: is not of the form of a set: {error!r}.") from error


def _stream(folder: Path) -> EvaluationSet:
    rows = list(_lines(folder / "docs.jsonl.xz"))
    remark, _, *told = gzip.decompress((folder / "stream_truth.tsv.gz").read_bytes()).decode().splitlines()
    known = {identity: float(similarity) for identity, similarity, *_ in (line.split("\t") for line in told)}
    similarities = np.array([known.get(str(row["id"]), 0.0) for row in rows])
    floor = _floor(remark)
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
    rows = list(_lines(folder / "pairs.jsonl.xz"))
    labels = [str(row["label"]).removesuffix(".0") for row in rows]
    one, other = [("", row["a"]) for row in rows], [("", row["b"]) for row in rows]
    return EvaluationSet(folder.name, one, other, truth_of_labels(labels))


def _document(row: dict[str, Any]) -> tuple[str, str]:
    return row.get("title") or "", row["text"]


def _fingerprints(fingerprinter: Fingerprinter, documents: Sequence[tuple[str, str]]) -> Fingerprints:
    return fingerprinter.fingerprint([text for _, text in documents], [title for title, _ in documents])


def _floor(remark: str) -> float:
    """The least similarity that the file tells, if its remark ends in one."""
    last = remark.rsplit(maxsplit=1)[-1]
    return float(last) if last.replace(".", "", 1).isdecimal() else 0.0


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with lzma.open(path, "rb") as lines:
        yield from map(orjson.loads, lines)
