"""A command that fails leaves every folder as it found it, and keeps what is of value."""

import errno
import gzip
import importlib.util
import os
from pathlib import Path

import click
import lmdb
import pytest
from rich.cells import cell_len

from index.tools.backup import remove_unused
from streamer.cli.outputs import AS_JSON, NoLeftovers, show
from streamer.errors import DeliveryDoubtful, SettingsError
from streamer.explain.plain_table import PIPE_COLUMNS, PlainTable
from tests.support.command_line import run
from tests.support.indexes import opened
from tests.support.memory_service import document

Tree = dict[str, bytes | None]


def tree(folder: Path) -> Tree:
    """Every file with its content and every folder; the index's lock file without, as readers write into it."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() and path.name != "lock.mdb" else None
        for path in folder.rglob("*")
    }


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with inputs good and bad, entered."""
    monkeypatch.chdir(tmp_path)
    good = b"".join(document(str(number), f"Some words to be filtered, {number}.") + b"\n" for number in range(3))
    (tmp_path / "good.jsonl").write_bytes(good)
    (tmp_path / "damaged.jsonl.gz").write_bytes(gzip.compress(good)[:15])
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "pairs").write_text('{"a": "one", "b": "two", "label": false}')
    (tmp_path / "rubbish").write_bytes(b"\x00\xff rubbish\n")
    return tmp_path


@pytest.fixture
def index(here: Path) -> Path:
    done = run("filter", "good.jsonl", "--out", "out", "--index", "index")
    assert done.code == 0, done.err
    return here / "index"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("filter missing.jsonl --out x --index y", os.EX_NOINPUT),
        ("filter missing.jsonl --out x/deep/er --index x/y/z", os.EX_NOINPUT),
        ("filter folder.jsonl --out x --index y", 2),
        ("filter damaged.jsonl.gz --out x --index y", os.EX_NOINPUT),
        ("filter good.jsonl good.jsonl --out x --index y", os.EX_CONFIG),
        ("filter good.jsonl --out good.jsonl --index y", 2),
        ("filter good.jsonl --out good.jsonl/x --index y", os.EX_CONFIG),
        ("filter good.jsonl --out x --index y --set index.distance_max=8", os.EX_CONFIG),
        ("filter good.jsonl --out x --index y --set fingerprint.scheme=simhash --set fingerprint.idf=no.idf", os.EX_CONFIG),
        ("filter good.jsonl --out x --index y --config no.toml", os.EX_CONFIG),
        ("filter good.jsonl --out x --index good.jsonl/y", os.EX_CONFIG),
        ("filter good.jsonl --out x --set index.directory=good.jsonl", os.EX_CONFIG),
        ("filter good.jsonl --out x --set index.directory=", os.EX_CONFIG),
        ("filter good.jsonl --out x --index /proc", os.EX_CONFIG),
        ("index --directory good.jsonl/y rebuild good.jsonl/x good.jsonl", os.EX_CONFIG),
        ("idf build good.jsonl --out no/x", os.EX_CANTCREAT),
        ("evaluate pairs --picture no/x", os.EX_CANTCREAT),
        ("index --directory y restore missing", os.EX_NOINPUT),
        ("index --directory y restore folder.jsonl", os.EX_NOINPUT),
        ("index --directory y backup x", os.EX_NOINPUT),
        ("index --directory y compact x", os.EX_NOINPUT),
        ("index --directory y switch folder.jsonl", os.EX_NOINPUT),
        ("index --directory y rebuild x missing.jsonl", os.EX_NOINPUT),
        ("index --directory y rebuild x/deep damaged.jsonl.gz", os.EX_NOINPUT),
        ("index --directory y rebuild x --topics", os.EX_NOINPUT),
        ("index --directory y rebuild x --export missing.jsonl", os.EX_NOINPUT),
        ("index --directory y rebuild x --export rubbish", os.EX_NOINPUT),
        ("idf build missing.jsonl --out x", os.EX_NOINPUT),
        ("calibrate missing.jsonl", os.EX_NOINPUT),
        ("evaluate missing --picture x", os.EX_NOINPUT),
    ],
)  # fmt: skip
def test_a_failed_command_leaves_no_folder_behind(arguments: str, code: int, here: Path) -> None:
    before = tree(here)
    done = run(*arguments.split())
    assert done.code == code, done.err
    assert tree(here) == before


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("filter missing.jsonl --out out --index index", os.EX_NOINPUT),
        ("filter good.jsonl --out x --index index --set minhash.similarity_min=0.6", os.EX_CONFIG),
        ("filter damaged.jsonl.gz --out x --index index", os.EX_NOINPUT),
        ("index --directory index rebuild x missing.jsonl", os.EX_NOINPUT),
        ("index --directory y rebuild index --export rubbish", os.EX_NOINPUT),
        ("index --directory index export no/export.jsonl", os.EX_CANTCREAT),
        ("index --directory index backup out", os.EX_CANTCREAT),
        ("index --directory index backup good.jsonl/deeper", os.EX_CANTCREAT),
        ("index --directory index switch folder.jsonl", os.EX_NOINPUT),
    ],
)
def test_what_existed_before_is_not_touched(arguments: str, code: int, index: Path, here: Path) -> None:
    before = tree(here)
    done = run(*arguments.split())
    assert done.code == code, done.err
    after = tree(here)
    # The index notes the name of an input before it reads its first line.
    del before["index/data.mdb"], after["index/data.mdb"]
    assert after == before


@pytest.mark.parametrize(
    "arguments",
    ["filter good.jsonl --out x --index index", "index --directory index stats", "index --directory index forget 1"],
)
def test_an_index_folder_that_may_not_be_touched_is_named(
    arguments: str, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = lmdb.Error("index: Read-only file system")
    refusal.code = errno.EROFS

    def refused(*_: object, **__: object) -> None:
        raise refusal

    monkeypatch.setattr(lmdb, "open", refused)
    done = run(*arguments.split())
    assert (done.code, done.err) == (
        os.EX_CONFIG,
        "streamer: index.directory: index: cannot be used: Read-only file system: name another folder.",
    )


@pytest.mark.parametrize(
    "arguments",
    ["index --directory index export good.jsonl", "idf build good.jsonl --out good.jsonl", "idf build good.jsonl --out link"],
)  # fmt: skip
def test_a_file_is_written_over_by_force_alone(arguments: str, index: Path, here: Path) -> None:
    (here / "link").symlink_to("nowhere")
    before = tree(here)
    written = arguments.rsplit(" ", 1)[1]
    refused = run(*arguments.split())
    assert (refused.code, refused.err) == (
        os.EX_CANTCREAT,
        f"streamer: {written}: exists already: name another file, or overwrite it with --force.",
    )
    assert tree(here) == before
    forced = run(*arguments.split(), "--force")
    assert forced.code == 0, forced.err
    assert (here / written).read_bytes() != before["good.jsonl"]


def test_rubbish_is_not_switched_to(index: Path, here: Path) -> None:
    (here / "rubbish").rename(here / "folder.jsonl" / "data.mdb")
    before = (index / "data.mdb").read_bytes()
    done = run("index", "--directory", "index", "switch", "folder.jsonl")
    assert done.code == os.EX_DATAERR
    assert "folder.jsonl/data.mdb is damaged: it has 11 bytes" in done.err
    assert (index / "data.mdb").read_bytes() == before


def test_folders_that_stood_empty_stay_and_stay_empty(here: Path) -> None:
    for name in ("x", "y"):
        (here / name).mkdir()
    before = tree(here)
    assert run("filter", "damaged.jsonl.gz", "--out", "x", "--index", "y").code == os.EX_NOINPUT
    assert tree(here) == before


def test_files_of_others_stay_where_a_filter_refuses_them(here: Path) -> None:
    (here / "x").mkdir()
    (here / "x" / "unique.jsonl").touch()
    before = tree(here)
    assert run("filter", "good.jsonl", "--out", "x", "--index", "y").code == os.EX_CONFIG
    assert tree(here) == before


def test_what_was_filtered_before_the_failure_stays_and_the_same_command_goes_on(here: Path) -> None:
    arguments = ("filter", "good.jsonl", "damaged.jsonl.gz", "--out", "x", "--index", "y")
    assert run(*arguments).code == os.EX_NOINPUT
    assert len((here / "x" / "verdicts.jsonl").read_bytes().splitlines()) == 3
    good = (here / "good.jsonl").read_bytes()
    (here / "damaged.jsonl.gz").write_bytes(gzip.compress(good))
    assert run(*arguments).code == 0
    assert len((here / "x" / "verdicts.jsonl").read_bytes().splitlines()) == 6


def test_an_export_that_ends_too_early_keeps_what_was_read(index: Path, here: Path) -> None:
    assert run("index", "--directory", index, "export", "export.jsonl").code == 0
    lines = (here / "export.jsonl").read_bytes().splitlines(keepends=True)
    (here / "cut.jsonl").write_bytes(b"".join(lines[:-1]))
    (here / "wrong.jsonl").write_bytes(lines[0] + b"rubbish\n")
    assert "The index has the" in run("index", "--directory", index, "rebuild", "some", "--export", "cut.jsonl").err
    assert (here / "some").is_dir()
    assert run("index", "--directory", index, "rebuild", "none", "--export", "wrong.jsonl").code == os.EX_NOINPUT
    assert not (here / "none").exists()


def test_a_demo_that_fails_leaves_nothing_behind(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    before = tree(here)
    for directory in ("x", "deep/er", "folder.jsonl", "."):
        refused = run("demo", "--directory", directory, "--set", "fingerprint.markup=html-main")
        assert refused.code == os.EX_CONFIG
        assert tree(here) == before


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("backup made/x", os.EX_IOERR),
        ("compact made/x", os.EX_IOERR),
        ("export x.jsonl", os.EX_CANTCREAT),
        ("export x.zst", os.EX_CANTCREAT),
    ],
)
def test_a_full_disk_leaves_no_unfinished_copy(
    command: str, code: int, index: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = tree(here)
    monkeypatch.setattr(os, "fsync", full)
    done = run("index", "--directory", index, *command.split())
    assert done.code == code
    assert "No space left" in done.err
    assert tree(here) == before


def test_an_index_that_is_open_or_used_is_not_removed(tmp_path: Path) -> None:
    with opened(tmp_path / "open"):
        assert not remove_unused(tmp_path / "open")
    assert remove_unused(tmp_path / "open")
    assert list((tmp_path / "open").iterdir()) == []
    assert remove_unused(tmp_path / "never made")


def failing(error: BaseException, directory: Path) -> None:
    """What a command does that makes an index and then fails."""
    with NoLeftovers(index=directory / "index", output=directory / "out"):
        opened(directory / "index").close()
        raise error


@pytest.mark.parametrize(
    ("error", "stays"),
    [
        (SettingsError("x"), False),
        (KeyboardInterrupt(), False),
        (SystemExit(os.EX_CONFIG), False),
        (SystemExit(0), True),
        (DeliveryDoubtful("x"), True),
        (ZeroDivisionError(), True),
    ],
    ids=repr,
)
def test_folders_stay_after_success_and_where_delivery_is_in_doubt(
    error: BaseException, stays: bool, tmp_path: Path
) -> None:
    with pytest.raises(type(error)):
        failing(error, tmp_path)
    assert (tmp_path / "index").exists() == stays


def printed(table: PlainTable, capsys: pytest.CaptureFixture[str], *, soft_wrap: bool) -> list[str]:
    with click.Context(click.Command("tables")) as context:
        context.meta[AS_JSON] = False
        show({}, table, soft_wrap=soft_wrap)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("soft_wrap", [True, False])
def test_a_table_in_a_pipe_is_as_wide_as_its_words(soft_wrap: bool, capsys: pytest.CaptureFixture[str]) -> None:
    id_, host = f"https://site.example/{'page' * 15}", "long.example"
    table = PlainTable("id", "host", "documents", ids=("id", "host"), right=("documents",))
    table.add_row(id_, host, "1,234")
    _, line = printed(table, capsys, soft_wrap=soft_wrap)
    assert line.split() == [id_, host, "1,234"]
    assert 90 < len(line) <= PIPE_COLUMNS


@pytest.mark.parametrize("soft_wrap", [True, False])
def test_a_wider_one_loses_the_middle_of_ids_and_no_figure(soft_wrap: bool, capsys: pytest.CaptureFixture[str]) -> None:
    id_, host = f"https://site.example/{'page' * 60}/12345", f"{'长' * 80}.example"
    table = PlainTable("id", "host", "documents", "why", ids=("id", "host"), right=("documents",))
    table.add_row(id_, host, "1,234", "it folds as far as it can")
    head, first, *others = printed(table, capsys, soft_wrap=soft_wrap)
    assert head.split() == ["id", "host", "documents", "why"]
    found_id, found_host, count, *_ = first.split()
    assert (found_id[:21], found_id[-6:], found_id.count("…")) == (id_[:21], "/12345", 1)
    assert (found_host[0], found_host[-8:], found_host.count("…")) == ("长", ".example", 1)
    assert count == "1,234"
    assert " ".join([first, *others]).split()[3:] == ["it", "folds", "as", "far", "as", "it", "can"]
    assert max(map(cell_len, (head, first, *others))) <= PIPE_COLUMNS


def test_without_room_for_its_figures_each_row_is_a_paragraph(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"figure {number}" for number in range(12)]
    table = PlainTable("id", *names, ids=("id",), right=names)
    table.add_row(f"https://site.example/{'page' * 60}", *(f"{number:,}" for number in range(10**8, 10**8 + 12)))
    lines = printed(table, capsys, soft_wrap=True)
    assert max(map(len, lines)) <= PIPE_COLUMNS
    assert "".join(lines[:4]).startswith(f"id  https://site.example/{'page' * 60}")
    assert [line for line in lines if line.startswith("figure 3")] == ["figure 3  100,000,003"]
