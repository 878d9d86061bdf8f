"""Every type of Arrow becomes JSON values, whatever its bytes."""

import datetime
import decimal
import json
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import orjson
import pyarrow as arrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index import Source
from streamer.records.decode import DeadLetter, Decoder
from streamer.records.reason import Reason
from streamer.records.record import Record
from streamer.settings.settings import Decode
from streamer.transports.files import parquet
from streamer.transports.files.columns import iso_text, reader_of
from streamer.transports.files.line_reader import LineReader, lines


def of_buffers(kind: Any, *buffers: bytes, count: int = 1) -> Any:
    return arrow.Array.from_buffers(kind, count, [None, *map(arrow.py_buffer, buffers)])


def stored(kind: Any, *counts: int) -> Any:
    return arrow.array(counts, arrow.int32() if kind.bit_width == 32 else arrow.int64()).view(kind)


def written(path: Path, columns: list[tuple[str, Any]], **options: Any) -> Path:
    names, arrays = zip(*columns, strict=True)
    pyarrow.parquet.write_table(arrow.Table.from_arrays(list(arrays), names=list(names)), path, **options)
    return path


def texts(*values: bytes) -> Any:
    ends = [0]
    for value in values:
        ends.append(ends[-1] + len(value))
    offsets = b"".join(end.to_bytes(4, "little") for end in ends)
    return of_buffers(arrow.string(), offsets, b"".join(values), count=len(values))


def test_a_text_that_is_no_utf_8_makes_a_dead_letter_of_its_row_alone(tmp_path: Path) -> None:
    bad = b'caf\xe9 "\\\n\x00'
    path = written(
        tmp_path / "rows.parquet",
        [
            ("id", arrow.array(["a", "b", "c"])),
            ("text", texts(b"one", b"two", b"three")),
            ("by", texts(b"x", bad, b"z")),
        ],
    )
    found = list(lines(path))
    assert [json.loads(line)["text"] for line in (found[0], found[2])] == ["one", "three"]
    assert json.loads(found[1].decode("latin-1")) == {"id": "b", "text": "two", "by": bad.decode("latin-1")}
    records = [Record(Source("s", 0), "rows", at, None, line, 0) for at, line in enumerate(found)]
    outcomes = [
        each.reason if isinstance(each, DeadLetter) else each.text for each in Decoder(Decode()).decode(records)
    ]
    assert outcomes == ["one", Reason.NOT_UTF_8, "three"]


@pytest.mark.parametrize(
    ("array", "values"),
    [
        (stored(arrow.date32(), -1, 2**31 - 1, -719_529), ["1969-12-31", "5881580-07-11", "-001-12-31"]),
        (stored(arrow.date64(), 0, -(2**63)), ["1970-01-01", None]),
        (stored(arrow.timestamp("s"), 253_402_300_800), ["10000-01-01T00:00:00"]),
        (stored(arrow.timestamp("ms"), 1_500), ["1970-01-01T00:00:01.500000"]),
        (stored(arrow.timestamp("us", "Europe/Berlin"), 0), ["1970-01-01T00:00:00+00:00"]),
        (stored(arrow.timestamp("us", "Mars/Phobos"), 0), ["1970-01-01T00:00:00+00:00"]),
        (
            stored(arrow.timestamp("ns"), 0, 1_000, 1),
            ["1970-01-01T00:00:00", "1970-01-01T00:00:00.000001", "1970-01-01T00:00:00.000000001"],
        ),
        (stored(arrow.time32("s"), 0, 86_399, 86_400, -1), ["00:00:00", "23:59:59", 86_400, -1]),
        (stored(arrow.time64("ns"), 1, 2**62), ["00:00:00.000000001", 2**62]),
        (stored(arrow.duration("us"), -1, 2**62), ["-PT0.000001S", "PT4611686018427.387904S"]),
        (arrow.array([decimal.Decimal("1.50"), None]), ["1.50", None]),
        (arrow.array([b"\xff", "渡".encode()]), ["/w==", "渡"]),
        (arrow.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (arrow.array([[1], None, []], arrow.list_(arrow.int8())), [[1], None, []]),
        (arrow.array([[1, 2], None, [3, 4]], arrow.list_(arrow.int8(), 2)), [[1, 2], None, [3, 4]]),
        (arrow.array([[1], None, [2]], arrow.list_view(arrow.int8())), [[1], None, [2]]),
        (
            arrow.array([[("a", 1)], None, [("b", None)]], arrow.map_(arrow.string(), arrow.int8())),
            [[("a", 1)], None, [("b", None)]],
        ),
        (
            arrow.StructArray.from_arrays([arrow.array([1, 2]), arrow.array([3, 4])], names=["a", "a"]),
            [{"a": 1, "a.2": 3}, {"a": 2, "a.2": 4}],
        ),
        (arrow.array([uuid.UUID(int=1).bytes], arrow.uuid()), [str(uuid.UUID(int=1))]),
        (arrow.array([1, 0, None], arrow.int8()).cast(arrow.bool8()), [True, False, None]),
        (arrow.array(['{"a":1}'], arrow.json_()), ['{"a":1}']),
        (arrow.array([arrow.MonthDayNano([1, 2, 3])]), ["MonthDayNano(months=1, days=2, nanoseconds=3)"]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, arrow.Array) else "",
)
def test_values_of_every_type_have_one_form_also_within_a_part_of_the_column(array: Any, values: list[Any]) -> None:
    read = reader_of(array.type)
    assert read(array) == values
    assert read(array.slice(1)) == values[1:]
    assert read(array.slice(0, 0)) == []
    orjson.dumps(values)


@given(st.datetimes())
def test_moments_of_the_calendar_are_those_of_python(moment: datetime.datetime) -> None:
    microseconds = (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    assert iso_text(microseconds, "us") == moment.isoformat()
    assert iso_text(microseconds // 10**6, "s") == moment.replace(microsecond=0).isoformat()
    if abs(microseconds) < 2**63 // 1_000:
        assert iso_text(1_000 * microseconds + 7, "ns").startswith(moment.isoformat(timespec="microseconds"))


def test_moments_of_a_wide_range_do_not_wrap_around(tmp_path: Path) -> None:
    moments = arrow.array([datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)])
    path = written(tmp_path / "rows.parquet", [("time", moments)], use_deprecated_int96_timestamps=True)
    assert [json.loads(line)["time"] for line in lines(path)] == ["0001-01-01T00:00:00", "9999-12-31T00:00:00"]


def test_columns_of_one_name_are_all_there_and_the_reader_says_so(tmp_path: Path) -> None:
    same = arrow.array(["the same"] * 3)
    own = arrow.array(["one", "two", "three"])
    path = written(tmp_path / "rows.parquet", [("text", own), ("text", same), ("id", own), ("text.2", own)])
    reader = LineReader(path)
    rows = [json.loads(line) for line in reader.lines(10, 2**20)]
    reader.close()
    assert rows[1] == {"text": "two", "text.3": "the same", "id": "two", "text.2": "two"}
    assert reader.remarks == [f"{path}: another column is named text too: its values are read as text.3."]


WITHOUT_PANDAS = """
import sys
import pyarrow

class Absent:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "pandas":
            raise ImportError(name)

sys.meta_path.insert(0, Absent())
from streamer.transports.files.line_reader import lines
from pathlib import Path
sys.stdout.buffer.write(b"\\n".join(lines(Path(sys.argv[1]))))
assert "pandas" not in sys.modules
"""


def test_lines_are_the_same_with_and_without_pandas(tmp_path: Path) -> None:
    columns = [
        ("ns", stored(arrow.timestamp("ns"), 0, 1, 2**62)),
        ("zone", stored(arrow.timestamp("ns", "Asia/Shanghai"), 0, 1, 2**62)),
        ("time", stored(arrow.time64("ns"), 0, 1, 10**13)),
        ("span", stored(arrow.duration("ns"), 0, 1, 2**62)),
    ]
    path = written(tmp_path / "rows.parquet", columns)
    pytest.importorskip("pandas")
    without = subprocess.run([sys.executable, "-c", WITHOUT_PANDAS, str(path)], check=True, capture_output=True)
    assert without.stdout.split(b"\n") == list(lines(path))
    assert json.loads(without.stdout.split(b"\n")[1]) == {
        "ns": "1970-01-01T00:00:00.000000001",
        "zone": "1970-01-01T00:00:00.000000001+00:00",
        "time": "00:00:00.000000001",
        "span": "PT0.000000001S",
    }


def test_a_type_that_is_nested_without_end_is_refused(tmp_path: Path) -> None:
    nested = arrow.array([1])
    for _ in range(300):
        nested = arrow.StructArray.from_arrays([nested], names=["a"])
    path = written(tmp_path / "rows.parquet", [("deep", nested)])
    with pytest.raises(parquet.Unreadable, match=r"nested too deep|damaged"):
        list(parquet.json_lines(path))
