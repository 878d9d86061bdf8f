"""The tool that strikes a service with faults: its proxy, its choices, a short run, and what it must notice."""

import random
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import orjson
import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from bench.chaos.kinds import KINDS
from bench.chaos.ledger import Ledger, longest_without_output
from bench.chaos.proxy import DIRECTIONS, Direction, Proxy
from bench.chaos.readiness import UNTRUE_SECONDS_MAX, Readiness
from bench.chaos.report import AT_ONCE, by_kind
from bench.chaos.sequence import Failure, Struck, choose
from bench.chaos.world import World, offsets_are_unanswered
from deploy.kafka_run import create_topics
from deploy.local_kafka import HOST, free_port
from tests.support.paths import ROOT

SILENCE_SECONDS = 0.3


class Echo:
    """Server that sends back what it gets."""

    def __init__(self) -> None:
        self._listening = socket.create_server((HOST, 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    @staticmethod
    def _answer(connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65_536):
                    connection.sendall(data)
            except OSError:
                return

    def close(self) -> None:
        # A blocked `accept` does not notice `close` alone.
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    echo = Echo()
    with Proxy({free_port(): echo.port}) as made:
        yield made
    echo.close()


@pytest.fixture
def client(proxy: Proxy) -> Iterator[socket.socket]:
    """Connection through the proxy that has been answered once."""
    with socket.create_connection((HOST, proxy.ports[0]), timeout=5) as connection:
        connection.sendall(b"hello")
        assert received(connection, 5) == b"hello"
        yield connection


def received(connection: socket.socket, count: int) -> bytes:
    """What arrives up to `count` bytes, the end, or a reset."""
    got = b""
    try:
        while len(got) < count and (data := connection.recv(count - len(got))):
            got += data
    except ConnectionResetError:
        pass
    return got


def is_silent(connection: socket.socket) -> bool:
    connection.settimeout(SILENCE_SECONDS)
    try:
        return connection.recv(1) is None
    except TimeoutError:
        return True
    finally:
        connection.settimeout(5)


def test_a_cut_ends_every_connection(proxy: Proxy, client: socket.socket) -> None:
    assert proxy.cut() == 1
    assert received(client, 1) == b""


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_cut_inside_a_message_lets_just_so_many_bytes_pass(
    proxy: Proxy, client: socket.socket, direction: Direction
) -> None:
    proxy.cut_inside(direction, 7)
    client.sendall(b"0123456789")
    got = received(client, 10)
    assert b"0123456".startswith(got)
    # Of a request that is cut, the answer may be lost with the connection.
    assert direction == "to the broker" or got == b"0123456"
    assert proxy.was_cut_inside(direction)


@pytest.mark.parametrize("directions", [DIRECTIONS, *((each,) for each in DIRECTIONS)])
def test_what_a_stall_holds_back_arrives_when_it_ends(
    proxy: Proxy, client: socket.socket, directions: tuple[Direction, ...]
) -> None:
    proxy.stall(*directions)
    client.sendall(b"later")
    assert is_silent(client)
    proxy.heal()
    assert received(client, 5) == b"later"


def test_a_halved_connection_stays_silent_and_a_new_one_answers(proxy: Proxy, client: socket.socket) -> None:
    assert proxy.halve() == 1
    client.sendall(b"anybody?")
    assert is_silent(client)
    with socket.create_connection((HOST, proxy.ports[0]), timeout=5) as other:
        other.sendall(b"yes")
        assert received(other, 3) == b"yes"


def test_refused_connections_are_taken_again_once_it_is_healed(proxy: Proxy, client: socket.socket) -> None:
    proxy.refuse()
    assert received(client, 1) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, proxy.ports[0]), timeout=5)
    proxy.heal()
    socket.create_connection((HOST, proxy.ports[0]), timeout=5).close()


def test_a_slow_link_delivers_late(proxy: Proxy, client: socket.socket) -> None:
    proxy.slow_down(0.15, 1e9)
    begin = time.monotonic()
    client.sendall(b"slow")
    assert received(client, 4) == b"slow"
    assert time.monotonic() - begin >= 0.3


def test_faults_at_once_have_no_part_in_common_and_every_kind_is_chosen(tmp_path: Path) -> None:
    world = World(tmp_path, seed=0)
    # The kinds that ask what the world is like.
    names = [name for name in KINDS if name not in ("partition-added", "index-disk-full", "poison", "leaders-moved")]
    chance = random.Random(5)
    rounds = [choose(world, names, chance, left=4) for _ in range(2_000)]
    for chosen in rounds:
        parts = [part for name in chosen for part in KINDS[name].parts]
        assert len(parts) == len(set(parts))
    assert {name for chosen in rounds for name in chosen} == set(names)
    assert {len(chosen) for chosen in rounds} == {1, 2, 3, 4}
    assert {len(choose(world, names, chance, left=1)) for _ in range(50)} == {1}


def test_a_fault_alone_counts_for_its_recovery_and_a_failure_for_its_kind() -> None:
    struck = [Struck(("a",), 1, 3), Struck(("a",), 1, 5), Struck(("a", "b"), 1, 50)]
    rows = by_kind(struck, Failure(("b",), 5, "stuck"))
    assert rows["a"] == {
        "faults": 3,
        "failures": 0,
        "recovery_seconds_median": 4,
        "recovery_seconds_p90": 4.8,
        "recovery_seconds_max": 5,
    }
    assert rows["b"] == {"faults": 2, "failures": 1}
    assert rows[AT_ONCE]["recovery_seconds_max"] == 50


class Waiting:
    """Ledger in which one document has waited since a moment."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds

    def oldest_waiting(self) -> tuple[tuple[int, int], float] | None:
        return None if self._seconds is None else ((1, 7), self._seconds)


@dataclass
class Claim:
    """Service that says what the test lets it say."""

    is_ready: bool = True

    def ready(self) -> bool:
        return self.is_ready


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.mark.parametrize(
    ("waiting_since", "is_ready", "excused", "untrue_seconds"),
    [
        (90.0, True, False, 12.0),
        (105.0, True, False, 7.0),
        (None, True, False, 0.0),
        (90.0, False, False, 0.0),
        (90.0, True, True, 0.0),
    ],
)
def test_ready_is_untrue_while_a_document_waits_and_every_service_says_that_it_is_ready(
    waiting_since: float | None, is_ready: bool, excused: bool, untrue_seconds: float
) -> None:
    clock, claims = Clock(), [Claim(), Claim(is_ready)]
    readiness = Readiness(lambda: claims, clock)
    readiness.ask()
    with readiness.excused() if excused else nullcontext():
        clock.seconds = 112.0
        readiness.ask()
        readiness.compare(cast("Ledger", Waiting(waiting_since)))
    readiness.compare(cast("Ledger", Waiting(waiting_since)))
    assert readiness.untrue_seconds_max == untrue_seconds
    assert bool(readiness.problems()) == (untrue_seconds > UNTRUE_SECONDS_MAX)


def test_a_partition_stands_still_from_its_last_output_or_from_its_first_waiting_document() -> None:
    waiting = {(0, 7): 10.0, (1, 3): 12.0, (0, 8): 13.0}
    assert longest_without_output(waiting, {}) == ((0, 7), 10.0)
    assert longest_without_output(waiting, {0: 20.0}) == ((1, 3), 12.0)
    assert longest_without_output(waiting, {0: 20.0, 1: 30.0}) == ((0, 7), 20.0)
    assert longest_without_output({}, {0: 20.0}) is None


@pytest.mark.kafka
def test_offsets_are_unanswered_as_long_as_their_transaction_is_open(kafka: SimpleNamespace) -> None:
    name = f"pending-{uuid.uuid4().hex}"
    create_topics(kafka.bootstrap_servers, [name], 1)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=name)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send_offsets_to_transaction({TopicPartition(name, 0): OffsetAndMetadata(7, "", -1)}, name)
    producer.flush()
    assert offsets_are_unanswered(kafka.bootstrap_servers, name, [TopicPartition(name, 0)])
    producer.commit_transaction()
    producer.close()
    assert not offsets_are_unanswered(kafka.bootstrap_servers, name, [TopicPartition(name, 0)])


@pytest.mark.kafka
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kinds", "how"),
    [
        (("worker-killed", "link-stalled"), ("--parts",)),
        (("leaders-moved", "broker-killed", "index-deleted"), ("--brokers", "3")),
    ],
    ids=["in-parts", "cluster"],
)
def test_a_service_recovers_from_every_fault_loses_and_doubles_nothing_and_planted_errors_are_found(
    tmp_path: Path, kinds: tuple[str, ...], how: tuple[str, ...]
) -> None:
    # In a process of its own: the client leaves open behind what a killed broker cut off.
    arguments = ["--faults", str(len(kinds)), "--kinds", ",".join(kinds), "--workers", "1", *how]
    # Beside other tests, whose load makes a partition wait longer.
    arguments += ["--seed", "11", "--json", "--untrue-seconds", "60"]
    command = [sys.executable, "-m", "bench.chaos", *arguments, "--directory", str(tmp_path / "chaos")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = orjson.loads(done.stdout)
    assert found["kinds"].keys() == set(kinds)
    assert (found["faults"], found["parts"]) == (len(kinds), "--parts" in how)
    assert found["documents"] == found["unique"] + found["duplicate"] + found["dead_letter"] > 100
    assert found["planted_errors"] == "found"
