"""Draw a real run of `streamer demo` and `streamer why` as an animated SVG, in English and Chinese.

    python -m deploy.animation docs/demo.svg docs/zh/demo.svg

1. Run the commands in a temporary folder, with colours.
2. Take the lines worth a look: the tables, a pair, and the words that differ. A line of dots marks the rest.
3. Draw each line as text that appears at its time. Without motion or animation all lines are there.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise, takewhile
from pathlib import Path
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

STREAMER = Path(sys.executable).with_name("streamer")
COLUMNS = 112
"""Wide enough for two texts side by side."""
CELL_PIXELS, LINE_PIXELS, MARGIN_PIXELS = 7.8, 18, 16
COMMAND_SECONDS, LINE_SECONDS, HOLD_SECONDS = 0.9, 0.12, 9.0
"""Time after a command and after a line of output; the last line stays before all begins again."""

PAIR = "en-0004-copy-1-typo"
DEMO = ("demo",)
WHY = ("why", PAIR, "--out", "demo-output/out", "--index", "demo-output/index", "--set", "fingerprint.key=public")
DOTS = Text("⋮", "dim")

STYLE = """\
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1f2933; white-space: pre }
.page { fill: #f6f8fa; stroke: #d4dbe1 } .bold { font-weight: 700 } .dim { fill: #5b6874 }
.red { fill: #b3261e } .green { fill: #1a7f4b } .command { fill: #1f5fbf }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .page { fill: #12171d; stroke: #313b45 } .dim { fill: #98a5b1 }
  .red { fill: #ff8a80 } .green { fill: #58c48b } .command { fill: #86b4ff }
}
@media (prefers-reduced-motion: reduce) { g { animation: none !important } }
"""


class Run(NamedTuple):
    """A command line as a person types it, and the lines of its output that are shown.

    >>> Run("streamer demo", [Text("documents  600")]).command
    'streamer demo'
    """

    command: str
    lines: Sequence[Text]


class Piece(NamedTuple):
    """Neighbouring characters of one style, from a column on."""

    column: int
    text: str
    classes: str


def output(folder: Path, *arguments: str) -> list[Text]:
    """Lines that a command prints in a terminal with colours. Raises CalledProcessError."""
    terminal = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [str(STREAMER), *arguments],
        cwd=folder,
        env={**os.environ, **terminal},
        capture_output=True,
        check=True,
    )
    console = Console(width=COLUMNS)
    lines = (Text.from_ansi(line) for line in done.stdout.decode().split("\n"))
    return [part for line in lines for part in line.wrap(console, COLUMNS)]


def between(lines: Sequence[Text], begin: str, end: str) -> list[Text]:
    """Lines from the first that starts with `begin` to the next one that starts with `end`, both included."""
    first = next(at for at, line in enumerate(lines) if line.plain.startswith(begin))
    last = next(at for at, line in enumerate(lines[first:], first) if line.plain.startswith(end))
    return list(lines[first : last + 1])


def runs(folder: Path, language: str) -> Iterator[Run]:
    """Real runs in an empty folder: the demo, and in English the question why."""
    tables, pairs = (("verdicts", "wrong"), PAIR) if language == "en" else (("判定", "误判"), "zh-0010-copy")
    arguments = DEMO if language == "en" else (*DEMO, "--language", language)
    printed = output(folder, *arguments)
    at = next(at for at, line in enumerate(printed) if line.plain.startswith(pairs))
    pair = [printed[at], *takewhile(lambda line: line.plain[:1] in ("", " "), printed[at + 1 :])]
    heading = next(line for line in reversed(printed[:at]) if line.plain.endswith((":", "：")))
    shown = [DOTS, *between(printed, *tables), Text(), heading, *filter(None, pair)]
    yield Run(f"streamer {' '.join(arguments)}", shown)
    if language == "en":
        printed = output(folder, *WHY)
        texts = next(at for at, line in enumerate(printed) if line.plain.startswith("the words differ"))
        yield Run(f"streamer {' '.join(WHY)}", [*printed[:4], DOTS, *filter(None, printed[texts:])])


def pieces(line: Text) -> Iterator[Piece]:
    """Parts of a line, split at changes of style and at gaps, so that columns stay in place in any font."""
    plain = line.plain
    edges = {0, len(plain)}
    for span in line.spans:
        edges |= {span.start, span.end}
    edges |= {at + 1 for at, (one, other) in enumerate(pairwise(plain)) if (one == " ") != (other == " ")}
    joined: list[tuple[int, int, str]] = []
    for begin, end in pairwise(sorted(edges)):
        text, classes = plain[begin:end], _classes(line, begin)
        if not text.strip():
            # One blank between words of a style joins them.
            if len(text) == 1 and joined and joined[-1][1] == begin:
                joined[-1] = (joined[-1][0], end, joined[-1][2])
            continue
        if joined and joined[-1][1:] == (begin, classes):
            joined[-1] = (joined[-1][0], end, classes)
        else:
            joined.append((begin, end, classes))
    for begin, end, classes in joined:
        yield Piece(cell_len(plain[:begin]), plain[begin:end].rstrip(), classes)


_COLOURS = {"color(1)": "red", "color(2)": "green"}


def _classes(line: Text, at: int) -> str:
    styles = {str(span.style) for span in line.spans if span.start <= at < span.end} | {str(line.style)}
    words = {_COLOURS.get(word, word) for style in styles for word in style.split()}
    return " ".join(word for word in ("bold", "dim", "red", "green", "command") if word in words)


def drawn(shown: Sequence[Run], title: str) -> str:
    """The animated SVG of some runs."""
    rows: list[tuple[float, Text]] = []
    seconds = 0.3
    for run in shown:
        rows.append((seconds, Text(f"$ {run.command}", "command")))
        seconds += COMMAND_SECONDS
        for line in run.lines:
            rows.append((seconds, line))
            seconds += LINE_SECONDS
        rows.append((seconds, Text()))
        seconds += COMMAND_SECONDS
    total = seconds + HOLD_SECONDS
    width = 2 * MARGIN_PIXELS + CELL_PIXELS * COLUMNS
    height = 2 * MARGIN_PIXELS + LINE_PIXELS * (len(rows) - 1)
    frames, lines = [], []
    for number, (at, line) in enumerate(rows):
        # With a time of its own for each line, all go at once.
        share = 100 * at / total
        frames.append(
            f"@keyframes l{number} {{ 0%, {share:.2f}% {{ opacity: 0 }} {share + 0.2:.2f}%, 100% {{ opacity: 1 }} }}\n"
        )
        texts = "".join(_text(piece, MARGIN_PIXELS + LINE_PIXELS * number + 13) for piece in pieces(line))
        if texts:
            lines.append(f'<g style="animation: l{number} {total:.1f}s infinite">{texts}</g>\n')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" aria-labelledby="title">\n'
        f'<title id="title">{escape(title)}</title>\n<style>\n{STYLE}{"".join(frames)}</style>\n'
        f'<rect class="page" x=".5" y=".5" width="{width - 1:g}" height="{height - 1:g}" rx="8"/>\n{"".join(lines)}</svg>\n'
    )


def _text(piece: Piece, y: float) -> str:
    classes = f' class="{piece.classes}"' if piece.classes else ""
    x = MARGIN_PIXELS + CELL_PIXELS * piece.column
    length = CELL_PIXELS * cell_len(piece.text)
    fit = f'textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs"'
    return f'<text x="{x:.1f}" y="{y:g}" {fit}{classes}>{escape(piece.text)}</text>'


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the animation in English and in Chinese."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("english", type=Path, help="write the English picture to this file")
    parser.add_argument("chinese", type=Path, help="write the Chinese picture to this file")
    options = parser.parse_args(arguments)
    titles = {"en": "streamer demo, then streamer why on one of its pairs", "zh": "streamer demo 的真实输出"}
    for language, file in (("en", options.english), ("zh", options.chinese)):
        with tempfile.TemporaryDirectory(prefix="animation-") as folder:
            file.write_text(drawn(list(runs(Path(folder), language)), titles[language]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
