"""Verification findings for people."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from streamer.explain.plain_table import PlainTable
from streamer.verification.findings import CHECKS, Findings


def report(findings: Findings) -> RenderableType:
    """Table of all checks, then the first problems per kind, then the verdict."""
    parts: list[RenderableType] = [_counts(findings), Text(), _checks(findings), Text()]
    for finding in findings:
        if finding.wrong:
            parts.append(Text(f"{finding.check}: {CHECKS[finding.check]}", style="bold"))
            parts += [Text(f"  {example}") for example in finding.examples]
            if finding.wrong > len(finding.examples):
                parts.append(Text(f"  and {finding.wrong - len(finding.examples):,} more"))
            parts.append(Text())
    parts.append(Text("all is sound" if findings.sound else "not all is sound"))
    return Group(*parts)


def _counts(findings: Findings) -> Table:
    unchecked = ((f"not checked: {name}", count) for name, count in findings.unchecked.items() if count)
    rows = [*findings.counts.items(), *unchecked]
    return PlainTable("name", "count", rows=rows, right=("count",), headed=False)


def _checks(findings: Findings) -> Table:
    rows = ((each.check, each.examined, each.wrong, CHECKS[each.check]) for each in findings)
    counts = ("examined", "wrong")
    return PlainTable("check", *counts, "wrong are", rows=rows, ids=("check",), right=counts)
