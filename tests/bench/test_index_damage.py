"""Whatever bytes stand in the file of an index: the right answers, or IndexDamagedError; never a signal, never nonsense."""

import random
from collections import Counter
from functools import cache
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from bench import index_damage
from bench.index_damage import (
    KINDS,
    NOTICED,
    PAGE_BYTES,
    SCHEMES,
    Damage,
    World,
    damages_of,
    main,
    outcome_of,
    world_of,
)
from index.storage.data_file import DATA_FILE

SEED = 5
DAMAGES = 36


@cache
def world(scheme: str, directory: Path) -> World:
    return world_of(directory / scheme, SCHEMES[scheme], SEED)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("worlds")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_kind_of_damage_is_noticed_or_changes_no_answer(scheme: str, place: Path) -> None:
    sound = world(scheme, place)
    outcomes = Counter((damage.kind, outcome_of(sound, damage, SEED)) for damage in damages_of(sound, DAMAGES, SEED))
    assert {outcome for _, outcome in outcomes} <= set(NOTICED), outcomes
    assert {kind for kind, outcome in outcomes if outcome != "harmless"} == set(KINDS), outcomes


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_same_damages_do_harm_where_nothing_is_checked(scheme: str, place: Path) -> None:
    sound = world(scheme, place)
    pages = (sound.directory / DATA_FILE).stat().st_size // PAGE_BYTES
    chosen = random.Random(SEED).sample(range(2, pages), 60)
    outcomes = Counter(outcome_of(sound, Damage("noise", page), SEED, unchecked=True) for page in chosen)
    assert set(outcomes) - set(NOTICED), outcomes


def test_a_damage_that_changes_nothing_is_harmless(place: Path) -> None:
    sound = world("simhash", place)
    nothing = index_damage.KINDS | {"nothing": lambda *_: None}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_damage, "KINDS", nothing)
        assert outcome_of(sound, Damage("nothing", 0), SEED) == "harmless"


def test_the_command_counts_outcomes_by_kind() -> None:
    result = CliRunner().invoke(main, ["--damages", "6", "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    told = orjson.loads(result.stdout.splitlines()[-1])
    assert told["bad"] == 0
    assert all(sum(told["outcomes"][scheme][kind].values()) == 1 for scheme in SCHEMES for kind in KINDS)
