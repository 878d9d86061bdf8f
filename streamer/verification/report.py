"""Verification findings for people."""

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from streamer.explain.report import plain_table
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
    rows = Table(Column(), Column(justify="right"), show_header=False, box=None, pad_edge=False)
    for name, count in findings.counts.items():
        rows.add_row(name, f"{count:,}")
    for name, count in findings.unchecked.items():
        if count:
            rows.add_row(f"not checked: {name}", f"{count:,}")
    return rows


def _checks(findings: Findings) -> Table:
    rows = plain_table("check", "examined", "wrong", "wrong are", right=("examined", "wrong"))
    for finding in findings:
        rows.add_row(finding.check, f"{finding.examined:,}", f"{finding.wrong:,}", CHECKS[finding.check])
    return rows
