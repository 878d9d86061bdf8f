"""A whole text after its teaser is kept, and a shorter one after the whole is dropped: over Kafka through kill -9."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import orjson
import pytest

from deploy.kafka_run import Outputs, Run, fill
from deploy.made_up_site import LANGUAGES, reprints
from tests.support.command_line import run as run_command
from tests.support.services import Started, make_run, require_every_position_once, wait_until, workers_of

PAIRS = 500
TEASERS, SHORTER = (0.6, 0.7, 0.8, 0.9), (0.85, 0.9, 0.95)


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
