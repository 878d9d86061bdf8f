from pathlib import Path

import numpy as np

from index.index import Index, internals_of
from index.matching.minhash import pack_bins
from index.session import ReadSession
from index.storage import log
from index.storage.layout import Filing, Table, pack_family, unpack_family
from index.tools import Importer, portions, snapshot
from index.tools.verify import verify_tables
from tests.support.entries import ONE
from tests.support.indexes import opened
from tests.support.template_sites import PARAMETERS, batch_of, site, told

SIGNATURES = pack_bins(site(np.random.default_rng(7), 120, 2, 1.0), 8)


def filled(index: Index, end: int = 100) -> list[tuple[str, str | None, int]]:
    return list(told(index, SIGNATURES[:end], []))


def wrong(index: Index) -> list[str]:
    findings = internals_of(index).read(verify_tables)
    return [example for finding in findings if finding.check == "families" for example in finding.examples]


def test_families_that_were_learnt_are_sound(tmp_path: Path) -> None:
    with opened(tmp_path, PARAMETERS) as index:
        verdicts = filled(index)
        assert {verdict for verdict, _, _ in verdicts} == {"unique", "duplicate", "template"}
        assert wrong(index) == []

        def counted(session: ReadSession) -> tuple[int, int, int]:
            counts = [session.transaction.count(table) for table in (Table.FAMILIES, Table.RELATIVES, Table.OWN)]
            return counts[0], counts[1], counts[2]

        assert min(internals_of(index).read(counted)) > 0


def test_each_damage_of_families_is_told(tmp_path: Path) -> None:
    def cut(transaction, key):  # type: ignore[no-untyped-def]
        family = unpack_family(bytes(transaction.existing(Table.FAMILIES, key)))
        transaction.put(Table.FAMILIES, key, pack_family(family)[:-1])

    def miscounted(transaction, key):  # type: ignore[no-untyped-def]
        family = unpack_family(bytes(transaction.existing(Table.FAMILIES, key)))
        transaction.put(Table.FAMILIES, key, pack_family(family._replace(relatives=family.relatives + 1)))

    def unnamed(transaction, key):  # type: ignore[no-untyped-def]
        transaction.delete(Table.FAMILIES, key)

    def strange(transaction, key):  # type: ignore[no-untyped-def]
        transaction.put(Table.RELATIVES, (10**6).to_bytes(8, "big"), key)

    def posted(transaction, key):  # type: ignore[no-untyped-def]
        transaction.add(Table.OWN, [key + b"\0\7"], [key])

    def unposted(transaction, _):  # type: ignore[no-untyped-def]
        for each in transaction.keys(Table.OWN):
            transaction.delete(Table.OWN, each)

    expected = {
        cut: "cannot be read",
        miscounted: "counts",
        unnamed: "heads a family that is not told of",
        strange: "has left",
        posted: "stands in `own` wrongly",
        unposted: "is nowhere",
    }
    for damage, words in expected.items():
        with opened(tmp_path / damage.__name__, PARAMETERS) as index:
            filled(index)
            heads = internals_of(index).read(
                lambda session: [
                    key
                    for key, value in session.transaction.walk(Table.FAMILIES)
                    if unpack_family(bytes(value)).is_known
                ]
            )
            internals_of(index).store.write(lambda transaction, damage=damage, key=heads[0]: damage(transaction, key))
            assert any(words in example for example in wrong(index)), damage.__name__


def test_an_import_decides_on_as_the_exported_index_would(tmp_path: Path) -> None:
    with opened(tmp_path / "one", PARAMETERS) as index, opened(tmp_path / "other", PARAMETERS) as other:
        filled(index)
        importer = Importer(other)
        importer.begin([(ONE.stream, "")])

        def taken(contents):  # type: ignore[no-untyped-def]
            for portion in portions(contents.records(), 64):
                importer.add(portion)
            importer.add_families(list(contents.families()))
            importer.finish(contents.applied())

        snapshot(index, taken)
        assert wrong(other) == []
        after = [
            [(int(each.verdicts[0]), each.original_ids[0]) for each in decided]
            for decided in (
                [one.admit(batch_of(SIGNATURES, row, row + 1), {ONE: row + 1}) for row in range(100, 120)]
                for one in (index, other)
            )
        ]
        assert after[0] == after[1]


def test_what_is_filed_by_own_text_stands_in_no_band(tmp_path: Path) -> None:
    with opened(tmp_path, PARAMETERS) as index:
        filled(index)

        def filings(session: ReadSession) -> set[int]:
            return {
                filing
                for batch in log.walk(session.transaction, session.words)
                for filing in batch.rows["filing"].tolist()
            }

        assert Filing.OWN in internals_of(index).read(filings)
