import datetime
import decimal
import importlib.util
import json
import math
from contextlib import closing
from pathlib import Path

import orjson
import pyarrow as arrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet as arrow_parquet

from streamer.errors import InputUnreadable
from streamer.transports.files import parquet
from streamer.transports.files.line_reader import STANDARD_INPUT, LineReader, lines
from tests.support.examples import examples
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


def test_without_its_package_the_refusal_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "rows.parquet", [{"text": "a"}])
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(InputUnreadable, match=r"this is Parquet.* -m pip install 'pyarrow>="):
        list(lines(path))


def converted(path: Path, content: list[bytes], mark: str = "1") -> arrow.Table:
    with path.open("wb") as file:
        parquet.write_rows(file, lambda: iter(content), mark)
    return arrow_parquet.read_table(path)


def read_back(table: arrow.Table, as_json: set[str]) -> list[object]:
    """The lines that the rows stand for, without members that are null."""
    lines: list[object] = []
    for row in table.to_pylist():
        members = {
            name: json.loads(value) if name in as_json else value for name, value in row.items() if value is not None
        }
        lines.append(members.pop(parquet.LINE_BYTES) if parquet.LINE_BYTES in members else members)
    return lines


TYPED: list[dict[str, object]] = [
    {
        "id": "one",
        "text": "渡轮",
        "count": 1,
        "share": 1,
        "is_new": True,
        "tags": ["a", "b"],
        "none": None,
        "empty": [],
    },
    {"id": "two", "count": -(2**63), "share": 0.5, "tags": [], "grid": [[1, 2], [3]]},
    {"later": "came with the last row", "id": "three", "tags": ["c"]},
]


def test_rows_are_the_lines_with_the_types_of_their_members(tmp_path: Path) -> None:
    table = converted(tmp_path / "rows.parquet", [json.dumps(row).encode() for row in TYPED])
    assert read_back(table, set()) == [
        {name: value for name, value in row.items() if value is not None} for row in TYPED
    ]
    types = {field.name: str(field.type).replace("element", "item") for field in table.schema}
    assert {name: types[name] for name in ("count", "share", "is_new", "none")} == {
        "count": "int64",
        "share": "double",
        "is_new": "bool",
        "none": "string",
    }
    assert types["tags"] == "list<item: string>"


# Arrow itself would write true beside fractions as 1.0, and a text after lists of texts as its letters.
MIXED = [
    {
        "share": 0.5,
        "shares": [[0.5]],
        "words": ["a"],
        "id": 1,
        "of": {"deep": [1, None]},
        "big": 2**63 + 1,
        "exact": 2**60 + 1,
        "list": [1],
        "flag": True,
    },
    {
        "share": True,
        "shares": [[True]],
        "words": "ab",
        "id": "two",
        "of": {"other": "x"},
        "big": 1,
        "exact": 0.5,
        "list": ["a"],
        "flag": 0,
    },
    {"id": ["three"], "of": [], "big": -1, "list": [{"a": 1}]},
]


@pytest.mark.parametrize("rows_max", [1, 10_000])
def test_a_column_of_objects_or_of_several_kinds_holds_json(
    tmp_path: Path, rows_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_GROUP_ROWS_MAX", rows_max)
    table = converted(tmp_path / "rows.parquet", [json.dumps(row).encode() for row in MIXED])
    as_json = {name for name in table.column_names if str(table.schema.field(name).type) == "string"}
    assert as_json == {"share", "shares", "words", "id", "of", "big", "exact", "list", "flag"}
    assert read_back(table, as_json) == MIXED


MEMBERS = st.dictionaries(
    st.sampled_from(["a", "b", "c"]),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**64 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xy"), inner, max_size=2),
        max_leaves=4,
    ),
    max_size=3,
)


@examples(200)
@given(rows=st.lists(MEMBERS, max_size=6), rows_max=st.integers(1, 3))
def test_whatever_the_members_every_row_equals_its_line(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]], rows_max: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "_GROUP_ROWS_MAX", rows_max)
        path = tmp_path_factory.mktemp("rows") / "rows.parquet"
        table = converted(path, [orjson.dumps(row) for row in rows])
    wanted = [{name: value for name, value in row.items() if value is not None} for row in rows]
    # A text column may be one of texts, or one of JSON: its values say which.
    texts = {name for name in table.column_names if str(table.schema.field(name).type) == "string"}
    plain = {name for name in texts if all(isinstance(row.get(name, ""), str) for row in wanted)}
    assert read_back(table, texts - plain) == wanted or read_back(table, texts) == wanted


def test_lines_that_are_no_objects_are_bytes(tmp_path: Path) -> None:
    content = [b"a text", b"", b"\xff\xfe", b"[1]", b"{}", b'{"line_bytes": "a member"}']
    table = converted(tmp_path / "rows.parquet", content[:4])
    assert table.column("line_bytes").to_pylist() == content[:4]
    assert len(converted(tmp_path / "all.parquet", content)) == len(content)


def test_no_line_makes_a_table_without_rows(tmp_path: Path) -> None:
    assert converted(tmp_path / "rows.parquet", []).num_rows == 0


def test_row_groups_are_bounded_by_rows_and_by_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_GROUP_BYTES_MAX", 100)
    content = [b'{"text": "%s"}' % (b"x" * size) for size in (10, 10, 10, 10, 10, 300, 10)]
    converted(tmp_path / "rows.parquet", content)
    metadata = arrow_parquet.read_metadata(tmp_path / "rows.parquet")
    assert [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)] == [4, 1, 1, 1]


def test_a_file_has_its_mark_unless_it_is_absent_or_damaged(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    assert not parquet.has_mark(path, "one")
    converted(path, [b"{}"], mark="one")
    assert parquet.has_mark(path, "one")
    assert not parquet.has_mark(path, "two")
    path.write_bytes(path.read_bytes()[:-1])
    assert not parquet.has_mark(path, "one")
