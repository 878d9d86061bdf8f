"""A whole text after its teaser is kept, and a shorter one after the whole is dropped: over files and Kafka, through kill -9."""

import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import orjson
import pytest

from deploy.kafka_run import Outputs, Run, fill
from deploy.made_up_site import LANGUAGES, Language, reprints
from tests.support.command_line import run as run_command
from tests.support.services import Started, make_run, require_every_position_once, wait_until, workers_of

PAIRS = 500
TEASERS, SHORTER = (0.6, 0.7, 0.8, 0.9), (0.85, 0.9, 0.95)


LOST = 60
"""Pairs before and after the loss of an index."""

Measures = tuple[str, str | None, float | None, float | None]
"""Verdict, relation, length and new share."""


class Output(NamedTuple):
    """What an output says of a record."""

    destination: str
    verdict: str
    original: str | None
    relation: str | None


def beginning(text: str, share: float) -> str:
    """The text up to this share of its letters."""
    letters = [at for at, character in enumerate(text) if character.isalnum()]
    return text[: letters[int(share * len(letters)) - 1] + 1]


def articles(seed: int) -> list[str]:
    """Unlike texts, one language after the other."""
    return list(
        chain(*(reprints(language, 0, articles=PAIRS // 2, hosts=1, seed=seed).texts for language in LANGUAGES))
    )


def crawled() -> list[bytes]:
    """Records: teasers and whole texts, then their longer and shorter versions."""
    teased, shortened = articles(1), articles(2)
    texts = {f"teaser-{at}": beginning(text, TEASERS[at % 4]) for at, text in enumerate(teased)}
    texts |= {f"original-{at}": text for at, text in enumerate(shortened)}
    texts |= {f"whole-{at}": text for at, text in enumerate(teased)}
    texts |= {f"shorter-{at}": beginning(text, SHORTER[at % 3]) for at, text in enumerate(shortened)}
    return [orjson.dumps({"id": name, "text": text}) for name, text in texts.items()]


def require_what_is_longer_kept_alone(outputs: Mapping[str, Output]) -> None:
    assert len(outputs) == 4 * PAIRS
    assert Counter((name.split("-")[0], each.destination) for name, each in outputs.items()) == {
        ("teaser", "unique"): PAIRS,
        ("whole", "unique"): PAIRS,
        ("original", "unique"): PAIRS,
        ("shorter", "duplicate"): PAIRS,
    }
    for at in range(PAIRS):
        whole, shorter = outputs[f"whole-{at}"], outputs[f"shorter-{at}"]
        # A shorter teaser may resemble the whole too little.
        if whole.verdict != "unique" or TEASERS[at % 4] == 0.9:
            assert whole == Output("unique", "extends", f"teaser-{at}", "longer")
        relations = ("edited",) if SHORTER[at % 3] == 0.95 else ("contained", "shorter")
        assert shorter[:3] == ("duplicate", "duplicate", f"original-{at}")
        assert shorter.relation in relations


def of_files(folder: Path) -> dict[str, Output]:
    """The outputs of `streamer filter`, by id."""
    destinations = {
        orjson.loads(line)["id"]: name
        for name in ("unique", "duplicate")
        for line in (folder / f"{name}.jsonl").read_bytes().splitlines()
    }
    lines = map(orjson.loads, (folder / "verdicts.jsonl").read_bytes().splitlines())
    return {
        line["id"]: Output(destinations[line["id"]], line["verdict"], line.get("original"), line.get("relation"))
        for line in lines
    }


def arguments(folder: Path) -> list[str]:
    (folder / "crawled.jsonl").write_bytes(b"\n".join(crawled()))
    places = ["--out", str(folder / "out"), "--index", str(folder / "index")]
    return ["filter", str(folder / "crawled.jsonl"), *places, "--set", "batch.records_max=20"]


def test_longer_versions_are_kept_over_files_through_a_kill(tmp_path: Path) -> None:
    command, verdicts = arguments(tmp_path), tmp_path / "out" / "verdicts.jsonl"
    filtering = subprocess.Popen(
        [sys.executable, "-m", "streamer", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_until(lambda: verdicts.exists() and verdicts.stat().st_size > 0)
    filtering.kill()
    assert filtering.wait() == -signal.SIGKILL
    assert len(verdicts.read_bytes().splitlines()) < 4 * PAIRS
    assert run_command(*command).code == 0
    require_what_is_longer_kept_alone(of_files(tmp_path / "out"))
    assert "all is sound" in run_command("verify", *command[2:6]).out


def around_a_loss(folder: Path) -> tuple[Path, Path]:
    """Files with originals, and with longer and shorter versions of them."""
    records = crawled()
    paths = folder / "before.jsonl", folder / "after.jsonl"
    for path, firsts in zip(paths, ((0, PAIRS), (2 * PAIRS, 3 * PAIRS)), strict=True):
        path.write_bytes(b"\n".join(record for first in firsts for record in records[first : first + LOST]))
    return paths


def measures(out: Path) -> dict[str, Measures]:
    lines = map(orjson.loads, (out / "verdicts.jsonl").read_bytes().splitlines())
    return {line["id"]: (line["verdict"], line.get("relation"), line.get("length"), line.get("new")) for line in lines}


@pytest.fixture
def undisturbed(tmp_path: Path) -> dict[str, Measures]:
    """What is said of both files by an index that nobody touches."""
    files = around_a_loss(tmp_path)
    assert run_command("filter", *files, "--out", tmp_path / "whole", "--index", tmp_path / "sound").code == 0
    expected = measures(tmp_path / "whole")
    verdicts = Counter(each[0] for each in expected.values())
    assert verdicts["extends"] > LOST // 2
    assert verdicts["duplicate"] == LOST
    return expected


def test_relations_over_files_do_not_change_with_the_loss_of_the_index(
    tmp_path: Path, undisturbed: dict[str, Measures]
) -> None:
    before, after = around_a_loss(tmp_path)
    places = ("--out", tmp_path / "out", "--index", tmp_path / "index")
    assert run_command("filter", before, *places).code == 0
    shutil.rmtree(tmp_path / "index")
    assert run_command("filter", before, after, *places).code == 0
    assert measures(tmp_path / "out") == undisturbed


def test_without_the_rule_teasers_cost_their_articles(tmp_path: Path) -> None:
    assert run_command(*arguments(tmp_path), "--set", "index.longer=duplicate").code == 0
    outputs = of_files(tmp_path / "out")
    dropped = [at for at in range(PAIRS) if outputs[f"whole-{at}"].destination == "duplicate"]
    assert len(dropped) > PAIRS // 2
    assert {outputs[f"whole-{at}"].relation for at in dropped} == {"longer"}


def pages_in_frames(language: Language) -> list[bytes]:
    """40 pages of a host, each with a menu, two of six sections and 200 words of its own; then ten with two sections more."""
    dice = random.Random(7)
    own = reprints(language, 0, articles=40, hosts=1, words=200, seed=3).texts
    menu, *sections = reprints(language, 0, articles=7, hosts=1, words=60, seed=4).texts
    chosen = [dice.sample(sections, 4) for _ in own]
    first = [[menu, *pair[:2], text] for pair, text in zip(chosen, own, strict=True)]
    grown = [[menu, *pair, text] for pair, text in zip(chosen[30:], own[30:], strict=True)]
    return [
        orjson.dumps({"id": f"page-{at}", "host": "shop.example", "text": "\n".join(parts)})
        for at, parts in enumerate([*first, *grown])
    ]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_page_of_a_known_host_is_longer_by_text_that_other_pages_have_too(tmp_path: Path, language: Language) -> None:
    (tmp_path / "pages.jsonl").write_bytes(b"\n".join(pages_in_frames(language)))
    places = ("--out", str(tmp_path / "out"), "--index", str(tmp_path / "index"))
    assert run_command("filter", str(tmp_path / "pages.jsonl"), *places).code == 0
    outputs = of_files(tmp_path / "out")
    grown = [outputs[f"page-{at}"] for at in range(40, 50)]
    # Some are less than .7 alike.
    longer = [page for page in grown if page.verdict == "extends"]
    assert len(longer) >= 4
    assert {page.relation for page in longer} == {"longer"}
    assert "duplicate" not in {page.destination for page in grown}
    assert "all is sound" in run_command("verify", *places).out


@pytest.mark.parametrize(("new_max", "verdict"), [("0.1", "extends"), ("1", "duplicate")])
def test_a_document_of_the_same_length_with_new_text_is_kept_if_a_drop_may_not_lose_it(
    tmp_path: Path, new_max: str, verdict: str
) -> None:
    """So many words are others that more than a tenth of the shingles is new."""
    texts = articles(3)[:40] + articles(3)[-40:]
    edited = [edit(text) for text in texts]
    lines = [orjson.dumps({"id": str(at), "text": text}) for at, text in enumerate([*texts, *edited])]
    (tmp_path / "crawled.jsonl").write_bytes(b"\n".join(lines))
    places = ("--out", str(tmp_path / "out"), "--index", str(tmp_path / "index"))
    setting = "--set", f"index.new_max={new_max}"
    assert run_command("filter", str(tmp_path / "crawled.jsonl"), *places, *setting).code == 0
    lines_out = list(map(orjson.loads, (tmp_path / "out" / "verdicts.jsonl").read_bytes().splitlines()))[80:]
    counts = Counter(line["verdict"] for line in lines_out)
    assert counts[verdict] > 60
    if verdict == "extends":
        assert {line["reason"] for line in lines_out if line["verdict"] == "extends"} == {"new-text"}
        assert all(line["new"] > 0.1 for line in lines_out if line["verdict"] == "extends")
        assert all(line["new"] <= 0.1006 for line in lines_out if line["verdict"] == "duplicate")
    assert "all is sound" in run_command("verify", *places, *setting).out
    if verdict == "duplicate":
        stricter = run_command("verify", *places, "--set", "index.new_max=0.1").out
        assert "too much new text to be dropped" in stricter


def edit(text: str) -> str:
    """The text with one word in 24, or of Chinese one letter in 36, replaced; as many letters as before."""
    words = text.split(" ")
    if len(words) > len(text) // 20:
        return " ".join("z" * len(word) if at % 24 == 12 else word for at, word in enumerate(words))
    return "".join("\u9f98" if at % 36 == 18 else letter for at, letter in enumerate(text))


@pytest.mark.kafka
def test_longer_versions_are_kept_over_kafka_through_a_kill(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    run = make_run(kafka.bootstrap_servers, tmp_path, "batch.records_max=20")
    fill(run.bootstrap_servers, run.input_topic, crawled())
    service = start(run)
    outputs = Outputs(run)
    # Whole texts come after the first half.
    wait_until(lambda: outputs.poll(20) > 2 * PAIRS)
    assert outputs.records < 4 * PAIRS
    (worker,) = workers_of(service.process)
    os.kill(worker.pid, signal.SIGKILL)
    require_every_position_once(outputs, 4 * PAIRS)
    delivered = {}
    for ((destination, value, pairs),) in outputs.by_position.values():
        headers = {name.removeprefix("neardup."): content.decode() for name, content in pairs}
        delivered[orjson.loads(value or b"")["id"]] = Output(
            destination, headers["verdict"], headers.get("original.id"), headers.get("relation")
        )
    require_what_is_longer_kept_alone(delivered)
    assert 'neardup_worker_restarts_total{cause="killed"} 1.0' in run.metrics()
