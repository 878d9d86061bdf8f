"""Templates that an index knows, as plain values and as a table."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from index.tools import Page, Template
from streamer.index_admin.tools import position_text

EXAMPLES_SHOWN = 3


def as_values(templates: Sequence[Template], names: Mapping[str, str]) -> dict[str, Any]:
    """Templates for machines, as `index.tools.Template` has them. names: of the streams, for people."""
    return {
        "templates": [
            {
                "head": None if each.head is None else _page(each.head, names),
                "number": each.number,
                "documents": each.documents,
                "kept": each.kept,
                "own_share": None if each.own_share is None else round(each.own_share, 4),
                "dropped": each.dropped,
                "dropped_pages": [_page(page, names) for page in each.dropped_pages],
                "kept_pages": [_page(page, names) for page in each.kept_pages],
            }
            for each in templates
        ]
    }


def _page(page: Page, names: Mapping[str, str]) -> dict[str, str]:
    return {
        "id": page.id,
        "position": position_text(page.position, names),
        "stream": page.position.source.stream,
    }


def table(found: Mapping[str, Any]) -> RenderableType:
    """Table of `as_values`."""
    if not found["templates"]:
        return Text("no template is known", style="dim")
    rows = _columns("documents", "kept", "own text", "dropped", "first page")
    for each in found["templates"]:
        head, share = each["head"], each["own_share"]
        rows.add_row(
            f"{each['documents']:,}",
            f"{each['kept']:,}",
            "-" if share is None else f"{share:.0%}",
            f"{each['dropped']:,}",
            "gone" if head is None else head["id"],
        )
    return Group(rows, Text(), _examples(found["templates"]))


def _examples(templates: Sequence[Mapping[str, Any]]) -> Table:
    """The first pages that each template lost, and those that it kept."""
    rows = _columns("first page", "example", "id", "position")
    for each in templates:
        named = "gone" if each["head"] is None else each["head"]["id"]
        for word in ("dropped", "kept"):
            for page in each[f"{word}_pages"][:EXAMPLES_SHOWN]:
                rows.add_row(named, word, page["id"], page["position"])
                named = ""
    return rows


def _columns(*headings: str) -> Table:
    rows = Table(box=None, pad_edge=False, header_style="dim")
    for heading in headings:
        justify: Literal["left", "right"] = "right" if heading in _NUMBERS else "left"
        rows.add_column(heading, justify=justify, overflow="fold")
    return rows


_NUMBERS = ("documents", "kept", "own text", "dropped")
