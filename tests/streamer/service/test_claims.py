"""One index decides in a group: a second one is refused, and a new one takes over from one that is gone."""

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from index.index import Index
from streamer.errors import Rebalancing, RecoveryRefused
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.records.decode import Decoder
from streamer.service import claims
from streamer.service.claims import Claims
from streamer.service.recovery import Recoverer
from streamer.service.restoring import RestoringListener
from streamer.settings.settings import Recovery, Settings
from streamer.transports.transport import Assigned, Claim
from tests.support.examples import examples
from tests.support.memory_broker import MemoryBroker, MemoryTransport

CHOSEN = Settings()
MINE, OTHER = "1" * 32, "2" * 32


def two_members(index: str = MINE) -> tuple[MemoryBroker, MemoryTransport, Assigned]:
    """A member that was assigned partition 0 of two, beside another that owns partition 1."""
    broker = MemoryBroker()
    broker.create_for(CHOSEN, 2)
    for partition in (0, 1):
        broker.write(CHOSEN.topics.input, partition, [b"any"] * 10)
    transport, other = MemoryTransport(broker, CHOSEN, "0", index), MemoryTransport(broker, CHOSEN, "1", OTHER)
    transport.open()
    other.open()
    other.read()
    assigned = transport.read()
    assert isinstance(assigned, Assigned)
    return broker, transport, assigned


def claim(broker: MemoryBroker, assigned: Assigned, partition: int, at: Claim) -> None:
    (source,) = (each for each in assigned.sources + assigned.others if each.partition == partition)
    group = broker.group(CHOSEN.kafka.group)
    group.committed[source] = at.offset
    group.claims[source] = (at.index, at.in_use)


def test_a_worker_announces_its_index_where_another_one_was_in_use_and_moves_no_offset() -> None:
    broker, transport, assigned = two_members()
    claim(broker, assigned, 0, Claim(7, OTHER, in_use=True))
    Claims(transport, MINE, 10.0).announce(assigned)
    assert transport.claims(assigned.sources) == {assigned.sources[0]: Claim(7, MINE, in_use=False)}


@pytest.mark.parametrize("index", [MINE, ""], ids=["its own index", "an older version, or a hand"])
def test_a_worker_announces_nothing_where_its_own_index_or_none_is_named(index: str) -> None:
    broker, transport, assigned = two_members()
    claim(broker, assigned, 0, Claim(7, index, in_use=True))
    claim(broker, assigned, 1, Claim(7, index, in_use=True))
    own = Claims(transport, MINE, 0.0)
    own.announce(assigned)
    assert transport.claims(assigned.sources) == {assigned.sources[0]: Claim(7, index, in_use=True)}
    assert own.lacking(assigned) == (set() if index == MINE else set(assigned.sources))
    assert own.have_no_rivals(assigned)


def test_an_index_that_is_only_being_restored_is_no_rival() -> None:
    broker, transport, assigned = two_members()
    claim(broker, assigned, 1, Claim(7, OTHER, in_use=False))
    assert Claims(transport, MINE, 0.0).have_no_rivals(assigned)


def test_another_index_in_use_is_waited_for_and_refused_when_its_claim_lasts() -> None:
    broker, transport, assigned = two_members()
    claim(broker, assigned, 1, Claim(7, OTHER, in_use=True))
    own = Claims(transport, MINE, 0.2)
    assert not own.have_no_rivals(assigned)
    time.sleep(0.3)
    with pytest.raises(RecoveryRefused) as refusal:
        own.have_no_rivals(assigned)
    for words in ("index.directory", MINE, OTHER, "documents/1", "kafka.group"):
        assert words in str(refusal.value)


def test_another_index_that_goes_on_delivering_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "LOOK_SECONDS", 0.0)
    broker, transport, assigned = two_members()
    own = Claims(transport, MINE, 1_000.0)
    for offset in (7, 8):
        claim(broker, assigned, 1, Claim(offset, OTHER, in_use=True))
        assert not own.have_no_rivals(assigned), "a dying worker may deliver its last batch"
    claim(broker, assigned, 1, Claim(9, OTHER, in_use=True))
    with pytest.raises(RecoveryRefused, match="two services of one group"):
        own.have_no_rivals(assigned)


def test_a_claim_that_its_owner_gives_up_is_forgotten() -> None:
    broker, transport, assigned = two_members()
    claim(broker, assigned, 1, Claim(7, OTHER, in_use=True))
    own = Claims(transport, MINE, 0.2)
    assert not own.have_no_rivals(assigned)
    time.sleep(0.3)
    claim(broker, assigned, 1, Claim(7, MINE, in_use=False))
    assert own.have_no_rivals(assigned)
    claim(broker, assigned, 1, Claim(7, OTHER, in_use=True))
    assert not own.have_no_rivals(assigned)


class Rival:
    """A worker with an index of its own."""

    def __init__(self, broker: MemoryBroker, index: Index, instance: str) -> None:
        self.transport = MemoryTransport(broker, CHOSEN, instance, index.identity)
        self.transport.open()
        self.recoverer = Recoverer(
            self.transport,
            index,
            Decoder(CHOSEN.decode),
            scheme_for(CHOSEN),
            Recovery(),
            RestoringListener(),
            patience_seconds=1_000.0,
        )
        self.has_begun = False

    def step(self) -> None:
        event = self.transport.read()
        if isinstance(event, Assigned) and isinstance(self.recoverer.recover(event), dict):
            self.has_begun = True


def test_a_group_that_shares_its_partitions_out_anew_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = MemoryBroker()
    broker.create_for(CHOSEN)
    parameters = parameters_for(CHOSEN, scheme_for(CHOSEN).stamp())
    with Index.open(tmp_path / "index", parameters, map_bytes_max=2**30) as index:
        worker = Rival(broker, index, "0")
        with monkeypatch.context() as patch:
            patch.setattr(worker.transport, "commit_start", refuse)
            worker.step()
        assert not worker.has_begun
        worker.step()
        assert worker.has_begun


def refuse(*_: object, **__: object) -> None:
    raise Rebalancing("not now")


@examples(40, HealthCheck.function_scoped_fixture)
@given(schedule=st.lists(st.integers(0, 1), min_size=4, max_size=12), known=st.booleans())
def test_two_indexes_never_both_begin_in_whatever_order_their_workers_come(
    tmp_path_factory: pytest.TempPathFactory, schedule: list[int], known: bool
) -> None:
    """known: the first index has decided in the group before."""
    directory = tmp_path_factory.mktemp("two")
    broker = MemoryBroker()
    broker.create_for(CHOSEN, 2)
    parameters = parameters_for(CHOSEN, scheme_for(CHOSEN).stamp())
    with (
        Index.open(directory / "one", parameters, map_bytes_max=2**30) as one,
        Index.open(directory / "two", parameters, map_bytes_max=2**30) as two,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("streamer.service.recovery._RETRY_SECONDS", 0.0)
        if known:
            first = Rival(broker, one, "0")
            first.step()
            assert first.has_begun, "an index that is alone begins"
            first.transport.close()
        rivals = [Rival(broker, one, "0"), Rival(broker, two, "1")]
        # Both join before the first takes everything.
        for number in schedule:
            rivals[number].step()
        assert not all(rival.has_begun and rival.transport.lags() for rival in rivals)


def test_an_index_that_is_drawn_anew_has_another_id(tmp_path: Path) -> None:
    parameters = parameters_for(CHOSEN, scheme_for(CHOSEN).stamp())
    with Index.open(tmp_path / "one", parameters, map_bytes_max=2**30) as one:
        first = one.identity
    assert len(first) == 32
    with Index.open(tmp_path / "one", parameters, map_bytes_max=2**30) as one:
        assert one.identity == first
    with Index.open(tmp_path / "one", None, map_bytes_max=2**30, read_only=True) as one:
        assert one.identity == first
    with Index.open(tmp_path / "two", parameters, map_bytes_max=2**30) as two:
        assert two.identity != first
