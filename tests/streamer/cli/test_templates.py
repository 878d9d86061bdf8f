"""`streamer index templates`, as it is typed."""

import json
from pathlib import Path

import orjson

from deploy.made_up_site import site
from tests.support.command_line import run


def test_the_templates_of_an_index_are_told_to_people_and_to_machines(tmp_path: Path) -> None:
    lines = [
        orjson.dumps({"id": f"page-{number}", "text": text})
        for number, text in enumerate(site("en", 0.1, pages=40, copies=0).texts)
    ]
    (tmp_path / "site.jsonl").write_bytes(b"\n".join(lines))
    done = run("filter", tmp_path / "site.jsonl", "--out", tmp_path / "out", "--index", tmp_path / "index")
    assert done.code == 0, done.err
    done = run("index", "--directory", tmp_path / "index", "templates", "--json")
    assert done.code == 0, done.err
    (found,) = json.loads(done.out)["templates"]
    assert (found["head"]["id"], found["head"]["position"]) == ("page-0", f"{tmp_path}/site.jsonl/0/0")
    assert (found["documents"], found["kept"], found["dropped"]) == (40, 23, 16)
    assert [page["id"] for page in found["dropped_pages"]] == [f"page-{number}" for number in range(1, 17)]
    assert [page["id"] for page in found["kept_pages"]] == [f"page-{number}" for number in range(17, 22)]
    assert 0.05 < found["own_share"] < 0.15
    shown = run("index", "--directory", tmp_path / "index", "templates").out
    first, *_ = (line.split() for line in shown.splitlines() if line.startswith(" "))
    assert first == ["40", "23", f"{found['own_share']:.0%}", "16", "page-0"]
    assert "page-3" in shown
    assert "page-4" not in shown
    assert "page-19" in shown


def test_an_index_without_templates_says_so(tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_bytes(b'{"text": "one"}')
    run("filter", tmp_path / "one.jsonl", "--out", tmp_path / "out", "--index", tmp_path / "index")
    done = run("index", "--directory", tmp_path / "index", "templates")
    assert (done.code, done.out) == (0, "no template is known\n")
