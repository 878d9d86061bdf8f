"""Known frames of hosts, as plain values and as a table."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from index.tools import HostFrame
from streamer.explain.plain_table import PlainTable

IDS_MAX = 10
"""Lost pages listed per host."""


@dataclass(frozen=True, slots=True)
class LostPages:
    """Pages that were dropped before their host's frame was known: counts and first ids by host.

    >>> lost = LostPages()
    >>> lost.add("example.org", "page-7")
    >>> lost.counts["example.org"], lost.ids["example.org"]
    (1, ['page-7'])
    """

    counts: Counter[str] = field(default_factory=Counter)
    ids: dict[str, list[str]] = field(default_factory=dict)

    def add(self, host: str, id_: str) -> None:
        """Count a page."""
        self.counts[host] += 1
        named = self.ids.setdefault(host, [])
        if len(named) < IDS_MAX:
            named.append(id_)


def as_values(
    frames: Sequence[HostFrame], lost: LostPages | None = None, folders: Sequence[str] = ()
) -> dict[str, Any]:
    """Frames for machines, the pages lost before, and the command that gives them back.

    lost     None: no search
    folders  options for the searched outputs; none for topics
    """
    values = [each._asdict() | {"frame_share": round(each.frame_share, 4)} for each in frames]
    if lost is None:
        return {"hosts": values}
    for each in values:
        each |= {"lost": lost.counts[each["host"]], "lost_ids": lost.ids.get(each["host"], [])}
    command = shlex.join(["streamer", "give-back", "--for-template", *folders])
    return {"hosts": values, "lost": lost.counts.total(), "give_back": command}


def table(values: Mapping[str, Any]) -> RenderableType:
    """Table of `as_values`."""
    if not values["hosts"]:
        return Text(
            "no host has shown enough pages; does decode.host name the field with the host or the URL?", style="dim"
        )
    with_lost = "lost" in values
    counts = ("pages sampled", "frame", "kept by it", *(["lost before it"] if with_lost else []))
    rows = PlainTable("host", *counts, ids=("host",), right=counts)
    for each in values["hosts"]:
        share = f"{each['frame_share']:.0%}" if each["is_known"] else "not known yet"
        rows.add_row(each["host"], each["pages"], share, each["kept"], *([each["lost"]] if with_lost else []))
    if not values.get("lost"):
        return rows
    lines: list[RenderableType] = [rows, Text()]
    for each in values["hosts"]:
        if each["lost"]:
            more = f" and {each['lost'] - IDS_MAX:,} more" if each["lost"] > IDS_MAX else ""
            lines.append(Text(f"lost of {each['host']}: {', '.join(each['lost_ids'])}{more}"))
    command = values["give_back"]
    lines.append(
        Text(f"give all {values['lost']:,} back: {command}; those of a host: {command} --host HOST", style="dim")
    )
    return Group(*lines)
