"""Draw the README's badges from pyproject.toml into docs/badges: true without a network.

python -m deploy.badges
"""

import sys
import tomllib
from collections.abc import Mapping
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "badges"

HEIGHT = 20
LETTER_PIXELS, MARGIN_PIXELS = 6.5, 6
"""Width of a letter in 11 pixels, which `textLength` enforces in any font."""

BADGE = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height}" role="img" aria-label="{name}: {value}">
  <title>{name}: {value}</title>
  <rect width="{width:g}" height="{height}" rx="3" fill="#4a5560"/>
  <path d="M{left:g} 0h{right_less:g}a3 3 0 0 1 3 3v14a3 3 0 0 1 -3 3h-{right_less:g}z" fill="#1f5fbf"/>
  <g fill="#fff" font-family="Verdana, DejaVu Sans, sans-serif" font-size="11">
    <text x="{margin}" y="14" textLength="{name_width:g}">{name}</text>
    <text x="{value_x:g}" y="14" textLength="{value_width:g}">{value}</text>
  </g>
</svg>
"""


def badge(name: str, value: str) -> str:
    """A badge as SVG: the name on grey, the value on blue. Both colours have a contrast of 4.5 or more to white."""
    name_width, value_width = (round(LETTER_PIXELS * len(text), 1) for text in (name, value))
    left = name_width + 2 * MARGIN_PIXELS
    return BADGE.format(
        name=escape(name),
        value=escape(value),
        width=left + value_width + 2 * MARGIN_PIXELS,
        height=HEIGHT,
        left=left,
        right_less=value_width + 2 * MARGIN_PIXELS - 3,
        margin=MARGIN_PIXELS,
        name_width=name_width,
        value_x=left + MARGIN_PIXELS,
        value_width=value_width,
    )


def badges(pyproject: str) -> Mapping[str, str]:
    """SVG by file name, from the text of a pyproject.toml."""
    project = tomllib.loads(pyproject)["project"]
    python = project["requires-python"].removeprefix(">=")
    values = {"version": project["version"], "python": f"{python} or newer", "licence": project["license"]}
    return {f"{name}.svg": badge(name, value) for name, value in values.items()}


def main() -> int:
    """Write the badges."""
    FOLDER.mkdir(exist_ok=True)
    for name, drawn in badges((ROOT / "pyproject.toml").read_text(encoding="utf-8")).items():
        (FOLDER / name).write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
