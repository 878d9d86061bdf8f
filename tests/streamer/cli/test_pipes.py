"""Tables of all commands in a pipe: no line is wider than 120 columns, whatever the names of documents, hosts and folders."""

import json
import re
from pathlib import Path

import orjson
import pytest
from rich.cells import cell_len

from deploy.made_up_site import site
from streamer.explain.plain_table import PIPE_COLUMNS
from tests.support.command_line import run

HOST = f"{'pages-of-a-long-name.' * 3}example"
DEEP = "/".join(["a-folder-with-a-long-name"] * 6)
FOLDERS = ("--out", "out", "--index", "index")
COMMANDS = (
    *("filter", "stats", "query", "templates", "check", "verify", "compare", "why", "clusters", "give-back", "audit"),
    *("evaluate", "judges", "time", "short", "calibrate", "version"),
)
NO_TABLE = {"query": re.compile("[0-9a-f]{256} "), "compare": re.compile("  ")}
"""What stands above a table to be copied, and examples, each in a line."""
NOTHING = re.compile("$x")
STRICTER = ("--set", "minhash.similarity_min=0.95")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Filtered pages of a site with a template and their copies, an evaluation set of them, and all names long."""
    folder = tmp_path_factory.mktemp("pipes") / DEEP
    folder.mkdir(parents=True)
    texts = site("en", 0.1, pages=40, copies=0).texts
    texts += [f"{text} {'word ' * 12}" for text in texts[20:38]]
    urls = [f"https://{HOST}/{'section/' * 20}{row}" for row in range(len(texts))]
    rows = [{"id": url, "url": url, "text": text} for url, text in zip(urls, texts, strict=True)]
    name = f"{'pages-' * 20}.jsonl"
    (folder / name).write_bytes(b"\n".join(map(orjson.dumps, [*rows, {"id": urls[0]}])))
    sentences = [{"id": str(row), "text": f"{text[:30]}. {text[40:70]}."} for row, text in enumerate(texts)]
    (folder / "short.jsonl").write_bytes(b"\n".join(map(orjson.dumps, sentences)))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run("filter", folder / name, *FOLDERS, "--set", "audit.one_in=1").code == 0
        assert run("evaluate", "truth", name, "--out", "set-with-a-name-as-long-as-this").code == 0
    return folder


def typed(command: str, folder: Path) -> tuple[object, ...]:
    """A command that prints a table, as it is typed."""
    (name,) = folder.glob("pages-*.jsonl")
    index, sets = ("index", "--directory", "index"), (folder / "set-with-a-name-as-long-as-this",)
    url = orjson.loads(name.read_bytes().splitlines()[25])["id"]
    commands: dict[str, tuple[object, ...]] = {
        "filter": ("filter", name, "--out", folder / "other-out", "--index", folder / "other-index"),
        "stats": (*index, "stats"),
        "query": (*index, "query", "--id", url),
        "templates": (*index, "templates"),
        "check": (*index, "check"),
        "verify": ("verify", *FOLDERS),
        "compare": ("compare", *FOLDERS, *STRICTER),
        "why": ("why", url, *FOLDERS),
        "clusters": ("clusters", "out"),
        "give-back": ("give-back", "--host", HOST, "--dry-run", *FOLDERS),
        "audit": ("audit", "--index", "index"),
        "evaluate": ("evaluate", *sets, "--try", "preset=simhash-best", "--try", "minhash.bins=64 minhash.bin_bits=4"),
        "judges": ("evaluate", "judges", *sets),
        "time": ("evaluate", "time", name),
        "short": ("evaluate", "short", folder / "short.jsonl"),
        "calibrate": ("calibrate", name, "--documents", "20"),
        "version": ("version",),
    }
    return commands[command]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_line_of_a_table_is_wider_than_a_pipe(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    done = run(*typed(command, folder))
    assert done.code == 0, done.err
    lines = (done.err if command == "calibrate" else done.out).splitlines()
    rows = [line for line in lines if not NO_TABLE.get(command, NOTHING).match(line)]
    assert rows
    assert [line for line in rows if cell_len(line) > PIPE_COLUMNS] == []


def test_json_has_every_name_as_a_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (host,) = json.loads(run("index", "--directory", "index", "templates", "--json").out)["hosts"]
    assert host["host"] == HOST
