"""`streamer verify --out`: what `streamer filter` wrote is proven, and planted errors are named by file and line."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from streamer.demo.demo import documents
from tests.support.command_line import run

EXIT_FOUND_WRONG = 1


@pytest.fixture
def filtered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder in which two files were filtered into `out`, with the index in `index`."""
    monkeypatch.chdir(tmp_path)
    lines = list(documents(160))
    Path("first.jsonl").write_bytes(b"\n".join(lines[:100]))
    Path("second.jsonl").write_bytes(b"".join(line + b"\n" for line in lines[50:]))
    run("filter", "first.jsonl", "second.jsonl", "--out", "out", "--index", "index")
    return tmp_path


def verified(*arguments: str) -> tuple[int, dict[str, Any]]:
    done = run("verify", "--out", "out", "--index", "index", "--json", *arguments)
    return done.code, orjson.loads(done.out)


def wrong(found: dict[str, Any]) -> dict[str, list[str]]:
    return {each["check"]: each["examples"] for each in found["checks"] if each["wrong"]}


def changed(name: str, change: Callable[[bytes], bytes]) -> None:
    """Change a file in `out`, and let the checkpoint agree with its length."""
    path = Path("out") / name
    path.write_bytes(change(path.read_bytes()))
    checkpoint = orjson.loads(Path("out/checkpoint.json").read_bytes())
    checkpoint["lengths"][name] = path.stat().st_size
    Path("out/checkpoint.json").write_bytes(orjson.dumps(checkpoint))


@pytest.mark.usefixtures("filtered")
def test_what_was_filtered_is_sound() -> None:
    code, found = verified()
    assert (code, wrong(found)) == (0, {})
    assert found["counts"]["input"] == found["counts"]["outputs"] == 210
    assert found["counts"]["texts read"] == 210
    of_kafka, of_rare = (
        {"key", "timestamp", "headers"},
        {"update-id", "update-equal", "update-unretired", "given-back", "protected"},
    )
    assert {each["check"] for each in found["checks"] if not each["examined"]} == of_kafka | of_rare
    done = run("verify", "--out", "out", "--index", "index")
    assert "all is sound" in done.out


@pytest.mark.usefixtures("filtered")
@pytest.mark.parametrize("scheme", ["minhash", "simhash"])
def test_a_folder_whose_index_was_lost_with_its_secret_key_is_sound_and_so_is_what_follows(scheme: str) -> None:
    options = ["--set", "fingerprint.key=secret", "--set", f"fingerprint.scheme={scheme}"]
    filtering = ["--out", "keyed", "--index", "index-2", *options]
    assert run("filter", "first.jsonl", *filtering).code == 0
    shutil.rmtree("index-2")
    assert run("filter", "first.jsonl", "second.jsonl", *filtering).code == 0
    answer = run("verify", "--out", "keyed", "--index", "index-2", *options, "--json")
    found = orjson.loads(answer.out)
    assert (answer.code, wrong(found)) == (0, {})
    assert found["unchecked"]["texts and fingerprints of outputs that other decode or fingerprint settings made"] == 100
    assert found["counts"]["texts read"] == 110


@pytest.mark.usefixtures("filtered")
def test_files_filtered_in_shadow_mode_keep_every_line_are_sound_and_restore_a_lost_index() -> None:
    filtering = ["--out", "shadow", "--index", "index-2", "--set", "index.insert=unique"]
    done = run("filter", "first.jsonl", *filtering, "--set", "route.shadow=true")
    assert "unique, near-duplicate in" in done.out
    dead = len(Path("shadow/dead-letter.jsonl").read_bytes().splitlines())
    assert len(Path("shadow/unique.jsonl").read_bytes().splitlines()) == 100 - dead
    shutil.rmtree("index-2")
    assert run("filter", "first.jsonl", "second.jsonl", *filtering).code == 0
    verified = run("verify", "--out", "shadow", "--index", "index-2", "--set", "index.insert=unique", "--json")
    assert wrong(orjson.loads(verified.out)) == {}
    assert Path("shadow/duplicate.jsonl").read_bytes().count(b"\n") >= 50
    now, never = verdict_lines("shadow"), verdict_lines("out")
    assert [line["verdict"] for line in now] == [line["verdict"] for line in never]
    told = [number for number, line in enumerate(now) if "shadow" in line]
    assert told == [number for number, line in enumerate(now[:100]) if line["verdict"] == "duplicate"]


def verdict_lines(folder: str) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in Path(folder, "verdicts.jsonl").read_bytes().splitlines()]


@pytest.mark.usefixtures("filtered")
def test_a_line_that_is_missing_and_a_line_that_came_twice_are_found() -> None:
    lines = Path("out/verdicts.jsonl").read_bytes().splitlines(keepends=True)
    place = next(at for at, line in enumerate(lines) if b'"unique"' in line)
    values = Path("out/unique.jsonl").read_bytes().splitlines(keepends=True)
    changed("verdicts.jsonl", lambda _: b"".join(lines[:place] + lines[place + 1 :]))
    changed("unique.jsonl", lambda _: b"".join(values[1:]))
    code, found = verified()
    assert code == EXIT_FOUND_WRONG
    assert wrong(found)["missing"] == [f"first.jsonl/0/{orjson.loads(lines[place])['line'] - 1}"]
    changed("verdicts.jsonl", lambda _: b"".join([*lines, lines[place]]))
    changed("unique.jsonl", lambda _: b"".join([*values, values[0]]))
    assert wrong(verified()[1]) == {"doubled": [f"first.jsonl/0/{orjson.loads(lines[place])['line'] - 1}"]}


@pytest.mark.usefixtures("filtered")
def test_a_byte_that_changed_is_found() -> None:
    changed("unique.jsonl", lambda content: content.replace(b"text", b"TEXT", 1))
    assert list(wrong(verified()[1])["value"]) == ["first.jsonl/0/0: at verdicts.jsonl/0"]


@pytest.mark.usefixtures("filtered")
def test_lines_without_a_verdict_are_found() -> None:
    changed("duplicate.jsonl", lambda content: content + b"{}\n{}\n")
    assert wrong(verified()[1]) == {
        "contradiction": ["duplicate.jsonl/0: has 2 lines more than verdicts.jsonl has verdicts"],
        "foreign": ["duplicate.jsonl/0: names no position of an input"],
    }


@pytest.mark.usefixtures("filtered")
def test_verdicts_without_a_line_are_found() -> None:
    count = len(Path("out/unique.jsonl").read_bytes().splitlines())
    changed("unique.jsonl", lambda _: b"")
    found = wrong(verified()[1])
    assert found["contradiction"][0] == "verdicts.jsonl/0: has no line in unique.jsonl"
    (examined,) = (each["wrong"] for each in verified()[1]["checks"] if each["check"] == "value")
    assert examined == count


@pytest.mark.usefixtures("filtered")
@pytest.mark.parametrize(
    ("field", "value", "check"),
    [
        ("original_line", 10_000, "original-missing"),
        ("original", "another", "original-id"),
        ("similarity", 0.5, "similarity"),
        ("id", "another", "fingerprint"),
        ("reason", "no-match", "fingerprint"),
        ("reason", "same-text", "same-text"),
    ],
)
def test_a_verdict_that_is_not_true_is_found(field: str, value: object, check: str) -> None:
    lines = Path("out/verdicts.jsonl").read_bytes().splitlines(keepends=True)
    place = next(at for at, line in enumerate(lines) if b'"similar"' in line)
    told = orjson.loads(lines[place]) | {field: value}
    lines[place] = orjson.dumps(told) + b"\n"
    changed("verdicts.jsonl", lambda _: b"".join(lines))
    (problem,) = wrong(verified()[1])[check]
    assert problem.startswith(f"{told['source']}/0/{told['line'] - 1}: ")


@pytest.mark.usefixtures("filtered")
def test_the_lines_of_a_pipe_are_gone_and_their_verdicts_are_read() -> None:
    given = b"".join(line + b"\n" for line in documents(100))
    command = [sys.executable, "-m", "streamer", "filter", "-", "--out", "out", "--index", "index"]
    subprocess.run(command, input=given, check=True, capture_output=True)
    code, found = verified()
    assert (code, wrong(found)) == (0, {})
    assert found["unchecked"]["outputs of records that have left the input"] == 100


@pytest.mark.usefixtures("filtered")
def test_another_folder_of_the_same_index_is_sound() -> None:
    Path("third.jsonl").write_bytes(b"".join(line + b"\n" for line in documents(100)))
    run("filter", "third.jsonl", "--out", "more", "--index", "index")
    code, found = verified("--out", "more")
    assert (code, wrong(found)) == (0, {})
    assert found["unchecked"]["originals in another input, which shares the index"] > 0


@pytest.mark.usefixtures("filtered")
def test_another_content_of_a_file_in_another_folder_was_recreated() -> None:
    Path("second.jsonl").write_bytes(b'{"text": "words that no other line has, one after the other, twelve in all"}\n')
    run("filter", "second.jsonl", "--out", "more", "--index", "index")
    code, found = verified("--out", "more")
    assert (code, wrong(found)) == (0, {})
    assert found["unchecked"]["positions of an input that was recreated since"] > 0


@pytest.mark.usefixtures("filtered")
def test_a_folder_into_which_nothing_was_filtered_is_refused() -> None:
    Path("empty").mkdir()
    done = run("verify", "--out", "empty", "--index", "index")
    assert done.code == os.EX_CONFIG
    assert "checkpoint.json" in done.err
