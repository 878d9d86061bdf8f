"""The run as a table by kind, and as JSON."""

from collections.abc import Sequence
from statistics import median, quantiles
from typing import Any

from rich.table import Table

from bench.chaos.sequence import Failure, Struck

AT_ONCE = "several at once"


def by_kind(struck: Sequence[Struck], failure: Failure | None) -> dict[str, dict[str, float]]:
    """Count, recovery seconds (median, 90th percentile, longest) and failures, by kind.

    A recovery from several faults at once says nothing of any of them: its seconds stand in a row of their own.
    """
    names = sorted({name for each in struck for name in each.kinds} | set(failure.kinds if failure else ()))
    rows = {name: _row([each for each in struck if name in each.kinds], (name,), failure) for name in names}
    at_once = [each for each in struck if len(each.kinds) > 1]
    if at_once:
        rows[AT_ONCE] = _row(at_once, None, None)
    return rows


def _row(struck: Sequence[Struck], alone: tuple[str, ...] | None, failure: Failure | None) -> dict[str, float]:
    seconds = [each.recovery_seconds for each in struck if alone in (None, each.kinds)]
    failed = int(failure is not None and alone is not None and alone[0] in failure.kinds)
    row: dict[str, float] = {"faults": len(struck) + failed, "failures": failed}
    if seconds:
        row["recovery_seconds_median"] = round(median(seconds), 2)
        row["recovery_seconds_p90"] = round(
            quantiles(seconds, n=10, method="inclusive")[-1] if seconds[1:] else seconds[0], 2
        )
        row["recovery_seconds_max"] = round(max(seconds), 2)
    return row


def table(rows: dict[str, dict[str, float]], totals: dict[str, Any]) -> Table:
    """Table for people, with the totals as its caption."""
    shown = Table(
        title="Faults by kind, and seconds to recover",
        caption="\n".join(f"{key.replace('_', ' ')}: {value}" for key, value in totals.items()),
    )
    shown.caption_justify = "left"
    shown.add_column("kind", no_wrap=True)
    for name in ("faults", "median", "p90", "longest", "failed"):
        shown.add_column(name, justify="right")
    for kind, row in rows.items():
        seconds = [row.get(f"recovery_seconds_{name}") for name in ("median", "p90", "max")]
        cells = ["-" if each is None else f"{each:.1f}" for each in seconds]
        shown.add_row(kind, str(row["faults"]), *cells, str(row["failures"]))
    return shown
