"""Tables that keep ids whole, at any width of a terminal."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

from streamer.explain.printable import printable

_GAP_COLUMNS = 2
_ANY_COLUMNS = 100_000

Cell = RenderableType | int | None


class PlainTable(Table):
    """Table without lines. Texts in cells show as they are: no markup, no emoji, no control characters.

    Prose folds first. If that leaves no room for ids, numbers and the longest words, every row becomes a paragraph with a
    line for each cell. A longer id then goes on in the next line.

    >>> table = PlainTable("id", "why", ids=("id",), rows=[("https://a.example/1", "as short as this one")])
    >>> Console(width=25).print(table)
    id  https://a.example/1
    why  as short as this one
    <BLANKLINE>
    """

    def __init__(
        self,
        *headings: str,
        rows: Iterable[Sequence[Cell]] = (),
        ids: Collection[str] = (),
        right: Collection[str] = (),
        dim: Collection[str] = (),
        title: str | None = None,
        headed: bool = True,
    ) -> None:
        """
        rows    as for `add_row`
        ids     columns that never fold: ids, positions, hosts, names
        right   right-justified columns, which never fold
        dim     columns in a faint style
        headed  whether the headings are shown
        """
        super().__init__(
            box=None, pad_edge=False, show_header=headed, header_style="dim", title=title, title_justify="left"
        )
        for heading in headings:
            self.add_column(
                heading,
                justify="right" if heading in right else "left",
                style="dim" if heading in dim else "",
                no_wrap=heading in {*ids, *right},
                overflow="fold",
            )
        for row in rows:
            self.add_row(*row)

    def add_row(self, *cells: Cell, **options: Any) -> None:
        """See `Table.add_row`. Numbers show with commas."""
        shown = (f"{each:,}" if isinstance(each, int) else each for each in cells)
        super().add_row(*(Text(printable(each)) if isinstance(each, str) else each for each in shown), **options)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table, or a paragraph for each row."""
        wide = options.update(max_width=_ANY_COLUMNS)
        gaps = _GAP_COLUMNS * (len(self.columns) - 1)
        if sum(self._columns_needed(console, wide, column) for column in self.columns) + gaps <= options.max_width:
            yield from super().__rich_console__(console, options)
            return
        if self.title:
            yield Text(str(self.title), "italic")
        for row in zip(*(column.cells for column in self.columns), strict=True):
            for column, cell in zip(self.columns, row, strict=True):
                assert isinstance(cell, Text)
                if cell:
                    yield Text.assemble((f"{column.header}  ", "dim"), cell) if self.show_header else cell
            yield Text()

    def _columns_needed(self, console: Console, options: ConsoleOptions, column: Column) -> int:
        cells = [*column.cells, *([column.header] if self.show_header else [])]
        widths = [Measurement.get(console, options, cell) for cell in cells]
        return max((width.maximum if column.no_wrap else width.minimum for width in widths), default=0)
