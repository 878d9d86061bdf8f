"""`streamer index templates`, as it is typed."""

import json
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


def test_an_index_without_hosts_says_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_bytes(b'{"text": "one"}')
    run("filter", tmp_path / "one.jsonl", "--out", tmp_path / "out", "--index", tmp_path / "index")
    done = run("index", "--directory", tmp_path / "index", "templates")
    assert done.code == 0
    assert "decode.host" in done.out
