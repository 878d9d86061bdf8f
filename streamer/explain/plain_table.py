"""Tables that keep ids whole at any width of a terminal, and within PIPE_COLUMNS in a pipe."""

from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import replace
from itertools import accumulate, takewhile
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

from streamer.explain.printable import printable

PIPE_COLUMNS = 120
"""Most columns of a table in a file or pipe."""

SHORTENED_COLUMNS_MIN = 16
"""Fewest columns to which ids are shortened there."""

_GAP_COLUMNS = 2
_ANY_COLUMNS = 100_000

Cell = RenderableType | int | None


class PlainTable(Table):
    """Table without lines. Texts in cells show as they are: no markup, no emoji, no control characters.

    Prose folds first. If that leaves no room for ids, numbers and the longest words, every row becomes a paragraph with a
    line for each cell. A longer id then goes on in the next line. In a pipe (`PipeConsole`) ids are shortened before that.

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
        folding: Collection[str] = (),
        title: str | None = None,
        headed: bool = True,
    ) -> None:
        """
        rows     as for `add_row`
        ids      columns that never fold: ids, positions, hosts, names
        right    right-justified columns, which never fold
        dim      columns in a faint style
        folding  columns at the right that fold between words all the same: a figure and its interval
        headed   whether the headings are shown
        """
        super().__init__(
            box=None, pad_edge=False, show_header=headed, header_style="dim", title=title, title_justify="left"
        )
        for heading in headings:
            self.add_column(
                heading,
                justify="right" if heading in right else "left",
                style="dim" if heading in dim else "",
                no_wrap=heading in {*ids, *right} - {*folding},
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
        is_piped = isinstance(console, PipeConsole)
        widths = self._widths(console, options, can_shorten=is_piped)
        if widths is not None:
            yield from Table.__rich_console__(self._fitted(widths), console, options)
            return
        # A wide line of a pipe folds, whatever the caller of `print` asks for.
        whole: dict[str, Any] = {"no_wrap": False, "overflow": "fold"} if is_piped else {}
        if self.title:
            yield Text(str(self.title), "italic", **whole)
        for row in zip(*(column.cells for column in self.columns), strict=True):
            for column, cell in zip(self.columns, row, strict=True):
                assert isinstance(cell, Text)
                if cell:
                    heading = [(f"{column.header}  ", "dim")] if self.show_header else []
                    yield Text.assemble(*heading, cell, **whole)
            yield Text()

    def _widths(self, console: Console, options: ConsoleOptions, *, can_shorten: bool) -> list[int] | None:
        """Each column's width: prose folds, and then ids are shortened if they can be. None: there is no room."""
        room = options.max_width - _GAP_COLUMNS * (len(self.columns) - 1)
        wide = options.update(max_width=_ANY_COLUMNS)
        least, most = [], []
        for column in self.columns:
            cells = [*column.cells, *([column.header] if self.show_header else [])]
            measured = [Measurement.get(console, wide, cell) for cell in cells]
            most.append(max((each.maximum for each in measured), default=0))
            least.append(most[-1] if column.no_wrap else max((each.minimum for each in measured), default=0))
        if sum(least) > room and can_shorten:
            for place, column in enumerate(self.columns):
                if _is_shortened(column):
                    heading = cell_len(str(column.header)) if self.show_header else 0
                    least[place] = min(most[place], max(heading, SHORTENED_COLUMNS_MIN))
            # Prose that folds already folds as far as it can.
            most = [
                high if _is_shortened(each) else low for each, high, low in zip(self.columns, most, least, strict=True)
            ]
        return None if sum(least) > room else shared(room, least, most)

    def _fitted(self, widths: Sequence[int]) -> Table:
        fitted = copy(self)
        fitted.columns = []
        for column, width in zip(self.columns, widths, strict=True):
            cells = [*column.cells]
            if _is_shortened(column):
                cells = [Text(shortened(each.plain, width)) if isinstance(each, Text) else each for each in cells]
            fitted.columns.append(replace(column, width=width, _cells=cells))
        return fitted


class PipeConsole(Console):
    """Console for a file or pipe: tables are PIPE_COLUMNS wide at most, and shorten ids that do not fit.

    >>> rows = [(f"https://{'sub.' * 40}example/page-1", 7), ("news/0/7", 12)]
    >>> PipeConsole(width=40).print(PlainTable("id", "count", ids=("id",), right=("count",), rows=rows))
    id                                 count
    https://sub.sub.…b.example/page-1      7
    news/0/7                              12
    """


def shared(room: int, least: Sequence[int], most: Sequence[int]) -> list[int]:
    """Widths of columns, from `least` to `most`: the narrowest grow first, until there is no more room.

    >>> shared(20, [2, 3, 4], [30, 5, 4])
    [11, 5, 4]
    """
    if sum(most) <= room:
        return [*most]
    widths = [*least]
    for _ in range(room - sum(least)):
        growing = [place for place, width in enumerate(widths) if width < most[place]]
        widths[min(growing, key=widths.__getitem__)] += 1
    return widths


def shortened(text: str, columns: int) -> str:
    """A text without its middle, in at most so many columns, of which an ideograph takes two.

    >>> shortened("https://site.example/page-1", 16), shortened("news/0/7", 16)
    ('https://…/page-1', 'news/0/7')
    """
    if cell_len(text) <= columns:
        return text
    half = columns // 2
    begin = _fitting(text, half)
    return f"{begin}…{_fitting(text[::-1], columns - 1 - half)[::-1]}"


def _fitting(text: str, columns: int) -> str:
    ends = accumulate(map(cell_len, text))
    return text[: sum(1 for _ in takewhile(lambda end: end <= columns, ends))]


def _is_shortened(column: Column) -> bool:
    """Whether a column has ids: they never fold, and are no numbers, which stand at the right."""
    return column.no_wrap and column.justify == "left"
