"""The report for people, and the values of the metrics."""

import math
import time
from pathlib import Path

import numpy as np
from rich.console import Console

from streamer.audit.report import gauges, report, store_of, tables, waiting
from streamer.audit.store import Audited
from streamer.observe import definitions
from streamer.settings.settings import Settings, load


def settings_with(folder: Path, *, seconds_ago: float, groups: int = 40) -> Settings:
    """An index folder whose sample has pairs: the second of each is dropped."""
    folder.mkdir(exist_ok=True)
    settings = load(overrides=[f"index.directory={folder}"])
    features = np.arange(100, dtype=np.uint32)
    for group in range(groups):
        first = Audited(f"{group}/1", f"p{group}-1", "one", "a.example", group, features, False, False)
        copy = Audited(f"{group}/2", f"p{group}-2", "two", "b.example", group, features[5:], True, True, f"{group}/1")
        store_of(settings).add([first, copy], time.time() - seconds_ago)
    return settings


def test_windows_hold_what_came_within_them(tmp_path: Path) -> None:
    settings = settings_with(tmp_path, seconds_ago=7_200)
    values = report(settings)
    assert [values[name]["recall"]["seen"] for name in ("hour", "day", "all")] == [0, 40, 40]
    since = report(settings, time.time() - 60)
    assert since["all"]["recall"]["seen"] == 0
    assert "hour" not in since


def test_metrics_are_unknown_until_enough_was_seen(tmp_path: Path) -> None:
    values = gauges(settings_with(tmp_path, seconds_ago=7_200))
    assert values[definitions.AUDIT_SAMPLED, ()] == 80
    assert math.isnan(values[definitions.AUDIT_RECALL, ("hour", "low")])
    assert values[definitions.AUDIT_RECALL, ("day", "estimate")] == 1
    assert values[definitions.AUDIT_PRECISION, ("day", "low")] < 1
    assert values[definitions.AUDIT_KEPT_HOSTS, ()] == 0


def test_a_damaged_sample_gives_no_figures_and_stops_nothing(tmp_path: Path) -> None:
    settings = settings_with(tmp_path, seconds_ago=0, groups=1)
    for file in tmp_path.iterdir():
        file.write_bytes(b"damaged" * 1_000)
    assert gauges(settings)[definitions.AUDIT_SAMPLED, ()] == 0
    assert report(settings)["all"]["recall"]["seen"] == 0


def test_people_read_shares_with_their_intervals_and_the_threshold_in_force(tmp_path: Path) -> None:
    console = Console(width=100)
    with console.capture() as captured:
        console.print(tables(report(settings_with(tmp_path, seconds_ago=0))))
    shown = captured.get()
    assert "recall     hour  1.000 (0." in shown
    assert "0.70 in force" in shown


def test_a_line_says_how_far_the_first_figure_is(tmp_path: Path) -> None:
    few = report(settings_with(tmp_path / "few", seconds_ago=0, groups=2))
    one_in = few["one_in"]
    assert waiting(few) == (
        f"No figure yet: 2 of 30 pairs were seen among 4 sampled documents, one in {one_in:,}. At this pace the first one "
        f"needs some {float(f'{4 * one_in * 14:.2g}'):,.0f} more documents."
    )
    none = report(settings_with(tmp_path / "none", seconds_ago=0, groups=0))
    assert waiting(none) == f"No figure yet: 0 of 30 pairs were seen among 0 sampled documents, one in {one_in:,}."
    console = Console(width=200)
    with console.capture() as captured:
        console.print(tables(few))
    assert captured.get().splitlines() == [waiting(few)]


def test_many_pairs_of_a_few_texts_are_told_as_such(tmp_path: Path) -> None:
    settings, features = settings_with(tmp_path, seconds_ago=0, groups=9), np.arange(100, dtype=np.uint32)
    for copy in range(3, 8):
        for group in range(9):
            name = f"{group}/{copy}"
            again = Audited(name, name, name, "c.example", group, features[5:], True, True, f"{group}/1")
            store_of(settings).add([again], time.time())
    assert waiting(report(settings)).endswith(
        "but they are of fewer than 10 texts, so one text could decide the figure."
    )


def test_people_read_every_rate_that_the_sample_had(tmp_path: Path) -> None:
    settings, features = settings_with(tmp_path, seconds_ago=0), np.arange(100, dtype=np.uint32)
    rates = {"a": 64, "b": 16, "c": 64}
    for name, one_in in rates.items():
        last = Audited(name, name, name, "a.example", 1_000, features, False, False, one_in=one_in)
        store_of(settings).add([last], time.time())
    values = report(settings)
    # Documents without a rate are of an earlier build.
    assert (values["one_in"], values["one_in_before"]) == (64, [16, 256])
    console = Console(width=100)
    with console.capture() as captured:
        console.print(tables(values))
    assert "83 documents, one in 64, before that in 16, before that in 256" in captured.get()
