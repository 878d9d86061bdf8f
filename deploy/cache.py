"""What checks and tests fetch or build once: it stays in the project's cache, whole or not at all."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def cache() -> Path:
    """The project's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neardup-streamer"


def made(name: str, make: Callable[[Path], None]) -> Path:
    """A file or folder of the cache, made where it is not there yet. `make` gets a path in a folder of its own."""
    place = cache() / name
    if not place.exists():
        cache().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache(), prefix=f"{name}-") as staging:
            make(Path(staging) / "made")
            try:
                (Path(staging) / "made").rename(place)
            except OSError:
                # Another process has made the same first.
                if not place.exists():
                    raise
    return place
