"""Image, compose.yaml, Kubernetes manifests and systemd unit: what they share with the program, and with each other.

`make clusters-check` lets the programs read them that they are for; `make image-check` builds the image and runs it.
"""

import os
import re
import subprocess
import tomllib
from typing import Any

import pytest
import yaml

from deploy.clusters_check import COMPOSE, KUBERNETES, UNIT, closed
from deploy.prometheus_rule import RULES, prometheus_rule
from streamer.settings.settings import Settings, load
from tests.support.checkout import ROOT

DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
UNIT_TEXT = UNIT.read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DELIVERY_SECONDS = Settings().kafka.delivery_timeout_ms / 1000


def read(path: str) -> Any:
    return yaml.safe_load((KUBERNETES / path).read_text(encoding="utf-8"))


STATEFUL_SETS = [read(f"{folder}/statefulset.yaml") for folder in ("service", "parts/part")]


PODS = [each["spec"]["template"]["spec"] for each in STATEFUL_SETS]


# --- one thing, one place ---


def test_the_operators_rule_has_the_alerts_of_the_rules() -> None:
    made = (KUBERNETES / "monitoring" / "prometheusrule.yaml").read_text(encoding="utf-8")

    assert made == prometheus_rule(RULES.read_text(encoding="utf-8"))
    assert yaml.safe_load(made)["spec"]["groups"] == yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]


def test_the_job_that_alerts_ask_for_is_the_label_of_the_pods() -> None:
    monitor = read("monitoring/servicemonitor.yaml")["spec"]
    labels = [read(f"{folder}/kustomization.yaml")["labels"][0]["pairs"] for folder in ("service", "parts/part")]

    assert 'job="neardup"' in RULES.read_text(encoding="utf-8")
    assert all(each == {monitor["jobLabel"]: "neardup"} == monitor["selector"]["matchLabels"] for each in labels)


def test_the_image_has_what_any_setting_may_ask_for() -> None:
    (wanted,) = re.findall(r"pip install .*'\.\[(\w+)]'", DOCKERFILE)
    (extras,) = PROJECT["optional-dependencies"][wanted]

    assert {"confluent", "registry", "parquet"} <= set(re.findall(r"[\w-]+", extras.split("[")[1]))


def test_the_manifests_name_the_image_of_this_version() -> None:
    tags = [read(f"{folder}/kustomization.yaml")["images"][0]["newTag"] for folder in ("service", "parts/part")]

    assert tags == [PROJECT["version"]] * 2


def test_parts_run_confined_and_watched_as_the_whole_service_does() -> None:
    whole, part = PODS
    probes = ("startupProbe", "livenessProbe", "readinessProbe", "securityContext", "ports", "envFrom")
    one, other = whole["containers"][0], part["containers"][0]

    assert {key: one[key] for key in probes} == {key: other[key] for key in probes}
    key = {"name": "key", "mountPath": "/etc/neardup-key", "readOnly": True}
    assert [mount for mount in other["volumeMounts"] if mount != key] == one["volumeMounts"]
    assert {"name": "STREAMER_FINGERPRINT__KEY_FILE", "value": "/etc/neardup-key/key"} in other["env"]
    assert {"name": "key", "secret": {"secretName": "neardup-key"}} in part["volumes"]
    assert whole["initContainers"] == part["initContainers"]
    assert whole["terminationGracePeriodSeconds"] == part["terminationGracePeriodSeconds"]


# --- confined ---


@pytest.mark.parametrize("pod", PODS)
def test_no_container_may_do_more_than_write_into_its_volumes(pod: dict[str, Any]) -> None:
    user, group = map(int, re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)[0])

    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["fsGroup"]) == (user, group)
    assert not pod["automountServiceAccountToken"]
    for container in (*pod["initContainers"], *pod["containers"]):
        confined = container["securityContext"]
        assert confined["readOnlyRootFilesystem"]
        assert not confined["allowPrivilegeEscalation"]
        assert confined["capabilities"] == {"drop": ["ALL"]}
        assert {"requests", "limits"} <= container["resources"].keys()


def test_one_volume_holds_all_that_lasts() -> None:
    (volume,) = re.findall(r"^VOLUME (\S+)$", DOCKERFILE, re.MULTILINE)
    services = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]

    assert all(f" {key}={volume}/" in DOCKERFILE for key in ("NUMBA_CACHE_DIR", "STREAMER_INDEX__DIRECTORY"))
    assert services["streamer"]["read_only"]
    assert [mount for mount in services["streamer"]["volumes"] if not mount.endswith(":ro")] == [f"index-data:{volume}"]
    for pod in PODS:
        assert pod["containers"][0]["volumeMounts"][0] == {"name": "data", "mountPath": volume}


@pytest.mark.parametrize("pod", PODS)
def test_metrics_of_a_killed_container_leave_with_it(pod: dict[str, Any]) -> None:
    (tmp,) = [volume for volume in pod["volumes"] if volume["name"] == "tmp"]

    assert tmp["emptyDir"]["medium"] == "Memory"


def test_the_port_answers_the_namespace_and_prometheus_alone_in_parts_too() -> None:
    policy = read("service/networkpolicy.yaml")["spec"]
    ports = {port["containerPort"] for pod in PODS for port in pod["containers"][0]["ports"]}
    labels = [read(f"{folder}/kustomization.yaml")["labels"][0]["pairs"] for folder in ("service", "parts/part")]

    assert "networkpolicy.yaml" in read("service/kustomization.yaml")["resources"]
    assert all(policy["podSelector"]["matchLabels"] == each for each in labels)
    (rule,) = policy["ingress"]
    assert {port["port"] for port in rule["ports"]} == ports
    assert len(rule["from"]) == 2


# --- ends and restarts ---


def test_an_end_has_longer_than_a_delivery() -> None:
    services = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
    told = [float(services["streamer"]["stop_grace_period"].removesuffix("s"))]
    told += [pod["terminationGracePeriodSeconds"] for pod in PODS]
    told += [float(each) for each in re.findall(r"^(?:TimeoutStopSec|WatchdogSec)=(\d+)s$", UNIT_TEXT, re.MULTILINE)]

    assert len(told) == 5
    assert min(told) > DELIVERY_SECONDS


def test_whatever_needs_no_person_is_started_again_for_ever() -> None:
    services = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]

    assert {name: each["restart"] for name, each in services.items() if "restart" in each} == dict.fromkeys(
        ("kafka", "streamer", "prometheus", "alertmanager", "grafana"), "unless-stopped"
    )
    assert "\nStartLimitIntervalSec=0\n" in UNIT_TEXT
    assert "\nRestart=on-failure\n" in UNIT_TEXT
    assert f"\nRestartPreventExitStatus={os.EX_CONFIG} {os.EX_DATAERR}\n" in UNIT_TEXT


def test_no_probe_that_restarts_asks_whether_brokers_answer() -> None:
    for pod in PODS:
        container = pod["containers"][0]
        paths = {key: container[key]["httpGet"]["path"] for key in container if key.endswith("Probe")}
        assert paths == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}


def test_the_settings_of_the_manifests_hold_together() -> None:
    settings = load(KUBERNETES / "service" / "streamer.toml", [], {"STREAMER_KAFKA__INSTANCE": "neardup-route-0"})

    assert settings.kafka.client == "confluent-kafka"
    assert settings.kafka.instance == "neardup-route-0"


# --- the base ---


@pytest.mark.parametrize(
    ("base", "unpinned", "code"),
    [
        ("python:3.12-slim", "refused", 1),
        ("python:3.12-slim", "allowed", 0),
        ("python:3.12-slim@sha256:" + "0" * 64, "refused", 0),
        ("allowed", "refused", 1),
    ],
)
def test_a_base_without_a_digest_is_refused_unless_it_is_allowed(base: str, unpinned: str, code: int) -> None:
    (check,) = re.findall(r"^RUN (case .*?esac)$", DOCKERFILE, re.MULTILINE | re.DOTALL)
    variables = {"BASE": base, "UNPINNED_BASE": unpinned}
    done = subprocess.run(["/bin/sh", "-c", check], env=variables, capture_output=True, text=True)

    assert done.returncode == code, done.stderr


# --- the check's own reading ---


def test_a_schema_is_closed_where_it_names_its_fields_and_nowhere_else() -> None:
    named = {"type": "object", "properties": {"a": {"type": "string"}}}

    assert closed(named)["additionalProperties"] is False
    assert closed({"items": [named]})["items"][0]["additionalProperties"] is False
    assert "additionalProperties" not in closed({"type": "object"})
    assert "additionalProperties" not in closed({**named, "x-kubernetes-preserve-unknown-fields": True})
    assert closed({**named, "additionalProperties": {"type": "string"}})["additionalProperties"] == {"type": "string"}
