"""Templates that an index knows, as plain values and as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
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
    rows = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("first page", "documents", "kept", "own text", "dropped"):
        rows.add_column(heading, justify="left" if heading == "first page" else "right")
    rows.add_column("dropped, for example")
    rows.add_column("kept, for example")
    for each in found["templates"]:
        head, share = each["head"], each["own_share"]
        rows.add_row(
            "gone" if head is None else _named(head),
            f"{each['documents']:,}",
            f"{each['kept']:,}",
            "-" if share is None else f"{share:.0%}",
            f"{each['dropped']:,}",
            _examples(each["dropped_pages"]),
            _examples(each["kept_pages"]),
        )
    return rows


def _named(page: Mapping[str, str]) -> str:
    return f"{page['id']} at {page['position']}"


def _examples(pages: Sequence[Mapping[str, str]]) -> str:
    return "\n".join(map(_named, pages[:EXAMPLES_SHOWN]))
