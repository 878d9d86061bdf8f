"""Draw the page and the dashboard's panels from one running service.

    python -m deploy.pictures --page docs/page.png --page-zh docs/zh/page.png --dashboard docs/dashboard.png [--minutes 5]

1. Start the service over a real broker with synthetic news, and let a real Prometheus scrape it.
2. After some minutes, take the page's screenshot with Chromium, in English and in Chinese.
3. Send Prometheus the dashboard's queries, and draw the answers in the dashboard's layout with Chromium.

It needs no Grafana: it draws plain panels, and the picture says so. A heat map shows its last moment only.
"""

import argparse
import html
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.dashboard_check import DASHBOARD, ask, prometheus_programs, running_prometheus, substituted
from deploy.debian_packages import CheckFailed, unpacked
from deploy.fed_service import ServiceFailed, fed_service
from deploy.local_kafka import LocalKafkaError
from deploy.page_check import run_in_chromium

FONTS = "fonts-wqy-microhei"
"""Half the news is Chinese; fontconfig also looks for fonts in XDG_DATA_HOME."""

COLOURS_MAX = 128
PAGE_HEIGHT = 1945
"""Pixels of the page that show a pair with its words below the audit."""
PAGE_SCALE, PAGE_COLOURS_MAX = 0.8, 64
WIDTH = 1440
SCREENSHOT_SECONDS_MAX = 600
COLUMNS = 24
ROW_PIXELS = 30
STEP_SECONDS = 5
COLOURS = ("#2f6fd0", "#e08a1e", "#3a9a5b", "#9a5140", "#7a5fb5", "#8a8d93", "#c2577f", "#4b9fb0")
CAPTION = (
    "The panels of the Grafana dashboard, drawn by the project's own script, not by Grafana: "
    "the answers of a real Prometheus to the dashboard's queries."
)

STYLE = """
body { margin: 0; background: #f4f5f7; color: #1b1f24; font: 12px "DejaVu Sans", sans-serif; }
header { padding: 12px 14px 0; font-size: 13px; color: #555b63; }
header b { font-size: 17px; color: #1b1f24; display: block; }
main { position: relative; margin: 6px; }
section { position: absolute; box-sizing: border-box; padding: 3px; }
section > div { height: 100%; box-sizing: border-box; background: #fff; border: 1px solid #dfe2e6; padding: 6px 8px; }
h2 { font-size: 12px; margin: 0 0 2px; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
h1 { font-size: 13px; margin: 8px 6px 0; }
.stat { font-size: 26px; text-align: center; padding-top: 16px; }
.legend { white-space: nowrap; overflow: hidden; text-overflow: ellipsis; color: #555b63; font-size: 11px; }
.legend i { display: inline-block; width: 9px; height: 9px; margin: 0 4px 0 8px; border-radius: 2px; }
svg text { font-size: 10px; fill: #6b7178; }
"""


@dataclass(frozen=True, slots=True)
class Series:
    """A line in a panel: times in seconds and finite values."""

    name: str
    points: list[tuple[float, float]]


def answers(url: str, panel: dict[str, Any], begin: float, end: float) -> list[Series]:
    """A panel's series between two times in seconds, without NaN and infinity."""
    lines = []
    for target in panel.get("targets", []):
        moments = {"start": f"{begin:.0f}", "end": f"{end:.0f}", "step": f"{STEP_SECONDS}s"}
        for each in ask(url, "query_range", query=substituted(target["expr"]), **moments)["result"]:
            name = str(target.get("legendFormat") or "")
            for label, value in each["metric"].items():
                name = name.replace(f"{{{{{label}}}}}", value)
            points = [(float(at), float(value)) for at, value in each["values"]]
            points = [(at, value) for at, value in points if math.isfinite(value)]
            if points:
                lines.append(Series(name, points))
    return lines


def shown(value: float, unit: str) -> str:
    """A value in a Grafana unit, in a few characters."""
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "s":
        factor, name = (1e6, "µs") if abs(value) < 1e-3 else (1e3, "ms") if abs(value) < 1 else (1, "s")
        return f"{factor * value:.3g} {name}" if value else "0 s"
    if unit in ("bytes", "Bps"):
        power = min(4, int(math.log2(abs(value)) // 10)) if abs(value) >= 1 else 0
        return f"{value / 1024**power:.3g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}{'/s' if unit == 'Bps' else ''}"
    text = f"{value / 1000:.3g} K" if abs(value) >= 10_000 else f"{value:.3g}" if value % 1 else f"{value:.0f}"
    return f"{text} /s" if unit == "cps" else text


def drawn(panel: dict[str, Any], lines: Sequence[Series], begin: float, end: float) -> str:
    """A panel's content as HTML."""
    title = f"<h2>{html.escape(panel['title'])}</h2>"
    unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit") or "short"
    if not lines:
        return f"{title}<p class=legend>no data: no such event yet</p>"
    if panel["type"] == "stat":
        return f"{title}<p class=stat>{html.escape(shown(lines[0].points[-1][1], unit))}</p>"
    if panel["type"] == "heatmap":
        return title + _bars(lines, *_size(panel))
    names = "".join(
        f"<i style='background:{COLOURS[place % len(COLOURS)]}'></i>{html.escape(each.name)}"
        for place, each in enumerate(lines)
    )
    return f"{title}{_lines(lines, unit, begin, end, *_size(panel))}<div class=legend>{names}</div>"


def _size(panel: dict[str, Any]) -> tuple[int, int]:
    """Width and height for a panel's chart in pixels."""
    place = panel["gridPos"]
    return round(place["w"] * (WIDTH - 12) / COLUMNS) - 26, place["h"] * ROW_PIXELS - 56


def _lines(lines: Sequence[Series], unit: str, begin: float, end: float, width: int, height: int) -> str:
    """Line chart over time."""
    left, bottom = 62, 16
    highest = max(value for each in lines for _, value in each.points)
    lowest = min(0.0, *(value for each in lines for _, value in each.points))
    top = highest if highest > lowest else lowest + 1

    def place(at: float, value: float) -> str:
        across = left + (at - begin) / (end - begin) * (width - left - 4)
        return f"{across:.1f},{4 + (top - value) / (top - lowest) * (height - bottom - 6):.1f}"

    parts = []
    for share in (0.0, 0.5, 1.0):
        value = lowest + share * (top - lowest)
        y = place(begin, value).split(",")[1]
        parts.append(f"<line x1='{left}' x2='{width - 4}' y1='{y}' y2='{y}' stroke='#e6e8eb'/>")
        parts.append(
            f"<text x='{left - 6}' y='{float(y) + 4:.1f}' text-anchor='end'>{html.escape(shown(value, unit))}</text>"
        )
    for share, anchor in ((0.0, "start"), (1.0, "end")):
        at = begin + share * (end - begin)
        across = place(at, lowest).split(",")[0]
        clock = time.strftime("%H:%M:%S", time.gmtime(at))
        parts.append(f"<text x='{across}' y='{height - 2}' text-anchor='{anchor}'>{clock}</text>")
    for number, each in enumerate(lines):
        points = " ".join(place(at, value) for at, value in each.points)
        parts.append(
            f"<polyline points='{points}' fill='none' stroke-width='1.6' stroke='{COLOURS[number % len(COLOURS)]}'/>"
        )
    return f"<svg width='{width}' height='{height}'>{''.join(parts)}</svg>"


def _bars(lines: Sequence[Series], width: int, height: int) -> str:
    """Bar chart with a histogram's latest bucket counts, the heat map's last column."""
    buckets = sorted((float(each.name), each.points[-1][1]) for each in lines)
    counts = [
        count - before for (_, count), before in zip(buckets, [0.0, *(count for _, count in buckets)], strict=False)
    ]
    step, most = width / len(buckets), max(max(counts), 1e-9)
    parts = []
    for place, ((bound, _), count) in enumerate(zip(buckets, counts, strict=True)):
        tall = max(0.0, count / most) * (height - 22)
        x, y = place * step, height - 14 - tall
        parts.append(
            f"<rect x='{x + 1:.1f}' y='{y:.1f}' width='{step - 2:.1f}' height='{tall:.1f}' fill='{COLOURS[0]}'/>"
        )
        parts.append(f"<text x='{x + step / 2:.1f}' y='{height - 2}' text-anchor='middle'>{bound:g}</text>")
    return f"<svg width='{width}' height='{height}'>{''.join(parts)}</svg>"


def page(dashboard: dict[str, Any], url: str, begin: float, end: float) -> tuple[str, int]:
    """Page with all panels, and its height in pixels."""
    column = (WIDTH - 12) / COLUMNS
    parts, bottom = [], 0
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        top, height = place["y"] * ROW_PIXELS, place["h"] * ROW_PIXELS
        bottom = max(bottom, top + height)
        style = f"left:{place['x'] * column:.0f}px;top:{top}px;width:{place['w'] * column:.0f}px;height:{height}px"
        inside = (
            f"<h1>{html.escape(panel['title'])}</h1>"
            if panel["type"] == "row"
            else f"<div>{drawn(panel, answers(url, panel, begin, end), begin, end)}</div>"
        )
        parts.append(f"<section style='{style}'>{inside}</section>")
    head = f"<header><b>{html.escape(dashboard['title'])}</b>{html.escape(CAPTION)}</header>"
    document = f"<!doctype html><meta charset=utf-8><style>{STYLE}</style>{head}<main>{''.join(parts)}</main>"
    return document, bottom + 70


def screenshot(url: str, file: Path, width: int, height: int, scale: float = 1, colours: int = COLOURS_MAX) -> None:
    """Write a page's screenshot to a file, in `scale` pixels for one of the page."""
    fonts = unpacked(FONTS, "fonts", "install a font with Chinese characters") / "usr" / "share"
    options = (
        f"--screenshot={file.resolve()}",
        f"--window-size={width},{height}",
        "--hide-scrollbars",
        f"--force-device-scale-factor={scale}",
    )
    run_in_chromium(url, *options, environment={"XDG_DATA_HOME": str(fonts)}, timeout_seconds=SCREENSHOT_SECONDS_MAX)
    # Few colours and half of the bytes, or less.
    program, libraries = pngquant()
    command = [program, "--force", "--strip", "--output", file, str(colours), file]
    subprocess.run(command, env={**os.environ, "LD_LIBRARY_PATH": libraries}, check=True)
    print(f"{file} is drawn", file=sys.stderr)


def pngquant() -> tuple[Path, str]:
    """Path of pngquant and the folders of its libraries, from the PATH, the cache or a download. Raises CheckFailed."""
    on_path = shutil.which("pngquant")
    if on_path is not None:
        return Path(on_path), ""
    root = unpacked("pngquant", "pngquant", "put pngquant on the PATH", needed=True)
    return root / "usr" / "bin" / "pngquant", ":".join(str(each.parent) for each in root.rglob("*.so.*"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw a service's page and dashboard."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", help="host:port of a running service without a token; by default it starts one")
    parser.add_argument("--page", type=Path, help="write the picture of the page to this file")
    parser.add_argument("--page-zh", type=Path, help="write the picture of the page in Chinese to this file")
    parser.add_argument("--dashboard", type=Path, help="write the picture of the dashboard to this file")
    parser.add_argument("--minutes", type=float, default=5.0, help="how long Prometheus scrapes before the pictures")
    options = parser.parse_args(arguments)
    try:
        with ExitStack() as stack:
            target = options.target or stack.enter_context(
                fed_service("ask.enabled=true", "ask.texts=true", "audit.one_in=32")
            )
            url = stack.enter_context(running_prometheus(prometheus_programs()[0], target))
            begin = time.time()
            print(
                f"the service works at {target} for {options.minutes:g} minutes, then come the pictures",
                file=sys.stderr,
            )
            time.sleep(60 * options.minutes)
            for language, file in (("en", options.page), ("zh", options.page_zh)):
                if file is not None:
                    screenshot(
                        f"http://{target}/?lang={language}", file, 1200, PAGE_HEIGHT, PAGE_SCALE, PAGE_COLOURS_MAX
                    )
            if options.dashboard is not None:
                text, height = page(json.loads(DASHBOARD.read_text()), url, begin, time.time())
                with tempfile.NamedTemporaryFile("w", suffix=".html") as file:
                    file.write(text)
                    file.flush()
                    screenshot(Path(file.name).as_uri(), options.dashboard, WIDTH, height)
    except (CheckFailed, LocalKafkaError, ServiceFailed) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
