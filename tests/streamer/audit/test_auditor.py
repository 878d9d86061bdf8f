"""The auditor keeps the sampled documents of real runs, with the verdicts that were journaled."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from streamer.audit.store import FILE_NAME
from tests.support.command_line import run

STORIES, COPIES = 60, 4


def stream(folder: Path) -> Path:
    """Stories, each with copies that share most of their words."""
    chance, lines = random.Random(7), []
    for story in range(STORIES):
        words = [f"{chance.randrange(16**5):05x}" for _ in range(120)]
        for copy in range(COPIES):
            changed = list(words)
            for _ in range(copy):
                changed[chance.randrange(len(changed))] = f"{chance.randrange(16**5):05x}"
            lines.append(
                {"id": f"{story}-{copy}", "text": " ".join(changed), "url": f"https://h{copy}.example/{story}"}
            )
    chance.shuffle(lines)
    file = folder / "stream.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def audited(folder: Path, *settings: str, file: Path | None = None) -> dict[str, Any]:
    """What the audit of an index says after the stream was filtered into it."""
    options = [
        part for setting in ("audit.one_in=1", "fingerprint.key=public", *settings) for part in ("--set", setting)
    ]
    done = run("filter", file or stream(folder), "--out", folder / "out", "--index", folder / "index", *options)
    assert done.code == 0, done.err
    return report(folder)


def report(folder: Path, *options: str) -> dict[str, Any]:
    done = run("audit", "--index", folder / "index", "--json", *options)
    assert done.code == 0, done.err
    return json.loads(done.out)  # type: ignore[no-any-return]


@pytest.mark.parametrize("scheme", ["minhash", "simhash"])
def test_every_document_and_verdict_of_a_run_is_there_and_a_repeated_run_adds_nothing(
    tmp_path: Path, scheme: str
) -> None:
    method = f"fingerprint.scheme={scheme}"
    first = audited(tmp_path, method)
    assert first["sampled"] == STORIES * COPIES
    again = audited(tmp_path, method)
    assert again["all"] == first["all"]
    verdicts = [json.loads(line) for line in (tmp_path / "out" / "verdicts.jsonl").read_text().splitlines()]
    dropped = sum(verdict["verdict"] == "duplicate" for verdict in verdicts)
    # A document is compared with those that share its least feature, so some originals are not seen.
    assert 0.7 * dropped <= first["all"]["precision"]["seen"] <= dropped


def test_a_sound_filter_finds_the_copies_and_drops_nothing_else(tmp_path: Path) -> None:
    values = audited(tmp_path)
    assert values["all"]["recall"]["estimate"] > 0.97
    assert values["all"]["precision"]["estimate"] > 0.97
    assert values["all"]["lost"]["p50"] < 0.3
    assert values["day"] == values["hour"] == values["all"]


def test_a_filter_that_misses_copies_is_seen_and_its_misses_are_named(tmp_path: Path) -> None:
    audited(tmp_path, "minhash.similarity_min=0.95")
    values = report(tmp_path, "--set", "minhash.similarity_min=0.7")
    assert values["all"]["recall"]["high"] < 0.9
    missed = values["wrong"][0]
    assert (missed["was"], missed["kept"] >= 0.7) == ("kept", True)
    assert missed["id"].split("-")[0] in {f"{story}" for story in range(STORIES)}
    # Another threshold: what is in force would have dropped more.
    in_force = next(each for each in values["thresholds"] if each["similarity_min"] == 0.7)
    strict = next(each for each in values["thresholds"] if each["similarity_min"] == 0.95)
    assert strict["dropped"]["high"] < in_force["dropped"]["low"]


@pytest.mark.parametrize(("entries_max", "due"), [("100", 0), ("1000", STORIES)])
def test_an_original_that_left_the_index_is_none_to_find(tmp_path: Path, entries_max: str, due: int) -> None:
    """All stories, then each again: the index holds a hundred documents, or all."""
    lines = sorted(stream(tmp_path).read_text().splitlines(), key=lambda line: line.split('"')[3].split("-")[1])
    words = [" ".join(f"{number}w{place}" for place in range(80)) for number in range(200)]
    others = [json.dumps({"id": f"x{number}", "text": text}) for number, text in enumerate(words)]
    file = tmp_path / "again.jsonl"
    file.write_text("".join(f"{line}\n" for line in [*lines[:STORIES], *others, *lines[:STORIES]]))
    values = audited(
        tmp_path, f"index.entries_max={entries_max}", "decode.host_scope=none", "batch.records_max=20", file=file
    )
    assert values["sampled"] == 2 * STORIES + len(others)
    assert values["all"]["recall"]["seen"] == due
    assert values["wrong"] == []


def test_without_an_audit_there_is_no_file_and_the_command_says_what_to_do(tmp_path: Path) -> None:
    file = stream(tmp_path)
    for _ in range(2):
        done = run("filter", file, "--out", tmp_path / "out", "--index", tmp_path / "index", "--set", "audit.one_in=0")
        assert done.code == 0, done.err
    assert not (tmp_path / "index" / FILE_NAME).exists()
    done = run("audit", "--index", tmp_path / "index", "--set", "audit.one_in=0")
    assert done.code == 78
    assert "audit.one_in" in done.err
    done = run("audit", "--index", tmp_path / "other")
    assert done.code == 78
    assert "--index" in done.err


def test_a_small_index_without_a_sampled_document_has_not_seen_enough(tmp_path: Path) -> None:
    values = audited(tmp_path, f"audit.one_in={2**20}")
    assert (values["sampled"], values["all"]["recall"]["estimate"]) == (0, None)
    done = run("audit", "--index", tmp_path / "index")
    assert done.code == 0
    assert done.out.startswith("No figure yet: ")


def test_a_reader_with_another_rate_sees_the_figures_of_the_rate_that_the_sample_has(tmp_path: Path) -> None:
    values = audited(tmp_path, "audit.one_in=2")
    assert (values["one_in"], values["one_in_before"]) == (2, [])
    asked = report(tmp_path, "--set", "audit.one_in=4096")
    assert asked == values
    assert "one in 2" in run("audit", "--index", tmp_path / "index", "--set", "audit.one_in=0").out
