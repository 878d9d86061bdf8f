"""A crawl with mirrors, updates, frames and ten charsets comes out as its plan says, and every command counts it alike."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from deploy.made_up_crawl import CHARSETS, FETCHES, OUTCOMES, SETTINGS, Fetch, compared, crawl, outcomes_of, plan


def streamer(*arguments: str, index: Path) -> Any:
    """The JSON that a command prints."""
    sections = {**SETTINGS, "index": {"directory": index}}
    chosen = [f"{section}.{key}={value}" for section, values in sections.items() for key, value in values.items()]
    command = [
        sys.executable,
        "-m",
        "streamer",
        *(part for one in chosen for part in ("--set", one)),
        *arguments,
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, check=True, timeout=300)
    return orjson.loads(done.stdout)


def test_2_000_pages_come_out_as_planned_and_every_command_counts_them_alike(tmp_path: Path) -> None:
    fetches = plan(list(CHARSETS))
    assert len(fetches) == len(CHARSETS) * FETCHES == 2_000
    archive, out, index = tmp_path / "crawl.warc.gz", tmp_path / "out", tmp_path / "index"
    crawl(fetches, archive)
    filtered = streamer("filter", str(archive), "--out", str(out), index=index)
    outcomes = outcomes_of(out)
    assert [kind for kind in compared(fetches, outcomes) if kind.right != kind.fetches] == []
    assert filtered["documents"] == 2_000
    assert sum(filtered["left_out"].values()) == 2
    assert filtered["reasons"] == Counter(outcomes)
    verdicts = Counter(outcome.split("/")[0] for outcome in outcomes)
    assert {name: filtered[name] for name in verdicts} == verdicts
    same = streamer("compare", "--out", str(out), "--index", str(index), index=index)
    for side in ("delivered", "other"):
        assert {name: count for name, count in same[side].items() if count} == verdicts
    assert (same["documents"], same["changed"], same["changes"]) == (2_000, 0, [])
    statistics = streamer("index", "stats", index=index)
    entered = verdicts["unique"] + verdicts["update"]
    assert (statistics["journal_rows"], statistics["entries"] + statistics["forgotten"]) == (2_000, entered)
    assert decoded_wrongly(fetches, out) == []


def decoded_wrongly(fetches: list[Fetch], out: Path) -> list[str]:
    """Addresses of the fetches whose page is not among the output texts, in either output."""
    lines = [line for name in ("unique", "duplicate") for line in (out / f"{name}.jsonl").read_bytes().splitlines()]
    texts = Counter((row["url"], row["text"]) for row in map(orjson.loads, lines))
    pages = Counter((fetch.url, fetch.page.decode(fetch.charset)) for fetch in fetches)
    return sorted(url for url, _ in pages - texts)


def test_an_outcome_that_is_not_the_planned_one_is_not_right() -> None:
    fetches = plan(["utf-8"])[:1]
    assert [kind.right for kind in compared(fetches, ["duplicate/similar"])] == [0] * len(OUTCOMES)
    with pytest.raises(ValueError, match="argument"):
        compared(fetches, [])
