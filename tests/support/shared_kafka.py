"""One plain broker for all processes of a run: the first that has tests for it asks, and the run's own process starts it.

They meet in a folder: `wanted` is the question, `address` the answer, or `problem`.
"""

import threading
import time
import warnings
from pathlib import Path

START_SECONDS = 120.0
"""For a broker that starts while every core is busy with tests; the first start on a machine fetches and records it."""

ANSWER_SECONDS = 600.0
POLL_SECONDS = 0.1


def want(folder: Path) -> None:
    """Ask for the broker; it starts while other tests run."""
    (folder / "wanted").touch()


def address(folder: Path) -> str:
    """The broker's address, once it answers. Raises LocalKafkaError if it did not start."""
    from deploy.local_kafka import LocalKafkaError

    want(folder)
    deadline = time.monotonic() + ANSWER_SECONDS
    while not (folder / "address").exists():
        if (folder / "problem").exists():
            raise LocalKafkaError((folder / "problem").read_text())
        if time.monotonic() > deadline:
            raise LocalKafkaError(f"the broker of this run did not answer within {ANSWER_SECONDS:g} s")
        time.sleep(POLL_SECONDS)
    return (folder / "address").read_text()


class SharedKafka:
    """The broker of a run: nothing starts unless a process asks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the broker, if there is one."""
        self._over.set()
        self._thread.join()

    def _serve(self) -> None:
        while not (self._folder / "wanted").exists():
            if self._over.wait(POLL_SECONDS):
                return
        with warnings.catch_warnings():
            # Outside a test there is nobody whom a warning of the client could fail.
            warnings.simplefilter("ignore")
            from deploy.local_kafka import LocalKafka, LocalKafkaError
        broker = LocalKafka(self._folder / "broker")
        try:
            broker.start(START_SECONDS)
        except LocalKafkaError as error:
            self._answer("problem", str(error))
            return
        self._answer("address", broker.bootstrap_servers)
        self._over.wait()
        broker.kill()

    def _answer(self, name: str, text: str) -> None:
        (self._folder / f"{name}.new").write_text(text)
        (self._folder / f"{name}.new").rename(self._folder / name)
