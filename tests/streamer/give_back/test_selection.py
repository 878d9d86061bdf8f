import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.entry import NO_DISTANCE, Position, Source, Verdict
from streamer.errors import SettingsError
from streamer.give_back.selection import Selection, moment_ms
from streamer.records.output_headers import OutputHeaders
from streamer.records.record import Destination, Record
from streamer.transports.output_log import Output

NOW_MS = 1_769_882_400_000
SOURCE = Source("stream", 0)


def dropped(id_: str = "page", original: str = "kept", timestamp_ms: int = NOW_MS) -> Output:
    at = Position(SOURCE, 7)
    told = OutputHeaders(Verdict.DUPLICATE, "similar", at, id_, None, NO_DISTANCE, Position(SOURCE, 1), original, ())
    return Output(Destination.DUPLICATE, "duplicates/0", 3, told, Record(SOURCE, "t", 7, None, b"", timestamp_ms))


@pytest.mark.parametrize(
    ("text", "seconds_ago"),
    [("90s", 90), ("15m", 900), ("2h", 7_200), ("3 d", 259_200), ("2026-01-31T17:00", 3_600), ("2026-01-31", 64_800)],
)
def test_a_time_is_said_as_a_date_or_as_how_long_ago(text: str, seconds_ago: int) -> None:
    assert moment_ms(text, NOW_MS) == NOW_MS - 1_000 * seconds_ago


def test_a_zone_counts() -> None:
    assert moment_ms("2026-01-31T19:00+01:00", NOW_MS) == NOW_MS


@pytest.mark.parametrize("text", ["", "yesterday", "2x", "-2h", "2026-13-01"])
def test_what_is_no_time_is_told(text: str) -> None:
    with pytest.raises(SettingsError, match="--since"):
        moment_ms(text, NOW_MS)


@given(
    st.sampled_from([None, "page", "other"]),
    st.sampled_from([None, "kept", "other"]),
    st.sampled_from([None, "site.example", "other"]),
    st.sampled_from([None, NOW_MS, NOW_MS + 1]),
)
def test_filters_narrow_each_other_down(
    id_: str | None, original: str | None, host: str | None, since_ms: int | None
) -> None:
    selection = Selection(id_, original, host, since_ms)
    meant = selection.may_match(dropped()) and selection.matches_host("site.example")
    assert meant == ("other" not in (id_, original, host) and since_ms != NOW_MS + 1)


def test_a_document_without_a_host_is_of_no_host() -> None:
    assert Selection().matches_host(None)
    assert not Selection(host="site.example").matches_host(None)
