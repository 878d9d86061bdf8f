"""Real texts through fingerprint -> Flink -> route: how many verdicts differ from those of one index.

    python -m bench.flink_texts FOLDER ... [--schemes simhash minhash]

FOLDER holds docs.jsonl.xz: one JSON object a line with "id" and "text", in the order of the stream. Both parts run in processes
of their own beside Kafka and a cluster of three; the index is fed with the same fingerprints in the order of the log.
"""

import argparse
import json
import lzma
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.flink import SCHEMES
from deploy.flink_outputs import decided_by_one_index, delivered, reading
from deploy.flink_service import flink_service
from streamer.transports.kafka.topics import produce

TIMEOUT_SECONDS = 1_200.0


def through(folder: Path, scheme: str) -> None:
    """Print what becomes of the documents of a folder."""
    with lzma.open(folder / "docs.jsonl.xz") as lines:
        given = [_record(json.loads(line)) for line in lines]
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-flink-texts-")))
        settings, _, _ = stack.enter_context(flink_service(directory, overrides=SCHEMES[scheme]))
        records = stack.enter_context(reading(settings))
        begin = time.perf_counter()
        produce(settings, settings.topics.input, given)
        records.wait_for(len(given), TIMEOUT_SECONDS)
        seconds = time.perf_counter() - begin
        expected, found = decided_by_one_index(settings, directory / "one-index"), delivered(records.headers)
    wrong = sum(found.get(position) != said for position, said in expected.items()) + len(
        found.keys() - expected.keys()
    )
    verdicts = Counter(verdict for verdict, _ in found.values())
    print(
        f"{folder.name}, {scheme}: {wrong} wrong of {len(given):,} ({verdicts['duplicate']:,} duplicates), {seconds:.0f} s, load "
        f"average {os.getloadavg()[0]:.2f}",
        flush=True,
    )


def _record(document: dict[str, str]) -> bytes:
    return json.dumps({"id": document["id"], "text": document["text"]}, ensure_ascii=False).encode()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--schemes", nargs="+", choices=sorted(SCHEMES), default=sorted(SCHEMES))
    options = parser.parse_args(arguments)
    for folder in options.folders:
        for scheme in options.schemes:
            through(folder, scheme)
    return 0


if __name__ == "__main__":
    sys.exit(main())
