"""The order for deciding delivered documents again: the original index's, as far as known."""

from streamer.delivered.table import NAMING, STANDING, Table

SCHEMA = """
CREATE TABLE journal (row INTEGER PRIMARY KEY, rank INTEGER, verdict INTEGER);
CREATE TABLE placed (
    row INTEGER PRIMARY KEY, number INTEGER, place INTEGER, is_unknown INTEGER, time_ms INTEGER, original INTEGER, naming INTEGER
);
CREATE TABLE ordered (place INTEGER PRIMARY KEY, row INTEGER, number INTEGER, is_counted INTEGER, is_unknown INTEGER);
CREATE TABLE decided (place INTEGER PRIMARY KEY, verdict INTEGER, distance INTEGER, original INTEGER, new REAL);
"""
"""journal: place in the index's log and verdict there. ordered: each decidable document. decided: by the other settings.

`number` is a source's. In `decided` originals are places.
"""

# Documents without a timestamp come in source order: inputs were read one after the other.
_PLACE = """
INSERT INTO placed
SELECT o.row, source.number, max(coalesce(j.rank, -1)) OVER earlier, j.rank IS NULL,
    max(iif(o.arrived_ms > 0, o.arrived_ms, source.number)) OVER earlier, original.row, o.verdict IN {naming}
FROM source CROSS JOIN output o ON o.row >= source.first AND o.row < source.stop
LEFT JOIN journal j ON j.row = o.row LEFT JOIN output original ON original.row = o.original
WINDOW earlier AS (PARTITION BY source.number ORDER BY o.row);
UPDATE placed SET place = rank FROM journal WHERE journal.row = placed.row
"""
# An update needs its older version's decision, if readable; else it is a new page. It is counted only in the first case.
_ORDER = """
INSERT INTO ordered
SELECT row_number() OVER (ORDER BY
        max(p.place, coalesce(original.place, -1)), p.is_unknown, max(p.time_ms, coalesce(original.time_ms, p.time_ms)),
        p.naming AND o.verdict NOT IN {standing}, p.row
    ) - 1, p.row, p.number, NOT p.naming OR p.original IS NOT NULL, p.is_unknown
FROM placed p JOIN output o USING (row) LEFT JOIN placed original ON original.row = p.original AND p.is_unknown
WHERE NOT p.naming OR p.original IS NOT NULL OR o.verdict IN {standing}
"""


def write_order(table: Table) -> None:
    """Write all decidable documents, each once, in decision order.

    Documents unknown to the index follow their source's known ones, by timestamp, and a duplicate follows its original.
    A document whose original is unreadable is left out.
    """
    table.execute(";".join(each.format(naming=NAMING, standing=STANDING) for each in (_PLACE, _ORDER)))
