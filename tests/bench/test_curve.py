"""The curve of bytes against F1: the bytes by hand, the shapes that are tried, and one run over a made-up set."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from click.testing import CliRunner

from bench import curve
from bench.curve import bytes_per_document, settings_for
from bench.named_settings import parse
from index.matching.minhash import BIN_BITS, BINS, Banding, banding_for
from streamer.evaluation.scores import pairs_flagged
from streamer.fingerprint.scheme import scheme_for

SHAPES = len(BINS) * len(BIN_BITS)


@pytest.mark.parametrize(
    ("banding", "expected"),
    [
        (Banding(128, 8, 25, 5), 128 + 25 * 9),
        (Banding(64, 4, 11, 4), 32 + 11 * 9),
        (Banding(256, 4, 1, 7), 128 + 9),
    ],
)
def test_a_document_costs_its_signature_and_nine_bytes_a_band(banding: Banding, expected: int) -> None:
    assert bytes_per_document(banding) == expected


def test_every_shape_is_tried_once_a_policy_from_the_cheapest_on() -> None:
    found = settings_for("characters", 0.8, (), ("unique", "all"))
    assert len({(banding, setting.insert) for banding, setting in found}) == len(found) == 2 * SHAPES
    assert {banding for banding, _ in found} == {
        banding_for(bins, bin_bits, 0.8) for bins in BINS for bin_bits in BIN_BITS
    }
    costs = [bytes_per_document(banding) for banding, _ in found]
    assert costs == sorted(costs)
    assert len({setting.name for _, setting in found}) == len(found)


def test_other_numbers_of_bands_are_tried_where_they_fit() -> None:
    found = settings_for("words", 0.7, (3, 20), ("all",))
    tried = {(banding.bins, banding.bands) for banding, _ in found}
    derived = {bins: banding_for(bins, 8, 0.7).bands for bins in BINS}
    assert tried == {*derived.items(), *((bins, 3) for bins in BINS), (128, 20), (256, 20)}
    for banding, setting in found:
        assert setting.parameters.banding == banding
        assert setting.settings.minhash.shingles == "words"
        assert banding.rows == banding_for(banding.bins, 8, 0.7).rows


def test_fewer_bands_find_fewer_pairs_and_flag_no_others() -> None:
    generator = np.random.default_rng(8)
    letters = list("清晨的雾气还没有散去渔民们已经驾着小船出海捕鱼了")
    texts = ["".join(generator.choice(letters, 200)) for _ in range(300)]
    edited = [text[:30] + "改" + text[31:80] + "错" + text[81:150] + "字" + text[151:] for text in texts]
    flagged = []
    for bands in (1, 4, 17):
        setting = replace(parse("minhash"), bands=bands)
        prints = [scheme_for(setting.settings).fingerprint(some) for some in (texts, edited)]
        flagged.append(pairs_flagged(prints[0], prints[1], setting.parameters))
    assert 0 < flagged[0].sum() < flagged[1].sum() < flagged[2].sum()
    assert not (flagged[0] & ~flagged[1]).any()
    assert not (flagged[1] & ~flagged[2]).any()


def results_of(folder: Path, *options: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(curve.main, [str(folder), *options, "--json"], catch_exceptions=False)
    assert done.exit_code == 0
    found: list[dict[str, Any]] = orjson.loads(done.stdout)["results"]
    return found


@pytest.mark.parametrize("shingles", ["characters", "words"])
def test_a_run_tells_shape_bytes_and_scores(small_set: Path, shingles: str) -> None:
    found = results_of(small_set, "--shingles", shingles, "--insert", "both")
    assert len(found) == 2 * SHAPES
    for row in found:
        assert row["bytes_per_document"] == row["bins"] * row["bin_bits"] // 8 + 9 * row["bands"]
        assert f"minhash.bins={row['bins']} minhash.bin_bits={row['bin_bits']}" in row["setting"]
        assert (row["true_duplicates"], row["missed"], row["false_duplicates"]) == (2, 0, 0)
