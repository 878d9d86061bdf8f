"""Two services with a topic and a decode preset each decide with one index, while their workers are killed."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import orjson

from deploy.kafka_run import Outputs, Run, fill, stop
from streamer.demo.demo import documents
from tests.support.services import Started, kill_a_worker, make_run, require_every_position_once, verified, wait_until


def test_each_document_of_two_topics_has_one_unique_and_each_record_comes_out_once(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    index = (f"index.directory={tmp_path / 'index'}",)
    news = make_run(kafka.bootstrap_servers, tmp_path, *index)
    crawl = make_run(kafka.bootstrap_servers, tmp_path, *index, "decode.text=/body", "decode.id=/name")
    parsed = [orjson.loads(value) for value in documents(150) if value.endswith(b"}") and b'"text"' in value]
    texts = list(dict.fromkeys(each["text"] for each in parsed if len(each["text"]) > 200))
    of_news = [orjson.dumps({"id": f"news {number}", "text": text}) for number, text in enumerate(texts)]
    of_crawl = [orjson.dumps({"name": f"crawl {number}", "body": text}) for number, text in enumerate(texts)]
    fill(kafka.bootstrap_servers, news.input_topic, of_news)
    fill(kafka.bootstrap_servers, crawl.input_topic, of_crawl)

    first = start(news)
    wait_until(news.ready)
    second = start(crawl)
    wait_until(crawl.ready)
    for service in (first, second):
        kill_a_worker(service.process)
    fill(kafka.bootstrap_servers, news.input_topic, of_news)
    fill(kafka.bootstrap_servers, crawl.input_topic, of_crawl)
    unique: Counter[str] = Counter()
    for run, service in ((news, first), (crawl, second)):
        outputs = Outputs(run)
        require_every_position_once(outputs, 2 * len(texts))
        for ((destination, value, headers),) in outputs.by_position.values():
            if destination == "unique" and dict(headers)["neardup.reason"] == b"no-match":
                unique[orjson.loads(value or b"")["text" if run is news else "body"]] += 1
        assert stop(service.process) == 0
    assert unique
    assert set(unique.values()) == {1}
    for run in (news, crawl):
        assert verified(run)[0] == 0
