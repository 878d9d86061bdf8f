"""`streamer compare` on files: its numbers are those of `streamer filter` with the other settings."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from streamer.demo.demo import documents
from tests.support.command_line import run

STRICTER = ("--set", "minhash.similarity_min=0.9")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Two files of made-up news, the second with much of the first."""
    monkeypatch.chdir(tmp_path)
    lines = list(documents(160))
    Path("first.jsonl").write_bytes(b"\n".join(lines[:100]))
    Path("second.jsonl").write_bytes(b"".join(line + b"\n" for line in lines[50:]))
    return "first.jsonl", "second.jsonl"


def filtered(files: tuple[str, str], name: str, *settings: str) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(
        run("filter", *files, "--out", f"{name}-out", "--index", f"{name}-index", "--json", *settings).out
    )
    return found


def verdicts_of(totals: dict[str, Any]) -> list[int]:
    return [totals[label] for label in ("unique", "duplicate", "undecidable", "dead_letter")]


def verdicts_told(found: dict[str, Any]) -> list[int]:
    return [found[label] for label in ("unique", "duplicate", "undecidable", "dead-letter")]


def test_files_and_what_was_filtered_tell_the_same_and_what_a_filter_with_the_other_settings_does(
    files: tuple[str, str],
) -> None:
    was, would_be = filtered(files, "was"), filtered(files, "other", *STRICTER)
    of_folder = run("compare", "--out", "was-out", "--index", "was-index", "--json", *STRICTER)
    of_files = run("compare", *files, "--json", *STRICTER)
    assert (of_folder.code, of_files.code) == (0, 0)
    found = orjson.loads(of_folder.out)
    assert found == orjson.loads(of_files.out)
    assert verdicts_told(found["delivered"]) == verdicts_of(was)
    assert verdicts_told(found["other"]) == verdicts_of(would_be)
    assert found["newly_kept"]["documents"] == was["duplicate"] - would_be["duplicate"] > 0


def test_the_settings_in_force_change_nothing_and_people_are_told_so(files: tuple[str, str]) -> None:
    filtered(files, "was")
    done = run("compare", "--out", "was-out", "--index", "was-index")
    assert "no verdict would change" in done.out
    other = run("compare", "--out", "was-out", "--index", "was-index", *STRICTER).out
    assert "would be kept, and were dropped" in other
    assert "similarity 0." in other
    assert "verdicts would change" in other
    without = run("compare", "--out", "was-out", "--index", "nowhere").out
    assert "of 210 documents the index does not know the order" in without
    assert not Path("nowhere").exists()


def test_both_decisions_on_every_document_are_written_into_a_file_that_is_not_written_over(
    files: tuple[str, str],
) -> None:
    filtered(files, "was")
    comparing = ["compare", "--out", "was-out", "--index", "was-index", *STRICTER, "--verdicts", "both.jsonl"]
    assert run(*comparing).code == 0
    lines = [orjson.loads(line) for line in Path("both.jsonl").read_bytes().splitlines()]
    delivered = [orjson.loads(line) for line in Path("was-out/verdicts.jsonl").read_bytes().splitlines()]
    assert [(line["position"], line["id"] or None, line["delivered"]["verdict"]) for line in lines] == [
        (
            f"{line['source']}/0/{line['line'] - 1}",
            line["id"] or f"{line['source']}/0/{line['line'] - 1}",
            line["verdict"],
        )
        for line in delivered
    ]
    assert run(*comparing).code == 73
    assert run(*comparing, "--force").code == 0


def test_what_is_typed_wrongly_or_was_never_filtered_is_refused(files: tuple[str, str]) -> None:
    assert run("compare", *files, "--out", "was-out").code == 2
    assert run("compare", "--out", "nowhere").code == 78
    assert run("compare", *files, "--set", "minhash.similarity_min=7").code == 78


def test_settings_that_do_not_decide_hold_for_both_sides(files: tuple[str, str]) -> None:
    done = run("compare", *files, "--json", "--set", "decode.text=/title", *STRICTER)
    found = orjson.loads(done.out)
    assert found["delivered"]["dead-letter"] == found["other"]["dead-letter"]
