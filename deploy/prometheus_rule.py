"""The alerts of deploy/prometheus/rules.yml as the Prometheus operator takes them:

python -m deploy.prometheus_rule > deploy/kubernetes/monitoring/prometheusrule.yaml
"""

import sys
from pathlib import Path

import yaml

RULES = Path(__file__).resolve().parent / "prometheus" / "rules.yml"
HEAD = "# Made from deploy/prometheus/rules.yml by `python -m deploy.prometheus_rule`; a test holds it equal.\n"


def prometheus_rule(rules: str) -> str:
    """A PrometheusRule, as YAML, with the groups of a file of rules."""
    resource = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "neardup"},
        "spec": {"groups": yaml.safe_load(rules)["groups"]},
    }
    return HEAD + yaml.safe_dump(resource, sort_keys=False, width=1_000, allow_unicode=True)


if __name__ == "__main__":
    sys.stdout.write(prometheus_rule(RULES.read_text(encoding="utf-8")))
