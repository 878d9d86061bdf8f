"""What holds for all tests: their target and process, Ctrl-C in the background too, and no time limit on an example."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deploy import local_kafka
from deploy.local_kafka import LocalKafkaError
from tests.support.mutants import mutants_of
from tests.support.run_folder import Grouping, write_groups
from tests.support.shared_kafka import SharedKafka, address
from tests.support.tiers import TIERS, belongs, first_of, group_of, tier_of

REPOSITORY = Path(__file__).parents[1]

CHILD = """
import signal, subprocess, sys

def test_a_child_can_be_interrupted():
    ask = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout == "True\\n"
"""

SLOW_EXAMPLE = """
import time
from hypothesis import given, settings, strategies as st

@settings(max_examples=2)
@given(st.just(1))
def test_an_example_may_take_longer_than_hypothesis_likes(one):
    time.sleep(0.25)
"""


def in_the_background(test: Path, *options: str) -> int:
    """Exit code of pytest for one file, started as `command &` does without job control: with Ctrl-C ignored."""
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(test.parent), *options]
    return subprocess.run(
        ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", *run, str(test)],
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
        env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin"},
    ).returncode


@pytest.mark.parametrize(("options", "expected"), [(("-p", "tests.conftest"), 0), ((), 1)])
def test_what_a_test_starts_can_be_interrupted_even_in_the_background(
    tmp_path: Path, options: tuple[str, ...], expected: int
) -> None:
    test = tmp_path / "test_child.py"
    test.write_text(CHILD)
    assert in_the_background(test, *options) == expected


@pytest.mark.parametrize(("options", "expected"), [(("-p", "tests.conftest"), 0), ((), 1)])
def test_an_example_may_take_its_time_on_a_machine_under_load(
    tmp_path: Path, options: tuple[str, ...], expected: int
) -> None:
    test = tmp_path / "test_slow_example.py"
    test.write_text(SLOW_EXAMPLE)
    assert in_the_background(test, *options) == expected


def asking(file: str, *fixtures: str, marks: tuple[str, ...] = (), by_example: bool = False) -> Any:
    """A test of a file below tests/ that asks for fixtures."""
    return SimpleNamespace(
        path=REPOSITORY / "tests" / file,
        fixturenames=fixtures,
        own_markers=[SimpleNamespace(name=name) for name in marks],
        obj=SimpleNamespace(is_hypothesis_test=by_example),
    )


def test_a_test_belongs_to_the_target_that_its_fixtures_say() -> None:
    assert tier_of(asking("index/test_index.py", "tmp_path")) == "test"
    assert tier_of(asking("contract/test_parts.py", "kafka", "tmp_path")) == "rest"
    assert tier_of(asking("contract/test_transport_contract.py", "world")) == "test"
    assert tier_of(asking("contract/test_transport_contract.py", "world", marks=("kafka",))) == "rest"
    assert tier_of(asking("processes/test_service_over_kafka.py", "fragile_kafka", "struck_brokers")) == "rest"
    assert tier_of(asking("processes/test_one_life_over_kafka.py", "kafka_of_one_life", "kafka")) == "test"
    assert tier_of(asking("docs/test_readme.py", "newcomer", marks=("kafka",))) == "test"
    assert tier_of(asking("bench/test_core.py")) == "rest"
    assert tier_of(asking("index/test_processes.py", "tmp_path", marks=("rest",))) == "rest"
    assert tier_of(asking("test_tidy.py")) == "check"


def test_of_the_cases_of_a_matrix_the_first_one_is_no_rest() -> None:
    first, *others = first_of(("a", 1), ("b", 2), ("c", 3))
    assert first == ("a", 1)
    assert [each.values for each in others] == [("b", 2), ("c", 3)]
    assert {mark.name for each in others for mark in each.marks} == {"rest"}


def test_the_rest_takes_tests_by_example_once_more_for_their_profile_is_longer() -> None:
    by_example = asking("index/test_index.py", by_example=True)
    assert [tier for tier in TIERS if belongs(by_example, tier)] == ["test", "rest"]
    assert [tier for tier in TIERS if belongs(asking("index/test_index.py"), tier)] == ["test"]


def test_tests_that_share_a_broker_to_strike_run_in_one_process_and_others_by_file() -> None:
    struck = [
        asking(file, "fragile_kafka", "struck_brokers") for file in ("contract/test_parts.py", "docs/test_api.py")
    ]
    assert {group_of(item) for item in struck} == {"fragile_kafka"}
    assert group_of(asking("contract/test_parts.py", "kafka")) is None


def test_a_file_goes_to_one_process_and_a_group_of_several_files_too(tmp_path: Path) -> None:
    write_groups(tmp_path, "gw0", {"a.py::one": "fragile_kafka", "b.py::two[x::y]": "fragile_kafka"})
    grouping = object.__new__(Grouping)
    grouping._folder = tmp_path
    ids = ("a.py::one", "b.py::two[x::y]", "b.py::three", "b.py::four[x]")
    assert [grouping._split_scope(name) for name in ids] == ["fragile_kafka", "fragile_kafka", "b.py", "b.py"]


def test_tests_of_a_file_run_in_one_process(tmp_path: Path) -> None:
    """What xdist brings for groups did not."""
    for name in ("one", "two", "three"):
        cases = "".join(f"def test_{number}(worker_id): print('{name}', worker_id)\n" for number in range(6))
        (tmp_path / f"test_{name}.py").write_text(cases)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "tests.conftest",
        "--rootdir",
        str(tmp_path),
    ]
    command += ["-n", "2", "--dist", "loadgroup", "-rP", str(tmp_path)]
    environment = {"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout
    ran = re.findall(r"^(one|two|three) (gw\d)$", done.stdout, re.MULTILINE)
    assert len(ran) == 18
    assert len(set(ran)) == 3


def test_processes_of_a_run_share_a_broker_that_starts_when_the_first_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Path] = []

    class Broker:
        bootstrap_servers = "127.0.0.1:1"

        def __init__(self, folder: Path) -> None:
            begun.append(folder)

        def start(self, seconds: float) -> None:
            if len(begun) > 1:
                raise LocalKafkaError("no Java")

        def kill(self) -> None:
            pass

    monkeypatch.setattr(local_kafka, "LocalKafka", Broker)
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    shared = SharedKafka(folders[0])
    assert begun == []
    assert [address(folders[0]), address(folders[0])] == ["127.0.0.1:1"] * 2
    assert len(begun) == 1
    shared.close()
    failing = SharedKafka(folders[1])
    with pytest.raises(LocalKafkaError, match="no Java"):
        address(folders[1])
    failing.close()


def test_each_planted_error_changes_one_place_that_runs(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("def f(a: int | None, b: int) -> bool:\n    g()\n    return a < b and not (a + b == 3)")
    planted = {(each.before, each.after) for each in mutants_of(module)}
    assert planted == {
        ("g()", "pass"),
        ("a < b", "a <= b"),
        ("a < b and (not a + b == 3)", "a < b or not a + b == 3"),
        ("not a + b == 3", "a + b == 3"),
        ("a + b == 3", "a + b != 3"),
        ("a + b", "a - b"),
    }
    texts = [each.text for each in mutants_of(module)]
    assert len(set(texts)) == len(texts) == len(planted)
