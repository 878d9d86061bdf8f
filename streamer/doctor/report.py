"""Findings as a table for people and as JSON for programs."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from streamer.doctor.finding import Finding, State
from streamer.explain.plain_table import PlainTable

_STYLES: Mapping[State, str] = {
    State.OK: "green",
    State.ADVICE: "yellow",
    State.WRONG: "bold red",
    State.AWAY: "bold red",
    State.UNCHECKED: "dim",
}


def table(findings: Sequence[Finding]) -> Table:
    """Table with one row per finding."""
    rows = ((each.check, Text(each.state.value, _STYLES[each.state]), each.result, each.remedy) for each in findings)
    return PlainTable("check", "state", "result", "what to do", rows=rows, ids=("check", "state"))


def as_json(findings: Sequence[Finding], code: int) -> dict[str, Any]:
    """Findings and exit code."""
    return {
        "exit_code": code,
        "findings": [
            {"check": each.check, "state": each.state.value, "found": each.result, "remedy": each.remedy}
            for each in findings
        ],
    }
