"""What figures of all benchmarks have in common: the machine, documents at rest, and where progress is shown."""

import lzma
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console

PROGRESS = Console(stderr=True)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Objects of a file of JSON Lines, compressed by xz."""
    with lzma.open(path, "rb") as lines:
        yield from map(orjson.loads, lines)


def machine() -> dict[str, Any]:
    """Command, Python and machine behind a figure, to be printed beside it."""
    return {
        "command": " ".join(["python -m", f"bench.{Path(sys.argv[0]).stem}", *sys.argv[1:]]),
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "machine": platform.platform(),
    }
