"""docs/methods.md: its reckoning with blocks, beside the formula and fingerprints drawn at random; the presets it names."""

import re

import numpy as np
import pytest

from streamer.settings.presets import METHOD_PRESETS
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
MU = 2


def section(title: str) -> str:
    return PAGE.split(f"### {title}\n")[1].split("\n#")[0]


def rows() -> list[list[int]]:
    """Documents, bucket, candidates, limit, candidates after the split: the numbers of the table."""
    lines = [line for line in section("Blocks by numbers").splitlines() if re.match(r"\| [0-9]", line)]
    return [[eval_power(cell) for cell in line.strip("| ").split(" | ")] for line in lines]


def eval_power(cell: str) -> int:
    base, _, power = cell.replace(",", "").partition("^")
    return int(base) ** int(power or 1)


def test_the_table_of_blocks_is_what_the_formula_gives() -> None:
    assert [row[0] for row in rows()] == [2**34, 2**33, 10**8, 10**7]
    for documents, bucket, candidates, limit, after in rows():
        assert (bucket, candidates) == (round(documents / 2**16), round(4 * documents / 2**16))
        assert limit == round((1 + MU) * documents / 2**16)
        assert after == round(16 * documents / 2**28)


@pytest.mark.parametrize(("blocks", "block_bits"), [(4, 4), (16, 8)])
def test_uniform_fingerprints_meet_as_many_candidates_as_the_formula_says(blocks: int, block_bits: int) -> None:
    """The same reckoning with smaller blocks: buckets of one block, and of a block and a second one."""
    drawn = np.random.default_rng(2026).integers(0, 2**block_bits, (2**15, blocks))
    candidates = sum(int((drawn[1:, block] == drawn[0, block]).sum()) for block in range(blocks))
    expected = blocks * len(drawn) / 2**block_bits
    assert abs(candidates - expected) < 5 * np.sqrt(expected)


def test_the_page_names_every_preset_and_no_other() -> None:
    named = re.findall(r"^\| `([a-z0-9-]+)`", section_of_presets(), re.MULTILINE)
    assert sorted(named) == sorted(METHOD_PRESETS)


def section_of_presets() -> str:
    return PAGE.split("## One line each\n")[1].split("### On real streams")[0]
