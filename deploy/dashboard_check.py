"""Check that every dashboard and alert query returns data, from a Prometheus that scrapes the service.

1. Take Prometheus from the PATH, or unpack Debian's package into the project's cache (nothing is installed).
2. Check prometheus.yml and rules.yml with promtool, and run rules_test.yml, so that every alert fires; Flink's too.
3. Start a Prometheus on a free local port, which scrapes the target every second.
4. Repeat all queries until each has data or the time is over; print a table; exit 1 if one has none.

A silent alert returns nothing, by design. So every selector in an alert must have data, and the whole expression must
evaluate without an error.
"""

import argparse
import json
import math
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser
from rich.console import Console
from rich.table import Table

from deploy.debian_packages import CheckFailed, unpacked
from deploy.fed_service import ServiceFailed, fed_service
from deploy.local_kafka import LocalKafkaError

DEPLOY = Path(__file__).resolve().parent
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "neardup.json"
PROMETHEUS_CONFIGURATION = DEPLOY / "prometheus" / "prometheus.yml"
SECURED_CONFIGURATION = DEPLOY / "prometheus" / "secured.yml"
RULES = DEPLOY / "prometheus" / "rules.yml"
RULE_TESTS = DEPLOY / "prometheus" / "rules_test.yml"
FLINK_RULES = DEPLOY / "flink" / "rules.yml"
FLINK_RULE_TESTS = DEPLOY / "flink" / "rules_test.yml"

# Variables of Grafana and the dashboard, with everything selected.
VARIABLES = {"$__rate_interval": "1m", "$__interval": "15s", "$__range": "5m", "$instance": ".*"}

LABEL_VALUES = re.compile(r"label_values\((?P<selector>.+),\s*(?P<label>\w+)\)")


@dataclass(frozen=True, slots=True)
class Query:
    """An expression, its place, and whether an empty answer is a fault."""

    place: str
    expression: str
    needs_data: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """Prometheus' answer: the number of series with a value, or an error."""

    query: Query
    series: int = 0
    error: str = ""

    @property
    def good(self) -> bool:
        """Whether the answer has no fault."""
        return not self.error and (self.series > 0 or not self.query.needs_data)


def dashboard_queries(dashboard: dict[str, Any]) -> list[Query]:
    """All queries in a Grafana dashboard, with values for its variables. Raises CheckFailed for an unknown variable."""
    panels = [panel for outer in dashboard["panels"] for panel in (outer, *outer.get("panels", []))]
    queries = [
        Query(panel["title"], substituted(target["expr"])) for panel in panels for target in panel.get("targets", [])
    ]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            match = LABEL_VALUES.fullmatch(variable["definition"])
            if match is None:
                raise CheckFailed(f"variable {variable['name']}: write it as label_values(selector, label)")
            queries.append(Query(f"${variable['name']}", f"count by ({match['label']}) ({match['selector']})"))
    return queries


def substituted(expression: str) -> str:
    """The expression with values for Grafana's variables. Raises CheckFailed for an unknown variable."""
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    if "$" in expression:
        raise CheckFailed(f"add the unknown variable to VARIABLES: {expression}")
    return expression


def alert_queries(name: str, expression: str) -> list[Query]:
    """An alert's expression, and all its selectors, which must have data."""
    selectors = sorted({bare(selector) for selector in vector_selectors(promql_parser.parse(expression))})
    return [Query(name, expression, needs_data=False), *(Query(name, selector) for selector in selectors)]


def vector_selectors(expression: promql_parser.Expr) -> list[promql_parser.VectorSelector]:
    """All selectors in an expression, in order, including ranges."""
    selectors = []

    def visit(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            selectors.append(node)
        elif isinstance(node, promql_parser.MatrixSelector):
            selectors.append(node.vector_selector)

    promql_parser.walk(expression, visit)
    return selectors


def bare(selector: promql_parser.VectorSelector) -> str:
    """The selector without offset: name and matchers."""
    operators = {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}
    matchers = [
        f"{matcher.name}{operators[str(matcher.op).rsplit('.', 1)[-1]]}{json.dumps(matcher.value)}"
        for matcher in selector.matchers.matchers
    ]
    return f"{selector.name}{{{', '.join(matchers)}}}" if matchers else str(selector.name)


def prometheus_programs() -> tuple[Path, Path]:
    """Paths of prometheus and promtool, from the PATH, the cache or a download. Raises CheckFailed."""
    names = ("prometheus", "promtool")
    on_path = [shutil.which(name) for name in names]
    if all(on_path):
        return Path(str(on_path[0])), Path(str(on_path[1]))
    advice = "put the programs prometheus and promtool on the PATH (prometheus.io/download)"
    folder = unpacked("prometheus", "prometheus", advice)
    return folder / "usr" / "bin" / names[0], folder / "usr" / "bin" / names[1]


def check_files(promtool: Path) -> None:
    """Check the configuration and rules with promtool, and run the rules' tests. Raises CheckFailed."""
    checks = (
        ("check", "config", PROMETHEUS_CONFIGURATION),
        # Syntax only: its password and CA files are elsewhere.
        ("check", "config", "--syntax-only", SECURED_CONFIGURATION),
        ("check", "rules", RULES),
        ("test", "rules", RULE_TESTS),
        ("check", "rules", FLINK_RULES),
        ("test", "rules", FLINK_RULE_TESTS),
    )
    for check in checks:
        words = list(map(str, check))
        outcome = subprocess.run([str(promtool), *words], capture_output=True, text=True, check=False)
        if outcome.returncode != 0:
            raise CheckFailed(f"promtool {' '.join(words)}:\n{outcome.stdout}{outcome.stderr}")


@contextmanager
def running_prometheus(program: Path, target: str) -> Iterator[str]:
    """Run a Prometheus with the rules that scrapes `target` every second; yields its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with tempfile.TemporaryDirectory(prefix="dashboard-check-") as name, ExitStack() as stack:
        configuration = Path(name) / "prometheus.yml"
        # JSON is YAML.
        configuration.write_text(
            json.dumps(
                {
                    "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                    "rule_files": [str(RULES)],
                    "scrape_configs": [{"job_name": "neardup", "static_configs": [{"targets": [target]}]}],
                }
            )
        )
        output = stack.enter_context((Path(name) / "log").open("w+"))
        process = subprocess.Popen(
            [
                str(program),
                f"--config.file={configuration}",
                f"--storage.tsdb.path={name}/data",
                f"--web.listen-address={address}",
            ],
            stdout=output,
            stderr=output,
        )
        try:
            _wait_until_ready(f"http://{address}", process, Path(output.name))
            yield f"http://{address}"
        finally:
            process.terminate()
            process.wait()


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            urllib.request.urlopen(f"{url}/-/ready", timeout=5).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                tail = "\n".join(log.read_text().splitlines()[-20:])
                raise CheckFailed(f"Prometheus did not start:\n{tail}") from None
            time.sleep(0.1)
        else:
            return


def ask(url: str, path: str, **parameters: str) -> Any:
    """The `data` in an answer from Prometheus' HTTP API. Raises CheckFailed with its error message."""
    try:
        with urllib.request.urlopen(
            f"{url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=10
        ) as response:
            return json.load(response)["data"]
    except urllib.error.HTTPError as error:
        with error:
            raise CheckFailed(json.load(error).get("error", str(error))) from None


def answer(url: str, query: Query) -> Answer:
    """Evaluate one query now; NaN series do not count."""
    try:
        data = ask(url, "query", query=query.expression)
    except (CheckFailed, LocalKafkaError, ServiceFailed) as error:
        return Answer(query, error=str(error))
    values = [data["result"]] if data["resultType"] == "scalar" else [series["value"] for series in data["result"]]
    return Answer(query, series=sum(not math.isnan(float(value)) for _, value in values))


def rule_queries(url: str) -> list[Query]:
    """Queries from all rules that Prometheus has loaded."""
    return [
        query
        for group in ask(url, "rules")["groups"]
        for rule in group["rules"]
        for query in alert_queries(rule["name"], rule["query"])
    ]


def answers_with_patience(url: str, queries: Sequence[Query], patience_seconds: float) -> list[Answer]:
    """Evaluate all queries once a second until every answer is good or the time is over; returns the last answers."""
    deadline = time.monotonic() + patience_seconds
    while True:
        answers = [answer(url, query) for query in queries]
        if all(given.good for given in answers) or time.monotonic() > deadline:
            return answers
        time.sleep(1)


def show(answers: Sequence[Answer]) -> None:
    """Print all answers as a table."""
    table = Table("place", "query", "series", "", title="All queries, evaluated by Prometheus")
    for each in answers:
        outcome = each.error or ("ok" if each.good else "EMPTY")
        colour = "green" if each.good else "red"
        series = str(each.series) if each.query.needs_data else "evaluates"
        table.add_row(each.query.place, each.query.expression, series, f"[{colour}]{outcome}[/]")
    Console(width=max(120, Console().width)).print(table)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check that every dashboard and alert query returns data."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--target", help="host:port of a running service; else one is started and fed")
    parser.add_argument("--dashboard", type=Path, default=DASHBOARD, help="the dashboard's JSON")
    parser.add_argument("--patience-seconds", type=float, default=150.0, help="maximum wait for data")
    options = parser.parse_args(arguments)
    try:
        queries = dashboard_queries(json.loads(options.dashboard.read_text()))
        prometheus, promtool = prometheus_programs()
        check_files(promtool)
        with ExitStack() as stack:
            target = options.target
            if target is None:
                target = stack.enter_context(fed_service("audit.one_in=4", protected=True))
            url = stack.enter_context(running_prometheus(prometheus, target))
            answers = answers_with_patience(url, [*queries, *rule_queries(url)], options.patience_seconds)
    except (CheckFailed, LocalKafkaError, ServiceFailed) as error:
        print(error, file=sys.stderr)
        return 1
    show(answers)
    bad = sum(not given.good for given in answers)
    print(f"{len(answers)} queries against {target}: {len(answers) - bad} good, {bad} without data or with an error")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
