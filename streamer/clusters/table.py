"""Documents by cluster, in a temporary SQLite file.

A duplicate joins the cluster that its original is in by then. Every other document is the root of a new one. A document that
was given back leaves its cluster.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from streamer.clusters.keep import Rank
from streamer.delivered.temporary import Connection, temporary
from streamer.errors import OutputUnwritable

_CACHE_KIB = 16_384
_SCHEMA = """
CREATE TABLE document (
    number INTEGER PRIMARY KEY, root INTEGER NOT NULL, output INTEGER, shown TEXT NOT NULL,
    length REAL NOT NULL DEFAULT 1, replaced INTEGER NOT NULL DEFAULT 0,
    source TEXT AS (json_extract(shown, '$.source')) STORED, line INTEGER AS (json_extract(shown, '$.line')) STORED,
    host TEXT AS (json_extract(shown, '$.host')), time_ms INTEGER AS (json_extract(shown, '$.time_ms')),
    field TEXT AS (json_extract(shown, '$.field')),
    names INTEGER AS (json_extract(shown, '$.verdict') IN ('update', 'extends', 'suspect')), UNIQUE (source, line)
);
CREATE INDEX by_root ON document (root);
CREATE TABLE best (root INTEGER PRIMARY KEY, number INTEGER, output INTEGER UNIQUE);
BEGIN;
"""
# A document's number is 2 output + 1. So each has a free number before it, for an original in another folder.
_ADD = """
INSERT INTO document (number, root, output, shown) VALUES (2 * :output + 1, 2 * :output + 1, :output, :shown)
ON CONFLICT (source, line) DO UPDATE SET root = number, output = :output, shown = :shown, length = 1
"""
_ADD_ELSEWHERE = "INSERT OR IGNORE INTO document (number, root, shown) VALUES (2 * :output, 2 * :output, :elsewhere)"
_JOIN = """
UPDATE document SET (root, length) = (
    SELECT root, length * :length FROM document WHERE source = :original_source AND line = :original_line
) WHERE number = 2 * :output + 1
"""
_REPLACE = "UPDATE document SET replaced = 1 WHERE source = :original_source AND line = :original_line"
# A root in another folder has its best document there.
_CHOOSE = """
INSERT INTO best SELECT one.number, best.number, best.output FROM document one JOIN document best ON best.number = (
    SELECT number FROM document WHERE root = one.number AND NOT replaced
    ORDER BY rank_of(host, time_ms, length, field), number LIMIT 1
) WHERE one.root = one.number AND one.output IS NOT NULL
"""
_CLUSTERS = """
SELECT one.number, one.shown, count(each.output), count(DISTINCT each.host), min(each.time_ms), max(each.time_ms),
    json_group_array(DISTINCT each.host) FILTER (WHERE each.host IS NOT NULL),
    (SELECT coalesce(max(shown), 'null') FROM document WHERE number = best.number)
FROM document each CROSS JOIN document one ON one.number = each.root LEFT JOIN best ON best.root = each.root
GROUP BY each.root HAVING count(*) > 1 OR one.names ORDER BY each.root
"""
_BEST_COUNTS = """
SELECT best.output, count(each.output), count(DISTINCT each.host), min(each.time_ms), max(each.time_ms)
FROM best JOIN document each ON each.root = best.root WHERE best.output BETWEEN ? AND ? GROUP BY best.root
"""
_COUNTS = """
SELECT coalesce(sum(here), 0) AS documents, count(nullif(members, 1)) AS clusters, coalesce(sum(members - 1), 0) AS duplicates,
    coalesce(max(here), 0) AS largest, (SELECT count(*) FROM best) AS best
FROM (SELECT count(*) AS members, count(output) AS here FROM document GROUP BY root)
"""


class Counts(NamedTuple):
    """How often a cluster's text was printed here, also in versions that an update replaced.

    hosts              distinct ones
    first_ms, last_ms  least and greatest time, milliseconds since 1970; None: no document has one

    >>> Counts(documents=3, hosts=2, first_ms=None, last_ms=None).documents
    3
    """

    documents: int
    hosts: int
    first_ms: int | None
    last_ms: int | None


class ClusterTable:
    """Documents by cluster; see `opened`.

    >>> from streamer.clusters.keep import POLICIES
    >>> first = {"source": "id", "line": 1, "verdict": "unique"}
    >>> second = {"source": "id", "line": 2, "verdict": "duplicate", "original_source": "id", "original_line": 1}
    >>> with opened(folder / "table") as table:
    ...     table.add(enumerate([first, second]))
    ...     table.choose(POLICIES["first"].rank)
    {'documents': 2, 'clusters': 1, 'duplicates': 1, 'largest': 2, 'best': 1}
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        connection.executescript(_SCHEMA)

    def add(self, documents: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
        """Add documents in verdict order: the number a line has, from 0, and its members with `host` and `time_ms`."""
        # A later duplicate joins what its original is in after it was given back.
        for _, together in groupby(documents, lambda each: each[1]["verdict"] == "given-back"):
            rows = [_parameters(output, fields) for output, fields in together]
            duplicates = [row for row in rows if row["verdict"] == "duplicate" and row["original_line"] is not None]
            updates = [row for row in rows if row["verdict"] == "update"]
            for statement, chosen in (
                (_ADD, rows),
                (_ADD_ELSEWHERE, duplicates),
                (_JOIN, duplicates),
                (_REPLACE, updates),
            ):
                self._connection.executemany(statement, chosen)

    def choose(self, rank: Rank) -> dict[str, int]:
        """Choose each cluster's best document, if the cluster begins here. An update's older version is never the best.

        Returns counts: `documents`, `clusters` with two or more, their `duplicates`, documents in the `largest`, and `best`
        documents.
        """
        self._connection.create_function("rank_of", 4, rank, deterministic=True)
        self._connection.execute(_CHOOSE)
        counts = self._connection.execute(_COUNTS)
        return dict(zip((name for name, *_ in counts.description), counts.fetchone(), strict=True))

    def clusters(self) -> Iterator[tuple[str, str, Counts, str, Iterator[str]]]:
        """Clusters with two documents or more, and roots that name another document, in root order.

        Each as JSON: root and best document; its counts; JSON with their hosts; duplicates as JSON, one by one.
        """
        for number, root, *counts, hosts, best in self._connection.execute(_CLUSTERS):
            members = self._connection.execute(
                "SELECT shown FROM document WHERE root = ? AND number != root ORDER BY number", (number,)
            )
            yield root, best, Counts(*counts), hosts, (shown for (shown,) in members)

    def best(self, first: int, last: int) -> set[int]:
        """Lines with the best documents' verdicts, from `first` to `last`."""
        rows = self._connection.execute("SELECT output FROM best WHERE output BETWEEN ? AND ?", (first, last))
        return {output for (output,) in rows}

    def counts_of_best(self, first: int, last: int) -> dict[int, Counts]:
        """The same lines, each with its cluster's counts."""
        rows = self._connection.execute(_BEST_COUNTS, (first, last))
        return {output: Counts(*counts) for output, *counts in rows}


@contextmanager
def opened(path: Path) -> Iterator[ClusterTable]:
    """An empty table in a file, which is deleted at the end. Raises OutputUnwritable."""
    try:
        with temporary(path, "the table of clusters", _CACHE_KIB) as connection:
            yield ClusterTable(connection)
    except OSError as problem:
        raise OutputUnwritable(
            f"{path.parent}: the clusters cannot be written: {problem}. Remove the cause and start again."
        ) from problem


def _parameters(output: int, fields: Mapping[str, Any]) -> dict[str, Any]:
    row = {"output": output, "length": 1, "original": None, "original_source": None, "original_line": None, **fields}
    elsewhere = {
        "source": row["original_source"],
        "line": row["original_line"],
        "id": row["original"],
        "elsewhere": True,
    }
    return row | {"shown": orjson.dumps(fields).decode(), "elsewhere": orjson.dumps(elsewhere).decode()}
