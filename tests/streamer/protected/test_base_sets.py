"""Base sets over files, as a person filters with them."""

import re
import shutil
from pathlib import Path

import orjson
import pytest

from index.errors import ParametersDifferError
from streamer import Filter
from tests.support.command_line import run
from tests.support.news import LINES
from tests.support.paths import ROOT

(COMMAND,) = re.findall(r"```sh\n(streamer filter .* --base .*)\n```", (ROOT / "docs" / "inputs.md").read_text())


@pytest.fixture
def filtered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where last year was filtered, and then this year by the command of the page: both have a file of one name."""
    monkeypatch.chdir(tmp_path)
    for year, lines in (("last-year", LINES[:60]), ("corpus", LINES)):
        (tmp_path / year).mkdir()
        (tmp_path / year / "pages.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    options = "--index", "last-year/index"
    assert run("filter", "last-year/pages.jsonl", "--out", "out-of-last-year", *options).code == 0
    done = run(*COMMAND.split()[1:])
    assert done.code == 0, done.err
    return tmp_path


def verdicts(folder: Path) -> list[dict[str, object]]:
    return [orjson.loads(line) for line in (folder / "verdicts.jsonl").read_bytes().splitlines()]


def test_what_resembles_an_entry_of_last_year_is_a_duplicate_that_names_the_set(filtered: Path) -> None:
    lines = verdicts(filtered / "this-year")
    assert {line["verdict"] for line in lines[:60]} <= {"duplicate", "undecidable", "dead-letter", "update"}
    bases = [line for line in lines if "base" in line]
    assert len(bases) >= 40
    assert {(line["base"], line["original_source"]) for line in bases} == {("index", "index:last-year/pages.jsonl")}
    # What is new is decided as without a base.
    assert {line["verdict"] for line in lines[60:]} >= {"unique", "duplicate"}


def test_a_run_with_a_base_verifies_also_where_its_own_index_is_lost(filtered: Path) -> None:
    assert run("verify", "--out", "this-year", "--index", "this-index").code == 0
    assert run("index", "--directory", "this-index", "check").code == 0
    shutil.move("this-index", "lost")
    before = verdicts(filtered / "this-year")
    assert run(*COMMAND.split()[1:]).code == 0
    done = run("verify", "--out", "this-year", "--index", "this-index")
    assert done.code == 0, done.out
    assert "originals in the base set index" in done.out
    assert verdicts(filtered / "this-year") == before


def test_why_says_that_the_original_is_in_the_base_set(filtered: Path) -> None:
    line = next(line for line in verdicts(filtered / "this-year") if "base" in line)
    done = run("why", f"corpus/pages.jsonl:{line['line']}", "--out", "this-year", "--index", "this-index")
    assert done.code == 0, done.err
    assert "is an entry of the base set index" in " ".join(done.out.split())


@pytest.mark.usefixtures("filtered")
def test_a_set_with_another_kind_of_key_is_refused_by_name() -> None:
    with pytest.raises(ParametersDifferError, match=r"fingerprint\.key: stored \(not set\), asked"):
        Filter("seen", settings={"index.base": ["last-year"]})
    # Nothing of it stays in the way of another key.
    Filter("seen", settings={"index.base": ["last-year"], "fingerprint.key": "public"}).close()


@pytest.mark.usefixtures("filtered")
def test_a_filter_in_python_answers_with_the_name_of_the_set() -> None:
    with Filter("seen", settings={"index.base": ["last-year"], "fingerprint.key": "public"}) as seen:
        answer = seen.check(orjson.loads(LINES[0]))
        assert (answer.verdict, answer.base) == ("duplicate", "index")
        assert answer.original_position == "index:last-year/pages.jsonl/0/0"
        assert seen.admit(orjson.loads(LINES[0])).original_position == answer.original_position


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--base", "nowhere"], "index.base: nowhere: there is no index. Name the folder"),
        (["--base", "this-index"], "index.base: this-index: this is the index itself"),
        (
            ["--base", "last-year", "--index", "new", "--similarity", "0.8"],
            "minhash.similarity_min: stored 0.7, asked 0.8",
        ),
    ],
)
def test_a_base_that_cannot_serve_is_refused_by_name(filtered: Path, options: list[str], told: str) -> None:
    done = run("filter", "corpus", "--out", "more", "--index", "this-index", *options)
    assert done.code == 78
    assert told in done.err
    assert not (filtered / "new" / "data.mdb").exists()
