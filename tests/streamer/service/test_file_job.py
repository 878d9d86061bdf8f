"""Files of crawls and tables, from one end of the job to the other."""

import gzip
import io
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as arrow
import pytest
from pyarrow import parquet
from rich.console import Console
from rich.progress import Progress

from index.storage.store import Store
from streamer.service import file_job
from streamer.service.state import State
from streamer.service.summary import Totals
from streamer.transports.files.line_reader import lines
from streamer.transports.files.transport import FileTransport
from tests.support.command_line import Done, run
from tests.support.web_archives import Archive

STORY = (
    "The lighthouse keeper counted forty ships that night, more than in any night since the canal was opened to tankers. "
    "In the morning the fog came, and nobody could see the other side of the bay until the wind turned in the afternoon. "
)
OTHER = (
    "Potatoes were planted late this year, for the ground stayed frozen until April and the river stood on the low fields. "
    "Farmers expect half of the usual harvest, and ask the district to open the old granary before the winter begins. "
)


def html(article: str, menu: str) -> str:
    paragraphs = "".join(f"<p>{article}</p>" for _ in range(2))
    return f"<html><body><nav>{menu * 60}</nav><article><h1>News</h1>{paragraphs}</article></body></html>"


def crawl() -> Archive:
    archive = Archive()
    archive.add("warcinfo", None, b"software: crawler\r\n", "application/warc-fields")
    archive.page("http://a.example/ships", html(STORY, "Home Contact Imprint "))
    archive.page("http://b.example/ships", html(STORY, "Sport Weather Markets "), charset="utf-16")
    archive.add("response", "http://b.example/logo", b"\x89PNG", http=[("Content-Type", "image/png")])
    archive.add(
        "response",
        "http://b.example/half",
        b"\x1f\x8b\x08",
        http=[("Content-Type", "text/html"), ("Content-Encoding", "gzip")],
    )
    return archive


def filtered(folder: Path, file: Path, *options: str) -> tuple[dict[str, Any], list[dict[str, Any]], Done]:
    out = folder / "out"
    done = run("filter", file, "--out", out, "--index", folder / "index", "--json", *options)
    assert done.code == 0, done.err
    return json.loads(done.out), [json.loads(line) for line in lines(out / "verdicts.jsonl")], done


MAIN = ("--set", "fingerprint.markup=html-main", "--set", "decode.preset=warc")


def test_damage_in_an_archive_is_a_dead_letter_with_an_exit_code_and_the_next_file_is_read(tmp_path: Path) -> None:
    folder, out = tmp_path / "crawl", tmp_path / "out"
    folder.mkdir()
    records = crawl().records
    (folder / "a.warc").write_bytes(b"".join([*records[:1], b"WARC/xyz" + records[1][8:], *records[2:]]))
    (folder / "b.warc.gz").write_bytes(gzip.compress(records[1])[:-30])
    (folder / "c.warc").write_bytes(records[1])
    command = ("filter", folder, "--out", out, "--index", tmp_path / "index", "--json", *MAIN)
    done = run(*command)
    assert done.code == 66
    assert "1 damaged places in archives have dead letters" in done.err
    assert "b.warc.gz: the compressed data ends too early" in done.err
    verdicts = [json.loads(line) for line in lines(out / "verdicts.jsonl")]
    assert [(Path(each["source"]).name, each["line"], each["reason"]) for each in verdicts] == [
        ("a.warc", 1, "unreadable"),
        ("a.warc", 2, "no-match"),
        ("a.warc", 3, "no-text"),
        ("c.warc", 1, "same-text"),
    ]
    totals = json.loads(done.out)
    assert (totals["reasons"]["dead-letter/unreadable"], len(totals["unread"])) == (1, 1)
    assert b"WARC record 2, at byte" in (out / "dead-letter.jsonl").read_bytes()
    assert run("verify", "--out", out, "--index", tmp_path / "index", *MAIN).code == 0
    (folder / "b.warc.gz").write_bytes(gzip.compress(records[1]))
    done = run(*command)
    assert (done.code, json.loads(done.out)["documents"]) == (0, 1)


@pytest.mark.parametrize("kernels", [0, 3])
def test_a_run_says_once_that_it_compiles_machine_code_if_the_cache_lacks_any(
    kernels: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def compilations(begun: Callable[[int, Path], None]) -> Iterator[None]:
        for kernel in range(kernels):
            begun(kernel + 1, Path("kept"))
        yield

    monkeypatch.setattr(file_job, "compilations", compilations)
    (file := tmp_path / "texts.jsonl").write_text(json.dumps({"text": STORY}) + "\n")
    _, _, done = filtered(tmp_path, file)
    assert done.err.count("compiling machine code, once for this processor (cached in kept)") == min(kernels, 1)


@pytest.mark.parametrize("restored", [False, True])
def test_a_folder_of_small_files_costs_transactions_by_the_batch_and_not_by_the_file(
    restored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`restored`: the folder is filtered once more, into another place, so every file is known by its name."""
    transactions: list[str] = []

    def counted(name: str) -> None:
        real = getattr(Store, name)

        def call(*arguments: Any) -> Any:
            transactions.append(name)
            return real(*arguments)

        monkeypatch.setattr(Store, name, call)

    counted("read")
    counted("write")

    def count(files: int) -> dict[str, int]:
        crawl = tmp_path / f"{files}" / "crawl"
        crawl.mkdir(parents=True)
        for number in range(files):
            (crawl / f"{number}.jsonl").write_text(json.dumps({"text": f"{STORY} {number}"}) + "\n")
        for out in ["first", "second"][: 1 + restored]:
            transactions.clear()
            done = run("filter", crawl, "--out", crawl.parent / out, "--index", crawl.parent / "index", "--json")
            assert json.loads(done.out)["documents"] == files, done.err
        return dict(Counter(transactions))

    assert count(5) == count(100)


def test_an_archive_is_filtered_page_by_page_and_goes_on_where_it_grew(tmp_path: Path) -> None:
    archive, file = crawl(), tmp_path / "crawl.warc.gz"
    file.write_bytes(archive.members)
    totals, verdicts, _ = filtered(tmp_path, file, *MAIN)
    assert totals["left_out"] == {"warcinfo": 1, "response, image/png": 1}
    assert [(each["line"], each["id"][-2], each["verdict"]) for each in verdicts] == [
        (1, "1", "unique"),
        (2, "2", "duplicate"),
        (3, "4", "dead-letter"),
    ]
    (told,) = lines(tmp_path / "out" / "dead-letter.jsonl")
    assert json.loads(told)["no_text"] == "the content, coded by gzip, is cut short"
    (kept,) = lines(tmp_path / "out" / "unique.jsonl")
    assert json.loads(kept)["text"] == html(STORY, "Home Contact Imprint ")

    archive.page("http://c.example/farm", html(OTHER, "Home Contact Imprint "))
    file.write_bytes(archive.members)
    totals, verdicts, _ = filtered(tmp_path, file, *MAIN)
    assert (totals["documents"], totals["already_decided"], totals["unique"]) == (1, 3, 1)
    assert verdicts[-1]["id"].endswith("5>")


def test_pages_whose_markup_would_be_compared_are_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "crawl.warc"
    file.write_bytes(crawl().plain)
    _, _, done = filtered(tmp_path, file, "--set", "fingerprint.markup=none")
    assert "fingerprint.markup" in done.err + capsys.readouterr().err


def test_a_table_is_filtered_row_by_row(tmp_path: Path) -> None:
    rows = [
        {"id": number, "text": text, "price": 1.5} for number, text in enumerate([STORY, OTHER, STORY + "So it goes."])
    ]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "pages.parquet")
    totals, verdicts, _ = filtered(tmp_path, tmp_path / "pages.parquet")
    assert (totals["unique"], totals["duplicate"]) == (2, 1)
    assert [(each["id"], each["verdict"]) for each in verdicts] == [
        ("0", "unique"),
        ("1", "unique"),
        ("2", "duplicate"),
    ]
    assert [json.loads(line) for line in lines(tmp_path / "out" / "unique.jsonl")] == rows[:2]


def test_half_a_last_line_and_a_tail_are_said_and_the_same_command_goes_on(tmp_path: Path) -> None:
    first, second, third = (tmp_path / f"{name}" for name in ("1.jsonl", "2.jsonl.gz", "3.jsonl"))
    half = json.dumps({"id": "b", "text": OTHER})
    first.write_text("\n" + json.dumps({"id": "a", "text": STORY}) + "\n" + half[:20])
    second.write_bytes(gzip.compress(json.dumps({"id": "c", "text": STORY}).encode()) + b"rubbish")
    third.write_bytes(b"")
    command = ("filter", first, second, third, "--out", tmp_path / "out", "--index", tmp_path / "index", "--json")
    done = run(*command)
    totals = json.loads(done.out)
    assert (done.code, totals["documents"], totals["unique"], totals["duplicate"]) == (0, 2, 1, 1)
    assert totals["left_out"] == {"blank line": 1}
    assert [remark.partition(": ")[2][:13] for remark in totals["remarks"]] == ["the last line", "7 bytes after"]
    assert all(f"streamer: {remark}" in done.err for remark in totals["remarks"])
    first.write_text(first.read_text() + half[20:])
    totals = json.loads(run(*command).out)
    assert (totals["documents"], totals["already_decided"], totals["unique"], totals["dead_letter"]) == (1, 2, 1, 0)
    assert len(totals["remarks"]) == 1
    assert run("verify", "--out", tmp_path / "out", "--index", tmp_path / "index").code == 0


def test_half_a_record_alone_is_nothing_to_work_on_yet(tmp_path: Path) -> None:
    (file := tmp_path / "in.jsonl").write_text('{"id":"a","te')
    command = ("filter", file, "--out", tmp_path / "out", "--index", tmp_path / "index")
    done = run(*command)
    assert done.code == os.EX_DATAERR
    assert "has no whole record yet" in done.err
    file.write_text(json.dumps({"id": "a", "text": STORY}))
    assert run(*command).code == 0


def test_an_array_on_one_line_is_named_with_what_to_do(tmp_path: Path) -> None:
    (file := tmp_path / "in.json").write_text(json.dumps([{"id": "a", "text": STORY}]))
    done = run("filter", file, "--out", tmp_path / "out", "--index", tmp_path / "index")
    assert done.code == os.EX_DATAERR
    assert "This is a JSON array. Put each document on a line: cat" in done.err


def test_the_bar_shows_the_state_with_what_is_read_and_decided_and_nothing_before_the_start_succeeded() -> None:
    read = SimpleNamespace(bytes_total=4_000, bytes_read=0)
    screen = io.StringIO()
    progress = Progress(console=Console(file=screen, force_terminal=True), auto_refresh=False)
    totals = Totals()
    bar = file_job._ProgressBar(cast(FileTransport, read), progress, totals)
    (task,) = progress.tasks
    bar.state(State.STARTING)
    assert (task.description, task.total, screen.getvalue()) == ("starting", 4_000, "")
    bar.state(State.RUNNING)
    read.bytes_read, totals.records = 3_000, 1_200
    bar.progress()
    progress.stop()
    assert (task.description, task.completed, task.fields["documents"]) == ("filtering", 3_000, "1,200 documents")
    assert screen.getvalue()
