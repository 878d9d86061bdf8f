"""Checks as queries over the table, each with a name. SQL's NULL is as good as false.

A group is a scan over joined rows. At a position `o` is the output, `e` the print, `j` the index's row, and `i` the input.
At its original these are `p`, `f`, `k`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from index import EXTENDING, Kind, Verdict
from streamer.delivered.table import NAMING, NO_VERDICT, STANDING, Table, any_of
from streamer.records.reason import MINOR, RETURNED, SAME, label
from streamer.verification.findings import EXAMPLES_MAX, Findings

ROUNDING = 0.0006
"""Headers round to three digits, so two correct values may differ by this much."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check by its name in `findings.CHECKS`.

    wrong     SQL: which rows are problems
    words     SQL: an example in words
    over      SQL: which rows are examined; "": another check with this name counts them
    excused   problems that do not count, in SQL, by the reason that is reported with their number

    >>> Check("doubled", wrong="times > 1", words="place(row)").excused
    ()
    """

    name: str
    wrong: str
    words: str
    over: str = ""
    excused: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Checks over the same rows.

    rows       SQL from FROM on
    left_out   rows that are not checked, in SQL, by the reason that is reported with their number

    >>> from streamer.delivered.table import opened
    >>> from streamer.transports.output_log import Extent
    >>> findings = Findings()
    >>> with opened(folder / "delivered", Extent({}, {}, {}, {}, outputs=0, inputs=0)) as table:
    ...     Group("FROM output", [Check("doubled", wrong="times > 1", words="place(row)", over="1")]).run(table, findings)
    >>> findings.sound
    True
    """

    rows: str
    checks: Sequence[Check]
    left_out: Sequence[tuple[str, str]] = ()

    def run(self, table: Table, findings: Findings) -> None:
        """Count examined rows and problems, and note the first problems in words."""
        counted = [condition for _, condition in self.left_out]
        for check in self.checks:
            excused = [f"({condition})" for _, condition in check.excused]
            wrong = [check.wrong, *(f"{each} IS NOT TRUE" for each in excused)]
            excuses = [" AND ".join([*wrong[: place + 1], each]) for place, each in enumerate(excused)]
            counted += [check.over or "FALSE", *excuses, " AND ".join(wrong)]
        sums = ", ".join(f"count(*) FILTER (WHERE {condition})" for condition in counted)
        counts = iter(table.one(f"SELECT {sums} {self.rows}"))
        for reason, _ in self.left_out:
            findings.leave_out(reason, next(counts))
        for check in self.checks:
            findings.examine(check.name, next(counts))
            for reason, _ in check.excused:
                findings.leave_out(reason, next(counts))
            if wrong := next(counts):
                findings.note(check.name, self._examples(table, check), wrong)

    def _examples(self, table: Table, check: Check) -> list[str]:
        conditions = [check.wrong, *(f"({condition}) IS NOT TRUE" for _, condition in check.excused)]
        joined = "AND" if " WHERE " in self.rows else "WHERE"
        query = f"SELECT {check.words} {self.rows} {joined} {' AND '.join(conditions)} LIMIT {EXAMPLES_MAX}"
        return [words for portion in table.portions(query) for (words,) in portion]


MINOR_REASONS = any_of(sorted({label(Verdict.DUPLICATE, reason) for reason in (*MINOR.values(), *RETURNED.values())}))
"""SQL list: reasons for a version that differs from its older one in counters and dates, or that returned."""

_SAME_TEXT = any_of(label(Verdict.DUPLICATE, reason) for reason in SAME.values())
_KINDS = any_of((Kind.NEAR, Kind.EXACT))
_BOTH_READ = "e.is_read AND f.is_read"
KNOWN = f"e.kind IN {_KINDS} AND f.kind IN {_KINDS}"
"""SQL: both documents have a fingerprint."""

KNOWN_AND_READ = f"{KNOWN} AND {_BOTH_READ}"
_TEXT_DIFFERS = "substr(e.digests, 1, 8) IS NOT substr(f.digests, 1, 8)"
# A restored index learns frames in another order, and keeps none for documents that did not enter.
_IN_FRAMES = "(j.in_frame OR k.in_frame)"
_FRAMED = ("similarities in the frames of hosts, which the index may know otherwise", _IN_FRAMES)
_ONE_SOURCE = "o.original >= source.first AND o.original < source.stop"

_RATIO = f"max(o.length, {ROUNDING})"
_NEW_SHARE = f"max(0, 1 - 1 / {_RATIO}, 1 - (1 - o.distance / 1e4) / (2 - o.distance / 1e4) * (1 + 1 / {_RATIO}))"
"""As `streamer.records.relation.new_shares`, for similarities in units of 1 / 10,000."""

_OUTPUTS_OF_INPUT = """FROM source JOIN progress USING (number)
    CROSS JOIN input i ON i.row >= source.first AND i.row < source.stop
    LEFT JOIN output o ON o.row = i.row LEFT JOIN journal j ON j.row = i.row"""

_JOINS = """FROM output o LEFT JOIN output p ON p.row = o.original
    LEFT JOIN print e ON e.row = o.row LEFT JOIN print f ON f.row = o.original
    LEFT JOIN journal j ON j.row = o.row LEFT JOIN journal k ON k.row = o.original"""
_NAMING = f"WHERE o.verdict IN {NAMING} AND o.original >= 0"
JOINED = f"{_JOINS} {_NAMING}"
"""Documents that name an original."""

_NAMED = f"{_JOINS} LEFT JOIN measured m ON m.row = o.row {_NAMING}"
"""The same with their distances."""


IN_FLIGHT = """
WITH lines AS (
    SELECT first, count(*) AS all_, count(*) FILTER (WHERE row < committed) AS out,
        count(*) FILTER (WHERE row < applied) AS known
    FROM source JOIN progress USING (number) CROSS JOIN input ON row >= first AND row < stop GROUP BY number
)
SELECT coalesce(sum(all_ - out), 0), coalesce(sum(max(0, out - known)), 0) FROM lines
"""
"""Input records that need no output yet, and outputs that the index has yet to restore."""


def _to_original(words: str) -> str:
    return f"place(o.row) || ': {words} ' || place(o.original)"


def inputs() -> Group:
    """Every committed record came out, and once."""
    accounted = "EXISTS (SELECT 1 FROM placeholder each WHERE i.row >= each.first AND i.row < each.stop)"
    trimmed = f"""i.row < (
        SELECT below FROM trimmed WHERE trimmed.number = source.number AND trimmed.verdict = coalesce(j.verdict, {NO_VERDICT})
    )"""
    missing = Check(
        "missing",
        "o.row IS NULL AND i.row < progress.committed",
        "place(i.row)",
        over="i.row < progress.committed",
        excused=(
            ("records that could not be read, with a dead letter that stands for them", accounted),
            ("before the first output (recovery.first_start)", "i.row < progress.begun"),
            ("older than what is left of the outputs", trimmed),
        ),
    )
    return Group(_OUTPUTS_OF_INPUT, [Check("doubled", "o.times > 1", "place(i.row)", over="TRUE"), missing])


def given_back() -> Group:
    """What was given back had been dropped, and came back once."""
    rows = """FROM given_back g JOIN source ON g.row >= source.first AND g.row < source.stop
        LEFT JOIN output o ON o.row = g.row"""
    dropped = f"""(o.verdict IS {int(Verdict.DUPLICATE)} OR o.row IS NULL AND g.row < (
        SELECT below FROM trimmed WHERE trimmed.number = source.number AND trimmed.verdict = {int(Verdict.DUPLICATE)}
    ))"""
    # The index is read last: a running command may have decided them since.
    yet = "given back, and not in the outputs (yet): if no give-back runs, run it again"
    return Group(
        rows,
        [
            Check("given-back", "g.sent > 1", "place(g.row)", over="g.sent"),
            Check("given-back", f"g.sent AND NOT {dropped}", "place(g.row)"),
        ],
        left_out=[
            ("given back, and not known to the index (any more)", "g.sent AND NOT g.is_known"),
            (yet, "g.is_known AND NOT g.sent"),
        ],
    )


def unknown() -> Group:
    """The index knows every output that it must know."""
    needed = f"(o.verdict IN {STANDING} OR (i.row >= progress.committed AND o.row IS NULL))"
    return Group(
        _OUTPUTS_OF_INPUT,
        [
            Check(
                "journal-missing",
                f"j.row IS NULL AND i.row < progress.applied AND {needed}",
                "place(i.row) || ': is not known to the index'",
                over="i.row < progress.applied",
                excused=[("outputs that may have expired from the index", "i.row < progress.counting")],
            )
        ],
        left_out=[
            (
                "outputs that enter nothing, and that a restored index does not know",
                f"j.row IS NULL AND i.row < progress.applied AND {needed} IS NOT TRUE AND o.row IS NOT NULL",
            )
        ],
    )


def journal(by_now: str, *, has_hosts: bool) -> Group:
    """The index has the outputs' verdicts and entries.

    by_now     SQL: whether a position's output `o` has its id, text and fingerprint by the present settings
    has_hosts  whether the index has hosts with a sample
    """
    rows = """FROM journal j LEFT JOIN output o ON o.row = j.row LEFT JOIN output p ON p.row = o.original"""
    # A restored index may not have known the match when the page entered again.
    keeping = any_of((Verdict.TEMPLATE, *EXTENDING))
    known_as_unique = f"o.verdict IN {keeping} AND j.verdict = {int(Verdict.UNIQUE)}"
    duplicate = f"o.verdict = j.verdict AND j.verdict IN {NAMING}"
    # Restoring reads ids by earlier settings, perhaps other ones than the output or its original had.
    named_by_now = f"({by_now} AND (p.row IS NULL OR {by_now.replace('o.', 'p.')}))"
    checks = {
        "stands twice in the index": Check("journal-differs", "j.times > 1", "", over="o.row IS NOT NULL"),
        "has another verdict in the index": Check(
            "journal-differs",
            "o.verdict != j.verdict",
            "",
            excused=[
                (
                    "pages of templates, longer versions and new text that a restored index knows as unique alone",
                    known_as_unique,
                )
            ],
        ),
        "has another original in the index": Check(
            "journal-differs", f"{duplicate} AND o.original >= 0 AND j.original != o.original", ""
        ),
        "names its original by another id": Check(
            "journal-differs", f"{duplicate} AND {named_by_now} AND j.original_id IS NOT o.original_id", ""
        ),
        "has another distance in the index": Check(
            "journal-differs",
            # A restored duplicate has lost its distance, which its output may still have.
            f"{duplicate} AND j.distance != o.distance AND j.distance != -1 AND o.distance != -1",
            "",
            excused=[
                # A restored index measures by its own key, outputs by the key that decided them.
                (
                    "distances that another key or other settings than those of now measured",
                    f"NOT {named_by_now}",
                ),
                # A restored index learns frames in another order.
                ("distances in the frames of hosts, which a restored index may know otherwise", str(has_hosts)),
            ],
        ),
        "entered under another id": Check(
            "entry-differs", f"o.row IS NOT NULL AND j.entered AND {by_now} AND j.id IS NOT o.id", "", over="j.entered"
        ),
        "entered with another fingerprint": Check("entry-differs", "o.row IS NOT NULL AND j.other_print", ""),
        "entered with another second look": Check("entry-differs", "o.row IS NOT NULL AND j.other_look", ""),
        "stands for itself, and never entered": Check(
            "entry-differs", f"j.verdict IN {STANDING} AND NOT j.entered", ""
        ),
    }
    return Group(
        rows,
        [
            Check(each.name, each.wrong, f"place(j.row) || ': {words}'", each.over, each.excused)
            for words, each in checks.items()
        ],
    )


def originals(by_now: str, *, only_unique: bool) -> Group:
    """Every duplicate names an earlier document that is an original.

    only_unique  whether duplicates never enter; else an original may be an entered duplicate without a live original
    """
    verdict = f"CASE WHEN p.row IS NULL THEN coalesce(k.verdict, {NO_VERDICT}) ELSE p.verdict END"
    live_root = "EXISTS (SELECT 1 FROM journal root WHERE root.row = p.original AND NOT root.is_retired)"
    # An update replaces the page's older version, which may be a dropped copy.
    entered = (
        f"o.verdict = {int(Verdict.UPDATE)}"
        if only_unique
        else f"(o.verdict = {int(Verdict.UPDATE)} OR NOT {live_root})"
    )
    right = f"""({verdict} IN {STANDING} OR {verdict} IN {NAMING} AND {entered}
        OR EXISTS (SELECT 1 FROM given_back WHERE given_back.row = o.original))"""
    # A restored index has dropped documents last, and only its order counts between sources.
    later = (
        f"""CASE WHEN {_ONE_SOURCE} THEN o.original > o.row ELSE o.verdict NOT IN {STANDING} AND k.rank > j.rank END"""
    )
    both_by_now = f"{by_now} AND (p.row IS NULL OR {by_now.replace('o.', 'p.')})"
    problems = {
        "original-itself": "o.original = o.row",
        "original-later": f"o.original != o.row AND {later}",
        "original-not-unique": f"{verdict} != {NO_VERDICT} AND o.original != o.row AND NOT {right}",
        # An index that was restored since then knows ids by earlier settings.
        "original-id": f"{both_by_now} AND p.row IS NOT NULL AND o.original_id IS NOT p.id",
    }
    by_source = "FROM source CROSS JOIN output o ON o.row >= source.first AND o.row < source.stop"
    return Group(
        _NAMED.replace("FROM output o", by_source),
        [Check(name, wrong, _to_original("names"), over="TRUE") for name, wrong in problems.items()],
        left_out=[("originals still in flight", f"{verdict} = {NO_VERDICT}")],
    )


def updates(known: str) -> Group:
    """Every update replaced an older version: a retired document with its id and another text."""
    is_update = f"o.verdict = {int(Verdict.UPDATE)}"
    # A version that was dropped as a copy, or given back, has no entry to retire.
    indexed = f"{is_update} AND p.verdict IN {STANDING} AND j.row IS NOT NULL AND k.row IS NOT NULL"
    read = f"{is_update} AND {known} AND {_BOTH_READ}"
    problems = {
        "update-id": (is_update, "o.id IS NOT o.original_id"),
        "update-unretired": (indexed, "NOT k.is_retired"),
        "update-equal": (read, f"NOT {_TEXT_DIFFERS}"),
    }
    other_distance = f"{is_update} AND {known} AND o.distance != -1 AND o.distance != m.distance"
    return Group(
        _NAMED,
        [
            *(
                Check(name, f"{over} AND {wrong}", _to_original("replaces"), over)
                for name, (over, wrong) in problems.items()
            ),
            Check("similarity", other_distance, _to_original("replaces"), excused=[_FRAMED]),
        ],
        left_out=[
            ("updates without a fingerprint, or of a version without one", f"{is_update} AND ({known}) IS NOT TRUE")
        ],
    )


def lengths(by_now: str, *, of_shingles: bool, too_long: float, new_max: float) -> Group:
    """Every document that names an original reports its true length and new share, and is short enough.

    Lengths come from the texts if both were read, else from the headers.

    of_shingles  see `streamer.records.relation.Measure`
    too_long     a duplicate's largest length; infinite: any
    new_max      `index.new_max`
    """
    both_by_now = f"{by_now} AND (p.row IS NULL OR {by_now.replace('o.', 'p.')})"
    length = f"""CASE WHEN {both_by_now} AND e.letters > 0 AND f.letters > 0
        THEN CAST(e.letters AS REAL) / f.letters ELSE o.length END"""
    shingles = "TRUE" if of_shingles else "FALSE"
    new = _NEW_SHARE
    # Equal fingerprints and a page's own versions are duplicates at any length.
    bound = f"o.verdict = {int(Verdict.DUPLICATE)} AND o.distance != 0 AND o.reason NOT IN {MINOR_REASONS}"
    long = f"{bound} AND {length} > {too_long + ROUNDING}" if too_long < float("inf") else "FALSE"
    new_text = f"{shingles} AND {bound} AND {new} > {new_max + ROUNDING}" if new_max < 1 else "FALSE"
    problems = {
        "has another length beside": ("length", f"abs(o.length - ({length})) > {ROUNDING}", "TRUE"),
        "has another new share beside": (
            "length",
            f"{shingles} AND o.distance != -1 AND abs(o.new - {new}) > {ROUNDING}",
            "",
        ),
        "is too long to be dropped for": ("longer", f"{long} AND {_IN_FRAMES} IS NOT TRUE", "TRUE"),
        "has too much new text to be dropped for": ("new-text", new_text, "TRUE"),
    }
    return Group(
        _NAMED,
        [Check(name, wrong, _to_original(words), over) for words, (name, wrong, over) in problems.items()],
        left_out=[("lengths of pages in the frames of hosts, which do not count", f"{long} AND {_IN_FRAMES}")],
    )


def similarities(known: str, by_now: str, *, by_similarity: bool) -> Group:
    """Every duplicate reports its true similarity, and is similar enough."""
    # A version may be at any distance from its older one: both have one id.
    rows = f"{_NAMED} AND o.verdict != {int(Verdict.UPDATE)} AND o.reason NOT IN {MINOR_REASONS}"
    both_by_now = f"{by_now} AND (p.row IS NULL OR {by_now.replace('o.', 'p.')})"
    same = f"{known} AND o.reason IN {_SAME_TEXT} AND {both_by_now} AND {_BOTH_READ}"
    told, true = (_shown(distance, by_similarity) for distance in ("o.distance", "m.distance"))
    words = f"place(o.row) || ': tells ' || {told} || ' of ' || place(o.original) || ', which is ' || {true}"
    return Group(
        rows,
        [
            Check("same-text", f"{same} AND {_TEXT_DIFFERS}", _to_original("has another text than"), same),
            Check(
                "similarity",
                f"{known} AND (NOT m.is_near OR m.distance != o.distance)",
                words,
                known,
                excused=[_FRAMED],
            ),
        ],
        left_out=[("duplicates without a fingerprint, or of an original without one", f"({known}) IS NOT TRUE")],
    )


def _shown(distance: str, by_similarity: bool) -> str:
    words = f"'similarity ' || round(1 - {distance} / 1e4, 4)" if by_similarity else f"'distance ' || {distance}"
    return f"iif({distance} = -1, 'none', {words})"
