"""`streamer give-back --out`: lines that were dropped come back into unique.jsonl, once, and stay."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.command_line import run
from tests.support.memory_service import SENTENCES

SITE = "site.example"
TEMPLATE = "".join(SENTENCES)
FOLDERS = ("--out", "out", "--index", "index")


def page(number: int, version: str = "") -> bytes:
    name = f"page number {number:04}"
    text = f"{TEMPLATE} {name} {name[::-1]} {version}"
    return orjson.dumps({"id": f"page-{number}", "text": text, "host": SITE if number < 8 else "other.example"})


@pytest.fixture(autouse=True)
def _filtered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pages.jsonl").write_bytes(b"".join(page(number) + b"\n" for number in range(10)))
    assert run("filter", "pages.jsonl", *FOLDERS).code == 0


def told(*arguments: str, code: int = 0) -> dict[str, Any]:
    done = run("give-back", *arguments, *FOLDERS, "--json")
    assert done.code == code, done.err
    found: dict[str, Any] = orjson.loads(done.out)
    return found


def lines(name: str) -> list[bytes]:
    return Path("out", name).read_bytes().splitlines()


def test_a_dry_run_shows_what_would_come_back_and_changes_nothing() -> None:
    before = {name: lines(name) for name in ("unique.jsonl", "verdicts.jsonl", "checkpoint.json")}
    found = told("--host", SITE, "--dry-run")
    assert (found["matched"], found["given_back"], found["hosts"]) == (7, 0, {SITE: 7})
    assert found["originals"] == {"page-0": 7}
    done = run("give-back", "--original", "page-0", "--dry-run", *FOLDERS)
    assert "would be given back" in done.out
    assert SITE in done.out
    assert "other.example" in done.out
    assert {name: lines(name) for name in before} == before


def test_what_was_dropped_comes_back_once_and_all_is_sound() -> None:
    assert lines("unique.jsonl") == [page(0)]
    assert told("page-3")["given_back"] == 1
    assert told("--host", SITE)["given_back"] == 6
    assert told("--host", SITE)["given_back_before"] == 7
    assert sorted(lines("unique.jsonl")) == sorted(page(number) for number in range(8))
    assert len(lines("duplicate.jsonl")) == 9
    verdict = orjson.loads(lines("verdicts.jsonl")[10])
    assert (verdict["verdict"], verdict["id"], verdict["original"], verdict["line"]) == (
        "given-back",
        "page-3",
        "page-0",
        4,
    )
    done = run("verify", *FOLDERS, "--json", "--all")
    assert (done.code, orjson.loads(done.out)["counts"]["given-back"]) == (0, 7)
    assert run("index", "--directory", "index", "check").code == 0


def test_a_page_that_came_back_is_not_dropped_for_another_and_a_lost_index_knows_it() -> None:
    told("--host", SITE)
    Path("index/data.mdb").unlink()
    Path("again.jsonl").write_bytes(page(5, "a few words more") + b"\n" + page(9, "a few words more") + b"\n")
    assert run("filter", "pages.jsonl", "again.jsonl", *FOLDERS).code == 0
    verdicts = [orjson.loads(line) for line in lines("verdicts.jsonl")[-2:]]
    assert [(each["verdict"], each["original"]) for each in verdicts] == [
        ("update", "page-5"),
        ("duplicate", verdicts[1]["original"]),
    ]
    assert told("--original", "page-0", "--host", SITE)["given_back"] == 0


def test_of_a_page_that_was_dropped_several_times_once_takes_the_newest_and_stays_at_it() -> None:
    versions = [page(number, f"crawl {crawl}") for crawl in range(3) for number in (20, 21)]
    Path("crawls.jsonl").write_bytes(b"".join(version + b"\n" for version in versions))
    Path("crawled.jsonl").write_bytes(page(20, "crawl 3") + b"\n")
    assert run("filter", "crawls.jsonl", "crawled.jsonl", *FOLDERS, "--set", "index.recrawl=duplicate").code == 0
    every = told("--host", "other.example", "--dry-run", "--set", "index.recrawl=duplicate")
    assert every["matched"] == 9
    found = told("--host", "other.example", "--once", "--dry-run")
    assert (found["matched"], found["given_back"]) == (4, 0)
    assert told("--host", "other.example", "--once")["given_back"] == 4
    assert sorted(lines("unique.jsonl")[1:]) == sorted([page(8), page(9), versions[5], page(20, "crawl 3")])
    again = told("--host", "other.example", "--once")
    assert (again["given_back"], again["given_back_before"]) == (0, 4)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "select documents by ID"),
        (("--since", "2h"), 78, "lines of files have no time"),
        (("nobody",), 1, "no duplicate matches"),
    ],
)
def test_what_means_nothing_is_told(arguments: tuple[str, ...], code: int, words: str) -> None:
    done = run("give-back", *arguments, *FOLDERS)
    assert done.code == code
    assert words in done.err


def test_a_folder_that_nobody_filtered_into_is_refused_and_not_made() -> None:
    done = run("give-back", "page-3", "--out", "elsewhere", "--index", "index")
    assert done.code == 78
    assert not Path("elsewhere").exists()


def test_on_flink_what_needs_an_index_or_files_is_refused_with_its_reason() -> None:
    for arguments, why in (
        (("page-1", "--out", "out"), "--out: with --flink it cannot be: Flink reads no files"),
        (("--for-template",), "--for-template: with --flink it cannot be: hosts' frames are its job's"),
    ):
        done = run("give-back", "--flink", *arguments)
        assert (done.code, why in done.err) == (2, True), done.err
    done = run("give-back", "--flink", "page-1", "--set", "index.recrawl=duplicate")
    assert (done.code, "index.recrawl: duplicate" in done.err) == (78, True), done.err
