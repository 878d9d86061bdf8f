"""Document files as the Kafka benchmarks read them."""

import gzip
import lzma
from collections.abc import Iterable, Iterator
from pathlib import Path


def document_lines(paths: Iterable[Path]) -> Iterator[bytes]:
    """The lines of document files, plain, .gz or .xz, without their line breaks."""
    openers = {".gz": gzip.open, ".xz": lzma.open}
    for path in paths:
        with openers.get(path.suffix, open)(path, "rb") as stream:  # type: ignore[operator]
            for line in stream:
                yield line.rstrip(b"\n")
