"""What is built from the settings fits together."""

from pathlib import Path
from typing import Any, cast

from streamer.fingerprint.key import HashKey
from streamer.fingerprint.scheme import scheme_for
from streamer.service.loop import Listener
from streamer.service.processes import Processes
from streamer.service.wiring import steps_ahead
from streamer.settings.settings import Settings


def test_other_processes_fingerprint_by_the_key_of_the_index(tmp_path: Path) -> None:
    settings, key = Settings().replaced(index={"directory": tmp_path}), HashKey.of(bytes(range(16)))
    several = Processes(settings, 2)
    steps_ahead(settings, cast(Any, None), scheme_for(settings, key), Listener(), processes=several)
    assert several._scheme[0] == key
