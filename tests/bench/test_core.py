"""The table for CORE 2020, on a made-up set of the same form."""

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as arrow
from click.testing import CliRunner
from pyarrow import parquet

from bench.core import classify, main, papers, score

PAPERS = 60


def paper(number: int) -> dict[str, Any]:
    """Every third paper is alone; each pair after it is one paper, whose second abstract ends otherwise."""
    words = np.random.default_rng(number - (number % 3 == 2)).integers(97, 123, (80, 6), np.uint8)
    title, *abstract = (bytes(word).decode() for word in words)
    other = {0: [], 1: [number + 1], 2: [number - 1]}[number % 3]
    return {
        "core_id": str(number),
        "processed_title": f"On {title.title()}",
        "processed_abstract": " ".join(abstract[: 80 - 4 * (number % 3 == 2)]),
        "labelled_duplicates": [str(each) for each in other],
        "cat": "near_exact" if other else "non_dup",
    }


ROWS = [paper(number) for number in range(PAPERS)]


def test_pairs_of_words_group_what_is_labelled(tmp_path: Path) -> None:
    parquet.write_table(arrow.Table.from_pylist(ROWS), tmp_path / "train.parquet")
    done = CliRunner().invoke(main, [str(tmp_path), "--way", "pairs", "--json"])
    assert done.exit_code == 0, done.output
    (row,) = orjson.loads(done.stdout)
    assert (row["documents"], row["accuracy"], row["macro"]) == (PAPERS, 1.0, 1.0)
    assert row["recall_duplicates"] == row["recall_others"] == 1.0


def test_both_formats_give_the_same_texts_and_labels(tmp_path: Path) -> None:
    for name in ("parquet", "jsonl"):
        (tmp_path / name).mkdir()
    parquet.write_table(arrow.Table.from_pylist(ROWS), tmp_path / "parquet" / "train.parquet")
    (tmp_path / "jsonl" / "train.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in ROWS))
    documents, labels = papers(tmp_path / "jsonl")
    assert papers(tmp_path / "parquet") == (documents, labels)
    assert (labels["0"], labels["1"], len(documents)) == (set(), {"2"}, PAPERS)
    title, abstract = ROWS[7]["processed_title"].lower(), ROWS[7]["processed_abstract"]
    assert orjson.loads(documents[7]) == {"id": "7", "text": f"{title} {abstract}"}


def test_each_document_has_one_class() -> None:
    one, both = frozenset("a"), frozenset("ab")
    none: frozenset[str] = frozenset()
    assert [classify(one, none), classify(none, none), classify(none, one)] == ["FN", "TN", "FP"]
    assert [classify(one, one), classify(one, both), classify(both, one)] == ["TP", "TP", "FP"]


def test_the_row_follows_from_the_classes_and_accuracy_from_equal_sets() -> None:
    labels = {"a": {"b"}, "b": {"a"}, "c": set(), "d": set(), "e": {"f"}, "f": {"e"}}
    row = score("made up", labels, {"a": {"b"}, "b": {"a", "c"}, "c": {"b"}, "e": {"f"}}, 1.0)
    assert (row.precision_duplicates, row.recall_duplicates) == (3 / 4, 3 / 4)
    assert (row.precision_others, row.recall_others, row.macro) == (1 / 2, 1 / 2, 5 / 8)
    assert row.accuracy == 3 / 6
