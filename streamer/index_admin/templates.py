"""Frames of hosts that an index knows, as plain values and as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from index.tools import HostFrame


def as_values(frames: Sequence[HostFrame]) -> dict[str, Any]:
    """Frames for machines, as `index.tools.HostFrame` has them."""
    return {"hosts": [each._asdict() | {"frame_share": round(each.frame_share, 4)} for each in frames]}


def table(found: Mapping[str, Any]) -> RenderableType:
    """Table of `as_values`."""
    if not found["hosts"]:
        return Text(
            "no host has shown enough pages; does decode.host name the field with the host or the URL?", style="dim"
        )
    rows = Table(box=None, pad_edge=False, header_style="dim")
    rows.add_column("host", overflow="fold")
    for heading in ("pages sampled", "frame", "kept by it"):
        rows.add_column(heading, justify="right")
    for each in found["hosts"]:
        share = f"{each['frame_share']:.0%}" if each["is_known"] else "not known yet"
        rows.add_row(each["host"], f"{each['pages']:,}", share, f"{each['kept']:,}")
    return rows
