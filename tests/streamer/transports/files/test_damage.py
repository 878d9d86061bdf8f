"""Damaged archives among others: nothing is lost or doubled, whatever the same command meets again."""

import gzip
import random
from collections import Counter
from contextlib import closing
from pathlib import Path

import orjson
import pytest

from streamer.errors import InputsUnread
from streamer.transports.files.line_reader import LineReader, lines
from streamer.transports.files.read_ahead import ReadAhead
from tests.support.file_filter import Crashed, Decider, Disk, filter_files, outputs
from tests.support.web_archives import Archive


def damaged_archives(folder: Path) -> list[Path]:
    """A damaged record, a damaged member, a cut end, a sound archive, and lines."""
    archive = Archive()
    for number in range(12):
        archive.page(f"http://a.example/{number}", f"<p>Page {number} {random.Random(number).randbytes(300).hex()}")
    records = archive.records
    members = [*map(gzip.compress, records)]
    members[5] = members[5][: len(members[5]) // 2]
    records[3] = b"WARC/xyz" + records[3][8:]
    contents = {
        "a.warc": b"".join(records),
        "b.warc.gz": b"".join(members),
        "c.warc.gz": b"".join(map(gzip.compress, records[4:9]))[:-40],
        "d.warc": b"".join(records[9:]),
        "e.jsonl": b"one\ntwo\n",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in contents]


def lines_of(out: Path) -> list[bytes]:
    return sorted(
        line for content in outputs(out).values() for line in content.splitlines() if b'"verdict"' not in line
    )


def test_damage_stops_neither_its_file_nor_the_next_ones_and_the_same_command_doubles_nothing(tmp_path: Path) -> None:
    paths, decider = damaged_archives(tmp_path), Decider()
    for _ in range(3):
        with pytest.raises(InputsUnread, match=r"c\.warc\.gz: .*truncated; 4 lines before that were read"):
            filter_files(paths, tmp_path / "out", decider, ahead=2)
        assert len(lines_of(tmp_path / "out")) == 12 + 12 + 4 + 3 + 2
    told = [orjson.loads(line)["unreadable"] for line in lines_of(tmp_path / "out") if b"unreadable" in line]
    assert len(told) == 2
    assert any(place.startswith("WARC record 4, at byte") and "of what a.warc holds" in place for place in told)


def test_a_crash_at_every_step_amid_damage_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = damaged_archives(tmp_path)
    with pytest.raises(InputsUnread):
        filter_files(paths, tmp_path / "whole", Decider())
    wanted, crash_at, crashed = lines_of(tmp_path / "whole"), 0, True
    while crashed:
        crash_at, crashed = crash_at + 3, False
        out, decider = tmp_path / f"out{crash_at}", Decider()
        out.mkdir()
        with monkeypatch.context() as patch:
            disk = Disk(patch, out, crash_at)
            try:
                filter_files(paths, out, decider)
            except Crashed:
                crashed = True
            except InputsUnread:
                pass
        if crashed:
            disk.cut_power()
        with pytest.raises(InputsUnread):
            filter_files(paths, out, decider)
        assert lines_of(out) == wanted, crash_at
    assert crash_at > 30


def test_pieces_that_other_processes_read_give_the_same_lines_of_damage(tmp_path: Path) -> None:
    for path in damaged_archives(tmp_path)[:2]:
        with closing(ReadAhead([path], 2, lambda *_: None).open(path)) as ahead, closing(LineReader(path)) as reader:
            assert ahead.lines(100, 2**20) == reader.lines(100, 2**20)
            assert ahead.damages == reader.damages == 1


def test_lines_for_other_uses_leave_damage_out_and_count_it(tmp_path: Path) -> None:
    left_out: Counter[str] = Counter()
    assert len(list(lines(damaged_archives(tmp_path)[0], left_out))) == 11
    assert left_out == {"unreadable": 1}
