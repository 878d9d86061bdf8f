"""The project's cache for downloads and builds in checks and tests. Entries are complete or absent."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def cache() -> Path:
    """The project's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neardup-streamer"


def made(name: str, make: Callable[[Path], None]) -> Path:
    """File or folder in the cache, created by `make` if missing. `make` gets a path in a temporary folder."""
    place = cache() / name
    if not place.exists():
        cache().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache(), prefix=f"{name}-") as staging:
            make(Path(staging) / "made")
            try:
                (Path(staging) / "made").rename(place)
            except OSError:
                # Another process created it first.
                if not place.exists():
                    raise
    return place
