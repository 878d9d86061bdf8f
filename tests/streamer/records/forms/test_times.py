"""Times in the forms that crawlers, databases and people write; and none of a year that nobody meant."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from streamer.records.forms.times import date_ms, time_ms
from streamer.settings.settings import Settings
from tests.support.command_line import run
from tests.support.examples import examples
from tests.support.memory_service import World

NEW_YEAR = "2019-01-01T00:00:00"
SATURDAY = "2025-11-22T10:00:00"


def read(value: Any) -> str | None:
    moment_ms = time_ms(value)
    return (
        None if moment_ms is None else datetime.fromtimestamp(moment_ms / 1_000, UTC).isoformat().removesuffix("+00:00")
    )


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        # Digits of a calendar: CDX, Wayback, Nutch, Java.
        *((form, NEW_YEAR) for form in ("20190101000000", 20190101000000, "20190101000000000", "201901010000")),
        *((form, NEW_YEAR) for form in ("20190101", 20190101, "201901", "2019", 2019)),
        # Seconds, milliseconds, microseconds, nanoseconds.
        *((1_546_300_800 * 1_000**unit, NEW_YEAR) for unit in range(4)),
        *((str(1_546_300_800 * 1_000**unit), NEW_YEAR) for unit in range(4)),
        *((form, NEW_YEAR) for form in ("1546300800.0", "1.5463008E9", 1.5463008e9, "/Date(1546300800000)/")),
        (10**18, "2001-09-09T01:46:40"),
        (0, "1970-01-01T00:00:00"),
        (-1, "1969-12-31T23:59:59"),
        # Year first.
        *((form, SATURDAY) for form in ("2025年11月22日 10:00", "2025年11月22日10时00分", "2025年11月22日 10点")),
        ("2025年11月22日 星期六 上午10:00", SATURDAY),
        ("2025年11月22日", "2025-11-22T00:00:00"),
        ("2025年11月22日(土) 10時05分06秒", "2025-11-22T10:05:06"),
        ("２０２５年１１月２２日　１０：００", SATURDAY),
        ("2025년 11월 22일 오후 3:05", "2025-11-22T15:05:00"),
        *(
            (form, SATURDAY)
            for form in ("2025/11/22 10:00:00", "2025.11.22 10:00", "2025-11-22 10:00:00 UTC", "2025. 11. 22. 10:00")
        ),
        *((form, SATURDAY) for form in ("2025-11-22 10:00:00 +0000 UTC", "2025-11-22T10:00:00.000000999Z")),
        ("2025/1/5 9:05", "2025-01-05T09:05:00"),
        ("22.11.2025 10:00", SATURDAY),
        # Names of months.
        *(
            (form, SATURDAY)
            for form in ("Sat Nov 22 10:00:00 2025", "Sat, 22 Nov 2025 10:00:00 +0000", "22 Nov 2025 10:00")
        ),
        *((form, SATURDAY) for form in ("Saturday, 22-Nov-25 10:00:00 GMT", "Sat Nov 22 10:00:00 +0000 2025")),
        *(
            (form, SATURDAY)
            for form in ("22/Nov/2025:10:00:00 +0000", "Nov 22, 2025 10:00 AM", "November 22, 2025 at 10:00 am")
        ),
        ("Sat Nov 22 2025 10:00:00 GMT+0800 (China Standard Time)", "2025-11-22T02:00:00"),
        ("Sat Nov 22 10:00:00 2025 +0800", "2025-11-22T02:00:00"),
        ("Sun Nov  2 10:00:00 2025", "2025-11-02T10:00:00"),
        ("Nov 22, 2025 12:05 AM", "2025-11-22T00:05:00"),
        # Objects.
        *(
            ({"$date": form}, NEW_YEAR)
            for form in ("2019-01-01T00:00:00Z", 1546300800000, {"$numberLong": "1546300800000"})
        ),
        ({"$date": 1_000}, "1970-01-01T00:00:01"),
        ({"$numberLong": "1546300800000"}, NEW_YEAR),
        ({"$timestamp": {"t": 1546300800, "i": 1}}, NEW_YEAR),
        *(({"seconds": form, "nanos": 0}, NEW_YEAR) for form in (1546300800, "1546300800")),
        ({"_seconds": 1546300800, "_nanoseconds": 0}, NEW_YEAR),
        ([2019, 1, 1, 0, 0], NEW_YEAR),
    ],
)
def test_a_time_is_read_in_every_usual_form(value: Any, moment: str) -> None:
    assert read(value) == moment


@pytest.mark.parametrize(
    "value",
    [
        *("", "yesterday", "03/04/2025", "12:00", "Tue Nov 14 22:13:20 CST 2023", "2025-11-22 25:00", "2025年13月1日"),
        *(
            "Nov 22, 2025 15:05 PM",
            "2025-11-22" * 10,
            "9" * 60,
            "1e99",
            "/Date(x)/",
            "20191332000000",
            "2025-11-22 10:00 PST",
        ),
        *(
            "0001-01-01T00:00:00Z",
            "9999-12-31",
            "2609-10-03",
            20_191_332_000_000,
            10**13,
            5 * 10**10,
            10**400,
            10**30,
            1e300,
            -(10**18),
        ),
        *(
            float("nan"),
            float("inf"),
            True,
            [],
            {},
            [1, 2],
            [2025, 13, 1],
            [2025, 1, "1"],
            {"$date": []},
            {"$date": 10**400},
            {"$date": float("nan")},
            {"seconds": 10**400},
            {"seconds": "x"},
        ),
        *({"$date": {"$date": 1}}, {"$numberLong": 1}, {"$timestamp": {}}, {"seconds": 1, "other": 2}),
    ],
)
def test_what_no_form_covers_is_no_time_and_no_guess(value: Any) -> None:
    assert time_ms(value) is None


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=70)
    | st.from_regex(r"[0-9年月日:./ ,+-]{4,40}|(?:Sat )?Nov [0-9 :+-]{4,40}", fullmatch=True),
    lambda inner: (
        st.lists(inner, max_size=8)
        | st.dictionaries(
            st.sampled_from(["$date", "$numberLong", "$timestamp", "t", "seconds", "nanos"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@examples(500)
@given(VALUES)
def test_no_value_makes_it_raise_or_is_of_an_unlikely_year(value: Any) -> None:
    moment_ms = time_ms(value)
    assert moment_ms is None or 1_000 <= (datetime(1970, 1, 1, tzinfo=UTC).year + moment_ms // 31_556_952_000) <= 2_200


def test_a_hostile_text_takes_no_longer_than_a_time() -> None:
    begin = time.process_time()
    for text in ("1" * 10**6, "2025年" * 10**5, "Nov " * 16, "(" * 64, "1:" * 32, "\u0301" * 64, " " * 10**6 + "x"):
        for _ in range(20):
            assert time_ms(text) is None
            assert date_ms(text[:64]) is None
    assert time.process_time() - begin < 5


def test_a_service_counts_times_that_it_does_not_understand_and_shows_the_first(tmp_path: Path) -> None:
    world = World(tmp_path, Settings.model_validate({"decode": {"time": "/t"}}))
    world.fill(
        [orjson.dumps({"text": f"text {each}", "t": each}) for each in ("2025/11/22", "yesterday", None, "", "soon")]
    )
    with capture_logs() as logged:
        world.run()
    assert sum(world.odd_times) == 2
    (line,) = [line for line in logged if "time" in line]
    assert (line["time"], "decode.time" in line["remedy"]) == ("'yesterday'", True)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_run_over_files_counts_them_in_its_summary(tmp_path: Path, processes: str) -> None:
    lines = [
        orjson.dumps({"text": f"text {number}", "t": "soon" if number % 2 else "2025/11/22"}) for number in range(40)
    ]
    (tmp_path / "pages.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    folders = ("--out", tmp_path / "out", "--index", tmp_path / "index", "--processes", processes)
    done = run("--set", "decode.time=/t", "--set", "batch.records_max=5", "filter", tmp_path / "pages.jsonl", *folders)
    assert done.code == 0, done.err
    assert "odd times" in done.out + done.err
    assert "20" in next(line for line in (done.out + done.err).splitlines() if "odd times" in line)
