"""What a day on Flink checks, and the documents that flow in; `make flink-day` runs the day itself."""

import itertools
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest
from kafka import KafkaConsumer

from deploy.flink_day import Day, DayFailed, require_same
from deploy.flink_flow import BROKEN, made_up
from deploy.flink_outputs import Records, delivered, given_back
from deploy.flink_service import SplitService

VERDICTS: dict[str, tuple[str, str | None]] = {
    "documents/0/0": ("unique", None),
    "documents/1/0": ("duplicate", "a"),
}


def records_of(*lots: Sequence[str]) -> Records:
    """Outputs with these positions, one lot a poll."""
    polls = [{0: [SimpleNamespace(headers=[("neardup.position", at.encode())]) for at in lot]} for lot in lots]
    consumer = SimpleNamespace(poll=lambda timeout_ms: polls.pop(0) if polls else {})
    return Records(cast(KafkaConsumer, consumer))


def test_another_verdict_another_original_and_an_unknown_document_end_a_day() -> None:
    require_same(VERDICTS, VERDICTS | {"documents/2/0": ("unique", None)})
    wrong: tuple[dict[str, tuple[str, str | None]], ...] = (
        {"documents/0/0": ("duplicate", "b")},
        {"documents/1/0": ("duplicate", "b")},
        {"documents/3/0": ("unique", None)},
    )
    for each in wrong:
        with pytest.raises(ValueError, match=r"1 of \d verdicts are wrong; documents/"):
            require_same(VERDICTS | each, VERDICTS)


def test_a_restored_index_may_keep_one_copy_in_a_thousand_and_drop_none_more() -> None:
    expected: dict[str, tuple[str, str | None]] = {f"documents/0/{at}": ("duplicate", "a") for at in range(2_000)}
    few: dict[str, tuple[str, str | None]] = {f"documents/0/{at}": ("unique", None) for at in range(2)}
    assert require_same(expected | few, expected, set(expected)) == 2
    with pytest.raises(ValueError, match="2 of 2000 verdicts are wrong"):
        require_same(expected | few, expected)
    with pytest.raises(ValueError, match="3 of 2000 verdicts are wrong"):
        require_same(expected | few | {"documents/0/2": ("unique", None)}, expected, set(expected))
    with pytest.raises(ValueError, match="1 of 2000 verdicts are wrong"):
        require_same(expected | {"documents/0/9": ("duplicate", "b")}, expected, set(expected))
    dropped = expected | {"documents/0/9": ("unique", None)}
    with pytest.raises(ValueError, match="1 of 2000 verdicts are wrong"):
        require_same(expected, dropped, set(expected))


def test_outputs_are_awaited_by_position_and_not_by_number() -> None:
    records = records_of(["documents/0/0", "documents/0/1"], ["documents/1/0"])
    records.wait_for_all({"documents/0/0", "documents/1/0"}, 60)
    assert len(records.headers) == 3
    with pytest.raises(TimeoutError, match=r"1 of 2 outputs after 0\.01 s"):
        records_of(["documents/0/0", "documents/0/2"]).wait_for_all({"documents/0/0", "documents/0/1"}, 0.01)


def test_a_document_that_comes_out_twice_is_noticed() -> None:
    headers = [{"neardup.position": "documents/0/0", "neardup.verdict": "unique"}] * 2
    with pytest.raises(ValueError, match="1 documents were delivered twice"):
        delivered(headers)


def test_a_document_that_was_given_back_comes_out_twice_and_once_back() -> None:
    dropped = {"neardup.position": "documents/0/0", "neardup.verdict": "duplicate", "neardup.original.id": "a"}
    back = dropped | {"neardup.verdict": "given-back"}
    assert delivered([dropped, back]) == {"documents/0/0": ("duplicate", "a")}
    assert given_back([dropped, back]) == {"documents/0/0"}
    with pytest.raises(ValueError, match="1 documents were delivered twice"):
        delivered([dropped, back, back])


def test_a_step_that_fails_is_named_with_the_folders_of_the_logs() -> None:
    service, flink = SplitService(Path("data/service"), []), SimpleNamespace(directory=Path("data/flink"))
    day = Day(ExitStack(), service, *cast(Any, (flink, None, None, None)), documents=1)

    def fail() -> None:
        raise TimeoutError("3 of 4 outputs after 240 s")

    with pytest.raises(DayFailed, match=r"(?s)upgrade: 3 of 4 outputs.*data/service/\*\.log and data/flink/\*\.out"):
        day._passed("upgrade", fail)


def test_pages_come_again_under_their_ids_if_they_are_asked_for() -> None:
    def ids(again_share: float) -> list[str]:
        given = itertools.islice(made_up(1, again_share), 400)
        return [orjson.loads(each)["id"] for each in given if each != BROKEN]

    assert len(set(ids(0.0))) == len(ids(0.0))
    assert 0.75 < len(set(ids(0.2))) / len(ids(0.2)) < 0.85
