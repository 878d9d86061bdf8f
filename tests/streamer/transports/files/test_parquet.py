import datetime
import decimal
import importlib.util
import json
import math
from contextlib import closing
from pathlib import Path

import pyarrow as arrow
import pytest
from pyarrow import parquet as arrow_parquet

from streamer.errors import InputUnreadable
from streamer.transports.files import parquet
from streamer.transports.files.line_reader import STANDARD_INPUT, LineReader, lines
from tests.support.file_filter import pipe_of


def write(path: Path, rows: list[dict[str, object]], row_group: int = 1_000) -> Path:
    arrow_parquet.write_table(arrow.Table.from_pylist(rows), path, row_group_size=row_group)
    return path


def test_every_row_is_a_line_with_all_its_columns_in_their_order(tmp_path: Path) -> None:
    moment = datetime.datetime(2026, 11, 22, 10, tzinfo=datetime.UTC)
    row: dict[str, object] = {
        "text": "渡轮",
        "zone": None,
        "number": 2**60,
        "time": moment,
        "day": moment.date(),
        "price": decimal.Decimal("1.50"),
        "share": math.nan,
        "words": ["a", "b"],
        "of": {"deep": [1]},
        "in_utf_8": "渡".encode(),
        "in_none": b"\xff",
    }
    (line,) = lines(write(tmp_path / "rows.parquet", [row]))
    assert json.loads(line) == row | {
        "time": "2026-11-22T10:00:00+00:00",
        "day": "2026-11-22",
        "price": "1.50",
        "share": None,
        "in_utf_8": "渡",
        "in_none": "/w==",
    }
    assert list(json.loads(line)) == list(row)


@pytest.mark.parametrize("row_group", [7, 1_000])
def test_rows_come_in_order_and_in_batches_whatever_the_name_and_the_progress_ends_at_the_size(
    tmp_path: Path, row_group: int
) -> None:
    path = write(tmp_path / "rows", [{"id": number, "text": f"text {number}"} for number in range(3_000)], row_group)
    reached = []
    with closing(LineReader(path)) as reader:
        found: list[bytes] = []
        while taken := reader.lines(100, 2**20):
            found += taken
            reached.append(reader.bytes_read)
        assert reader.ended
    assert [json.loads(line)["id"] for line in found] == list(range(3_000))
    assert reached == sorted(reached)
    assert reached[0] < reached[-1] == path.stat().st_size


def test_a_file_gives_the_same_lines_and_the_same_digest_every_time(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.parquet", [{"id": number} for number in range(700)])
    with closing(LineReader(path)) as first, closing(LineReader(path)) as again:
        first.skip(600)
        again.lines(600, 2**20)
        assert first.digest() == again.digest()
        assert first.lines(1_000, 2**20) == again.lines(1_000, 2**20)


def test_a_table_without_rows_gives_no_line(tmp_path: Path) -> None:
    arrow_parquet.write_table(arrow.table({"text": arrow.array([], arrow.string())}), tmp_path / "rows.parquet")
    assert list(lines(tmp_path / "rows.parquet")) == []


@pytest.mark.parametrize(("rows_at_once", "copies_max"), [(None, 10), (64, None)])
def test_a_value_that_all_rows_share_is_held_for_a_few_rows_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_at_once: int | None, copies_max: int | None
) -> None:
    """With 64 rows at once, the same file takes more than 60 copies."""
    if rows_at_once is not None:
        monkeypatch.setattr(parquet, "_ROWS_AT_ONCE", rows_at_once)
    size, count = 2**20, 100
    shared = arrow.DictionaryArray.from_arrays(arrow.array([0] * count, arrow.int32()), ["x" * size])
    arrow_parquet.write_table(
        arrow.table({"text": shared}), tmp_path / "rows.parquet", dictionary_pagesize_limit=2**30, store_schema=False
    )
    assert (tmp_path / "rows.parquet").stat().st_size < 2**17
    before, held_bytes, read = arrow.total_allocated_bytes(), 0, 0
    for line, _ in parquet.json_lines(tmp_path / "rows.parquet"):
        held_bytes, read = max(held_bytes, arrow.total_allocated_bytes() - before), read + 1
        assert len(json.loads(line)["text"]) == size
    assert read == count
    assert held_bytes < copies_max * size if copies_max is not None else held_bytes > 60 * size


def test_damaged_pages_stop_the_reader_behind_the_rows_before_them(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.parquet", [{"text": f"{number}" * 50} for number in range(2_000)], row_group=1_000)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 600] = b"\xff" * 600
    path.write_bytes(content)
    with pytest.raises(InputUnreadable, match="the Parquet file is damaged"):
        list(lines(path))


def test_a_pipe_is_refused_for_parquet_is_read_from_its_end(tmp_path: Path) -> None:
    content = write(tmp_path / "rows.parquet", [{"text": "a"}]).read_bytes()
    with (
        closing(LineReader(STANDARD_INPUT, standard_input=pipe_of(content))) as reader,
        pytest.raises(InputUnreadable, match="Parquet, which cannot be read from a pipe: name the file"),
    ):
        reader.lines(10, 2**20)


def test_without_the_extra_the_refusal_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "rows.parquet", [{"text": "a"}])
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(InputUnreadable, match=r'this is Parquet.*pip install "neardup-streamer\[parquet\]"'):
        list(lines(path))
