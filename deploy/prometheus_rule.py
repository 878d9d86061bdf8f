"""Alerts in deploy/prometheus/rules.yml as a resource for the Prometheus operator:

python -m deploy.prometheus_rule > deploy/kubernetes/monitoring/prometheusrule.yaml
"""

import sys
from pathlib import Path

import yaml

RULES = Path(__file__).resolve().parent / "prometheus" / "rules.yml"
HEAD = "# Made from deploy/prometheus/rules.yml by `python -m deploy.prometheus_rule`; a test holds it equal.\n"


def prometheus_rule(rules: str) -> str:
    """PrometheusRule as YAML with a rules file's groups."""
    resource = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "neardup"},
        "spec": {"groups": yaml.safe_load(rules)["groups"]},
    }
    return HEAD + yaml.safe_dump(resource, sort_keys=False, width=1_000, allow_unicode=True)


if __name__ == "__main__":
    sys.stdout.write(prometheus_rule(RULES.read_text(encoding="utf-8")))
