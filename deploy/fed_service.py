"""A real service over a real broker, fed with synthetic news and a synthetic site's pages."""

import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count, islice
from pathlib import Path

import orjson

from deploy.local_kafka import LocalKafka
from deploy.made_up_site import MadeUp, site
from streamer.demo.demo import documents
from streamer.settings.settings import Settings, load
from streamer.transports.kafka.topics import create_topics, produce

START_TIMEOUT_SECONDS = 60
DOCUMENTS_EACH_TIME = 200
DOCUMENTS_PROTECTED = 20
PAGES_EACH_TIME = 2
PERIOD_SECONDS = 0.5


class ServiceFailed(Exception):
    """The service did not start; the message has its last log lines."""


@contextmanager
def fed_service(*overrides: str, protected: bool = False) -> Iterator[str]:
    """Run `streamer run` with these settings and a steady input; yields its address, host:port.

    protected  whether a protected set holds some of the documents
    """
    with tempfile.TemporaryDirectory(prefix="fed-service-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        with LocalKafka(directory / "kafka") as broker:
            port = _free_port()
            chosen_settings = [
                *overrides,
                *([f"index.protected={_protected_set(directory, overrides)}"] if protected else []),
                f"kafka.bootstrap_servers={broker.bootstrap_servers}",
                f"index.directory={directory / 'index'}",
                f"observe.port={port}",
            ]
            settings = load(None, chosen_settings, {})
            create_topics(settings, partitions=4, replication_factor=1)
            log = directory / "service.log"
            with log.open("wb") as stream:
                chosen = [part for override in chosen_settings for part in ("--set", override)]
                service = subprocess.Popen([sys.executable, "-m", "streamer", *chosen, "run"], stderr=stream)
            enough = threading.Event()
            feeder = threading.Thread(target=_feed, args=(settings, enough), daemon=True)
            try:
                _wait_until_ready(port, service, log)
                feeder.start()
                yield f"127.0.0.1:{port}"
            finally:
                enough.set()
                if feeder.is_alive():
                    feeder.join()
                service.terminate()
                service.wait()


def _protected_set(directory: Path, overrides: Sequence[str]) -> Path:
    """A set of some of the news that will come, so that its matches are counted."""
    news, folder = directory / "news.jsonl", directory / "evaluation"
    news.write_bytes(b"\n".join(islice(documents(DOCUMENTS_EACH_TIME), DOCUMENTS_PROTECTED)) + b"\n")
    chosen = [part for override in overrides for part in ("--set", override)]
    command = [sys.executable, "-m", "streamer", *chosen, "protect", str(news), "--out", str(folder)]
    made = subprocess.run([*command, "--index", str(directory / "index")], capture_output=True, check=False)
    if made.returncode:
        raise ServiceFailed(f"the protected set was not made:\n{made.stderr.decode()[-2_000:]}")
    return folder


def _feed(settings: Settings, enough: threading.Event) -> None:
    pages = site("en", 0.1)
    for seed in count():
        news = (_named(document, seed) for document in documents(DOCUMENTS_EACH_TIME, seed))
        produce(settings, settings.topics.input, [*news, *_crawled(pages, seed)])
        if enough.wait(PERIOD_SECONDS):
            return


def _named(document: bytes, seed: int) -> bytes:
    """Add a host and a seed-specific id, since an equal id would make the document an update."""
    return document.replace(b'{"id":"', b'{"url":"https://news.example/page","id":"%d-' % seed, 1)


def _crawled(pages: MadeUp, seed: int) -> Iterator[bytes]:
    """The next pages of a site; none at its end."""
    for place in range(seed * PAGES_EACH_TIME, min((seed + 1) * PAGES_EACH_TIME, len(pages))):
        url = f"https://shop.example/{place}"
        yield orjson.dumps({"id": url, "url": url, "text": pages.texts[place]})


def _wait_until_ready(port: int, service: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while service.poll() is None and time.monotonic() < deadline:
        with (
            suppress(urllib.error.URLError, OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1),
        ):
            return
        time.sleep(0.1)
    raise ServiceFailed(f"the service did not become ready:\n{log.read_text()[-2_000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
