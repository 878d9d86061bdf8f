"""Queries of Prometheus against what processes tell it, without a Prometheus."""

import re
from collections.abc import Iterable, Mapping, Sequence

import promql_parser
from prometheus_client.parser import text_string_to_metric_families

from deploy.dashboard_check import bare, vector_selectors

Series = tuple[str, Mapping[str, str]]
"""Name and labels."""


def series_of(told: str) -> list[Series]:
    """All series of an exposition, which may be several one behind the other."""
    return [
        (sample.name, sample.labels) for family in text_string_to_metric_families(told) for sample in family.samples
    ]


def without_series(queries: Iterable[str], series: Sequence[Series]) -> list[str]:
    """The selectors of these queries that no series answers."""
    selectors = [selector for query in queries for selector in vector_selectors(promql_parser.parse(query))]
    return sorted({bare(each) for each in selectors if not any(_selects(each, *one) for one in series)})


def _selects(selector: promql_parser.VectorSelector, name: str, labels: Mapping[str, str]) -> bool:
    return selector.name == name and all(
        _agrees(str(matcher.op).rsplit(".", 1)[-1], matcher.value, labels.get(matcher.name, ""))
        for matcher in selector.matchers.matchers
    )


def _agrees(operator: str, wanted: str, value: str) -> bool:
    same = value == wanted if operator in ("Equal", "NotEqual") else re.fullmatch(wanted, value) is not None
    return same == (operator in ("Equal", "Re"))
