"""Documents in, documents out: with `fingerprint` and `route` in processes of their own, and `decide` on Flink."""

import subprocess
import time
from collections import Counter
from dataclasses import astuple
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest

from deploy.flink_flow import copies, written
from deploy.flink_outputs import decided_by_one_index, delivered, reading
from deploy.flink_service import Watch, split_service
from deploy.flink_status import asking, status
from deploy.local_flink import LocalFlink
from streamer.demo.demo import documents
from streamer.transports.kafka.topics import produce
from tests.support.services import workers_of

DOCUMENTS = 1_500
STAGES = ["order", "frame", "claim", "recall", "verify", "resolve", "name", "join"]


def readable(record: bytes) -> bool:
    """Whether a record is a document, and has an id."""
    try:
        return isinstance(orjson.loads(record)["id"], str)
    except (ValueError, KeyError, TypeError):
        return False


def is_known(flink: LocalFlink, job: str) -> bool:
    """Whether `make flink-status` knows every number about a job and its operators."""
    (found,) = (each for each in status(asking(flink.address), time.time()) if each.id == job)
    own = [each for each in found.operators if each.name in STAGES]
    assert [each.name for each in own] == STAGES
    return None not in (*astuple(found)[:-1], *(number for each in own for number in astuple(each)))


@pytest.mark.timeout(600)
def test_documents_come_out_as_by_one_index_though_workers_die_and_so_they_do_when_one_host_decides_again(
    kafka: SimpleNamespace, flink: LocalFlink, tmp_path: Path
) -> None:
    with split_service(tmp_path, kafka.bootstrap_servers) as service:
        settings, one = service.settings, tmp_path / "one-index"
        job = flink.submit(*service.options, command=True)
        service.begin("fingerprint", "route")
        given = [*filter(readable, documents(DOCUMENTS, 7))][: DOCUMENTS // 10 * 9]
        given += [b"no document"] * (DOCUMENTS - len(given))
        produce(settings, settings.topics.input, given[: DOCUMENTS // 2])
        with reading(settings) as records:
            records.wait_for(DOCUMENTS // 8)
            killed = [worker for part in service.parts.values() for worker in workers_of(part)]
            assert len(killed) >= 2
            for worker in killed:
                worker.kill()
            told = service.command(
                "fingerprint", "give-back", "--since", "1h", "--flink", "--flink-address", flink.address
            )
            subprocess.run(told, check=True, timeout=120)
            produce(settings, settings.topics.input, given[DOCUMENTS // 2 :])
            records.wait_for_all(written(settings))
            assert delivered(records.headers) == decided_by_one_index(settings, one)
            verdicts = Counter(each["neardup.verdict"] for each in records.headers)
            assert verdicts["duplicate"] > DOCUMENTS / 20
            assert 0 < verdicts["given-back"] < verdicts["duplicate"]
            # And back: an index of one host is made from what was delivered, and goes on.
            flink.cancel(job)
            service.begin("decide")
            decided, again = len(records.headers), list(islice(copies(given[: DOCUMENTS // 2]), DOCUMENTS // 2))
            produce(settings, settings.topics.input, again)
            records.wait_for_all(written(settings))
            expected, found = decided_by_one_index(settings, one), delivered(records.headers[decided:])
            assert {at: verdict for at, (verdict, _) in found.items()} == {at: each[0] for at, each in expected.items()}
            # A restored index breaks ties otherwise: a page that was given back is as near as its drop.
            back = {each["neardup.id"] for each in records.headers if each["neardup.verdict"] == "given-back"}
            assert {found[at][1] for at in found if found[at] != expected[at]} <= back


@pytest.mark.timeout(300)
def test_a_task_manager_that_dies_is_replaced_and_the_job_goes_on(
    kafka: SimpleNamespace, flink: LocalFlink, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with split_service(tmp_path, kafka.bootstrap_servers) as service, caplog.at_level("INFO", "deploy.flink_service"):
        settings, count = service.settings, len(flink.task_managers)
        job = flink.submit(*service.options, command=True)
        watch = Watch(service, flink, job)
        service.begin("fingerprint", "route")
        watch.look()
        given = [each for each in documents(100, 3) if readable(each)]
        produce(settings, settings.topics.input, given[:40])
        with reading(settings) as records:
            records.wait_for(40)
            for process in flink.task_managers:
                process.kill()
                process.wait()
            watch.look()
            assert len(flink.task_managers) == count
            produce(settings, settings.topics.input, given[40:])
            records.wait_for(len(given))
            watch.look()
            flink.wait(lambda: is_known(flink, job), "status with every number", 30.0)
    assert f"{count} TaskManager(s) died; started as many" in caplog.text
    assert "the job: running, " in caplog.text
