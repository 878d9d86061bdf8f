"""A limit closes the oldest connection that waits for its client, and never one that waits for its answer."""

import socket
from collections.abc import Iterator

import pytest

from streamer.observe import connections
from streamer.observe.connections import Connections


class Ends:
    """Both ends of connections, by the order in which they came; a test says which ones wait for their answers."""

    def __init__(self) -> None:
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        self.answering: set[int] = set()

    def come(self, to: Connections, address: str) -> bool:
        number = len(self.pairs)
        self.pairs.append(socket.socketpair())
        self.pairs[-1][1].setblocking(False)
        return to.admit(address, self.pairs[-1][0], lambda: number in self.answering)

    def closed(self) -> list[int]:
        """Numbers of the connections that a limit closed."""
        return [number for number, (_, client) in enumerate(self.pairs) if _is_closed(client)]


def _is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ends]:
    monkeypatch.setattr(connections, "ADDRESS_CONNECTIONS_MAX", 2)
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 4)
    ends = Ends()
    yield ends
    for pair in ends.pairs:
        for each in pair:
            each.close()


def test_the_oldest_of_an_address_closes_for_a_new_one_of_the_same_address(ends: Ends) -> None:
    limited = Connections()
    assert all(ends.come(limited, address) for address in ("one", "other", "one", "one"))
    assert ends.closed() == [0]


def test_the_oldest_of_all_closes_where_the_addresses_are_many(ends: Ends) -> None:
    limited = Connections()
    assert all(ends.come(limited, str(address)) for address in range(6))
    assert ends.closed() == [0, 1]


def test_a_connection_that_waits_for_its_answer_stays(ends: Ends) -> None:
    limited = Connections()
    ends.answering = {0}
    assert all(ends.come(limited, "one") for _ in range(4))
    assert ends.closed() == [1]


def test_a_new_connection_is_refused_where_all_others_wait_for_their_answers(ends: Ends) -> None:
    limited = Connections()
    ends.answering = set(range(4))
    assert [ends.come(limited, "one") for _ in range(5)] == [True] * 4 + [False]
    assert ends.closed() == []


def test_a_connection_that_ended_counts_no_more(ends: Ends) -> None:
    limited = Connections()
    for _ in range(2):
        ends.come(limited, "one")
    ends.pairs[0][0].close()
    assert ends.come(limited, "one")
    assert ends.closed() == [0]
