"""`streamer index templates`, as it is typed."""

import json
import shlex
from pathlib import Path

import orjson

from deploy.made_up_site import site
from tests.support.command_line import run


def test_the_frames_of_an_index_are_shown_to_people_and_to_machines(tmp_path: Path) -> None:
    lines = [
        orjson.dumps({"id": f"page-{number}", "text": text, "url": f"https://Shop.example/{number}"})
        for number, text in enumerate(site("en", 0.1, pages=40, copies=0).texts)
    ]
    (tmp_path / "site.jsonl").write_bytes(b"\n".join(lines))
    done = run("filter", tmp_path / "site.jsonl", "--out", tmp_path / "out", "--index", tmp_path / "index")
    assert done.code == 0, done.err
    done = run("index", "--directory", tmp_path / "index", "templates", "--json")
    assert done.code == 0, done.err
    (found,) = json.loads(done.out)["hosts"]
    assert (found["host"], found["pages"], found["is_known"]) == ("shop.example", 38, True)
    assert found["kept"] > 0
    assert 0.8 < found["frame_share"] < 0.95
    shown = run("index", "--directory", tmp_path / "index", "templates").out
    assert shown.splitlines()[1].split() == ["shop.example", "38", f"{found['frame_share']:.0%}", str(found["kept"])]


def test_pages_lost_before_the_template_was_known_are_listed_and_come_back(tmp_path: Path) -> None:
    lines = [
        orjson.dumps({"id": f"page-{number}", "text": text, "url": f"https://shop.example/{number}"})
        for number, text in enumerate(site("en", 0.1, pages=40, copies=0).texts)
    ]
    (tmp_path / "site.jsonl").write_bytes(b"\n".join(lines))
    folders = ("--out", tmp_path / "out", "--index", tmp_path / "index")
    assert run("filter", tmp_path / "site.jsonl", *folders).code == 0
    dropped = [orjson.loads(line)["id"] for line in (tmp_path / "out/duplicate.jsonl").read_bytes().splitlines()]
    assert 5 <= len(dropped) <= 10
    asked = ("index", "--directory", tmp_path / "index", "templates", "--lost", "--out", tmp_path / "out")
    found = json.loads(run(*asked, "--json").out)
    assert (found["lost"], found["hosts"][0]["lost"], found["hosts"][0]["lost_ids"]) == (6, 6, dropped)
    shown = run(*asked).out
    assert f"lost of shop.example: {', '.join(dropped)}" in shown
    assert found["give_back"] in shown
    program, *command = shlex.split(found["give_back"])
    assert program == "streamer"
    given = run(*command, "--host", "shop.example", "--json")
    assert json.loads(given.out)["given_back"] == len(dropped), given.err
    unique = (tmp_path / "out/unique.jsonl").read_bytes().splitlines()
    assert sorted(orjson.loads(line)["id"] for line in unique) == sorted(f"page-{number}" for number in range(40))
    assert json.loads(run(*asked, "--json").out)["lost"] == 0


def test_an_index_without_hosts_says_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_bytes(b'{"text": "one"}')
    run("filter", tmp_path / "one.jsonl", "--out", tmp_path / "out", "--index", tmp_path / "index")
    done = run("index", "--directory", tmp_path / "index", "templates")
    assert done.code == 0
    assert "decode.host" in done.out
