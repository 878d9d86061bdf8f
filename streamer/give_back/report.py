"""Reports on give-backs, dead letters and replays, as tables and as JSON."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from streamer.explain.plain_table import PlainTable
from streamer.explain.positions import time_text
from streamer.give_back.dead_letters import ReasonSummary, ReplayCounts
from streamer.give_back.give_back import Survey

ROWS_MAX = 20
"""Maximum hosts, and originals, in a table."""


def survey_as_json(survey: Survey, *, dry_run: bool) -> dict[str, Any]:
    """Survey as JSON."""
    return {
        "dry_run": dry_run,
        "matched": survey.matched,
        "given_back": survey.given_back,
        "given_back_before": survey.before,
        "finished": survey.finished,
        "gone": [f"{at.source.stream}/{at.source.partition}/{at.offset}" for at in survey.gone],
        "hosts": dict(survey.hosts.most_common()),
        "originals": dict(survey.originals.most_common()),
        "examples": survey.examples,
    }


def survey_table(survey: Survey, *, dry_run: bool) -> RenderableType:
    """Survey as a table."""
    given = ("would be given back", survey.matched - survey.before) if dry_run else ("given back", survey.given_back)
    totals = [("matching duplicates", survey.matched), given, ("given back earlier", survey.before)]
    if survey.finished:
        totals.append(("given back for an earlier command", survey.finished))
    parts: list[RenderableType] = [PlainTable("name", "value", rows=totals, ids=("name",), headed=False)]
    for title, counts in (("host", survey.hosts), ("original", survey.originals)):
        if counts:
            parts += [Text(), _counted(title, counts)]
    if dry_run and survey.examples:
        columns = ("position", "id", "host", "original")
        rows = ([each[name] or "" for name in columns] for each in survey.examples)
        parts += [Text(), PlainTable(*columns, rows=rows, ids=columns)]
    return Group(*parts)


def summary_as_json(summaries: Mapping[str, ReasonSummary]) -> dict[str, Any]:
    """Dead letters by reason, as JSON."""
    return {"reasons": [{"reason": reason, **asdict(each)} for reason, each in summaries.items()]}


def summary_table(summaries: Mapping[str, ReasonSummary]) -> RenderableType:
    """Dead letters by reason, as a table."""
    counts, times = ("count", "replayed before"), ("first", "last")
    rows = PlainTable("reason", *counts, *times, "examples", ids=("reason", *times), right=counts)
    for reason, each in summaries.items():
        first, last = time_text(each.first_ms) or "unknown", time_text(each.last_ms) or "unknown"
        rows.add_row(reason, each.count, each.replayed_before or "", first, last, ", ".join(each.examples))
    return rows if summaries else Text("no dead letters")


def description_table(descriptions: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Full contents of dead letters, as tables."""
    parts: list[RenderableType] = []
    for each in descriptions:
        names = ("position", "at", "id", "reason", "words", "replayed_from", "key")
        rows = [(name.replace("_", " "), str(each[name])) for name in names if each[name] is not None]
        rows.append(("time", time_text(each["timestamp_ms"]) or "unknown"))
        rows += [(name, value or "") for name, value in each["headers"]]
        shown = PlainTable("name", "value", rows=rows, ids=("name",), dim=("name",), headed=False)
        parts += [shown, Text(), Text("none" if each["value"] is None else each["value"]), Text()]
    return Group(*parts)


def replay_as_json(counts: ReplayCounts, *, dry_run: bool) -> dict[str, Any]:
    """Replay counts as JSON."""
    return {"dry_run": dry_run, **asdict(counts)}


def replay_table(counts: ReplayCounts, *, dry_run: bool) -> RenderableType:
    """Replay counts as a table."""
    rows = PlainTable("name", "value", ids=("name",), headed=False)
    rows.add_row("matching dead letters", counts.matched)
    rows.add_row("would be replayed" if dry_run else "replayed", counts.replayed)
    rows.add_row("replayed before", counts.replayed_before)
    if counts.refused:
        rows.add_row("without bytes, not replayable", counts.refused)
    return rows


def _counted(title: str, counts: Counter[str]) -> Table:
    shown = dict(counts.most_common(ROWS_MAX))
    rows = [(name or "(none)", count) for name, count in shown.items()]
    if left := len(counts) - len(shown):
        rows.append((f"and {left:,} more", counts.total() - sum(shown.values())))
    return PlainTable(title, "duplicates", rows=rows, ids=(title,), right=("duplicates",))
