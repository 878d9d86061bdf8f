"""A site whose pages share nine tenths of their words, crawled amid other documents: its pages are kept, its copies found."""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import orjson
import pytest
from kafka import KafkaProducer

from deploy.kafka_run import Outputs, Run
from deploy.made_up_site import Language, MadeUp, admitted, amid, kept, others, site
from index.entry import Verdict
from index.index import Index
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.settings.settings import Settings
from tests.support.services import Started, kill_a_worker, make_run, require_every_position_once, wait_until

OTHERS = 18_000


def dropped_alone(documents: MadeUp, directory: Path) -> npt.NDArray[np.bool_]:
    """Which of the other documents are dropped where they come without the site, bool [others]."""
    scheme = scheme_for(Settings())
    rest = [text for text, of_site in zip(documents.texts, documents.of_site.tolist(), strict=True) if not of_site]
    with Index.open(directory, parameters_for(Settings(), scheme.stamp()), map_bytes_max=2**30) as index:
        decisions = admitted(index, scheme.fingerprint(rest))
        return np.concatenate([each.verdicts for each in decisions]) == Verdict.DUPLICATE


def fill(run: Run, documents: MadeUp) -> None:
    """Produce the site's pages to both partitions in turn, and other documents to that of what they are a copy of.

    So the order of deciding between the partitions can change nothing of the other documents.
    """
    producer = KafkaProducer(bootstrap_servers=run.bootstrap_servers, compression_type="lz4", linger_ms=20)
    for number, (text, page) in enumerate(zip(documents.texts, documents.pages.tolist(), strict=True)):
        host = {"host": "site.example"} if page >= 0 else {}
        value = orjson.dumps({"id": str(number), "text": text} | host)
        producer.send(run.input_topic, value=value, partition=(number if page >= 0 else page) % 2)
    producer.flush(timeout=60)
    producer.close()


@pytest.mark.parametrize(("language", "killed"), [("en", True), ("zh", False)])
def test_the_pages_of_a_template_site_are_kept_and_nothing_else_changes(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started], language: Language, killed: bool
) -> None:
    documents = amid(site(language, 0.1), others(language, OTHERS))
    run = make_run(kafka.bootstrap_servers, tmp_path, "workers.count=2", "batch.records_max=500", partitions=2)
    service = start(run)
    fill(run, documents)
    outputs = Outputs(run)
    if killed:
        wait_until(lambda: outputs.poll(50) > len(documents) // 3)
        kill_a_worker(service.process)
    require_every_position_once(outputs, len(documents))
    dropped = np.zeros(len(documents), np.bool_)
    for ((destination, value, _),) in outputs.by_position.values():
        dropped[int(orjson.loads(value or b"")["id"])] = destination == "duplicate"
    found = kept(documents.pages, dropped)
    assert (found.pages, found.copies) == (500, 200)
    assert found.kept >= 485, found
    assert found.matched >= 198, found
    changed = dropped[~documents.of_site] != dropped_alone(documents, tmp_path / "alone")
    assert not changed.any()
    metrics = run.metrics()
    assert ('neardup_worker_restarts_total{cause="killed"} 1.0' in metrics) is killed
    assert 'neardup_documents_total{reason="template",verdict="unique"}' in metrics
    (without_host,) = re.findall(r"^neardup_documents_without_host_total (\S+)$", metrics, re.MULTILINE)
    # A batch that is decoded again after a kill counts again.
    assert float(without_host) >= OTHERS if killed else float(without_host) == OTHERS
