"""A crawl with mirrors, updates, frames and ten charsets over a real broker: as planned, and sound."""

import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import orjson

from deploy.kafka_run import Outputs, Run, stop
from deploy.made_up_crawl import CHARSETS, OUTCOMES, SETTINGS, compared, crawl, plan
from tests.support.services import Started, make_run, require_every_position_once, verified, wait_until, wrong


def test_2_000_pages_of_an_archive_come_out_as_planned_and_every_command_counts_them_alike(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    fetches = plan(list(CHARSETS))
    archive = tmp_path / "crawl.warc.gz"
    crawl(fetches, archive)
    chosen = [f"{section}.{key}={value}" for section, values in SETTINGS.items() for key, value in values.items()]
    run = make_run(kafka.bootstrap_servers, tmp_path, *chosen, "batch.records_max=200")
    service = start(run)
    subprocess.run(run.arguments("topics", "produce", str(archive)), check=True, capture_output=True, timeout=120)
    wait_until(lambda: run.delivered() >= len(fetches))
    metrics = run.metrics()
    assert stop(service.process) == 0
    outputs = Outputs(run)
    require_every_position_once(outputs, len(fetches))
    by_offset = {int(position.rpartition("/")[2]): seen[0] for position, seen in outputs.by_position.items()}
    headers = [dict(by_offset[offset][2]) for offset in range(len(fetches))]
    outcomes = [f"{each['neardup.verdict'].decode()}/{each['neardup.reason'].decode()}" for each in headers]
    assert [kind for kind in compared(fetches, outcomes) if kind.right != kind.fetches] == []
    assert {by_offset[offset][0] for offset, outcome in enumerate(outcomes) if outcome.startswith("update/")} == {
        "unique"
    }
    for outcome, count in Counter(outcomes).items():
        verdict, reason = outcome.split("/")
        assert f'neardup_documents_total{{reason="{reason}",verdict="{verdict}"}} {count}.0' in metrics
    code, report = verified(run)
    assert (code, wrong(report), report["counts"]["outputs"]) == (0, {}, len(fetches))
    done = subprocess.run(run.arguments("compare", "--json"), check=True, capture_output=True, timeout=120)
    same = orjson.loads(done.stdout)
    verdicts = Counter(outcome.split("/")[0] for outcome in outcomes)
    assert (same["documents"], same["changed"]) == (len(fetches), 0)
    assert {name: count for name, count in same["delivered"].items() if count} == verdicts
    assert set(outcomes) <= {outcome for planned in OUTCOMES.values() for outcome in planned}
