from collections.abc import Sequence

import numpy as np
import pytest

from index.dataflow import Kind, Message, Stage
from index.dataflow.filing import Filing
from index.dataflow.frame import Frame
from index.dataflow.rows import Layout, rows_of
from index.matching.minhash import pack_bins
from index.storage import layout as stored
from tests.support.dataflow import KeyState
from tests.support.framed_sites import PARAMETERS, site

LAYOUT = Layout.of(PARAMETERS, None)


def pages_of(hosts: Sequence[int], seed: int = 1) -> np.ndarray:
    """Pages of one template on these hosts, in order."""
    pages = np.zeros(len(hosts), LAYOUT.page)
    pages["low"], pages["host"] = np.arange(len(hosts)), np.array(hosts, np.uint64) << np.uint64(48)
    signatures = pack_bins(site(np.random.default_rng(seed), len(hosts), 1, 1.0), 8)
    pages["whole"]["fingerprint"][:, : signatures.shape[1]] = signatures
    return pages


def frames_of(task: KeyState, *parts: np.ndarray) -> list[list[int]]:
    """Frames that FRAME gives pages of one slot, which come in these messages, by their order."""
    operator = Frame(PARAMETERS, LAYOUT, Filing(PARAMETERS, LAYOUT, shards=3))
    messages = [Message(Stage.FRAME, 0, 100, Kind.PAGES, part.tobytes()) for part in parts]
    filed = list(operator.complete(task, 100, messages))
    kept = rows_of((each.content for each in filed if each.stage is Stage.RECALL), LAYOUT.signature)
    return np.sort(kept, order=["low"])["whole"]["fingerprint"][:, PARAMETERS.words :].tolist()


def test_pages_get_their_frames_in_the_order_of_documents_whatever_comes_first() -> None:
    pages = pages_of([1, 2] * 20)
    in_order = frames_of(KeyState({}), pages)
    assert sum(map(any, in_order)) > 20
    assert frames_of(KeyState({}), pages[20:], pages[:7], pages[7:20]) == in_order


def test_slots_go_on_from_the_samples_in_the_state() -> None:
    pages, task = pages_of([1, 2] * 20), KeyState({})
    one_by_one = [frame for begin in range(0, 40, 7) for frame in frames_of(task, pages[begin : begin + 7])]
    assert one_by_one == frames_of(KeyState({}), pages)
    # A negative control: without the state the later pages know no frame.
    assert one_by_one[-5:] != frames_of(KeyState({}), pages[-5:])


def test_the_state_has_as_many_samples_as_a_group_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "HOSTS_MAX", 2)
    task = KeyState({})
    for turn in range(6):
        frames_of(task, pages_of([turn + 1, turn + 2] * 4, seed=turn))
    groups = stored.unpack_host_groups([task.content[b"group"]])
    assert sorted((groups.hosts[0] >> np.uint64(48)).tolist()) == [6, 7]
    assert len(task.content) == 1 + 2
