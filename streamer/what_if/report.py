"""Differences for people."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from streamer.explain.plain_table import PlainTable
from streamer.what_if.differences import SIDES


def report(values: Mapping[str, Any]) -> RenderableType:
    """Table of `Differences.as_json`: verdicts, then newly dropped and newly kept documents, with hosts and examples."""
    parts: list[RenderableType] = [_verdicts(values), Text()]
    parts += _group("would be dropped, and were kept", values["newly_dropped"])
    parts += _lost(values["newly_dropped"])
    parts += _group("would be kept, and were dropped", values["newly_kept"])
    if values["other_originals"]:
        parts.append(Text(f"{values['other_originals']:,} would name another original"))
    parts += [Text(f"not compared: {count:,} documents {reason}") for reason, count in values["left_out"].items()]
    if values["of_unknown_order"]:
        parts.append(
            Text(
                f"of {values['of_unknown_order']:,} documents the index does not know the order: their timestamps tell it"
            )
        )
    delivered, other = (values["sentences"][side]["per_10_000"] for side in SIDES)
    parts.append(
        Text(f"of 10,000 sentences {delivered:,.1f} are in no kept document, by the other settings {other:,.1f}")
    )
    parts.append(
        Text("no verdict would change" if not values["changed"] else f"{values['changed']:,} verdicts would change")
    )
    return Group(*parts)


def _verdicts(values: Mapping[str, Any]) -> Table:
    counts = ("delivered", "other settings", "change")
    rows = PlainTable("verdict", *counts, ids=("verdict",), right=counts)
    for verdict in values["delivered"] | values["other"]:
        delivered, other = (values[side].get(verdict, 0) for side in ("delivered", "other"))
        if delivered or other:
            change = "" if other == delivered else f"{other - delivered:+,}"
            rows.add_row(verdict, delivered, other, change)
    rows.add_row("documents", values["documents"], values["documents"], "")
    return rows


def _group(title: str, group: Mapping[str, Any]) -> list[RenderableType]:
    parts: list[RenderableType] = [Text(f"{group['documents']:,} {title}", style="bold")]
    if group["hosts"]:
        hosts = ", ".join(f"{each['host']} {each['documents']:,}" for each in group["hosts"])
        parts.append(Text(f"  most of: {hosts}"))
    parts += [Text(f"  {_example(each)}") for each in group["examples"]]
    return [*parts, Text()]


def _lost(group: Mapping[str, Any]) -> list[RenderableType]:
    if not group["new"]:
        return []
    shares = ", ".join(f"{name} {share:.3f}" for name, share in group["new"].items())
    most = [Text(f"  new {each['other']['new']:.3f}: {_example(each)}") for each in group["most_new"]]
    return [Text(f"text that only these would have held, by share: {shares}"), *most, Text()]


def _example(line: Mapping[str, Any]) -> str:
    match = line["other"] if "original" in line["other"] else line["delivered"]
    text = f"{line['position']} ({line['id']})"
    if match.get("original_position") is None:
        return text
    measure = next((f"{name} {match[name]}" for name in ("similarity", "distance") if name in match), "resembling")
    return f"{text}: {measure} to {match['original_position']} ({match['original']})"
