"""The operator's commands as they are typed; what they stand on is tested under tests/index."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from index.matching.second_look import CosineLook
from index.session import Retention
from index.storage.layout import Table
from index.storage.parameters import Parameters
from index.tools import FORMER_FILE, survey
from streamer.demo.demo import documents
from streamer.fingerprint.scheme import parameters_for
from streamer.index_admin.tools import time_text
from streamer.settings.settings import load
from streamer.transports.transport import NO_TIMESTAMP_MS
from tests.support import doomed_command
from tests.support.command_line import Done, run
from tests.support.indexes import SMALL, changed, everything, filled, inspected, looked_at, mixed_rows, opened, wrong
from tests.support.lives import exit_code_of
from tests.support.paths import ROOT
from tests.support.tiers import first_of

WAIT_SECONDS = 60
TEXT = " ".join(f"word{number}" for number in range(60))
OTHER = " ".join(f"another{number}" for number in range(60))
SHORT = "only four short words"
SIMHASH = ("--set", "fingerprint.scheme=simhash", "--set", "index.distance_max=7")


def run_apart(*arguments: object, given: str = "") -> Done:
    """The same in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "streamer", *map(str, arguments)],
        cwd=ROOT,
        input=given,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def told(*arguments: object, given: str = "", by: Callable[..., Done] = run) -> Any:
    """What a command that succeeds prints as JSON; standard output holds nothing else."""
    done = by(*arguments, "--json", given=given)
    assert done.code == 0, done.err
    return json.loads(done.out)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    file = tmp_path / "corpus.jsonl"
    texts = {"a": TEXT, "b": OTHER, "copy": TEXT + " end", "short": SHORT, "same": SHORT, "empty": ""}
    lines = [orjson.dumps({"id": id_, "text": text}) for id_, text in texts.items()]
    file.write_bytes(b"\n".join([*lines, b"broken", b""]))
    return file


@pytest.fixture
def index(tmp_path: Path, corpus: Path) -> Path:
    done = run("filter", corpus, "--out", tmp_path / "out", "--index", tmp_path / "index")
    assert done.code == 0, done.err
    return tmp_path / "index"


@pytest.fixture
def simhash_index(tmp_path: Path, corpus: Path) -> Path:
    done = run(*SIMHASH, "filter", corpus, "--out", tmp_path / "by simhash", "--index", tmp_path / "simhash-index")
    assert done.code == 0, done.err
    return tmp_path / "simhash-index"


def contents_of(directory: Path) -> tuple[object, ...]:
    with looked_at(directory) as index:
        return everything(index)


def test_stats_say_how_large_the_index_is_and_how_far_it_came(index: Path, corpus: Path) -> None:
    found = told("index", "--directory", index, "stats")
    assert (found["entries"], found["exact_entries"], found["forgotten"], found["journal_rows"]) == (2, 1, 0, 7)
    assert (found["parameters"]["scheme"], found["parameters"]["similarity_min"]) == ("minhash", 0.7)
    assert "distance_max" not in found["parameters"]
    assert sum(found["table_bytes"].values()) == found["used_bytes"] < found["bytes_max"]
    assert found["bytes_max"] - found["disk_free_bytes"] == (index / "data.mdb").stat().st_size
    assert found["bytes_per_million"] is None
    assert found["bytes_per_entry"]["log"] == found["table_bytes"]["log"] / 3
    assert found["compaction"] == {
        "memtable_entries": 2, "frozen_entries": 0, "removals": 0, "progress": 1.0, "segments": 0,
    }  # fmt: skip
    assert found["expired_below"] == 0
    assert found["buckets"]["histogram"][1:] == [{"from": 1, "to": 1, "buckets": 2 * 17}]
    assert (found["buckets"]["largest"], found["buckets"]["mean"]) == (1, 1)
    (source,) = found["sources"]
    assert (source["name"], source["partition"], source["applied"]) == (str(corpus), 0, 7)
    assert found["readers"] == []
    assert "minhash, 1,024 bits, matched from a similarity of 0.7" in " ".join(
        run("index", "--directory", index, "stats").out.split()
    )


def test_stats_of_simhash_tell_its_distance_and_how_many_buckets_are_empty(simhash_index: Path) -> None:
    found = told("index", "--directory", simhash_index, "stats")
    assert found["parameters"]["distance_max"] == 7
    assert "similarity_min" not in found["parameters"]
    assert found["buckets"]["histogram"] == [
        {"from": 0, "to": 0, "buckets": 262_136},
        {"from": 1, "to": 1, "buckets": 8},
    ]
    assert (found["buckets"]["count"], found["buckets"]["looked_at"]) == (262_144, 262_144)
    assert (found["buckets"]["largest"], found["buckets"]["mean"]) == (1, 8 / 262_144)
    shown = run("index", "--directory", simhash_index, "stats").out.splitlines()
    assert "simhash, 64 bits, matched within a distance of 7" in " ".join(" ".join(shown).split())
    columns = [line.index("262,136") for line in shown if "262,136" in line]
    assert columns == [line.index("      8") for line in shown if line.startswith(" " * 18 + "1")]


def test_stats_say_where_entries_stand_and_what_has_expired(tmp_path: Path) -> None:
    retention = Retention(entries_max=40, age_max_ms=60)
    filled(tmp_path, mixed_rows(1, 300), batch_rows=10, sizes=SMALL, retention=retention)
    with looked_at(tmp_path) as looked:
        standing = survey(looked).stats
        expired_below = looked.statistics().expired_below
    found = told("index", "--directory", tmp_path, "stats")
    assert found["compaction"] == standing._asdict()
    assert found["compaction"]["segments"] > 10
    assert found["compaction"]["removals"] > 0
    assert found["expired_below"] == expired_below > 20
    times = {source["name"]: source["time"] for source in found["sources"]}
    assert len(times) > 1
    assert all(time.startswith("1970-01-01T00:00:00.2") for time in times.values())
    assert all(source["expired_below"] > 20 for source in found["sources"])
    shown = run("index", "--directory", tmp_path, "stats").out
    assert f"{expired_below:,}  documents with lower numbers" in shown
    assert "no longer matched, still in segments" in shown


def test_stats_name_the_processes_that_read_the_index(index: Path) -> None:
    with looked_at(index) as opened_index:
        found: list[Any] = []
        inspected(opened_index, lambda _: found.append(told("index", "--directory", index, "stats", by=run_apart)))
    (reader,) = found[0]["readers"]
    assert reader["transaction"] is not None


def test_a_query_by_text_file_id_or_fingerprint_finds_the_same(index: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text(TEXT + " end")
    by_text = told("index", "--directory", index, "query", "--text", TEXT + " end")
    assert told("index", "--directory", index, "query", "--text", "-", given=TEXT + " end") == by_text
    assert told("index", "--directory", index, "query", "--file", tmp_path / "text") == by_text
    (found,) = by_text["answers"]
    (match,) = found["matches"]
    assert match["id"] == "a"
    assert match["position"].endswith("corpus.jsonl/0/0")
    assert told("index", "--directory", index, "query", "--fingerprint", found["fingerprint"]) == by_text
    assert 0.9 < match["similarity"] < 1
    assert "nothing like it" in run("index", "--directory", index, "query", "--text", TEXT[::-1]).out
    (of_id,) = told("index", "--directory", index, "query", "--id", "b")["answers"]
    assert of_id["document"]["id"] == "b"
    assert [each["id"] for each in of_id["matches"]] == ["b"]
    assert (of_id["document"]["verdict"], of_id["document"]["number"]) == ("unique", 1)
    (exact,) = told("index", "--directory", index, "query", "--text", SHORT)["answers"]
    assert (exact["kind"], [each["id"] for each in exact["matches"]]) == ("exact", ["short"])
    (nothing,) = told("index", "--directory", index, "query", "--text", "")["answers"]
    assert (nothing["kind"], nothing["fingerprint"], nothing["matches"]) == ("undecidable", None, [])


def test_a_query_by_id_tells_what_was_decided_on_a_record_that_entered_nothing(index: Path) -> None:
    query = ("index", "--directory", index, "query", "--id")
    (copy,) = told(*query, "copy")["answers"]
    assert (copy["kind"], copy["fingerprint"], copy["matches"]) == ("near", None, [])
    document = copy["document"]
    assert document["verdict"] == "duplicate"
    assert document["position"].endswith("corpus.jsonl/0/2")
    assert 0.9 < document["similarity"] < 1
    assert document["original"]["id"] == "a"
    assert document["original"]["position"].endswith("corpus.jsonl/0/0")
    assert "number" not in document
    shown = run(*query, "copy").out
    assert "duplicate of a" in shown
    (empty,) = told(*query, "empty")["answers"]
    assert empty["document"]["verdict"] == "undecidable"
    assert "original" not in empty["document"]


def test_a_query_of_simhash_looks_as_far_as_it_is_told(simhash_index: Path) -> None:
    query = (*SIMHASH, "index", "--directory", simhash_index, "query", "--text")
    (match,) = told(*query, TEXT + " end")["answers"][0]["matches"]
    assert match["id"] == "a"
    assert match["distance"] > 0
    assert told(*query, TEXT, "--distance", 0)["answers"][0]["matches"][0]["id"] == "a"
    (nearer,) = told(*query, TEXT + " end", "--distance", match["distance"] - 1)["answers"]
    assert nearer["matches"] == []
    assert told("index", "--directory", simhash_index, "query", "--fingerprint", nearer["fingerprint"])["answers"] == [
        {**nearer, "matches": [match]}
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["query"], 2, "give one of"),
        (["query", "--text", "a", "--id", "b"], 2, "give one of"),
        (["query", "--fingerprint", "12"], 2, "256 hexadecimal digits"),
        (["query", "--fingerprint", "x" * 256], 2, "non-hexadecimal"),
        (["query", "--text", "a", "--distance", "3"], 2, "compares by similarity"),
        (["query", "--id", "nobody"], 1, "no record has the id nobody"),
        (["--set", "minhash.features_min=3", "query", "--text", "a"], 78, "fingerprint.features_min: stored 8, asked 3"),
        (["--set", "minhash.bins=64", "query", "--text", "a"], 78, "fingerprint.bins: stored 128, asked 64"),
        (["--set", "fingerprint.scheme=simhash", "query", "--text", "a"], 78, "scheme: stored minhash, asked simhash"),
        (["forget", "nobody"], 1, "has the id nobody"),
        (["forget", "--dry-run", "nobody"], 1, "has the id nobody"),
        (["forget"], 2, "give either IDs, --source or --scope"),
        (["forget", "a", "--source", "corpus.jsonl"], 2, "give either IDs, --source or --scope"),
        (["forget", "--scope", "a", "--source", "corpus.jsonl"], 2, "give either IDs, --source or --scope"),
        (["forget", "--scope", "a"], 78, "--scope needs decode.scope"),
        (["forget", "--source", "nobody"], 1, "no source of this index has the name nobody; it has /"),
        (["compact"], 2, "either DIRECTORY or --in-place"),
        (["rebuild", "somewhere"], 2, "give one of FILES, --topics, --export"),
        (["export", "/nonexistent/export.jsonl"], 73, "No such file or directory"),
        (["backup", "."], 73, "is not empty"),
        (["rebuild", "somewhere", "--export", "pyproject.toml"], 66, "not an export of an index"),
        (["import", "export.jsonl"], 2, "streamer index rebuild DIRECTORY --export FILE"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_says_so_by_words_and_exit_code(
    arguments: list[str], code: int, complaint: str, index: Path
) -> None:
    before = contents_of(index)
    settings = arguments[:2] if arguments[0] == "--set" else []
    done = run(*settings, "index", "--directory", index, *arguments[len(settings) :])
    assert done.code == code
    assert complaint in done.err
    assert contents_of(index) == before


def test_where_there_is_no_index_nothing_is_made(tmp_path: Path) -> None:
    for command in (
        ["stats"],
        ["check"],
        ["query", "--text", "a"],
        ["forget", "a"],
        ["forget", "--source", "a"],
        ["compact", "--in-place"],
    ):
        done = run("index", "--directory", tmp_path / "none", *command)
        assert done.code == 66, done.err
    assert not (tmp_path / "none").exists()


def test_check_tells_a_sound_index_from_a_damaged_one_by_its_exit_code(index: Path) -> None:
    found = told("index", "--directory", index, "check")
    assert found["sound"] is True
    assert {check["check"]: check["examined"] for check in found["checks"]} == {
        "structure": 1, "checksums": 9, "counters": 7, "log": 7, "blocks": 1, "journal": 1, "frames": 0,
        "ids": 0, "stories": 0, "applied": 1,
    }  # fmt: skip
    with opened(index, parameters_of(index)) as damaged:
        changed(damaged, lambda transaction: transaction.delete(Table.EXACT, transaction.keys(Table.EXACT)[0]))
    done = run("index", "--directory", index, "check")
    assert done.code == 1
    assert "the index is not sound" in done.out


def parameters_of(directory: Path) -> Parameters:
    with looked_at(directory) as index:
        return index.parameters


def test_a_backup_is_restored_where_there_is_no_index_and_only_there(index: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    expected = contents_of(index)
    assert told("index", "--directory", index, "backup", backup)["directory"] == str(backup)
    refused = run("index", "--directory", index, "restore", backup)
    assert refused.code == 73
    (index / "data.mdb").unlink()
    (index / "lock.mdb").unlink()
    told("index", "--directory", index, "restore", backup)
    assert contents_of(index) == contents_of(backup) == expected


def test_compacting_refuses_an_open_index_and_keeps_all_of_a_closed_one(index: Path, tmp_path: Path) -> None:
    with looked_at(index) as opened_index:
        expected = everything(opened_index)
        refused = run_apart("index", "--directory", index, "compact", "--in-place")
        assert refused.code == 75
        assert "open in another process" in refused.err
        told("index", "--directory", index, "compact", tmp_path / "compacted", by=run_apart)
    done = told("index", "--directory", index, "compact", "--in-place")
    assert done["bytes"] <= done["bytes_before"]
    assert contents_of(index) == contents_of(tmp_path / "compacted") == expected


def test_an_export_to_standard_output_is_entered_from_standard_input(index: Path, tmp_path: Path) -> None:
    exported = run_apart("index", "--directory", index, "export", "-").out
    arguments = ("index", "--directory", index, "rebuild", tmp_path / "new", "--export", "-")
    assert told(*arguments, given=exported, by=run_apart) == {
        "directory": str(tmp_path / "new"), "records": 7, "already_known": 0,
    }  # fmt: skip
    assert contents_of(tmp_path / "new") == contents_of(index)


def test_a_forgotten_document_is_logged_and_its_copies_are_unique_again(index: Path, tmp_path: Path) -> None:
    done = run_apart("--set", "observe.log_format=json", "index", "--directory", index, "forget", "a", "--json")
    assert done.code == 0
    (forgotten,) = json.loads(done.out)["forgotten"]
    (line,) = [json.loads(each) for each in done.err.splitlines() if each.startswith("{")]
    assert (line["event"], line["id"], line["position"]) == ("forgotten", "a", forgotten["position"])
    export, backup = tmp_path / "export.jsonl", tmp_path / "backup"
    told("index", "--directory", index, "export", export)
    told("index", "--directory", index, "backup", backup)
    told("index", "--directory", index, "rebuild", tmp_path / "imported", "--export", export)
    (tmp_path / "again.jsonl").write_bytes(orjson.dumps({"id": "again", "text": TEXT}))
    for directory in (index, backup, tmp_path / "imported"):
        assert told("index", "--directory", directory, "check")["sound"] is True
        totals = told(
            "filter", tmp_path / "again.jsonl", "--out", tmp_path / f"out {directory.name}", "--index", directory
        )
        assert (totals["unique"], totals["duplicate"]) == (1, 0)


def test_all_that_one_file_delivered_is_forgotten_and_another_file_keeps_its_own(
    index: Path, corpus: Path, tmp_path: Path
) -> None:
    other, again = tmp_path / "other.jsonl", tmp_path / "again.jsonl"
    third = " ".join(f"third{number}" for number in range(60))
    lines = [orjson.dumps({"id": id_, "text": text}) + b"\n" for id_, text in (("copy 2", TEXT), ("third", third))]
    other.write_bytes(b"".join(lines))
    totals = told("filter", other, "--out", tmp_path / "out", "--index", index)
    assert (totals["unique"], totals["duplicate"]) == (1, 1)
    before, forget = contents_of(index), ("--set", "observe.log_format=json", "index", "--directory", index, "forget")
    asked = told(*forget, "--source", corpus, "--dry-run")
    assert (asked["source"], asked["forgotten"], asked["dry_run"]) == (str(corpus), 3, True)
    assert contents_of(index) == before
    assert "would be forgotten: 3" in run(*forget, "--source", corpus, "--dry-run").out
    # A service may have the index open.
    with looked_at(index):
        done = run_apart(*forget, "--source", corpus, "--json")
    assert json.loads(done.out) == asked | {"dry_run": False}
    (line,) = [json.loads(each) for each in done.err.splitlines() if each.startswith("{")]
    assert (line["event"], line["source"], line["documents"]) == ("forgotten", str(corpus), 3)
    assert told(*forget, "--source", asked["streams"][0])["forgotten"] == 0
    assert told("index", "--directory", index, "check")["sound"] is True
    texts = (TEXT, OTHER, SHORT, third)
    again.write_bytes(b"".join(orjson.dumps({"id": str(row), "text": text}) + b"\n" for row, text in enumerate(texts)))
    totals = told("filter", again, "--out", tmp_path / "out", "--index", index)
    assert (totals["unique"], totals["duplicate"]) == (3, 1)


def test_a_dry_run_of_forgetting_by_id_says_what_would_go(index: Path) -> None:
    before = contents_of(index)
    asked = told("index", "--directory", index, "forget", "a", "--dry-run")
    assert contents_of(index) == before
    assert told("index", "--directory", index, "forget", "a") == asked | {"dry_run": False}


def test_an_index_rebuilt_from_files_with_other_settings_is_switched_to(
    index: Path, corpus: Path, tmp_path: Path
) -> None:
    new = tmp_path / "new"
    changed = ("--set", "minhash.bins=64", "index", "--directory", index)
    assert told(*changed, "rebuild", new, corpus)["records"] == 7
    assert told(*changed, "rebuild", new, corpus) == {"directory": str(new), "records": 7, "already_known": 7}
    assert run(*changed, "rebuild", index, corpus).code == 2
    expected = contents_of(new)
    with looked_at(index) as old:
        streams = old.stream_names()
        assert run_apart(*changed, "switch", new).code == 75
    done = told(*changed, "rebuild", new, corpus, "--switch")
    assert done["switched"]["former"] == str(index / FORMER_FILE)
    assert contents_of(index) == expected
    with looked_at(index) as switched:
        assert switched.parameters.bits == 64 * 8
        assert switched.stream_names() == streams
    # The filter goes on behind what it has delivered, with the new settings.
    with corpus.open("ab") as more:
        more.write(orjson.dumps({"id": "late", "text": TEXT}) + b"\n")
    totals = told("--set", "minhash.bins=64", "filter", corpus, "--out", tmp_path / "out", "--index", index)
    assert (totals["documents"], totals["duplicate"]) == (1, 1)


def test_an_index_rebuilt_from_an_export_matches_from_another_similarity(index: Path, tmp_path: Path) -> None:
    """Its signatures are the same; its bands are those of the new similarity, and find what is as similar as that."""
    export, new = tmp_path / "export.jsonl.zst", tmp_path / "new"
    told("index", "--directory", index, "export", export)
    chosen = ("--set", "minhash.similarity_min=0.9")
    assert told(*chosen, "index", "--directory", index, "rebuild", new, "--export", export)["records"] == 7
    assert parameters_of(new) == parameters_for(load(None, chosen[1:], {}), dict(parameters_of(index).fingerprint))
    assert told("index", "--directory", new, "stats")["parameters"]["similarity_min"] == 0.9
    assert told("index", "--directory", new, "check")["sound"] is True
    assert contents_of(new) == contents_of(index)
    queries = [told("index", "--directory", each, "query", "--text", TEXT + " end") for each in (index, new)]
    assert queries[0] == queries[1]
    assert queries[0]["answers"][0]["matches"][0]["id"] == "a"


def test_an_index_with_a_second_look_is_asked_rebuilt_and_judged_anew(corpus: Path, tmp_path: Path) -> None:
    first, export = tmp_path / "first", tmp_path / "export.jsonl"
    look = ("--set", "fingerprint.scheme=simhash", "--set", "fingerprint.second_look=cosine")
    told(*look, "filter", corpus, "--out", tmp_path / "out", "--index", first)
    statistics = told(*look, "index", "--directory", first, "stats")
    assert statistics["parameters"]["look"] == {"kind": "cosine", "cells": 128, "cosine_min": 0.85}
    assert told(*look, "index", "--directory", first, "check")["sound"]
    told("index", "--directory", first, "export", export)
    stricter = (*look, "--set", "second_look.cosine_min=0.95")
    told(*stricter, "index", "--directory", first, "rebuild", tmp_path / "new", "--export", export)
    assert parameters_of(tmp_path / "new").look == CosineLook(128, 0.95)
    assert contents_of(tmp_path / "new") == contents_of(first)
    (text,) = told(*look, "index", "--directory", tmp_path / "new", "query", "--text", TEXT)["answers"]
    assert text["matches"]
    assert "distance" in text["matches"][0]
    wider = (*look, "--set", "second_look.cosine_cells=512")
    done = run(*wider, "index", "--directory", first, "rebuild", tmp_path / "other", "--export", export)
    assert done.code == 78
    assert "look.cells: stored 128, asked 512" in done.err


def test_an_export_is_not_taken_over_by_an_index_of_other_settings(index: Path, corpus: Path, tmp_path: Path) -> None:
    export = tmp_path / "export.jsonl"
    told("index", "--directory", index, "export", export)
    changed = ("--set", "minhash.features_min=3", "index", "--directory", index)
    done = run(*changed, "rebuild", tmp_path / "new", "--export", export)
    assert done.code == 78
    assert "fingerprint.features_min: stored 8, asked 3" in done.err
    assert not (tmp_path / "new").exists()
    nearer = ("--set", "minhash.similarity_min=0.8", "index", "--directory", tmp_path / "none")
    told(*nearer, "rebuild", tmp_path / "other", corpus)
    before = contents_of(tmp_path / "other")
    done = run("index", "--directory", index, "rebuild", tmp_path / "other", "--export", export)
    assert done.code == 78
    assert "similarity_min: stored 0.8, asked 0.7" in done.err
    assert contents_of(tmp_path / "other") == before


def test_files_that_changed_since_a_rebuild_was_begun_are_refused(index: Path, corpus: Path, tmp_path: Path) -> None:
    told("index", "--directory", index, "rebuild", tmp_path / "new", corpus)
    corpus.write_bytes(corpus.read_bytes().replace(b"word1 ", b"word2 "))
    done = run("index", "--directory", index, "rebuild", tmp_path / "new", corpus)
    assert done.code == 65
    assert "are not those that the new index was begun with" in done.err


@pytest.mark.parametrize(("moment", "commit"), first_of(("after", 3), ("before", 3), ("after", 7)))
def test_a_killed_rebuild_leaves_an_index_that_verifies_and_goes_on_when_run_again(
    moment: str, commit: int, tmp_path: Path
) -> None:
    file, first, second = tmp_path / "documents.jsonl", tmp_path / "first", tmp_path / "second"
    file.write_bytes(b"\n".join([*documents(120), b""]))
    settings = ("--set", "batch.records_max=20", "index", "--directory", tmp_path / "none", "rebuild")
    told(*settings, first, file)
    assert (
        exit_code_of(doomed_command.command, moment, commit, [*map(str, settings), str(second), str(file)])
        == -signal.SIGKILL
    )
    assert wrong(second) == {}
    decided = (commit - 2 - (moment == "before")) * 20
    assert journal_rows(second) == decided
    assert told(*settings, second, file)["already_known"] == decided
    assert wrong(second) == {}
    assert everything_but_streams(second) == everything_but_streams(first)


def journal_rows(directory: Path) -> int:
    with looked_at(directory) as index:
        return index.statistics().journal_rows


def everything_but_streams(directory: Path) -> tuple[object, ...]:
    """Streams of files are drawn at random."""
    with looked_at(directory) as index:
        count = index.statistics().entries + index.statistics().exact_entries
        found = [(each.id, each.position.offset, each.fingerprint) for each in index.documents(range(count)) if each]
        names = index.stream_names()
        applied = {(names[source.stream], source.partition): at for source, at in index.applied().items()}
        return (index.statistics().journal_rows, found, applied)


def test_times_that_no_calendar_holds_are_left_out() -> None:
    assert time_text(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert time_text(NO_TIMESTAMP_MS) is None
    assert time_text(2**62) is None
