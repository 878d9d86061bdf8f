"""`streamer evaluate` and the commands below it: what each writes, and what each refuses."""

import gzip
import json
import os
from pathlib import Path

import pytest

from tests.support.command_line import run
from tests.support.news import ARTICLES

TEXTS = list(ARTICLES.values())[:4]


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Four articles, and the first two once more with a word behind them; each names its article as its topic."""
    file = tmp_path / "documents.jsonl"
    rows = [*enumerate(TEXTS), *((number, text + " again") for number, text in enumerate(TEXTS[:2]))]
    file.write_text("\n".join(json.dumps({"id": f"d{at}", "text": text, "topic": f"t{number}"})
                              for at, (number, text) in enumerate(rows)), encoding="utf-8")  # fmt: skip
    return file


def test_truth_makes_a_set_that_evaluate_and_the_judges_read(documents: Path, tmp_path: Path) -> None:
    made = run("evaluate", "truth", documents, "--out", tmp_path / "set")
    assert made.code == 0, made.err
    assert made.out.split("\t")[:6] == ["6", "documents", "2", "pairs", "2", "duplicates"]
    scored = run("evaluate", tmp_path / "set", "--try", "preset=simhash-best", "--json")
    assert scored.code == 0, scored.err
    figures = json.loads(scored.out)
    assert [(each["setting"], each["true_duplicates"], each["true_uniques"]) for each in figures] == [
        ("in force", 2, 4),
        ("preset=simhash-best", 2, 4),
    ]
    judged = run("evaluate", "judges", tmp_path / "set", "--json")
    assert judged.code == 0, judged.err
    assert [(each["judge"], each["f1"]) for each in json.loads(judged.out)] == [
        ("cosine", 1.0),
        ("SimHash, 64 bits", 1.0),
        ("SimHash, 128 bits", 1.0),
        ("MinHash", 1.0),
    ]
    assert "cosine" in run("evaluate", "judges", tmp_path / "set").out
    again = run("evaluate", "truth", documents, "--out", tmp_path / "set")
    assert again.code == os.EX_CANTCREAT


def test_longer_versions_have_a_column_and_dropped_text_is_named(tmp_path: Path) -> None:
    rows = [("teaser", TEXTS[0][: len(TEXTS[0]) * 4 // 5]), ("whole", TEXTS[0]), ("edited", TEXTS[0] + " again")]
    file = tmp_path / "documents.jsonl"
    file.write_text("\n".join(json.dumps({"id": name, "text": text, "topic": "t"}) for name, text in rows))
    asked = ("evaluate", file, "--groups", "topic", "--try", "index.longer=duplicate")
    scored = run(*asked, "--json")
    assert scored.code == 0, scored.err
    passed, dropped = json.loads(scored.out)
    assert [(each["extends"], each["true_duplicates"], each["missed"]) for each in (passed, dropped)] == [
        (1, 2, 0),
        (0, 2, 0),
    ]
    assert [(each["document"], each["original"]) for each in passed["most_new"]] == [("edited", "whole")]
    assert {each["document"] for each in dropped["most_new"]} == {"whole", "edited"}
    assert 0 < passed["new"]["worst"] == round(passed["most_new"][0]["new"], 3) < 0.05
    assert dropped["new"]["worst"] > 0.1
    shown = run(*asked).out
    assert "Most new text dropped, documents.jsonl, in force: edited of whole 0.0" in " ".join(shown.split())
    assert "lost of 10,000 sentences" in " ".join(shown.split())
    # " again" ends a sentence that no kept text has; without the rule the rest of the whole text is lost too.
    assert passed["sentences"]["lost"] < dropped["sentences"]["lost"]
    assert passed["sentences"]["distinct"] == dropped["sentences"]["distinct"]


def test_the_length_of_a_run_may_be_said(documents: Path, tmp_path: Path) -> None:
    heads = []
    for asked in ((), ("--run", "7")):
        out = tmp_path / str(len(heads))
        assert run("evaluate", "truth", documents, "--out", out, *asked).code == 0
        heads.append(gzip.decompress((out / "stream_truth.tsv.gz").read_bytes()).decode().splitlines()[0])
    assert ["runs of 7 tokens" in head for head in heads] == [False, True]


def test_topics_of_the_documents_may_be_the_truth(documents: Path) -> None:
    scored = run("evaluate", documents, "--groups", "topic", "--json")
    assert scored.code == 0, scored.err
    (figures,) = json.loads(scored.out)
    assert (figures["true_duplicates"], figures["missed"], figures["true_uniques"]) == (2, 0, 4)
    assert run("evaluate", documents, "--groups", "cluster").code == os.EX_NOINPUT


def test_a_decision_is_timed_with_the_index_and_without(documents: Path) -> None:
    timed = run("evaluate", "time", documents, "--json")
    assert timed.code == 0, timed.err
    (figures,) = json.loads(timed.out)
    assert figures["documents"] == 3
    assert min(figures["with_index_us"], figures["without_us"]) > 0


def test_the_times_are_drawn_on_a_page(documents: Path, tmp_path: Path) -> None:
    page = tmp_path / "times.html"
    timed = run("evaluate", "time", documents, "--picture", page)
    assert timed.code == 0, timed.err
    assert "documents in the index" in timed.out
    assert page.read_text(encoding="utf-8").count("<svg") == 1
    assert "similarity ≥ 0.7" in page.read_text(encoding="utf-8")
    lost = run("evaluate", "time", documents, "--picture", tmp_path / "nowhere" / "times.html", "--json")
    assert lost.code == os.EX_CANTCREAT
    # The figures are not lost with the picture.
    assert json.loads(lost.out)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--try", "fingerprint.idf=jieba"], "--try fingerprint.idf=jieba: fingerprint.idf: has no effect"),
        (["--try", "preset=minhash index.distance_max=3"], "index.distance_max: has no effect"),
        (["--try", "preset=best"], "no preset 'best': use one of keep-text, minhash, ocr, short-texts, simhash-best"),
        (["--set", "fingerprint.idf=jieba"], "fingerprint.idf: has no effect"),
    ],
)
def test_a_setting_that_changes_nothing_is_refused(documents: Path, arguments: list[str], told: str) -> None:
    refused = run("evaluate", documents, "--groups", "topic", *arguments)
    assert refused.code == os.EX_CONFIG
    assert told in refused.err
    assert refused.out == ""


def test_a_setting_that_one_row_uses_is_right(documents: Path) -> None:
    given = ("--set", "index.distance_max=6", "--try", "fingerprint.scheme=simhash", "--json")
    scored = run("evaluate", documents, "--groups", "topic", *given)
    assert scored.code == 0, scored.err
    assert [each["distance_max"] for each in json.loads(scored.out)] == [None, 6]


def test_the_help_names_the_options_and_the_commands() -> None:
    shown = run("evaluate", "--help").out
    assert all(name in shown for name in ("--try", "--groups", "--picture", "truth", "judges", "time"))


def test_short_texts_are_shown_as_a_table_as_json_and_as_a_picture(documents: Path, tmp_path: Path) -> None:
    page = tmp_path / "short.html"
    asked = ("--preset", "simhash-best", "evaluate", "short", documents)
    shown = run(*asked, "--set", "fingerprint.features_min=1", "--picture", page)
    assert shown.code == 0, shown.err
    assert "distance <=" in shown.out
    assert page.read_text(encoding="utf-8").count("<svg") == 1
    rows = json.loads(run(*asked, "--json").out)
    assert all(row["thresholds"] == list(range(8)) for row in rows)
    # Texts of fewer features than the preset asks for are compared by equality alone.
    assert rows[0]["missed"] == [1.0] * 8
    (tmp_path / "one.jsonl").write_text('{"id": "a", "text": "one"}')
    assert run("evaluate", "short", tmp_path / "one.jsonl").code == os.EX_DATAERR
