import pytest

from index import Longer, Retention
from index.dataflow import Retained
from streamer.errors import SettingsError
from streamer.flink.carried import dataflow_of
from streamer.settings.settings import load

CARRIED = ["index.recrawl=duplicate"]


@pytest.mark.parametrize("insert", ["unique", "root"])
@pytest.mark.parametrize(("scheme", "second_look"), [("simhash", "none"), ("simhash", "cosine"), ("minhash", "none")])
def test_both_schemes_and_all_policies_are_carried(scheme: str, second_look: str, insert: str) -> None:
    chosen = [f"fingerprint.scheme={scheme}", f"index.insert={insert}", f"fingerprint.second_look={second_look}"]
    flow = dataflow_of(load(None, [*chosen, *CARRIED], {}), shards=7)
    assert (flow.parameters.scheme, flow.parameters.insert, flow.shards) == (scheme, insert, 7)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("guard.policy=pass", r"guard\.policy: pass: Flink watches no hosts"),
        ("topics.stories=stories", r"topics\.stories: Flink counts no stories"),
        ("index.protected=evaluation", r"index\.protected: Flink's tasks look into no index on a disk: protected sets"),
        ("index.base=last-year", r"index\.base: Flink's tasks look into no index on a disk"),
    ],
)
def test_what_is_not_carried_is_refused_by_name_and_with_the_reason(setting: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        dataflow_of(load(None, [*CARRIED, setting], {}))


@pytest.mark.parametrize(
    ("chosen", "epoch_minutes", "retained"),
    [
        (["entries_max=1000"], None, Retained(Retention(1_000), 3_600_000)),
        (["age_max_hours=24"], None, Retained(Retention(None, 86_400_000), 10_800_000)),
        (["age_max_hours=24", "entries_max=9"], 1.5, Retained(Retention(9, 86_400_000), 90_000)),
        ([], 5.0, None),
    ],
)
def test_entries_leave_by_the_settings_and_the_state_forgets_by_epochs(
    chosen: list[str], epoch_minutes: float | None, retained: Retained | None
) -> None:
    settings = load(None, [f"index.{each}" for each in chosen], {})
    assert dataflow_of(settings, epoch_minutes=epoch_minutes).retained == retained


@pytest.mark.parametrize("policy", ["update", "duplicate"])
def test_pages_that_come_again_are_carried_by_either_policy(policy: str) -> None:
    flow = dataflow_of(load(None, [f"index.recrawl={policy}"], {}))
    assert flow.updates == flow.leaves == (policy == "update")


def test_everything_that_is_refused_is_told_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        dataflow_of(load(None, ["guard.policy=pass", "index.base=last-year"], {}))
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == ["guard.policy", "index.base"]


def test_a_flow_learns_frames_by_default() -> None:
    assert dataflow_of(load(None, CARRIED, {})).parameters.frames is not None


@pytest.mark.parametrize(("chosen", "longer"), [("longer=pass", Longer(1_000)), ("longer=duplicate", None)])
def test_longer_versions_pass_as_the_settings_say(chosen: str, longer: Longer | None) -> None:
    assert dataflow_of(load(None, [*CARRIED, f"index.{chosen}"], {})).longer == longer
