"""The longest tests of the last runs, with their share: `python -m tests.support.durations build/tests/*.xml`."""

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

LONGEST = 50


def seconds_by_test(reports: Iterable[Path]) -> Counter[str]:
    """Seconds of each test of some reports, with what its fixtures took."""
    seconds: Counter[str] = Counter()
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            seconds[f"{case.get('classname')}::{case.get('name')}"] += float(case.get("time", 0))
    return seconds


def table(seconds: Counter[str], longest: int = LONGEST) -> list[str]:
    """Lines with seconds and share, the longest first, below the sum of all.

    >>> table(Counter({"a": 3.0, "b": 1.0}), 1)
    ['4.0 s in 2 tests', '   3.0 s  75.0 %  a']
    """
    total = sum(seconds.values())
    rows = [
        f"{each:6.1f} s {each / total:6.1%}  {name}".replace("%", " %") for name, each in seconds.most_common(longest)
    ]
    return [f"{total:.1f} s in {len(seconds)} tests", *rows]


def main(reports: list[str]) -> None:
    """Print the table of the reports."""
    if not reports:
        sys.exit("There is no report in build/tests: run `make test` or `make test-all` first.")
    print("\n".join(table(seconds_by_test(map(Path, reports)))))


if __name__ == "__main__":
    main([name for name in sys.argv[1:] if Path(name).exists()])
