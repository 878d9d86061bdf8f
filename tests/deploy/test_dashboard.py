"""Dashboard, alerts and example files name only what exists: metrics, labels, values of labels, settings, files."""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from deploy.dashboard_check import CheckFailed, alert_queries, dashboard_queries, substituted, vector_selectors
from streamer.observe import definitions, metrics
from streamer.observe.batch_report import STEPS
from streamer.settings.settings import Settings
from tests.support.observed_metrics import observe_everything
from tests.support.paths import ROOT

DASHBOARD = ROOT / "deploy" / "grafana" / "dashboards" / "neardup.json"
RULES = ROOT / "deploy" / "prometheus" / "rules.yml"
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()
PAGES = "\n".join(
    (ROOT / "docs" / f"{name}.md").read_text() for name in ("running", "index-tools", "questions", "runbook")
)

# Labels that Prometheus itself adds.
TARGET_LABELS = {"job", "instance"}
OPEN_LABELS = {"job", "instance", "topic", "partition", "le"}

Exposed = Mapping[str, Mapping[str, set[str]]]


def read_dashboard() -> dict[str, Any]:
    return json.loads(DASHBOARD.read_text())


def read_rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


@pytest.fixture(scope="module")
def exposed() -> Exposed:
    """Labels, with their values, of every series that a service shows after one batch."""
    measures = metrics.Metrics()
    observe_everything(measures, np.random.default_rng(1))
    measures.set(definitions.INDEX_BYTES_MAX, 2**30)
    measures.show_workers({"running": 1})
    found: dict[str, dict[str, set[str]]] = {"up": {}}
    for family in text_string_to_metric_families(measures.exposition().decode()):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).add(value)
    return found


def faults(expression: str, exposed: Exposed) -> list[str]:
    """Names in a PromQL expression that no series has: metrics, labels in matchers and groupings, values."""
    parsed = promql_parser.parse(expression)
    selectors = vector_selectors(parsed)
    found = [f"no metric {selector.name}" for selector in selectors if selector.name not in exposed]
    known: set[str] = set(TARGET_LABELS)
    for selector in selectors:
        labels = exposed.get(str(selector.name), {})
        known |= labels.keys()
        for matcher in selector.matchers.matchers:
            if matcher.name not in TARGET_LABELS | labels.keys():
                found.append(f"{selector.name} has no label {matcher.name}")
            elif matcher.name not in OPEN_LABELS:
                pieces = set(matcher.value.split("|"))
                found += [f"{matcher.name} is never {piece}" for piece in sorted(pieces - labels[matcher.name])]
    return found + [f"no label {label}" for label in grouping_labels(parsed) if label not in known]


def grouping_labels(parsed: promql_parser.Expr) -> list[str]:
    """Labels of all by, without, on, ignoring and group_left clauses."""
    found: list[str] = []

    def visit(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            found.extend(node.modifier.labels)
        if isinstance(node, promql_parser.BinaryExpr) and node.modifier is not None:
            found.extend(node.modifier.matching.labels if node.modifier.matching is not None else ())
            found.extend(node.modifier.group_labels or ())

    promql_parser.walk(parsed, visit)
    return found


def panels(kinds: Iterable[str] | None = None) -> list[dict[str, Any]]:
    return [panel for panel in read_dashboard()["panels"] if kinds is None or panel["type"] in kinds]


def test_every_query_of_the_dashboard_names_only_what_exists(exposed: Exposed) -> None:
    queries = dashboard_queries(read_dashboard())
    assert len(queries) > 40
    assert {query: found for query in queries if (found := faults(query.expression, exposed))} == {}


def test_every_alert_names_only_what_exists(exposed: Exposed) -> None:
    rules = read_rules()
    assert len(rules) >= 9
    assert {rule["alert"]: found for rule in rules if (found := faults(rule["expr"], exposed))} == {}


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("rate(neardup_document_total[1m])", "no metric neardup_document_total"),
        ("sum(rate(neardup_documents_total[1m])) / neardup_batchs_total", "no metric neardup_batchs_total"),
        ('neardup_documents_total{verdikt="unique"}', "neardup_documents_total has no label verdikt"),
        ('rate(neardup_documents_total{verdict="uniq"}[1m])', "verdict is never uniq"),
        ('neardup_documents_total{verdict=~"unique|duplikat"}', "verdict is never duplikat"),
        ("sum by (verdikt) (neardup_documents_total)", "no label verdikt"),
        ("sum without (reasons) (neardup_documents_total)", "no label reasons"),
        ("neardup_index_bytes / on (instanze) neardup_index_entries", "no label instanze"),
        ("sum by (verdict) (rate(neardup_batches_total[1m]))", "no label verdict"),
        ("max_over_time(rate(neardup_nothing_total[1m])[5m:1m])", "no metric neardup_nothing_total"),
    ],
)
def test_a_misspelt_name_is_found(exposed: Exposed, expression: str, fault: str) -> None:
    assert fault in faults(expression, exposed)


def test_every_metric_is_on_the_dashboard_or_in_an_alert() -> None:
    texts = [query.expression for query in dashboard_queries(read_dashboard())] + [
        rule["expr"] for rule in read_rules()
    ]
    used = {str(selector.name) for text in texts for selector in vector_selectors(promql_parser.parse(text))}
    for definition in definitions.DEFINITIONS:
        assert any(name.startswith(definition.name) for name in used), f"nobody looks at {definition.name}"


def test_the_rows_are_a_glance_and_the_six_verbs_in_order_with_the_audit_of_what_was_decided() -> None:
    titles = [panel["title"].split(":")[0] for panel in panels(["row"])]
    at = STEPS.index("route")
    assert titles == ["At a glance", *STEPS[:at], "How good are the verdicts?", *STEPS[at:]]


def test_every_panel_has_a_description_a_unit_and_an_id_of_its_own() -> None:
    shown = panels(["stat", "timeseries", "heatmap"])
    assert len(shown) + len(panels(["row"])) == len(panels())
    for panel in shown:
        assert len(panel["description"]) > 20, panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
        assert panel["type"] == "heatmap" or panel["fieldConfig"]["defaults"]["unit"], panel["title"]
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_no_two_panels_overlap_and_none_leaves_the_grid() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in panels():
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, f"{panel['title']} lies on {taken[x, y]}"
                taken[x, y] = panel["title"]


def test_a_variable_that_the_check_does_not_know_is_refused() -> None:
    assert substituted('rate(a{instance=~"$instance"}[$__rate_interval])') == 'rate(a{instance=~".*"}[1m])'
    with pytest.raises(CheckFailed, match="unknown variable"):
        substituted('a{topic="$topic"}')


def test_of_an_alert_every_selector_is_asked_for_data_without_its_offset() -> None:
    whole, *selectors = alert_queries("Example", 'rate(a{b!="c", d=~"e.*"}[5m]) > 0 unless f offset 1h')
    assert not whole.needs_data
    assert {query.expression for query in selectors} == {'a{b!="c", d=~"e.*"}', "f"}
    assert all(query.needs_data for query in selectors)


def test_every_alert_says_what_it_means_and_what_to_do() -> None:
    for rule in read_rules():
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        for annotation in ("summary", "description", "action"):
            assert len(rule["annotations"][annotation]) > 20, (rule["alert"], annotation)


def test_the_runbook_has_a_section_for_every_alert_and_for_no_other() -> None:
    assert re.findall(r"^### (\w+)$", RUNBOOK, re.MULTILINE) == [rule["alert"] for rule in read_rules()]


def test_every_alert_names_its_section_of_the_runbook() -> None:
    urls = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in read_rules()}
    assert urls == {alert: f"docs/runbook.md#{alert.lower()}" for alert in urls}


def test_compose_sends_alerts_through_a_route_with_a_receiver() -> None:
    services = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
    (mount,) = services["alertmanager"]["volumes"]
    source, inside, _ = mount.split(":")
    assert f"--config.file={inside}" in services["alertmanager"]["command"]
    route = yaml.safe_load((ROOT / "deploy" / source).read_text())
    named = {route["route"]["receiver"], *(each["receiver"] for each in route["route"]["routes"])}
    assert named == {receiver["name"] for receiver in route["receivers"]}
    prometheus = yaml.safe_load((RULES.parent / "prometheus.yml").read_text())
    assert prometheus["alerting"]["alertmanagers"][0]["static_configs"] == [{"targets": ["alertmanager:9093"]}]
    severities = {rule["labels"]["severity"] for rule in read_rules()}
    assert all(
        re.fullmatch(r'severity = "(\w+)"', each)[1] in severities for each in route["route"]["routes"][0]["matchers"]
    )


def test_every_alert_has_a_test_in_which_it_fires() -> None:
    text = (RULES.parent / "rules_test.yml").read_text()
    fired = set(re.findall(r'alertname="(\w+)"', text))
    assert fired == {rule["alert"] for rule in read_rules()}


def test_settings_named_in_texts_for_people_exist() -> None:
    known = {f"{section}.{key}" for section, keys in Settings().model_dump().items() for key in keys}
    texts = [PAGES, RULES.read_text(), DASHBOARD.read_text()]
    sections = "|".join(Settings.model_fields)
    named = {name for text in texts for name in re.findall(rf"\b(?:{sections})\.[a-z_]+\b", text)}
    # Names of files that begin like a section.
    assert {name for name in named if not name.endswith((".md", ".toml"))} - known == set()


def test_the_example_settings_are_settings() -> None:
    text = (ROOT / "deploy" / "streamer.toml").read_text()
    Settings.model_validate(tomllib.loads(text))
    # Lines that are commented out must be right too, once somebody uses them.
    secured = re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE)
    assert secured.count("sasl_username") == 1
    tomllib.loads(secured)
    known = {f"{section}.{key}" for section, keys in Settings().model_dump().items() for key in keys}
    named = {f"{section}.{key}" for section, keys in tomllib.loads(secured).items() for key in keys}
    assert named <= known


def test_compose_mounts_files_that_exist_and_sets_settings_that_exist() -> None:
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
    known = {f"STREAMER_{section}__{key}".upper() for section, keys in Settings().model_dump().items() for key in keys}
    for name, service in compose["services"].items():
        assert service.get("image"), name
        assert ":" in service["image"] or "build" in service, f"{name}: which version?"
        for variable in service.get("environment", {}):
            assert not variable.startswith("STREAMER_") or variable in known, variable
        for mount in service.get("volumes", ()):
            source = mount.split(":")[0]
            assert source in compose["volumes"] or (ROOT / "deploy" / source).exists(), mount


def test_prometheus_and_grafana_agree_on_names_and_periods() -> None:
    prometheus = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())
    folder = ROOT / "deploy" / "grafana" / "provisioning"
    source = yaml.safe_load((folder / "datasources" / "prometheus.yaml").read_text())["datasources"][0]
    provider = yaml.safe_load((folder / "dashboards" / "neardup.yaml").read_text())["providers"][0]
    assert [job["job_name"] for job in prometheus["scrape_configs"]] == ["neardup"]
    assert prometheus["rule_files"] == ["rules.yml"]
    assert source["jsonData"]["timeInterval"] == prometheus["global"]["scrape_interval"]
    mounts = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]["grafana"]["volumes"]
    assert any(mount.split(":")[1] == provider["options"]["path"] for mount in mounts)


def test_prometheus_finds_a_secured_port_as_it_finds_an_open_one() -> None:
    folder = ROOT / "deploy" / "prometheus"
    plain, secured = (yaml.safe_load((folder / name).read_text()) for name in ("prometheus.yml", "secured.yml"))
    job = secured["scrape_configs"][0]
    assert job.pop("scheme") == "https"
    assert set(job.pop("tls_config")) == {"ca_file"}
    assert set(job.pop("basic_auth")) == {"username", "password_file"}
    assert secured == plain


def test_the_image_listens_where_compose_and_prometheus_look() -> None:
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    port = re.search(r"STREAMER_OBSERVE__PORT=(\d+)", dockerfile)
    assert port is not None
    assert f"EXPOSE {port[1]}\n" in dockerfile
    assert f"http://127.0.0.1:{port[1]}/healthz" in dockerfile
    assert f'"streamer:{port[1]}"' in (ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text()
