"""Settings of the parts: groups, inputs and outputs of their own, from one file."""

from streamer.settings.parts import PARTS, input_key, outputs_of, settings_of
from streamer.settings.settings import Settings

WHOLE = Settings.model_validate({"kafka": {"group": "crawl"}, "batch": {"records_max": 1_000}})


def test_each_part_reads_under_a_group_of_its_own_and_route_under_that_of_the_whole_service() -> None:
    groups = {part: settings_of(WHOLE, part).kafka.group for part in PARTS}
    assert groups == {"fingerprint": "crawl.fingerprint", "decide": "crawl.decide", "route": "crawl"}


def test_each_part_reads_and_writes_its_own_topics() -> None:
    found = {part: settings_of(WHOLE, part) for part in PARTS}
    assert {part: each.topics.input for part, each in found.items()} == {
        "fingerprint": "documents",
        "decide": "documents-fingerprints",
        "route": "documents",
    }
    assert WHOLE.part is None
    assert [each.part for each in found.values()] == list(found)
    assert {part: list(outputs_of(each)) for part, each in found.items()} == {
        "fingerprint": ["topics.fingerprints"],
        "decide": ["topics.verdicts"],
        "route": ["topics.unique", "topics.duplicate", "topics.dead_letter"],
    }
    counted = WHOLE.model_copy(update={"topics": WHOLE.topics.model_copy(update={"stories": "s"})})
    assert outputs_of(counted)["topics.stories"] == "s"
    assert "topics.stories" not in outputs_of(settings_of(counted, "route"))
    reporting = WHOLE.model_copy(update={"topics": WHOLE.topics.model_copy(update={"protected": "p"})})
    assert outputs_of(reporting)["topics.protected"] == "p"
    assert {part: input_key(each) for part, each in found.items()} == {
        "fingerprint": "topics.input",
        "decide": "topics.fingerprints",
        "route": "topics.input",
    }


def test_decide_takes_as_many_documents_at_once_as_the_whole_service() -> None:
    assert settings_of(WHOLE, "decide").batch.records_max == 3
    assert settings_of(WHOLE, "route").batch.records_max == 1_000
