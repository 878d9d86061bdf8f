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
    rows = PlainTable("name", "count", right=("count",), headed=False)
    for name, count in findings.counts.items():
        rows.add_row(name, f"{count:,}")
    for name, count in findings.unchecked.items():
        if count:
            rows.add_row(f"not checked: {name}", f"{count:,}")
    return rows


def _checks(findings: Findings) -> Table:
    rows = PlainTable("check", "examined", "wrong", "wrong are", ids=("check",), right=("examined", "wrong"))
    for finding in findings:
        rows.add_row(finding.check, f"{finding.examined:,}", f"{finding.wrong:,}", CHECKS[finding.check])
    return rows
