"""Every benchmark can be imported: a class that the product renames is noticed before somebody measures."""

import importlib
import pkgutil

import pytest

import bench

MODULES = [module.name for module in pkgutil.walk_packages(bench.__path__, "bench.")]


@pytest.mark.parametrize("name", MODULES)
def test_a_benchmark_can_be_imported(name: str) -> None:
    assert importlib.import_module(name)


def test_all_benchmarks_are_met() -> None:
    assert len(MODULES) > 40
