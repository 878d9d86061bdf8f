"""The alerts on real runs of the filter: planted defects raise them as soon as arithmetic says, sound streams do not.

The clock is made up: a batch takes six minutes, and the rules of deploy/prometheus are asked after each.
"""

import json
import random
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import yaml

from index.decide import decide, prepare
from index.decide.rule import rule_of
from index.lsm.lookup import lookup_of
from streamer.audit import auditor, report
from streamer.audit.estimates import Estimate, precision, recall
from streamer.audit.interval import wilson
from streamer.audit.report import gauges, store_of
from streamer.audit.report import limits_of as audit_limits
from streamer.fingerprint.methods.word_factors import WordFactors
from streamer.settings.settings import load
from tests.support.command_line import run
from tests.support.tiers import first_of

BATCH = 60
BATCH_SECONDS = 360.0
SOUND = 3_600
"""Documents before the defect: six hours."""

AFTER = 600
RULES = Path("deploy/prometheus/rules.yml")
COMPARISON = re.compile(
    r"max by \(job, instance\) \((\w+){window=\"(\w+)\", bound=\"(\w+)\"}\)\s*"
    r"< max by \(job, instance\) \((\w+){window=\"(\w+)\", bound=\"(\w+)\"}\)"
)


def words(chance: random.Random, count: int) -> list[str]:
    return [f"{chance.randrange(16**5):05x}" for _ in range(count)]


def edited(chance: random.Random, text: list[str], share: float) -> list[str]:
    """The text with a passage of this share replaced: J = (1 - share) / (1 + share)."""
    length = round(share * len(text))
    begin = chance.randrange(len(text) - length + 1)
    return text[:begin] + words(chance, length) + text[begin + length :]


def plain(seed: int, count: int, *, joints: bool = False) -> Iterator[dict[str, str]]:
    """Stories and, for each of most, one edited copy; with `joints` four frequent words follow each word."""
    chance, due = random.Random(seed), list[tuple[str, list[str]]]()
    for number in range(count):
        if len(due) > 40:
            name, text = due.pop(chance.randrange(len(due)))
            text = edited(chance, text, chance.uniform(0, 0.28))
        else:
            name, text = f"story-{number}", words(chance, 100)
            due.append((f"{name}-copy", text))
        written = [part for word in text for part in (word, *joined(word))] if joints else text
        yield page(name, written, number % 40)


def joined(word: str) -> list[str]:
    """Four frequent words, the same for equal words."""
    return [JOINTS[int(word, 16) // 9**place % 9] for place in range(4)]


def varied(seed: int, count: int) -> Iterator[dict[str, str]]:
    """Stories and copies, pages of three template sites, new versions of pages, and longer versions."""
    chance = random.Random(seed)
    frames, last = [words(chance, 60) for _ in range(3)], list[tuple[dict[str, str], list[str]]]()
    for number, story in enumerate(plain(seed, count)):
        made, text = story, story["text"].split()
        if number % 10 == 3:
            text = frames[number % 3] + words(chance, 40)
            made = page(f"page-{number}", text, 100 + number % 3)
        elif number % 15 == 7:
            made, text = chance.choice(last)
            text = edited(chance, text, 0.15)
            made = {**made, "text": " ".join(text)}
        elif number % 15 == 14:
            text = chance.choice(last)[1] + words(chance, 25)
            made = page(f"longer-{number}", text, number % 40)
        last = [*last[-50:], (made, text)]
        yield made


def page(name: str, text: list[str], host: int) -> dict[str, str]:
    return {"id": name, "text": " ".join(text), "url": f"https://h{host}.example/{name}"}


JOINTS = ("which", "would", "there", "their", "about", "after", "again", "other", "these")


@dataclass
class Watch:
    """What a worker with a clock of its own sees: whether each rule holds, after so many documents."""

    folder: Path
    options: tuple[str, ...]
    documents: int = 0
    holding: dict[str, list[int]] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return self.seconds_at(self.documents)

    def seconds_at(self, documents: int) -> float:
        return 1e9 + documents / BATCH * BATCH_SECONDS

    @property
    def settings(self) -> Any:
        return load(overrides=[f"index.directory={self.folder / 'index'}", *self.options], over_files=True)

    def observed(self, count: int) -> None:
        before = self.documents
        self.documents += count
        if before // BATCH == self.documents // BATCH:
            return
        values = {(definition.name, labels): value for (definition, labels), value in gauges(self.settings).items()}
        for alert, expression in audit_rules().items():
            if compared(expression, values):
                self.holding.setdefault(alert, []).append(self.documents)


def audit_rules() -> dict[str, str]:
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    return {
        rule["alert"]: rule["expr"] for rule in rules if "neardup_audit" in rule.get("expr", "") and "alert" in rule
    }


def compared(expression: str, values: dict[tuple[str, tuple[str, ...]], float]) -> bool:
    """Whether an audit rule's expression holds for one instance."""
    if match := COMPARISON.search(expression):
        left, right = match.groups()[:3], match.groups()[3:]
        return values[left[0], left[1:]] < values[right[0], right[1:]]
    match = re.fullmatch(r"max by \(job, instance\) \((\w+)\) > (\d+)", expression)
    assert match is not None, expression
    return values[match[1], ()] > int(match[2])


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    clock = SimpleNamespace(time=lambda: watch.seconds)
    observe = auditor.Auditor.observe

    def observed(self: auditor.Auditor, entries: Any, *rest: Any) -> None:
        observe(self, entries, *rest)
        watch.observed(len(entries))

    with (
        patch.object(auditor, "time", clock),
        patch.object(report, "time", clock),
        patch.object(auditor.Auditor, "observe", observed),
    ):
        yield


def filtered(watch: Watch, lines: list[dict[str, str]]) -> None:
    """A run of the filter over documents, watched."""
    file = watch.folder / "stream.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    chosen = [part for each in (*watch.options, f"batch.records_max={BATCH}") for part in ("--set", each)]
    with watching(watch):
        # The defects are planted in this process.
        places = ("--out", watch.folder / "out", "--index", watch.folder / "index", "--processes", "1")
        done = run("filter", file, *places, *chosen)
    assert done.code == 0, done.err


def radius(change: int, watch_of: Callable[[], int]) -> Any:
    """The threshold off by this many ten-thousandths, once the sound documents are decided."""

    def changed() -> int:
        return change if watch_of() >= SOUND else 0

    def looked_up(fingerprints: Any, parameters: Any, distance_max: int) -> Any:
        return lookup_of(fingerprints, parameters, distance_max + changed())

    def ruled(parameters: Any, longer: int) -> Any:
        rule = rule_of(parameters, longer)
        return rule._replace(distance_max=rule.distance_max + changed())

    stack = ExitStack()
    stack.enter_context(patch.object(prepare, "lookup_of", looked_up))
    stack.enter_context(patch.object(decide, "rule_of", ruled))
    return stack


def lost_tenth(watch_of: Callable[[], int]) -> Any:
    """The band table answers nine look-ups of ten, once the sound documents are decided."""

    def partly(fingerprints: Any, *rest: Any) -> Any:
        lost = (np.arange(len(fingerprints)) % 10 == 3) & (watch_of() >= SOUND)
        return lookup_of(np.where(lost[:, None], ~fingerprints, fingerprints), *rest)

    return patch.object(prepare, "lookup_of", partly)


def lost_stop_words(watch_of: Callable[[], int]) -> Any:
    """An upgrade forgets the stop words."""
    kept = WordFactors.kept
    return patch.object(WordFactors, "kept", lambda self, keys: None if watch_of() >= SOUND else kept(self, keys))


DEFECTS: dict[str, tuple[str, Callable[[Callable[[], int]], Any]]] = {
    "a tenth of the look-ups": ("NeardupRecallFell", lost_tenth),
    "a threshold .1 too high": ("NeardupRecallFell", partial(radius, -1_000)),
    "a threshold .1 too low": ("NeardupPrecisionFell", partial(radius, 1_000)),
    "the stop words": ("NeardupPrecisionFell", lost_stop_words),
}


def documents_needed(before: Estimate, after: Estimate, documents: tuple[int, int]) -> int:
    """Documents from the defect to the alert, in 95 cases of 100, by the shares and pairs before and after it.

    Within the hour's pairs a growing part has the lower share. The alert comes when the hour's upper bound is below the
    day's lower one, even if the hour's share is 1.645 deviations above what is to be expected.
    """
    assert before.estimate is not None
    assert after.estimate is not None
    rates = before.seen / documents[0], after.seen / documents[1]
    of_hour = 3_600 / BATCH_SECONDS * BATCH
    for count in range(1, int(of_hour)):
        new, old = rates[1] * count, rates[0] * (of_hour - count)
        hour, day = new + old, new + rates[0] * documents[0]
        share = (after.estimate * new + before.estimate * old) / hour
        of_day = (after.estimate * new + before.estimate * (day - new)) / day
        likely = min(1.0, share + 1.645 * (share * (1 - share) / hour) ** 0.5)
        if wilson(likely * hour, hour).high < wilson(of_day * day, day).low:
            return count
    raise AssertionError("an hour is too short")


@pytest.mark.parametrize("defect", first_of(*DEFECTS))
def test_a_planted_defect_raises_its_alert_within_the_documents_that_arithmetic_says(
    tmp_path: Path, defect: str
) -> None:
    alert, plant = DEFECTS[defect]
    options, joints = [], defect == "the stop words"
    if joints:
        (tmp_path / "stop.txt").write_text("\n".join(JOINTS))
        options = [
            "fingerprint.scheme=simhash",
            "fingerprint.features=words",
            f"fingerprint.stop_words={tmp_path / 'stop.txt'}",
        ]
    watch = Watch(tmp_path, ("audit.one_in=1", "fingerprint.key=public", *options))
    with plant(lambda: watch.documents):
        filtered(watch, list(plain(1, SOUND + AFTER, joints=joints)))
    limits, judged, cut = audit_limits(watch.settings), store_of(watch.settings).judged(), watch.seconds_at(SOUND)
    parts = [each for each in judged if each.seconds < cut], [each for each in judged if each.seconds >= cut]
    measured = [
        recall(part, limits.similarity_min) if alert == "NeardupRecallFell" else precision(part, limits)
        for part in parts
    ]
    needed = documents_needed(measured[0], measured[1], (SOUND, AFTER))
    assert watch.holding[alert][0] > SOUND
    assert watch.holding[alert][0] - SOUND <= needed + BATCH


@pytest.mark.parametrize("seed", first_of(*range(10)))
def test_a_sound_stream_raises_no_alert(tmp_path: Path, seed: int) -> None:
    """With templates, new and longer versions, and pages that were given back between two runs."""
    watch, lines = Watch(tmp_path, ("audit.one_in=1", "fingerprint.key=public")), list(varied(seed, 1_200))
    filtered(watch, lines[:600])
    verdicts = map(json.loads, (tmp_path / "out" / "verdicts.jsonl").read_text().splitlines())
    for dropped in [each["id"] for each in verdicts if each["verdict"] == "duplicate"][:3]:
        assert run("give-back", dropped, "--out", tmp_path / "out", "--index", tmp_path / "index").code == 0
    filtered(watch, lines)
    assert watch.documents >= 1_200
    assert recall(store_of(watch.settings).judged(), 0.7).seen > 150
    assert watch.holding == {}
