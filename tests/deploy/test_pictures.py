import json
from typing import Any

import pytest

from deploy import pictures
from deploy.dashboard_check import DASHBOARD


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
