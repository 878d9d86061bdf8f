"""What was given back, what dead letters are, and what was replayed: for people, and for machines."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from streamer.give_back.dead_letters import OfReason, Replayed
from streamer.give_back.give_back import Survey

ROWS_MAX = 20
"""Hosts, and originals, that a table shows."""


def survey_as_json(found: Survey, *, dry_run: bool) -> dict[str, Any]:
    """A survey for machines."""
    return {
        "dry_run": dry_run,
        "matched": found.matched,
        "given_back": found.given_back,
        "given_back_before": found.before,
        "finished": found.finished,
        "gone": [f"{at.source.stream}/{at.source.partition}/{at.offset}" for at in found.gone],
        "hosts": dict(found.hosts.most_common()),
        "originals": dict(found.originals.most_common()),
        "examples": found.examples,
    }


def survey_table(found: Survey, *, dry_run: bool) -> RenderableType:
    """A survey for people."""
    totals = _plain()
    totals.add_row("duplicates meant", f"{found.matched:,}")
    if dry_run:
        totals.add_row("would be given back", f"{found.matched - found.before:,}")
    else:
        totals.add_row("given back", f"{found.given_back:,}")
    totals.add_row("given back before", f"{found.before:,}")
    if found.finished:
        totals.add_row("left by an earlier command, given back", f"{found.finished:,}")
    parts: list[RenderableType] = [totals]
    for title, counts in (("host", found.hosts), ("original", found.originals)):
        if counts:
            parts += [Text(), _counted(title, counts)]
    if dry_run and found.examples:
        rows = _plain("position", "id", "host", "original")
        for each in found.examples:
            rows.add_row(each["position"], each["id"], each["host"] or "", each["original"] or "")
        parts += [Text(), rows]
    return Group(*parts)


def listed_as_json(found: Mapping[str, OfReason]) -> dict[str, Any]:
    """Dead letters by reason for machines."""
    return {
        "reasons": [
            {
                "reason": reason,
                "count": each.count,
                "replayed_before": each.again,
                "first_ms": each.first_ms,
                "last_ms": each.last_ms,
                "examples": each.examples,
            }
            for reason, each in found.items()
        ]
    }


def listed_table(found: Mapping[str, OfReason]) -> RenderableType:
    """Dead letters by reason for people."""
    rows = _plain("reason", "count", "replayed before", "first", "last", "examples", right=("count", "replayed before"))
    for reason, each in found.items():
        times = _time(each.first_ms), _time(each.last_ms)
        rows.add_row(
            reason, f"{each.count:,}", f"{each.again:,}" if each.again else "", *times, ", ".join(each.examples)
        )
    return rows if found else Text("no dead letters")


def shown_table(found: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Dead letters with all that they hold, for people."""
    parts: list[RenderableType] = []
    for each in found:
        rows = _plain()
        for name in ("position", "at", "id", "reason", "words", "replayed_from", "key"):
            if each[name] is not None:
                rows.add_row(Text(name.replace("_", " "), style="dim"), Text(str(each[name])))
        rows.add_row(Text("time", style="dim"), _time(each["timestamp_ms"]))
        for name, value in each["headers"]:
            rows.add_row(Text(name, style="dim"), Text("" if value is None else value))
        value = "none" if each["value"] is None else each["value"]
        parts += [rows, Text(), Text(value), Text()]
    return Group(*parts)


def replayed_as_json(found: Replayed, *, dry_run: bool) -> dict[str, Any]:
    """A replay for machines."""
    return {
        "dry_run": dry_run,
        "matched": found.matched,
        "replayed": found.sent,
        "replayed_before": found.before,
        "refused": found.refused,
    }


def replayed_table(found: Replayed, *, dry_run: bool) -> RenderableType:
    """A replay for people."""
    rows = _plain()
    rows.add_row("dead letters meant", f"{found.matched:,}")
    rows.add_row("would be replayed" if dry_run else "replayed", f"{found.sent:,}")
    rows.add_row("replayed before", f"{found.before:,}")
    if found.refused:
        rows.add_row("hold no bytes, cannot be replayed", f"{found.refused:,}")
    return rows


def _counted(title: str, counts: Counter[str]) -> Table:
    rows = _plain(title, "duplicates", right=("duplicates",))
    for name, count in counts.most_common(ROWS_MAX):
        rows.add_row(name or "(none)", f"{count:,}")
    left = len(counts) - ROWS_MAX
    if left > 0:
        rows.add_row(
            f"and {left:,} more", f"{counts.total() - sum(count for _, count in counts.most_common(ROWS_MAX)):,}"
        )
    return rows


def _plain(*headings: str, right: tuple[str, ...] = ()) -> Table:
    rows = Table(box=None, pad_edge=False, show_header=bool(headings), header_style="dim")
    for heading in headings or ("", ""):
        rows.add_column(heading, justify="right" if heading in right else "left", overflow="fold")
    return rows


def _time(time_ms: int) -> str:
    if time_ms < 0:
        return "unknown"
    try:
        return datetime.fromtimestamp(time_ms / 1_000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return str(time_ms)
