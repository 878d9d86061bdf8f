import json
from typing import Any

import pytest

from deploy import pictures
from deploy.dashboard_check import DASHBOARD


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (0.4, "percentunit", "40 %"),
        (0.0012, "s", "1.2 ms"),
        (90.0, "s", "90 s"),
        (3 * 2**20, "bytes", "3 MiB"),
        (295.4, "cps", "295 /s"),
        (12_345.0, "short", "12.3 K"),
    ],
)
def test_values_are_shown_in_their_units(value: float, unit: str, expected: str) -> None:
    assert pictures.shown(value, unit) == expected


def test_every_panel_of_the_dashboard_is_drawn_and_no_name_becomes_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    def made_up(_: str, path: str, **parameters: str) -> Any:
        assert path == "query_range"
        assert "$" not in parameters["query"]
        labels = {"verdict": "<b>struck</b>", "le": "+Inf"}
        return {"result": [{"metric": labels, "values": [[1_000, "1"], [1_005, "NaN"], [1_010, "3"]]}]}

    monkeypatch.setattr(pictures, "ask", made_up)
    dashboard = json.loads(DASHBOARD.read_text())
    drawn, height = pictures.page(dashboard, "http://prometheus", 1_000, 1_010)
    charts = sum(panel["type"] in ("timeseries", "heatmap") for panel in dashboard["panels"])
    assert drawn.count("<svg") == charts > 30
    assert all(panel["title"] in drawn for panel in dashboard["panels"])
    assert "&lt;b&gt;struck" in drawn
    assert "<b>struck" not in drawn
    assert height > 2_000


def test_a_panel_without_data_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "ask", lambda *_, **__: {"result": []})
    drawn, _ = pictures.page(json.loads(DASHBOARD.read_text()), "http://prometheus", 1_000, 1_010)
    assert "no data" in drawn
