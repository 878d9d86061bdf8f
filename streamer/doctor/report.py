"""Findings as a table for people and as JSON for programs."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from streamer.doctor.finding import Finding, State

_STYLES: Mapping[State, str] = {
    State.OK: "green",
    State.ADVICE: "yellow",
    State.WRONG: "bold red",
    State.AWAY: "bold red",
    State.UNCHECKED: "dim",
}


def table(findings: Sequence[Finding]) -> Table:
    """Table with one row per finding."""
    rows = Table(box=None, pad_edge=False, header_style="dim")
    rows.add_column("check", overflow="fold", ratio=4)
    rows.add_column("", no_wrap=True)
    rows.add_column("result", overflow="fold", ratio=4)
    rows.add_column("what to do", overflow="fold", ratio=5)
    for finding in findings:
        state = f"[{_STYLES[finding.state]}]{finding.state.value}[/]"
        rows.add_row(_plain(finding.check), state, _plain(finding.result), _plain(finding.remedy))
    return rows


def _plain(text: str) -> str:
    # Rich reads a bracket as the start of a style.
    return text.replace("[", r"\[")


def as_json(findings: Sequence[Finding], code: int) -> dict[str, Any]:
    """Findings and exit code."""
    return {
        "exit_code": code,
        "findings": [
            {"check": each.check, "state": each.state.value, "found": each.result, "remedy": each.remedy}
            for each in findings
        ],
    }
