"""The examples of docs/api.md run as printed."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from streamer.ask.answer import Answer
from tests.support.paths import ROOT

EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.DOTALL)


def test_every_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for example in EXAMPLES:
        exec(compile(example, "docs/api.md", "exec"), names)
    same, other, shown, *refused = capsys.readouterr().out.splitlines()
    assert (same, other) == ("duplicate 1.0 first 1.0 0.0", "unique None None None None")
    assert shown == "<Filter 'index-data': 1 entries>"
    assert "  minhash.similarity_min: stored 0.8, asked 0.6" in refused
    rows = [{"text": "A text that is here once. " * 20}, {"text": "A text that is here once. " * 20}]
    kept = names["without_duplicates"](rows, tmp_path / "rows", "frame", 0)  # type: ignore[operator]
    assert kept == rows[:1]


def test_every_field_of_an_answer_is_in_its_table() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    table = page.partition("| `Answer` | |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE))))
    assert {field.name for field in fields(Answer)} <= named
