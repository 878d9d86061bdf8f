"""The index bench at a small size: it measures what it says, in the states that it says."""

from pathlib import Path

import numpy as np
import orjson
import pytest
from click.testing import CliRunner

from bench import index_peers
from bench.index import CENTRES, Stream, chosen, freeze, main, opened
from index.lsm.compaction import TreeSizes
from index.matching.minhash import Banding
from tests.support.indexes import inspected
from tests.support.packed import compaction_state

SMALL = ["--entries", "2000", "--batch", "50", "--batches", "3", "--memtable-entries", "3000", "--peer-entries", "0"]
FIGURES = {
    "load_seconds", "load_written_gib", "used_gib",
    "load_documents_per_second", "load_documents_per_processor_second", "entries", "bytes_per_document",
    "bytes_per_document_blocks", "table_bytes", "open_seconds", "decisions_per_second_idle",
    "decisions_per_processor_second_idle", "decisions_per_second_compacting", "decisions_per_processor_second_compacting",
    "batch_ms_p50", "batch_ms_p99", "batch_ms_max", "batch_processor_ms_p50", "bare_put_ms_p50", "written_mib_per_1000",
    "anonymous_mib", "entries_in_the_end", "verify_seconds", "ids_unknown_processor_ms_per_1000",
    "ids_known_processor_ms_per_1000",
}  # fmt: skip


@pytest.mark.parametrize(
    "scheme", [["simhash64"], ["simhash128"], ["minhash"], ["minhash", "--bands", "21", "--rows", "6"]]
)
@pytest.mark.parametrize("fingerprints", ["random", "clustered"])
def test_every_scheme_is_measured_and_its_index_is_sound(scheme: list[str], fingerprints: str) -> None:
    arguments = [*SMALL, "--scheme", *scheme, "--fingerprints", fingerprints, "--verify", "--json"]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    found = orjson.loads(result.stdout.splitlines()[-1])
    assert found.keys() >= FIGURES
    assert all(found[name] > 0 for name in FIGURES - {"table_bytes"})
    assert not any(found["verify_wrong"].values())
    # The bulk load, the entries that froze the memtable, and 5 + 3 batches of 50 before and during the compaction.
    assert found["entries_in_the_end"] > found["entries"] + 3000
    assert 20 < found["bytes_per_document"] < 2000
    assert found["batch_ms_p50"] <= found["batch_ms_p99"] <= found["batch_ms_max"]
    if len(scheme) > 1:
        assert found["bands_rows"] == [21, 6]


def test_the_stream_is_unique_and_the_same_every_time() -> None:
    for parameters in (chosen("simhash64", None, None, None), chosen("minhash", None, 21, 6)):
        one, other = Stream(parameters), Stream(parameters)
        batches = [one.batch(500), one.batch(500)]
        assert len(np.unique(np.concatenate([batch.fingerprints for batch in batches]), axis=0)) == 1000
        assert [batch.offsets[0] for batch in batches] == [0, 500]
        assert np.array_equal(batches[0].fingerprints, other.batch(500).fingerprints)
        if parameters.banding is not None:
            assert parameters.banding == Banding(128, 8, 21, 6)
            assert batches[0].fingerprints.view(np.uint8).all()


def test_clustered_fingerprints_lie_about_their_centres() -> None:
    parameters = chosen("simhash128", None, None, None)
    stream = Stream(parameters, "clustered")
    centres = Stream(parameters).batch(CENTRES).fingerprints
    fingerprints = stream.batch(200).fingerprints
    apart = np.bitwise_count(fingerprints[:, None] ^ centres[None]).sum(axis=2)
    nearest = apart.min(axis=1)
    assert (nearest <= 24).all()
    assert nearest.max() > 12
    assert len(np.unique(fingerprints, axis=0)) == 200


def test_entries_are_let_into_memory_before_measuring() -> None:
    arguments = [*SMALL, "--memtable-entries", "30000", "--in-memory", "20000", "--json"]
    found = orjson.loads(CliRunner().invoke(main, arguments, catch_exceptions=False).stdout.splitlines()[-1])
    assert found["entries"] == 2000
    # Those that freeze the memtable are let in by 10,000.
    assert found["entries_in_the_end"] == 2000 + 20_000 + 2 * 5 * 50 + 2 * 3 * 50 + 10_000


def test_freezing_starts_a_compaction(tmp_path: Path) -> None:
    parameters = chosen("simhash64", None, None, None)
    with opened(tmp_path, parameters, TreeSizes(15_000)) as index:
        stream = Stream(parameters)
        freeze(index, stream)
        assert inspected(index, compaction_state).is_moving
        assert index.statistics().entries == 20_000


def test_a_peer_decides_beside_what_it_was_filled_with() -> None:
    found = index_peers._rate(index_peers._rensa(chosen("minhash", None, None, None), 1000), 1000)
    assert found > 0
