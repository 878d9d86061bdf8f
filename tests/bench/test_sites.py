"""The bench of real sites counts what becomes of a site as its makers know it."""

from pathlib import Path

import orjson
from click.testing import CliRunner

from bench.sites import main
from deploy.made_up_site import others, site


def test_pages_of_a_template_and_copies_of_pages_are_counted_by_policy(tmp_path: Path) -> None:
    file = tmp_path / "site.jsonl"
    pages = [*site("en", 0.1, pages=40, copies=0).texts, *others("en", 40).texts]
    lines = [{"text": text} for text in pages] + [{"html": f"<p>{pages[0]}"}]
    file.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    done = CliRunner().invoke(main, [str(file), "--json"])
    assert done.exit_code == 0, done.output
    templates, root, unique = orjson.loads(done.stdout)
    assert [each["policy"] for each in (templates, root, unique)] == ["templates", "root", "unique"]
    for each in (templates, root, unique):
        assert (each["site"], each["pages"], each["copies"], each["found"]) == ("site.jsonl", 80, 40, 40)
        assert each["lost"] == each["pages"] - each["kept"] - (each["near"] - each["missed"])
    assert templates["kept"] - root["kept"] > 20 > templates["by_template"] > 0
    assert 0 < templates["lost"] <= 16 < root["lost"]
