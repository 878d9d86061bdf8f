"""A folder that takes no writes, and few open files: a command says so in one line, or does its work."""

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deploy.kafka_run import Outputs, Run, fill
from streamer.demo.demo import documents
from streamer.errors import SettingsError
from streamer.fingerprint.scheme import scheme_for
from streamer.service.wiring import open_index
from streamer.settings.settings import Settings
from tests.support.paths import ROOT
from tests.support.services import Started, make_run, require_every_position_once, wait_until
from tests.support.tiers import first_of

pytestmark = pytest.mark.timeout(600)

COUNT = 100


def streamer(*arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "streamer", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False, **options)


@pytest.mark.parametrize("read_only", [False, True])
def test_an_index_folder_that_takes_no_writes_is_refused_with_its_setting_and_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_only: bool
) -> None:
    settings = Settings.model_validate({"index": {"directory": tmp_path / "index"}})
    fingerprinter = scheme_for(settings)
    open_index(settings, fingerprinter).close()
    before = (tmp_path / "index" / "data.mdb").read_bytes()
    opening = os.open

    def refuse(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if Path(path).parent == tmp_path / "index" and flags & (os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return opening(path, flags, *arguments, **options)

    # Root writes wherever it likes, so the disk must refuse.
    monkeypatch.setattr(os, "open", refuse)
    if read_only:
        with open_index(settings, fingerprinter, read_only=True) as index:
            assert index.statistics().entries == 0
    else:
        with pytest.raises(SettingsError, match=r"index\.directory: .* cannot be used: Read-only file system"):
            open_index(settings, fingerprinter)
    assert (tmp_path / "index" / "data.mdb").read_bytes() == before


@pytest.mark.parametrize("files", [6, *first_of(32, 64)])
def test_files_are_filtered_and_verified_with_few_open_files_or_the_limit_is_named(tmp_path: Path, files: int) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    (tmp_path / "in.jsonl").write_text("".join(f'{{"text": "document number {number}"}}\n' for number in range(50)))
    chosen = ("--set", f"index.directory={tmp_path / 'index'}")
    filtering = streamer(
        *chosen, "filter", str(tmp_path / "in.jsonl"), "--out", str(tmp_path / "out"), preexec_fn=limit
    )
    verifying = streamer(*chosen, "index", "check", preexec_fn=limit)
    for done in (filtering, verifying):
        assert "Traceback" not in done.stdout + done.stderr
    if files == 6:
        assert "ulimit -n" in filtering.stderr
        assert filtering.returncode == os.EX_OSERR
        return
    assert (filtering.returncode, verifying.returncode) == (0, 0), filtering.stderr + verifying.stderr
    assert len((tmp_path / "out" / "verdicts.jsonl").read_text().splitlines()) == 50


@pytest.mark.kafka
@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka"])
@pytest.mark.parametrize("files", [32, 64])
def test_a_service_with_few_open_files_says_so_or_delivers_and_loses_nothing(
    kafka: SimpleNamespace, tmp_path: Path, start: Callable[[Run], Started], files: int, client: str
) -> None:
    run = make_run(kafka.bootstrap_servers, tmp_path, f"kafka.client={client}", partitions=2)
    fill(kafka.bootstrap_servers, run.input_topic, documents(COUNT))
    service = start(run)
    # Interpreters start slowly: the limit comes before the first file of the service.
    resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (files, files))

    def seen() -> bool:
        return "ulimit -n" in service.log.read_text() or run.delivered() == COUNT or service.process.poll() is not None

    wait_until(seen)
    log = service.log.read_text()
    assert "Traceback" not in log
    if run.delivered() < COUNT:
        assert "ulimit -n" in log
        assert not run.ready()
    service.end()
    start(run)
    require_every_position_once(Outputs(run), COUNT)
