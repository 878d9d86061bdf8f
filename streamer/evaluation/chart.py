"""Charts as SVG."""

from collections.abc import Iterable, Sequence

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _BASE, _TOP = 720, 260, 60, 40, 216, 24
_COLOURS = ("#c2410c", "#1d4ed8", "#15803d", "#7c3aed", "#b45309", "#0e7490", "#be185d", "#4b5563")
_LEGEND_STEP = _WIDTH // (len(_COLOURS) + 1)


class Chart:
    """A chart, drawn part by part: a base line and, above it, up to eight series in their own colours.

    Both coordinates go from 0 to 1, from left to right and from the base line up.

    >>> chart = Chart("scores by threshold")
    >>> chart.line("recall", [(0.0, 0.5), (1.0, 1.0)])
    >>> chart.svg("threshold").endswith(">threshold</text></svg>")
    True
    """

    def __init__(self, label: str, border: float = 0.0) -> None:
        """`label`: for screen readers. `border`: place of a vertical line."""
        self._series = 0
        self._parts = [
            f"<svg viewBox='0 0 {_WIDTH + _RIGHT} {_HEIGHT}' role='img' aria-label='{label}'>",
            f"<path d='M{_LEFT} {_BASE}H{_WIDTH}M{_x(border):.1f} {_TOP}V{_BASE}' stroke='#6b7280' fill='none'/>",
        ]

    def line(self, name: str, points: Iterable[tuple[float, float]]) -> None:
        """The next series: a line through these points."""
        path = " L".join(f"{_x(across):.1f} {_y(up):.1f}" for across, up in points)
        self._parts.append(f"<path d='M{path}' stroke='{self._begin(name)}' stroke-width='1.5' fill='none'/>")

    def dots(self, name: str, points: Iterable[tuple[float, float, str]]) -> None:
        """The next series: a line through these points, each a dot with a title."""
        drawn = list(points)
        colour = _COLOURS[self._series]
        self.line(name, [(across, up) for across, up, _ in drawn])
        self._parts += [
            f"<circle cx='{_x(across):.1f}' cy='{_y(up):.1f}' r='3' fill='{colour}'><title>{title}</title></circle>"
            for across, up, title in drawn
        ]

    def bars(self, name: str, width: float, bars: Iterable[tuple[float, float, str]]) -> None:
        """The next series: bars of this width, each by its left edge, its height and a title."""
        colour = self._begin(name)
        self._parts += [
            f"<rect x='{_x(left):.1f}' y='{_y(height):.1f}' width='{_x(width) - _x(0):.1f}' "
            f"height='{_BASE - _y(height):.1f}' fill='{colour}'><title>{title}</title></rect>"
            for left, height, title in bars
        ]

    def marks_across(self, marks: Iterable[tuple[float, str]]) -> None:
        """Labels below the base line."""
        for across, mark in marks:
            self._text(_x(across), _BASE + 16, mark, "text-anchor='middle'")

    def marks_up(self, marks: Iterable[tuple[float, str]]) -> None:
        """Labels on the left."""
        for up, mark in marks:
            self._text(_LEFT - 6, _y(up) + 4, mark, "text-anchor='end'")

    def svg(self, caption: str) -> str:
        """The whole SVG, with a caption below."""
        self._text(_WIDTH, _HEIGHT - 6, caption, "text-anchor='end'")
        return "".join([*self._parts, "</svg>"])

    def _begin(self, name: str) -> str:
        """Write the next series' name; returns its colour."""
        colour = _COLOURS[self._series]
        self._series += 1
        self._text(_LEFT + self._series * _LEGEND_STEP, _TOP - 8, name, f"fill='{colour}'")
        return colour

    def _text(self, across: float, down: float, text: str, style: str) -> None:
        self._parts.append(f"<text x='{across:.1f}' y='{down:.1f}' font-size='11' {style}>{text}</text>")


def at_equal_steps(values: Sequence[float]) -> list[tuple[float, float]]:
    """Points for a line whose values lie at the ends of equal steps.

    >>> at_equal_steps([0.2, 0.4])
    [(0.5, 0.2), (1.0, 0.4)]
    """
    return [((place + 1) / len(values), value) for place, value in enumerate(values)]


def _x(across: float) -> float:
    return _LEFT + across * (_WIDTH - _LEFT)


def _y(up: float) -> float:
    return _BASE - up * (_BASE - _TOP)
