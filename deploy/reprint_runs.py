"""A crawl of reprints through whole processes: `streamer filter` over files, and the service over a real broker.

Benchmarks and tests use it alike.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson

from deploy.kafka_run import Outputs, Run, fill, stop
from deploy.made_up_site import Reprints

Dropped = npt.NDArray[np.bool_]
"""Which documents of a crawl were dropped, bool [n]."""

TIMEOUT_SECONDS = 600


def by_filter(crawled: Reprints) -> Dropped:
    """What `streamer filter` drops."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pages.jsonl").write_bytes(b"\n".join(lines_of(crawled)))
        folders = ["--out", str(folder / "out"), "--index", str(folder / "index")]
        command = [sys.executable, "-m", "streamer", "filter", str(folder / "pages.jsonl"), *folders]
        subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_SECONDS)
        lines = (folder / "out" / "duplicate.jsonl").read_bytes().splitlines()
    return _dropped(len(crawled.texts), lines)


def by_service(crawled: Reprints, run: Run) -> Dropped:
    """What the service drops of a topic that is filled before it starts.

    Raises RuntimeError where it does not deliver each document once.
    """
    fill(run.bootstrap_servers, run.input_topic, lines_of(crawled))
    outputs, process = Outputs(run), run.start(run.directory / f"{run.name}.log")
    try:
        complete = outputs.wait_for(len(crawled.texts), TIMEOUT_SECONDS)
    finally:
        stop(process)
        outputs.close()
    if not complete or outputs.records != len(crawled.texts):
        raise RuntimeError(f"{outputs.records} of {len(crawled.texts)} came out")
    values = [value or b"" for ((name, value, _),) in outputs.by_position.values() if name == "duplicate"]
    return _dropped(len(crawled.texts), values)


def lines_of(crawled: Reprints) -> list[bytes]:
    """Records of a crawl, whose ids are their numbers."""
    pages = zip(crawled.texts, crawled.hosts, strict=True)
    return [orjson.dumps({"id": str(number), "text": text, "host": host}) for number, (text, host) in enumerate(pages)]


def copies_kept(crawled: Reprints, dropped: Dropped) -> npt.NDArray[np.int64]:
    """Copies of each article that were kept, int64 [articles]."""
    articles = crawled.articles
    return np.bincount(articles[(articles >= 0) & ~dropped], minlength=int(articles.max()) + 1)


def _dropped(count: int, lines: list[bytes]) -> Dropped:
    dropped = np.zeros(count, np.bool_)
    dropped[[int(orjson.loads(line)["id"]) for line in lines]] = True
    return dropped
