"""What the log says about decisions."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from structlog.testing import capture_logs

from index import Decisions, HostShare, Verdict
from streamer.records.reason import Reason
from streamer.service.decision_notices import SharedIds, log_crossings


def decisions(**columns: object) -> Decisions:
    return cast(Decisions, SimpleNamespace(**columns))


def decided(*outcomes: tuple[Verdict, Reason]) -> Decisions:
    verdicts, reasons = (np.array(column, np.uint8) for column in zip(*outcomes, strict=True))
    return decisions(verdicts=verdicts, reasons=reasons)


def told(logged: list[Any]) -> list[tuple[str, object]]:
    return [(line["log_level"], line.get("id", line.get("host"))) for line in logged]


def test_an_id_that_names_no_page_is_warned_of_once() -> None:
    page, item = (Verdict.UPDATE, Reason.OTHER_TEXT), (Verdict.UNIQUE, Reason.SHARED_ID)
    shared = SharedIds()
    with capture_logs() as logged:
        # Another verdict may have a reason of the same number.
        shared.see(["page", "page"], decided(page, (Verdict.DUPLICATE, Reason.SHARED_ID)))
        assert logged == []
        shared.see(["page", "feed", "other feed"], decided(page, item, item))
        shared.see(["other feed"], decided(item))
    assert told(logged) == [("warning", "feed")]
    assert "decode.id" in logged[0]["remedy"]


@pytest.mark.parametrize(("is_beyond", "level"), [(True, "warning"), (False, "info")])
def test_a_host_that_crosses_the_limits_is_named_in_either_direction(is_beyond: bool, level: str) -> None:
    with capture_logs() as logged:
        log_crossings(decisions(crossings=[HostShare("site.example", 200, 190, is_beyond)]))
    assert told(logged) == [(level, "site.example")]
