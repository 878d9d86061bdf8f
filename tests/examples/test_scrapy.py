"""The Scrapy project of the examples, crawling pages of this machine with the real Scrapy."""

import http.server
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deploy.kafka_run import Outputs
from tests.support.installation import Installation
from tests.support.paths import ROOT
from tests.support.services import make_run
from tests.support.tiers import first_of

PROJECT = ROOT / "examples" / "scrapy"


class Site(http.server.SimpleHTTPRequestHandler):
    """The pages that come with the project."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments, directory=str(PROJECT / "site"))

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class Project:
    """A copy of the Scrapy project, and what it runs with."""

    def __init__(self, folder: Path, installation: Installation, address: str) -> None:
        self.folder, self._installation, self._address = folder, installation, address

    def crawl(self, *arguments: str, code: int = 0, **variables: str) -> str:
        """Crawl the site with a command of Scrapy's, and return what it logs."""
        first = ("-a", f"first={self._address}/")
        command = [self._installation.python, "-m", "scrapy", "crawl", "pages", *first, *arguments]
        environment = self._installation.variables | variables
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=250)
        assert done.returncode == code, done.stderr
        return done.stderr


@pytest.fixture
def project(tmp_path: Path, installation: Installation, address: str) -> Project:
    return Project(shutil.copytree(PROJECT, tmp_path / "project"), installation, address)


def kept(project: Project) -> set[str]:
    lines = (project.folder / "kept.jsonl").read_text(encoding="utf-8").splitlines()
    return {json.loads(line)["url"].split("/", 3)[3] for line in lines}


def test_a_crawl_drops_the_near_duplicate_and_the_next_crawl_drops_all_that_was_seen(
    project: Project, address: str
) -> None:
    log = project.crawl("-O", "kept.jsonl")

    (dropped,) = (line for line in log.splitlines() if "Dropped" in line)
    # Which of the two copies comes first is the crawl's own business.
    ferries = {"ferry.html", "ferry-print.html"}
    found = kept(project)
    assert found - ferries == {"bakery.html"}
    (ferry,) = found & ferries
    assert dropped.endswith(f"near-duplicate of {address}/{ferry}: similar")
    assert f"no item: {address}/about.html has no article" in log
    assert "'neardup/unique': 2" in log
    assert "'neardup/duplicate': 1" in log

    again = project.crawl("-O", "kept.jsonl")
    assert kept(project) == set()
    assert "'neardup/duplicate': 3" in again


def test_the_readme_serves_the_pages_and_crawls_them() -> None:
    page = (PROJECT / "README.md").read_text(encoding="utf-8")
    serving, _, crawling = page.split("```sh\n")[1].split("```")[0].splitlines()
    assert serving == "python -m http.server 8000 --bind 127.0.0.1 --directory site"
    assert crawling == "scrapy crawl pages -a first=http://127.0.0.1:8000/ -O kept.jsonl"


def test_the_lines_that_the_docs_show_are_those_of_the_project() -> None:
    shown = (ROOT / "docs" / "api.md").read_text(encoding="utf-8").split("### Scrapy")[1].split("```")[1].strip()

    assert len(shown.splitlines()) <= 5
    assert (PROJECT / "news" / "settings.py").read_text(encoding="utf-8").endswith(f"\n{shown}\n")


def test_an_item_that_cannot_be_compared_is_told_and_kept(project: Project) -> None:
    log = project.crawl("-O", "kept.jsonl", "-s", 'NEARDUP_SETTINGS={"decode.text": "/none"}')

    assert kept(project) == {"ferry.html", "ferry-print.html", "bakery.html"}
    assert "'neardup/dead-letter': 3" in log
    assert "item passed on without comparison" in log


@pytest.mark.parametrize(
    ("setting", "told"),
    first_of(
        ('NEARDUP_SETTINGS={"decode.txt": "/body"}', "decode.txt"),
        ("NEARDUP_CONFIG=none.toml", "none.toml"),
        ("NEARDUP_INDEX=scrapy.cfg", "index.directory"),
    ),
)
def test_a_crawl_does_not_begin_without_its_filter(project: Project, setting: str, told: str) -> None:
    log = project.crawl("-O", "kept.jsonl", "-s", setting, code=1)

    assert told in log
    assert "Crawled" not in log


@pytest.mark.kafka
def test_a_crawl_that_goes_through_kafka_leaves_deciding_to_the_service(
    kafka: SimpleNamespace, project: Project, tmp_path: Path
) -> None:
    run = make_run(kafka.bootstrap_servers, tmp_path)
    (project.folder / "service.toml").write_text(
        (PROJECT / "service.toml").read_text().replace("127.0.0.1:9092", kafka.bootstrap_servers)
        + f'\n[topics]\ninput = "{run.input_topic}"\n'
    )
    log = project.crawl(SCRAPY_PROJECT="kafka")
    assert "'neardup/sent': 3" in log

    command = run.arguments("--config", str(project.folder / "service.toml"), "run")
    with (tmp_path / "log").open("wb") as stream:
        service = subprocess.Popen(command, stdout=stream, stderr=stream, start_new_session=True)
    outputs = Outputs(run)
    try:
        assert outputs.wait_for(3, timeout_seconds=120)
    finally:
        outputs.close()
        os.killpg(service.pid, signal.SIGKILL)
        service.wait()
    went = sorted(destination for ((destination, *_),) in outputs.by_position.values())
    assert [each.rsplit("-", 1)[-1] for each in went] == ["duplicate", "unique", "unique"]


@pytest.mark.kafka
def test_a_crawl_does_not_begin_without_its_topic(kafka: SimpleNamespace, project: Project) -> None:
    settings = json.dumps({"kafka.bootstrap_servers": kafka.bootstrap_servers, "topics.input": "no-such-topic"})
    log = project.crawl("-s", f"NEARDUP_SETTINGS={settings}", code=1, SCRAPY_PROJECT="kafka")

    assert "no topic 'no-such-topic'" in log
    assert "Crawled" not in log
