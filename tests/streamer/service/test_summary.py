"""The totals of a run over files are the sums of its batches, for people and for machines."""

import io
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from index.entry import Verdict
from streamer.observe.batch_report import STEPS, BatchReport
from streamer.service.summary import Totals, table

OUT = Path("out")


def batch(outcomes: Mapping[tuple[str, str], int], replayed: int = 0, step_cpu_seconds: float = 0.0) -> BatchReport:
    return BatchReport(
        records=sum(outcomes.values()),
        value_bytes=100 * sum(outcomes.values()),
        step_seconds=dict.fromkeys(STEPS, 9.0),
        step_cpu_seconds=dict.fromkeys(STEPS, step_cpu_seconds),
        outcomes=outcomes,
        distances=np.zeros(0, np.int16),
        similarities=np.zeros(0),
        candidates=np.zeros(0, np.int64),
        unequal=0,
        replayed=replayed,
    )


@pytest.fixture
def totals() -> Totals:
    """Of ten documents in two batches and four seconds, two of them replayed, and three that an earlier run delivered."""
    found = Totals(before=3, seconds=4.0)
    found.add(batch({("unique", "no-match"): 3, ("duplicate", "similar"): 1}, 2, step_cpu_seconds=1e-5))
    found.add(batch({("unique", "no-match"): 1, ("unique", "short-text-new"): 3, ("dead-letter", "not-json"): 2}))
    return found


def test_totals_are_the_sums_over_batches(totals: Totals) -> None:
    assert (totals.records, totals.value_bytes, totals.replayed) == (10, 1_000, 2)
    assert {verdict.label: totals.verdict(verdict) for verdict in Verdict if verdict is not Verdict.GIVEN_BACK} == {
        "unique": 7,
        "duplicate": 1,
        "undecidable": 0,
        "dead-letter": 2,
        "update": 0,
        "suspect": 0,
        "extends": 0,
    }
    assert totals.records_per_second == 2.5
    assert totals.cpu_us_by_step() == pytest.approx(dict.fromkeys(STEPS, 1.0))


def test_pages_of_templates_are_unique_by_their_reason(totals: Totals) -> None:
    totals.add(batch({("unique", "template"): 4}))
    assert totals.verdict(Verdict.UNIQUE) == totals.as_json(OUT)["unique"] == 11
    shown = io.StringIO()
    Console(file=shown, width=120).print(table(totals, OUT))
    (line,) = (line for line in shown.getvalue().splitlines() if line.startswith("unique ") and "template" in line)
    assert "11" in line
    assert "template 4" in line


def test_the_index_that_a_newcomer_did_not_name_is_in_the_totals(totals: Totals) -> None:
    totals.index = Path("index-data")
    shown = io.StringIO()
    Console(file=shown, width=120).print(table(totals, OUT))
    assert " ".join(shown.getvalue().splitlines()[-1].split()) == "compared with all that the index index-data holds"


def test_machines_get_every_total_by_name(totals: Totals) -> None:
    totals.left_out.update({"response, image/png": 1200, "request": 1})
    totals.clusters = {"clusters": 2, "best": 7}
    totals.odd_times = 3
    totals.without_scope = 2
    totals.folder = Counter({"update/recrawled": 1, "duplicate/similar": 2})
    totals.index = Path("index-data")
    found = totals.as_json(OUT)
    assert found.pop("cpu_us_by_verb") == pytest.approx(dict.fromkeys(STEPS, 1.0))
    assert found == {
        "documents": 10,
        "unique": 7,
        "duplicate": 1,
        "undecidable": 0,
        "dead_letter": 2,
        "update": 0,
        "suspect": 0,
        "extends": 0,
        "already_decided": 5,
        "folder": {"duplicate/similar": 2, "update/recrawled": 1},
        "odd_times": 3,
        "without_scope": 2,
        "left_out": {"request": 1, "response, image/png": 1200},
        "protected": {},
        "remarks": [],
        "seconds": 4.0,
        "documents_per_second": 2.5,
        "audit": {},
        "clusters": {"clusters": 2, "best": 7},
        "unread": [],
        "reasons": {
            "dead-letter/not-json": 2,
            "duplicate/similar": 1,
            "unique/no-match": 4,
            "unique/short-text-new": 3,
        },
        "out": "out",
        "index": "index-data",
    }


def test_a_run_without_documents_divides_by_nothing() -> None:
    nothing = Totals().as_json(OUT)
    assert (nothing["documents"], nothing["documents_per_second"], nothing["cpu_us_by_verb"]) == (0, 0.0, {})


def lines(totals: Totals) -> list[list[str]]:
    """The table, a list of words a line."""
    console = Console(file=io.StringIO(), width=120)
    console.print(table(totals, OUT))
    assert isinstance(console.file, io.StringIO)
    return [line.split() for line in console.file.getvalue().splitlines()]


def test_people_get_verdicts_with_their_reasons_and_where_the_lines_are(totals: Totals) -> None:
    shown = lines(totals)
    assert ["documents", "10"] in shown
    assert ["unique", "7", "no-match", "4,", "short-text-new", "3"] in shown
    assert ["near-duplicate", "1", "similar", "1"] in shown
    assert ["dead", "letters", "2", "not-json", "2"] in shown
    assert ["unique", "in", "out/unique.jsonl"] in shown
    assert ["every", "verdict", "in", "out/verdicts.jsonl"] in shown
    assert not [line for line in shown if line[:2] == ["no", "documents"]]


def test_people_are_told_what_was_left_out_the_most_first(totals: Totals) -> None:
    totals.left_out.update({"request": 1, "response, image/png": 1200})
    told = ["no", "documents", "1,201", "response,", "image/png", "1,200;", "request", "1"]
    assert told in lines(totals)


def test_what_was_decided_before_has_a_line_only_where_there_was_something(totals: Totals) -> None:
    assert [line[:3] for line in lines(totals) if line[0] == "already"] == [["already", "decided", "5"]]
    assert not [line for line in lines(Totals(records=1, seconds=1.0)) if line[0] == "already"]


def test_the_folder_has_a_column_where_other_runs_wrote_there_too(totals: Totals) -> None:
    totals.folder = Counter(
        {"unique/no-match": 4, "unique/short-text-new": 3, "duplicate/similar": 1, "dead-letter/not-json": 2}
    )
    assert ["unique", "7", "no-match", "4,", "short-text-new", "3"] in lines(totals)
    totals.folder += Counter({"unique/no-match": 1_000, "update/recrawled": 3})
    told = lines(totals)
    assert told[0] == ["this", "run", "folder"]
    assert ["documents", "10", "1,013"] in told
    assert ["unique", "7", "1,007", "no-match", "4,", "short-text-new", "3"] in told
    assert ["updates", "0", "3"] in told
    assert ["unique", "in", "out/unique.jsonl"] in told


def test_suspects_and_updates_are_shown_to_people_where_there_are_any(totals: Totals) -> None:
    assert "suspects" not in shown(totals)
    assert "updates" not in shown(totals)
    totals.add(batch({("suspect", "host-beyond-limits"): 3, ("update", "recrawled"): 2}))
    assert "updates 2 recrawled 2" in shown(totals)
    assert "suspects, let pass 3 host-beyond-limits 3" in shown(totals)


def test_in_shadow_mode_people_are_told_that_unique_lines_and_near_duplicates_stand_in_one_file(totals: Totals) -> None:
    totals.shadow = True
    assert "unique, near-duplicate in out/unique.jsonl" in shown(totals)
    assert "out/duplicate.jsonl" not in shown(totals)


def shown(totals: Totals) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(table(totals, OUT))
    return " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]


def test_measured_shares_are_shown_with_their_intervals_and_unknown_ones_are_not(totals: Totals) -> None:
    unknown = {"estimate": None, "low": None, "high": None, "seen": 3}
    totals.audit = {"recall": {"estimate": 0.97, "low": 0.95, "high": 0.985, "seen": 80}, "precision": unknown}
    shown = [" ".join(line) for line in lines(totals)]
    assert any(line.startswith("recall 0.970 0.950 to 0.985") for line in shown)
    assert not any(line.startswith("precision") for line in shown)


def test_clusters_are_a_row_if_they_are_written(totals: Totals) -> None:
    for clusters, shown in (({}, False), ({"clusters": 1_234, "best": 7}, True)):
        totals.clusters = clusters
        text = io.StringIO()
        Console(file=text, width=120).print(table(totals, OUT))
        assert ("1,234  best 7" in text.getvalue()) is shown
