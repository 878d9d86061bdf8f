"""What a folder or a quoted glob means as an input: every file once, in one order, and nothing left out in silence."""

import os
from pathlib import Path

import pytest

from index import DATA_FILE
from streamer.transports.files.expand import NoInput, input_files

FILES = ("b.jsonl", "a/z.warc.gz", "a/y.PARQUET", "a-b/x.txt.zst", "\u00e9/w.wet", "Z/v.ndjson", "u.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "crawl"
    for name in FILES:
        make(made / name)
    return made


def make(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"{}\n")
    return path


def names(files: list[Path], folder: Path) -> list[str]:
    return [str(file.relative_to(folder)) for file in files]


def test_a_folder_means_its_files_at_any_depth_in_the_order_of_their_bytes(folder: Path) -> None:
    expected = ["Z/v.ndjson", "a-b/x.txt.zst", "a/y.PARQUET", "a/z.warc.gz", "b.jsonl", "u.json", "\u00e9/w.wet"]
    assert names(input_files(folder), folder) == expected
    assert sorted(FILES, key=os.fsencode) == expected != sorted(FILES, key=str.lower)


def test_hidden_ones_and_what_the_program_itself_writes_stay_out_of_a_folder(folder: Path) -> None:
    before = input_files(folder)
    out = folder / "a" / "out"
    for name in (
        ".hidden.jsonl",
        ".git/config.json",
        "_SUCCESS",
        "a/out/unique.jsonl",
        "a/out/lock",
        f"index/{DATA_FILE}",
    ):
        make(folder / name)
    assert input_files(folder, out) == before
    with pytest.raises(NoInput, match="a/out/lock"):
        input_files(folder, folder / "another")


def test_a_document_whose_name_begins_with_an_underscore_is_one(folder: Path) -> None:
    assert make(folder / "_1.jsonl") in input_files(folder)


@pytest.mark.parametrize("name", ["pages.csv", "README", "pages.jsonl.bz2", "crawl.wat.gz", "crawl.gz"])
def test_a_file_of_another_kind_is_named_and_not_skipped(folder: Path, name: str) -> None:
    make(folder / "a" / name)
    with pytest.raises(NoInput, match=f"a/{name}\\. Name the files to read by a quoted glob"):
        input_files(folder)
    assert input_files(folder / "a" / name) == [folder / "a" / name]
    assert folder / "a" / name in input_files(folder / "a" / "*")


def test_of_many_other_files_the_first_are_named_and_all_are_counted(folder: Path) -> None:
    for number in range(2_000):
        make(folder / "a" / f"{number:04}.html")
    with pytest.raises(NoInput, match=r"a/0000\.html, .*, \S*a/0004\.html and 1,995 more\."):
        input_files(folder)


def test_a_link_to_a_file_is_a_file_and_one_to_a_folder_is_named(folder: Path) -> None:
    (folder / "link.jsonl").symlink_to(folder / "b.jsonl")
    assert folder / "link.jsonl" in input_files(folder)
    (folder / "a" / "round").symlink_to(folder)
    with pytest.raises(NoInput, match="a/round"):
        input_files(folder)


def test_a_glob_means_the_files_and_folders_that_match_it(folder: Path) -> None:
    assert names(input_files(folder / "*.json*"), folder) == ["b.jsonl", "u.json"]
    assert names(input_files(folder / "**" / "*.[jw]*"), folder) == ["a/z.warc.gz", "b.jsonl", "u.json", "\u00e9/w.wet"]
    assert names(input_files(folder / "a*"), folder) == ["a-b/x.txt.zst", "a/y.PARQUET", "a/z.warc.gz"]
    make(folder / "a" / ".hidden.jsonl")
    make(folder / "out" / "unique.jsonl")
    assert names(input_files(folder / "**" / "*.jsonl", folder / "out"), folder) == ["b.jsonl"]
    assert names(input_files(folder / "**" / "*.jsonl"), folder) == ["b.jsonl", "out/unique.jsonl"]


def test_a_name_that_exists_is_no_glob(folder: Path) -> None:
    star = make(folder / "*.jsonl")
    assert input_files(star) == [star]
    bracket = make(folder / "[a]" / "page.jsonl").parent
    assert names(input_files(bracket), folder) == ["[a]/page.jsonl"]
    star.unlink()
    assert input_files(star) == [folder / "b.jsonl"]


@pytest.mark.parametrize("name", ["missing.jsonl", "-"])
def test_any_other_name_is_left_to_the_reader(folder: Path, name: str) -> None:
    assert input_files(Path(name)) == [Path(name)]


def test_a_folder_and_a_glob_without_a_file_are_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty" / "inner").mkdir(parents=True)
    with pytest.raises(NoInput, match="empty: the folder has no file to read"):
        input_files(tmp_path / "empty")
    with pytest.raises(NoInput, match="no file matches"):
        input_files(folder / "*.xz")


def test_an_error_of_the_disk_is_no_empty_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", failing)
    with pytest.raises(PermissionError):
        input_files(folder)


SIDE = (
    "_temporary/0/part-0.jsonl",
    "_delta_log/00000000000000000000.json",
    "_delta_log/00000000000000000010.checkpoint.parquet",
    "a/_spark_metadata/0.json",
    "_change_data/part-0.parquet",
    "__MACOSX/._b.jsonl",
    "__MACOSX/b.jsonl",
    ".hoodie/hoodie.json",
    "a/.part-0.jsonl.crc",
    "table/metadata/v1.metadata.json",
    "table/metadata/version-hint.text",
    "table/metadata/snap-1.avro",
    "_SUCCESS",
    "_committed_123",
)


def test_what_programs_note_of_their_data_is_no_input_of_a_folder_or_a_glob(folder: Path) -> None:
    before, matching = input_files(folder), input_files(folder / "**" / "*.[jp]*")
    for name in SIDE:
        make(folder / name)
    assert input_files(folder) == before
    assert input_files(folder / "**" / "*.[jp]*") == matching
    assert input_files(folder / "*") == sorted(before, key=os.fsencode)


def test_a_side_folder_that_is_named_is_read(folder: Path) -> None:
    for name in SIDE:
        make(folder / name)
    assert names(input_files(folder / "_delta_log" / "*.json"), folder) == ["_delta_log/00000000000000000000.json"]
    assert names(input_files(folder / "table" / "metadata" / "*.json"), folder) == ["table/metadata/v1.metadata.json"]
    assert len(input_files(folder / "_delta_log")) == 2


def test_a_folder_of_documents_that_is_called_metadata_is_read(folder: Path) -> None:
    assert make(folder / "metadata" / "pages.jsonl") in input_files(folder)
    assert make(folder / "_pages" / "pages.jsonl") in input_files(folder)


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tgz", "a.tar.zst", "a.zip", "a.7z", "a.jsonl.xz", "a.crc"])
def test_an_archive_in_a_folder_is_named(folder: Path, name: str) -> None:
    make(folder / name)
    with pytest.raises(NoInput, match=f"by their names: \\S*/{name}\\."):
        input_files(folder)
