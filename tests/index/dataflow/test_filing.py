import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.dataflow import Kind, Stage
from index.dataflow.filing import Filing
from index.dataflow.rows import Layout, rows_of
from index.lsm.shape import shape_of
from index.storage.parameters import Parameters
from tests.support.examples import examples
from tests.support.framed_sites import PARAMETERS

LAYOUT = Layout.of(PARAMETERS, None)
FILING = Filing(PARAMETERS, LAYOUT, shards=3)


def signatures_of(seed: int, count: int) -> np.ndarray:
    """Signatures of random bins, some empty, in frames of any size."""
    generator = np.random.default_rng(seed)
    signatures = np.zeros(count, LAYOUT.signature)
    signatures["low"] = np.arange(count)
    values = generator.integers(0, 4, (count, 64)).astype(np.uint8)
    frames = np.packbits(generator.random((count, 64)) < generator.random((count, 1)), axis=1, bitorder="little")
    signatures["whole"]["fingerprint"] = np.hstack([values.view("<u8"), frames.view("<u8")])
    return signatures


@examples(30)
@given(st.integers(0, 2**32), st.integers(0, 30))
def test_documents_are_filed_under_the_bands_of_the_index(seed: int, count: int) -> None:
    signatures = signatures_of(seed, count)
    messages = [each for each in FILING.filed(signatures, 100) if each.stage is Stage.CLAIM]
    claims = np.sort(rows_of((each.content for each in messages), LAYOUT.claim), order=["low", "page"])
    hashes = shape_of(PARAMETERS).hashes(signatures["whole"]["fingerprint"]) >> np.uint64(24)
    digests = claims["words"].reshape(hashes.shape)
    assert (digests == digests[:, :1]).all()
    bands = np.broadcast_to(np.arange(hashes.shape[1]), hashes.shape)
    assert (claims["page"] >> np.uint64(40)).reshape(hashes.shape).tolist() == bands.tolist()
    values = claims["page"].reshape(hashes.shape) & np.uint64(2**40 - 1)
    assert values.tolist() == hashes.tolist()


@pytest.mark.parametrize("seeded", [False, True])
def test_signatures_go_where_candidates_are_compared_and_those_of_seeds_only_where_they_are_kept(seeded: bool) -> None:
    rows = np.array([True, False, True, True, True]) if seeded else None
    messages = list(FILING.filed(signatures_of(1, 5), 100, seeded=rows))
    sent = {(each.stage, each.kind) for each in messages}
    claims = {(Stage.RECALL, Kind.PARTS), (Stage.CLAIM, Kind.CLAIMS)}
    assert sent == (claims if seeded else {*claims, (Stage.VERIFY, Kind.SIGNATURES)})
    filed = np.concatenate(
        [np.frombuffer(each.content, LAYOUT.claim) for each in messages if each.stage is Stage.CLAIM]
    )
    assert set(filed["low"].tolist()) == ({0, 2, 3, 4} if seeded else set(range(5)))


def test_simhash_alone_sends_claims_and_nothing_else() -> None:
    layout = Layout.of(Parameters(), None)
    filed = Filing(Parameters(), layout, shards=3).filed(np.zeros(2, layout.signature), 100)
    assert {each.stage for each in filed} == {Stage.CLAIM}
