"""The command line as a person meets it: what goes where, what the exit code means, what a mistake is answered with."""

import gzip
import importlib.util
import json
import lzma
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyarrow import parquet as arrow_parquet

from streamer.cli.main import cli
from streamer.demo.demo import documents
from streamer.settings.settings import Settings
from tests.support.command_line import run
from tests.support.file_filter import outputs
from tests.support.memory_service import document
from tests.support.paths import ROOT
from tests.support.tiers import first_of


def streamer(*arguments: str, cwd: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("STREAMER_")}
    command = [sys.executable, "-m", "streamer", *arguments]
    return subprocess.run(command, cwd=cwd, env=clean, input=given, capture_output=True, text=True, timeout=60)


@pytest.fixture(autouse=True)
def _working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def news(tmp_path: Path) -> Path:
    path = tmp_path / "news.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in documents(120)))
    return path


def test_filtering_prints_the_totals_and_leaves_every_line_in_one_output(news: Path, tmp_path: Path) -> None:
    done = streamer("filter", "news.jsonl", "--out", "out", "--index", "index", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    totals = json.loads(done.stdout)
    lines = news.read_bytes().splitlines()
    outputs = {name: (tmp_path / "out" / f"{name}.jsonl").read_bytes().splitlines() for name in OUTPUTS}
    assert totals["documents"] == len(lines) == sum(map(len, outputs.values()))
    assert len(outputs["unique"]) == totals["unique"] + totals["extends"] + totals["undecidable"]
    assert len(outputs["duplicate"]) == totals["duplicate"] > 0
    assert len(outputs["dead-letter"]) == totals["dead_letter"] > 0
    verdicts = [json.loads(line) for line in (tmp_path / "out" / "verdicts.jsonl").read_text().splitlines()]
    assert [verdict["line"] for verdict in verdicts] == list(range(1, len(lines) + 1))
    for name, kinds in OUTPUTS.items():
        chosen = [line for line, verdict in zip(lines, verdicts, strict=True) if verdict["verdict"] in kinds]
        assert outputs[name] == chosen


OUTPUTS = {
    "unique": {"unique", "extends", "undecidable"},
    "duplicate": {"duplicate"},
    "dead-letter": {"dead-letter"},
}


def test_standard_input_and_compressed_files_give_the_same_verdicts(news: Path, tmp_path: Path) -> None:
    (tmp_path / "news.jsonl.gz").write_bytes(gzip.compress(news.read_bytes()))
    outs = []
    for number, name in enumerate(("news.jsonl", "news.jsonl.gz", "-")):
        arguments = ("filter", name, "--out", f"out-{number}", "--index", f"index-{number}")
        # Three indexes with keys of their own would differ in what is near the bounds.
        given = news.read_text(encoding="utf-8") if name == "-" else ""
        done = streamer(*arguments, "--set", "fingerprint.key=public", cwd=tmp_path, given=given)
        assert done.returncode == 0, done.stderr
        outs.append((tmp_path / f"out-{number}" / "unique.jsonl").read_bytes())
    assert outs[0] == outs[1] == outs[2]


def test_an_interrupted_filter_finishes_its_batch_and_goes_on_the_next_time(tmp_path: Path) -> None:
    lines = list(documents(3_000))
    (tmp_path / "news.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    settings = ["--set", "batch.records_max=20", "--set", "fingerprint.key=public"]
    arguments = [*settings, "filter", "news.jsonl", "--out", "out", "--index", "index"]
    running = subprocess.Popen(
        [sys.executable, "-m", "streamer", *arguments], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    checkpoint = tmp_path / "out" / "verdicts.jsonl"
    deadline = time.monotonic() + 30
    while not (checkpoint.exists() and checkpoint.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=30)
    assert running.returncode == 130
    assert b"run the same command again" in errors
    delivered = len(checkpoint.read_bytes().splitlines())
    assert 0 < delivered < len(lines)
    assert run(*arguments).code == 0
    assert len(checkpoint.read_bytes().splitlines()) == len(lines)


def test_an_index_that_is_deleted_under_a_filter_ends_it_and_the_same_command_restores_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "streamer", "filter", "-", "--out", "out", "--index", "index"]
    lines = [document("1", "A ferry left the bay.") + b"\n", document("2", "Twelve crates of apples.") + b"\n"]
    verdicts = tmp_path / "out" / "verdicts.jsonl"
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdin is not None
        running.stdin.write(lines[0])
        running.stdin.flush()
        deadline = time.monotonic() + 30
        while not (verdicts.exists() and verdicts.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.01)
        shutil.rmtree(tmp_path / "index")
        _, errors = running.communicate(lines[1], timeout=30)
    assert running.returncode == os.EX_NOINPUT
    assert b"was removed or replaced while it was in use." in errors
    assert len(verdicts.read_bytes().splitlines()) == 1
    again = subprocess.run(command, cwd=tmp_path, input=b"".join(lines), capture_output=True, timeout=60, check=False)
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "out" / "unique.jsonl").read_bytes() == b"".join(lines)


def test_a_missing_file_is_named_before_any_work_begins(tmp_path: Path) -> None:
    done = streamer("filter", "nowhere.jsonl", "--out", "out", "--index", "index", cwd=tmp_path)
    assert done.returncode == os.EX_NOINPUT
    assert done.stderr.startswith("streamer: No such file")
    assert "nowhere.jsonl" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_an_empty_name_of_a_folder_is_refused_and_does_not_mean_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.jsonl").write_bytes(document("1", "Some words."))
    done = run("filter", "one.jsonl", "--out", "out", "--set", "index.directory=")
    assert (done.code, done.err) == (
        os.EX_CONFIG,
        'streamer: index.directory: must be a path, not "" (option --set index.directory)',
    )
    for option in ("--index", "--out"):
        done = run("filter", "one.jsonl", "--out", "out", option, "")
        assert done.code == 2
        assert f"Invalid value for '{option}': the name of the folder is empty" in done.err
    assert list(tmp_path.iterdir()) == [tmp_path / "one.jsonl"]


@pytest.mark.parametrize("given", ["nan", "inf", "-1"])
def test_a_limit_that_is_no_number_is_refused_before_anything_is_read(given: str) -> None:
    done = run("calibrate", "missing.jsonl", "--false-per-million", given)
    assert done.code == 2
    assert "Invalid value for '--false-per-million'" in done.err


def test_a_file_of_dead_letters_alone_is_an_error_and_one_of_many_a_warning(tmp_path: Path) -> None:
    def filtered(name: str, *lines: bytes, limit: Sequence[str] = ()) -> tuple[int, str]:
        (tmp_path / name).write_bytes(b"\n".join([*lines, b""]))
        folders = "--out", tmp_path / f"{name} out", "--index", tmp_path / f"{name} index"
        done = run("filter", tmp_path / name, *folders, *limit)
        return done.code, done.err

    good, bad = document("1", "Some words."), b'{"body": "Some words."}'
    code, said = filtered("none", bad, bad, b"broken", limit=["--dead-letters-max=3"])
    assert code == os.EX_DATAERR
    assert "streamer: 3 of 3 lines are dead letters (no-text 2, not-json 1); check decode.format, decode.text" in said
    assert "filter again with another --out and --index" in said
    assert (tmp_path / "none out" / "dead-letter.jsonl").read_bytes() == b"\n".join([bad, bad, b"broken", b""])
    code, said = filtered("few", good, bad, bad)
    assert code == 0
    assert "streamer: 2 of 3 lines are dead letters (no-text 2)" in said
    code, said = filtered("half", good, bad)
    assert code == 0
    assert "dead letters" not in said


def test_wrong_input_is_named_before_anything_is_filtered_and_the_same_command_with_the_right_setting_filters_it(
    tmp_path: Path,
) -> None:
    file, out, index = tmp_path / "pages.jsonl", tmp_path / "out", tmp_path / "index"
    file.write_bytes(b'{"body": "Some words."}\n' * 1_500)
    arguments = ("filter", file, "--out", out, "--index", index)
    done = run(*arguments)
    assert done.code == os.EX_DATAERR
    assert "1,000 of the first 1,000 records are dead letters (no-text)" in done.err
    assert "the keys are: body" in done.err
    assert "decode.text" in done.err
    assert not out.exists()
    assert not index.exists()
    assert "0 of 1,500 lines" not in done.err
    done = run("--set", "decode.text=/body", *arguments)
    assert done.code == 0, done.err
    assert len((out / "duplicate.jsonl").read_bytes().splitlines()) == 1_499


@pytest.mark.parametrize(("most", "is_stopped"), [(None, False), (949, True), (950, False)])
def test_some_documents_among_the_first_lines_are_enough_unless_fewer_dead_letters_are_wanted(
    tmp_path: Path, most: int | None, is_stopped: bool
) -> None:
    file, out = tmp_path / "pages.jsonl", tmp_path / "out"
    file.write_bytes(b"broken\n" * 950 + (document("1", "Some words.") + b"\n") * 50)
    limit = () if most is None else (f"--dead-letters-max={most}",)
    done = run("filter", file, "--out", out, "--index", tmp_path / "index", *limit)
    assert out.exists() is not is_stopped
    assert ("Nothing was filtered" in done.err) is is_stopped
    assert "950 of the first 1,000 records are dead letters (not-json)" in done.err


def test_the_first_lines_of_a_pipe_are_filtered_whatever_they_are(tmp_path: Path) -> None:
    arguments = ("--set", f"index.directory={tmp_path / 'index'}", "filter", "-", "--out", str(tmp_path / "out"))
    done = streamer(*arguments, cwd=tmp_path, given="broken\n" * 3)
    assert done.returncode == os.EX_DATAERR
    assert "3 of 3 lines are dead letters (not-json 3)" in done.stderr


def test_a_table_of_no_words_and_an_evaluation_of_nothing_are_errors(tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_bytes(document("1", "Some words."))
    (tmp_path / "grey.jsonl").write_text('{"a": "one", "b": "two", "label": "unsure"}')
    table = run("idf", "build", tmp_path / "one.jsonl", "--out", tmp_path / "own.idf")
    assert table.code == os.EX_DATAERR
    assert "No word is in 2 or more of 1 documents" in table.err
    assert not (tmp_path / "own.idf").exists()
    evaluated = run("evaluate", tmp_path / "grey.jsonl")
    assert evaluated.code == os.EX_DATAERR
    assert "grey.jsonl: no label says duplicate or different" in evaluated.err


def test_the_sizes_of_kafka_bound_no_document_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_bytes(document("1", "Some words."))
    (tmp_path / "large.toml").write_text("[batch]\nbytes_max = 80_000_000\n[decode]\nvalue_bytes_max = 80_000_000\n")
    large = ("--config", tmp_path / "large.toml")
    done = run("filter", tmp_path / "one.jsonl", "--out", tmp_path / "out", "--index", tmp_path / "index", *large)
    assert done.code == 0, done.err
    checked = run("config", "check", *large)
    assert checked.code == os.EX_CONFIG
    assert "kafka.request_bytes_max" in checked.err


def test_a_mistaken_setting_is_one_line_with_what_would_be_right(tmp_path: Path) -> None:
    done = streamer("--set", "index.distance_maxx=3", "config", "check", cwd=tmp_path)
    assert done.returncode == os.EX_CONFIG
    assert done.stderr.count("\n") == 1
    assert "index.distance_max" in done.stderr


def test_settings_of_the_other_scheme_are_warned_of_and_harm_nothing(news: Path, tmp_path: Path) -> None:
    idle = ("--set", "index.distance_max=7", "--set", "observe.log_format=json")
    filtering = ("filter", "news.jsonl", "--out", "out", "--index", "index")
    warned = run(*idle, *filtering)
    assert warned.code == 0, warned.err
    line = json.loads(warned.err.splitlines()[0])
    assert (line["event"], line["scheme"], line["settings"]) == (
        "settings without use",
        "minhash",
        "index.distance_max",
    )
    assert "without use" not in run(*filtering).err


@pytest.mark.parametrize(
    ("overrides", "keys", "other"),
    [
        (["index.distance_max=7", "fingerprint.bits=128"], ["fingerprint.bits", "index.distance_max"], "simhash"),
        (["second_look.cosine_min=0.9"], ["second_look.cosine_min"], "simhash"),
        (["fingerprint.idf=jieba"], ["fingerprint.idf"], "simhash"),
        (["fingerprint.scheme=simhash", "minhash.similarity_min=0.8"], ["minhash.similarity_min"], "minhash"),
    ],
)
def test_a_check_fails_where_a_setting_has_no_effect(overrides: list[str], keys: list[str], other: str) -> None:
    checked = run("config", "check", *(part for override in overrides for part in ("--set", override)))
    assert (checked.code, checked.out) == (os.EX_CONFIG, "")
    lines = checked.err.removeprefix("streamer: ").splitlines()
    assert [line.split(":")[0] for line in lines] == keys
    assert all(f'leave it out, or set fingerprint.scheme = "{other}"' in line for line in lines)


def test_a_check_fails_where_an_extra_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    avro = ("--set", "decode.format=avro", "--set", "decode.registry_url=http://registry:8081")
    check = ("config", "check", "--set", "fingerprint.markup=html-main", *avro)
    assert run(*check).code == 0
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    missing = run(*check, "--set", "fingerprint.bits=128")
    assert missing.code == os.EX_CONFIG
    registry, idle = missing.err.removeprefix("streamer: ").splitlines()
    assert f"{sys.executable} -m pip install 'fastavro>=" in registry
    assert idle.startswith("fingerprint.bits: ")


def test_a_check_passes_on_the_defaults_and_on_what_show_prints(tmp_path: Path) -> None:
    (tmp_path / "shown.toml").write_text(run("config", "show").out)
    for arguments in ((), ("--config", tmp_path / "shown.toml")):
        assert run("config", "check", *arguments) == (0, "the settings are valid\n", "")


def test_show_prints_settings_of_methods_where_they_differ_or_all_are_asked_for() -> None:
    plain, chosen = run("config", "show").out, run("config", "show", "--preset", "simhash-classic").out
    assert 'weight = "tf"' in chosen
    assert "weight = " not in plain
    assert 'weight = "log-tf"' in run("config", "show", "--all").out
    assert "marker_factor" not in plain + chosen


def test_a_check_passes_on_the_settings_that_are_shipped() -> None:
    assert run("config", "check", "--config", ROOT / "deploy" / "streamer.toml").code == 0


@pytest.mark.parametrize(
    ("locale", "chosen", "language"),
    [("zh_CN.UTF-8", (), "zh"), ("C.UTF-8", (), "en"), ("zh_CN.UTF-8", ("--language", "en"), "en")],
)
def test_the_demo_speaks_the_language_of_the_locale_or_the_chosen_one(
    locale: str, chosen: Sequence[str], language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoken: list[str] = []
    monkeypatch.setattr("streamer.demo.demo.run_demo", lambda *arguments: spoken.append(arguments[-1]) or 0)
    monkeypatch.setenv("LC_ALL", locale)
    assert run("demo", "--directory", tmp_path / "demo", *chosen).code == 0
    assert spoken == [language]


def test_what_commands_make_in_a_checkout_is_ignored_by_git() -> None:
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    page = (ROOT / "README.md").read_text()
    folders = {Path(folder).parts[0] for folder in re.findall(r"--(?:out|index|directory) ([\w./-]+)", page)}
    (demo,) = (option for option in cli.commands["demo"].params if option.name == "directory")
    folders |= {str(demo.default), str(Settings().index.directory)}
    assert len(folders) >= 4
    assert [folder for folder in sorted(folders) if f"{folder}/" not in ignored] == []
    assert [folder for folder in sorted(folders) if (ROOT / folder / "__init__.py").exists()] == []


def test_settings_in_force_are_shown_with_secrets_masked(tmp_path: Path) -> None:
    secret = ("kafka.security_protocol=SASL_SSL", "kafka.sasl_mechanism=PLAIN", "kafka.sasl_username=reader")
    chosen = [part for setting in (*secret, "kafka.sasl_password=open-sesame") for part in ("--set", setting)]
    done = run(*chosen, "config", "show")
    assert done.code == 0, done.err
    assert 'sasl_username = "reader"' in done.out
    assert "open-sesame" not in done.out + done.err


def test_no_broker_is_an_error_in_one_line(tmp_path: Path) -> None:
    fast = ["--set", "kafka.bootstrap_servers=127.0.0.1:1", "--set", "kafka.request_timeout_ms=1000"]
    done = streamer(*fast, "topics", "create", cwd=tmp_path)
    assert done.returncode == os.EX_TEMPFAIL
    assert "127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_table_is_built_and_used_and_settings_are_recommended(news: Path, tmp_path: Path) -> None:
    built = run("idf", "build", "news.jsonl", "--out", "own.idf")
    assert built.code == 0, built.err
    words, _, documents_read, _, _ = built.out.split()
    assert int(words) == len((tmp_path / "own.idf").read_text(encoding="utf-8").splitlines()) - 1 > 100
    assert 100 < int(documents_read) <= 120
    own = ("--preset", "simhash-classic", "--set", "fingerprint.idf=own.idf")
    advised = run(*own, "calibrate", "news.jsonl")
    assert advised.code == 0, advised.err
    (tmp_path / "advised.toml").write_text(advised.out, encoding="utf-8")
    assert run("--config", "advised.toml", "config", "check").code == 0
    assert {"in force, 64 bits", "simhash-improved-2, 128 bits", "minhash, 128 bins"} <= set(
        re.findall(r"(?:in force|simhash-improved-2|minhash), \d+ b[a-z]+", advised.err)
    )
    missing = run(*own[:2], "--set", "fingerprint.idf=none.idf", "calibrate", "news.jsonl")
    assert (missing.code, missing.err) == (
        os.EX_CONFIG,
        "streamer: fingerprint.idf: none.idf: cannot be read: No such file or directory",
    )


def test_a_set_is_evaluated_and_drawn(tmp_path: Path) -> None:
    folder = tmp_path / "pairs"
    folder.mkdir()
    long = " ".join(f"word{number}" for number in range(60))
    rows = [{"a": long, "b": long.upper(), "label": 3}, {"a": long, "b": long[::-1], "label": 0.5}]
    (folder / "pairs.jsonl.xz").write_bytes(lzma.compress("\n".join(map(json.dumps, rows)).encode()))
    tried = "preset=simhash-classic index.distance_max=0"
    arguments = ("evaluate", "pairs", "--try", tried, "--picture", "p.html")
    done = run(*arguments, "--json")
    assert done.code == 0, done.err
    figures = json.loads(done.out)
    assert [each["setting"] for each in figures] == ["in force", tried]
    assert [(each["true_duplicates"], each["true_uniques"]) for each in figures] == [(1, 1)] * 2
    assert (tmp_path / "p.html").read_text(encoding="utf-8").count("<svg") == 4
    shown = run(*arguments)
    assert shown.code == 0
    assert "1.0000 (0.207-1.000)" in shown.out
    assert run("evaluate", "nowhere").code == os.EX_NOINPUT


def test_settings_of_both_schemes_stand_side_by_side(tmp_path: Path) -> None:
    long = " ".join(f"word{number}" for number in range(60))
    rows = [{"a": long, "b": long.upper(), "label": True}, {"a": long, "b": long[::-1], "label": False}]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    done = run("evaluate", "pairs.jsonl", "--try", "fingerprint.scheme=simhash", "--picture", "p.html")
    assert done.code == 0, done.err
    assert "distance ≤ 7 of 64" in done.out
    assert "similarity ≥ 0.7" in done.out
    assert done.out.count("1.0000 (0.207-1.000)") == 4
    assert (tmp_path / "p.html").read_text(encoding="utf-8").count("<svg") == 4


def test_a_scheme_and_a_threshold_are_recommended_from_labelled_pairs(news: Path, tmp_path: Path) -> None:
    texts = [json.loads(line)["text"] for line in news.read_bytes().splitlines()[:40] if b'"en-' in line]
    rows = [{"a": text, "b": text + " The end.", "label": True} for text in texts[:5]]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    done = run("calibrate", "news.jsonl", "--pairs", "pairs.jsonl", "--scheme", "minhash")
    assert done.code == 0, done.err
    (tmp_path / "advised.toml").write_text(done.out, encoding="utf-8")
    shown = run("--config", "advised.toml", "config", "show")
    assert 'scheme = "minhash"' in shown.out
    assert "labelled pairs of pairs.jsonl" in done.out
    assert "simhash" not in done.out + done.err
    (tmp_path / "none.jsonl").write_text('{"a": "x", "b": "y", "label": false}', encoding="utf-8")
    refused = run("calibrate", "--pairs", "none.jsonl")
    assert refused.code == os.EX_NOINPUT
    assert "no pair is labelled as a duplicate" in refused.err
    assert run("calibrate").code == 2


@pytest.mark.parametrize(("scheme", "other"), [("minhash", "simhash"), ("simhash", "minhash")])
def test_either_scheme_filters_resumes_and_names_its_own_measure(scheme: str, other: str, tmp_path: Path) -> None:
    lines = list(documents(120))
    (tmp_path / "news.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    filtering = ("filter", "news.jsonl", "--out", "out", "--index", "index")
    arguments = ("--set", f"fingerprint.scheme={scheme}", *filtering)
    first = run(*arguments, "--json")
    assert first.code == 0, first.err
    totals = json.loads(first.out)
    assert totals["documents"] == len(lines)
    assert totals["duplicate"] > 0
    verdicts = [json.loads(line) for line in (tmp_path / "out" / "verdicts.jsonl").read_text().splitlines()]
    duplicates = [each for each in verdicts if each["verdict"] == "duplicate"]
    assert len(duplicates) == totals["duplicate"]
    if scheme == "minhash":
        assert all(0.7 <= each["similarity"] <= 1 for each in duplicates)
        assert all(each["distance"] is None for each in duplicates)
    else:
        assert all(0 <= each["distance"] <= 7 for each in duplicates)
        assert not any("similarity" in each for each in duplicates)
    assert "already decided" in run(*arguments).out
    refused = run("--set", f"fingerprint.scheme={other}", *filtering[:3], "other", *filtering[4:])
    assert refused.code == os.EX_CONFIG
    assert f"scheme: stored {scheme}, asked {other}" in refused.err
    assert "bits" not in refused.err


def test_an_unknown_part_is_refused_with_the_list(tmp_path: Path) -> None:
    done = run("run", "--part", "deliver")
    assert done.code == 2
    assert all(part in done.err for part in ("'fingerprint'", "'decide'", "'route'"))


def test_a_part_without_the_index_answers_no_questions(tmp_path: Path) -> None:
    done = run("run", "--part", "route", "--set", "ask.enabled=true")
    assert done.code == os.EX_CONFIG
    assert "ask.enabled" in done.err
    assert "decide" in done.err


def test_a_part_refuses_stories_by_name(tmp_path: Path) -> None:
    done = run("run", "--part", "route", "--set", "topics.stories=stories")
    assert (done.code, "topics.stories: stories need the whole service" in done.err) == (os.EX_CONFIG, True)


def test_a_part_refuses_protected_sets_by_name_and_with_the_reason() -> None:
    for part in ("fingerprint", "decide", "route"):
        done = run("run", "--part", part, "--set", "index.protected=evaluation", "--set", "ask.enabled=false")
        assert done.code == os.EX_CONFIG
        assert "index.protected: the part with the fingerprints writes no outputs" in done.err


def filtered(*arguments: object) -> list[tuple[str, int, str]]:
    """Run the filter beneath the working folder; source, line and verdict of every record so far."""
    done = run("filter", *arguments, "--out", "crawl/out", "--index", "crawl/index")
    assert done.code == 0, done.err
    lines = map(json.loads, Path("crawl/out/verdicts.jsonl").read_text().splitlines())
    return [(line["source"], line["line"], line["verdict"]) for line in lines]


@pytest.mark.parametrize("given", ["crawl", "crawl/**/*.jsonl"])
def test_a_folder_and_a_glob_are_filtered_in_order_and_files_that_came_meanwhile_are_filtered_after_them(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = list(documents(100))[:60]
    pages = {"crawl/b.jsonl": lines[:20], "crawl/d/a.jsonl": lines[20:40], "crawl/a.jsonl": lines[40:]}
    for path in list(pages)[:2]:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(b"\n".join([*pages[path], b""]))
    first = filtered(given)
    assert [(source, line) for source, line, _ in first] == [
        (path, n) for path in list(pages)[:2] for n in range(1, 21)
    ]
    assert filtered(given) == first

    # Named before both, it is read before both: what is delivered stays, and its lines come after it.
    Path("crawl/a.jsonl").write_bytes(b"\n".join([*pages["crawl/a.jsonl"], b""]))
    with Path("crawl/b.jsonl").open("ab") as grown:
        grown.write(lines[0] + b"\n")
    second = filtered(given)
    assert second[: len(first)] == first
    assert [(source, line) for source, line, _ in second[len(first) :]] == [
        *(("crawl/a.jsonl", line) for line in range(1, 21)),
        ("crawl/b.jsonl", 21),
    ]
    assert second[-1][2] == "duplicate"
    assert filtered(given) == second


def test_inputs_that_are_none_are_named_before_any_work_begins(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for given in (tmp_path / "empty", tmp_path / "*.jsonl"):
        done = run("filter", given, "--out", tmp_path / "out", "--index", tmp_path / "index")
        assert done.code == 2
        assert str(given) in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty"]


@pytest.mark.parametrize("compression", first_of("zst", "gz"))
def test_compressed_outputs_survive_kills_and_are_read_back_by_every_command(
    news: Path, tmp_path: Path, compression: str
) -> None:
    batches = ("--set", "batch.records_max=20", "--set", "fingerprint.key=public")
    into = ("--out", tmp_path / "out", "--index", tmp_path / "index", *batches)
    filtering = ("filter", news, *into, "--compress", compression)
    for moment, commit in (("before", 5), ("after", 3)):
        killed = subprocess.run(
            [sys.executable, "-m", "tests.support.doomed_command", moment, str(commit), *map(str, filtering)],
            cwd=ROOT,
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = run(*filtering)
    assert done.code == 0, done.err
    assert f"unique.jsonl.{compression}" in done.out.replace("\n", "")
    plain = tmp_path / "plain"
    assert run("filter", news, "--out", plain, "--index", tmp_path / "plain-index", *batches).code == 0
    assert outputs(tmp_path / "out") == outputs(plain)
    assert not (tmp_path / "out" / "unique.jsonl").exists()

    verified = run("verify", *into)
    assert verified.code == 0, verified.out
    verdicts = map(json.loads, outputs(plain)["verdicts.jsonl"].splitlines())
    dropped = next(verdict for verdict in verdicts if verdict["verdict"] == "duplicate")
    why = run("why", dropped["id"], *into)
    assert (why.code, "duplicate" in why.out) == (0, True)
    given = run("give-back", "--original", dropped["original"], *into, "--json")
    assert given.code == 0, given.err
    assert json.loads(given.out)["given_back"] > 0
    assert outputs(tmp_path / "out")["unique.jsonl"].splitlines()[-1] in outputs(plain)["duplicate.jsonl"].splitlines()
    # The index is lost: the outputs restore it, what was given back included.
    shutil.rmtree(tmp_path / "index")
    assert run(*filtering).code == 0
    again = run("verify", *into)
    assert again.code == 0, again.out


def test_a_folder_of_small_files_survives_kills_amid_a_batch_of_many(news: Path, tmp_path: Path) -> None:
    batches = ("--set", "batch.records_max=50", "--set", "fingerprint.key=public")
    plain, out, crawl = tmp_path / "plain", tmp_path / "out", tmp_path / "crawl"
    assert run("filter", news, "--out", plain, "--index", tmp_path / "plain-index", *batches).code == 0
    crawl.mkdir()
    for number, line in enumerate(news.read_bytes().splitlines(keepends=True)):
        (crawl / f"{number:03}.jsonl").write_bytes(line)
    filtering = ("filter", crawl, "--out", out, "--index", tmp_path / "index", *batches)
    for moment, commit in (("after", 4), ("before", 3), ("after", 2)):
        killed = subprocess.run(
            [sys.executable, "-m", "tests.support.doomed_command", moment, str(commit), *map(str, filtering)],
            cwd=ROOT,
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = run(*filtering, "--json")
    assert done.code == 0, done.err
    assert 0 < json.loads(done.out)["documents"] < 120
    for name in OUTPUTS:
        assert outputs(out)[f"{name}.jsonl"] == outputs(plain)[f"{name}.jsonl"]
    verified = run("verify", "--out", out, "--index", tmp_path / "index", *batches)
    assert verified.code == 0, verified.out
    # The index is lost: the outputs restore it, and nothing is decided twice.
    shutil.rmtree(tmp_path / "index")
    assert json.loads(run(*filtering, "--json").out)["documents"] == 0
    assert run("verify", "--out", out, "--index", tmp_path / "index", *batches).code == 0


def test_parquet_is_written_at_the_end_with_the_rows_of_the_lines(
    news: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filtering = ("filter", news, "--out", tmp_path / "out", "--index", tmp_path / "index", "--format", "parquet")
    done = run(*filtering, "--compress", "zst")
    assert done.code == 0, done.err
    assert "unique.parquet" in done.out
    for name, content in outputs(tmp_path / "out").items():
        table = arrow_parquet.read_table((tmp_path / "out" / name).with_suffix(".parquet"))
        lines = content.splitlines()
        assert table.num_rows == len(lines) > 0
        for row, line in zip(table.to_pylist(), lines, strict=True):
            if row.get("line_bytes") is not None:
                assert row["line_bytes"] == line
            else:
                members = {key: value for key, value in json.loads(line).items() if value is not None}
                assert {key: value for key, value in row.items() if value is not None} == members

    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    lacking = run(*filtering)
    assert (lacking.code, "-m pip install 'pyarrow>=" in lacking.err) == (os.EX_CONFIG, True)
