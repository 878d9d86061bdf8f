"""--config and --set stand where a person types them: before a command, after it, and between."""

import os
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest

from streamer.cli.main import cli
from streamer.cli.options import Chosen, pass_chosen, short_options
from streamer.settings.settings import Settings
from tests.support.command_line import run

SCHEME = ("--set", "fingerprint.scheme=simhash")
DISTANCE = ("--set", "index.distance_max=2")


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, group
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


PATHS = [path for path, _ in commands(cli)]


def shown(*arguments: str) -> dict[str, dict[str, object]]:
    """The settings that `config show` prints where these arguments are typed around it."""
    done = run(*arguments)
    assert done.code == 0, done.err
    return tomllib.loads(done.out)


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_the_help_of_every_command_shows_both_options(path: Sequence[str]) -> None:
    done = run(*path, "--help")
    assert done.code == 0
    assert "--config FILE" in done.out
    assert "--set SECTION.KEY=VALUE" in done.out


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_every_command_takes_both_options_before_and_after_its_name(path: Sequence[str], tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.touch()
    for given in (("--set", "batch.wait_ms=1"), ("--config", file)):
        for depth in range(len(path) + 1):
            done = run(*path[:depth], *given, *path[depth:], "--help")
            assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        (*SCHEME, *DISTANCE, "config", "show"),
        (*SCHEME, "config", *DISTANCE, "show"),
        ("config", *SCHEME, "show", *DISTANCE),
        ("config", "show", *SCHEME, *DISTANCE),
    ],
    ids=" ".join,
)
def test_a_setting_counts_wherever_it_stands(arguments: Sequence[str]) -> None:
    settings = shown(*arguments)
    assert settings["fingerprint"]["scheme"] == "simhash"
    assert settings["index"]["distance_max"] == 2


def test_the_setting_that_stands_later_wins() -> None:
    one, two, three = (("--set", f"batch.wait_ms={value}") for value in (1, 2, 3))
    for arguments, value in {
        (*one, "config", *two, "show", *three): 3,
        (*three, "config", *two, "show", *one): 1,
        ("config", "show", *three, *two): 2,
        (*three, *one, "config", "show"): 1,
    }.items():
        assert shown(*arguments)["batch"]["wait_ms"] == value


def test_a_file_counts_wherever_it_is_named_and_a_setting_before_it_still_wins(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[batch]\nwait_ms = 5\nrecords_max = 6\n")
    for place in range(3):
        arguments = ["config", "show"]
        arguments[place:place] = ["--config", str(file)]
        batch = shown("--set", "batch.records_max=7", *arguments)["batch"]
        assert (batch["wait_ms"], batch["records_max"]) == (5, 7)


def test_two_settings_files_are_refused_and_one_named_twice_is_not(tmp_path: Path) -> None:
    one, other = tmp_path / "one.toml", tmp_path / "other.toml"
    one.touch()
    other.touch()
    for arguments in (
        ("--config", one, "config", "show", "--config", other),
        ("config", "show", "--config", one, "--config", other),
    ):
        refused = run(*arguments)
        assert refused.code == 2
        assert f"--config names two files, {one} and {other}" in refused.err
    assert run("--config", one, "config", "show", "--config", one).code == 0


def test_the_commands_of_the_index_see_what_stands_behind_them(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for arguments, directory in {
        ("index", "stats", "--set", f"index.directory={there}"): there,
        ("index", "--set", f"index.directory={there}", "stats"): there,
        ("--set", f"index.directory={here}", "index", "--directory", str(there), "stats"): there,
        ("index", "--directory", str(here), "stats", "--set", f"index.directory={there}"): there,
    }.items():
        done = run(*arguments)
        assert done.code == os.EX_NOINPUT
        assert str(directory) in done.err


SHORT = [
    ("--similarity", "0.8", "minhash.similarity_min", 0.8, 0.6),
    ("--id", "/url", "decode.id", "/url", "/key"),
    ("--title", "/head", "decode.title", "/head", "/key"),
    ("--text", "/body", "decode.text", "/body", "/key"),
    ("--host", "/url", "decode.host", "/url", "/key"),
    ("--scope", "/tenant", "decode.scope", "/tenant", "/source"),
    ("--markup", "html", "fingerprint.markup", "html", "none"),
]


def settings_of(*arguments: str) -> Settings:
    """The settings of a command with the short options."""
    loaded: list[Settings] = []

    @click.command()
    @short_options
    @pass_chosen
    def command(chosen: Chosen) -> None:
        loaded.append(chosen.load(over_files=True))

    command.main(arguments, standalone_mode=False)
    return loaded[0]


@pytest.mark.parametrize(("option", "text", "key", "value", "other"), SHORT)
def test_a_short_option_is_its_setting_and_the_later_one_wins(
    option: str, text: str, key: str, value: object, other: object
) -> None:
    assert settings_of(option, text).value(key) == value
    assert settings_of("--set", f"{key}={other}", option, text).value(key) == value
    assert settings_of(option, text, "--set", f"{key}={other}").value(key) == other


def test_the_commands_that_read_documents_of_their_own_take_the_short_options_and_help_names_the_settings() -> None:
    for command in ("filter", "clusters", "calibrate", "compare"):
        told = " ".join(run(command, "--help").out.split())
        assert [key for option, _, key, *_ in SHORT if f"{option} " not in told or f"[--set {key}]" not in told] == []


def test_a_wrong_value_of_a_short_option_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"body": "a text"}\n')
    done = run("filter", str(tmp_path / "in.jsonl"), "--out", str(tmp_path / "out"), "--similarity", "80")
    assert done.code == os.EX_CONFIG
    assert "minhash.similarity_min: must be a number" in done.err
    assert not (tmp_path / "out").exists()
