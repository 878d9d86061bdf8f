import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.index import Index
from index.matching.minhash import banding_for
from index.matching.root import RootRule
from index.session import Retention
from index.storage.parameters import Parameters
from streamer.errors import InputUnreadable
from streamer.index_admin.export import export, read_header, take_in
from streamer.records.reason import Reason
from streamer.transports.files.line_reader import lines
from tests.support.entries import ONE, Row, ends_of, entries_of
from tests.support.examples import examples
from tests.support.index_process import PARAMETERS
from tests.support.indexes import (
    MAP_BYTES_MAX,
    SMALL,
    all_records,
    everything,
    filled,
    looked_at,
    mixed_rows,
    opened,
    wrong,
)
from tests.support.looks import LOOKS, looked_at_rows, parameters_with
from tests.support.paths import ROOT


def nobody(_: int) -> None: ...


def exported(directory: Path, file: Path) -> int:
    with looked_at(directory) as index:
        return export(index, file, nobody)


def imported(file: Path, directory: Path) -> tuple[int, int]:
    found = lines(file)
    parameters, streams, positions = read_header(found, str(file))
    with Index.open(directory, parameters, map_bytes_max=MAP_BYTES_MAX) as index:
        return take_in(index, found, streams, positions, str(file), nobody)


@examples(10)
@given(
    st.integers(0, 2**32),
    st.integers(0, 120),
    st.sampled_from([64, 128]),
    st.sampled_from(["unique", "root"]),
    st.sampled_from(["export.jsonl", "export.jsonl.zst"]),
)
def test_an_exported_index_comes_back_equal_and_a_second_time_changes_nothing(
    seed: int, count: int, bits: int, insert: Any, name: str
) -> None:
    root = RootRule(4) if insert == "root" else None
    parameters = Parameters(bits, 2, insert, {"scheme": "a", "weight": "b"}, root=root)
    rows = mixed_rows(seed, count, bits)
    with tempfile.TemporaryDirectory() as folder:
        first, second, file = Path(folder) / "first", Path(folder) / "second", Path(folder) / name
        filled(first, rows, parameters)
        with opened(first, parameters) as index:
            index.forget([row.id for row in rows[::9]])
            expected = everything(index)
        assert exported(first, file) == count
        assert imported(file, second) == (count, 0)
        assert imported(file, second) == (0, count)
        with looked_at(second) as index:
            assert index.parameters == parameters
            assert everything(index) == expected
        assert wrong(second) == {}
        again = file.with_name("again.jsonl")
        exported(second, again)
        assert list(lines(again)) == list(lines(file))


def test_a_line_whose_look_is_not_as_long_as_the_others_is_refused(tmp_path: Path) -> None:
    look = LOOKS["cosine"]
    filled(tmp_path / "first", looked_at_rows(3, 10, look), parameters_with(look))
    exported(tmp_path / "first", tmp_path / "export.jsonl")
    text = (tmp_path / "export.jsonl").read_text()
    (tmp_path / "export.jsonl").write_text(text.replace('"look":"', '"look":"ff', 1))
    with pytest.raises(InputUnreadable, match="a look has 12 bytes, not 13"):
        imported(tmp_path / "export.jsonl", tmp_path / "second")


@pytest.mark.parametrize("minhash_lookup_of", [False, True])
def test_an_index_with_entries_that_left_or_were_raised_comes_back_with_what_counts(
    tmp_path: Path, minhash_lookup_of: bool
) -> None:
    banding = banding_for(64, 8, 0.7) if minhash_lookup_of else None
    parameters = Parameters(512 if minhash_lookup_of else 64, 3, "root", {}, banding, root=RootRule(6))
    rows = mixed_rows(4, 300, parameters.bits, repeated=0.4)
    options = {"sizes": SMALL, "retention": Retention(90)}
    filled(tmp_path / "first", rows, parameters, batch_rows=13, **options)
    with opened(tmp_path / "first", parameters, **options) as index:
        index.forget([row.id for row in rows[250:270]])
        kept = len(all_records(index))
    assert kept < len(rows)
    for name in ("second", "third"):
        before = "first" if name == "second" else "second"
        assert exported(tmp_path / before, tmp_path / f"{name}.jsonl") == kept
        assert imported(tmp_path / f"{name}.jsonl", tmp_path / name) == (kept, 0)
        assert wrong(tmp_path / name) == {}
    lines_of = [list(lines(tmp_path / f"{name}.jsonl")) for name in ("second", "third")]
    assert len(lines_of[0]) == len(lines_of[1]) == kept + 2
    fields = [json.loads(line) for line in lines_of[0]]
    assert any("origin" in each and "original" not in each for each in fields)
    assert sum(each.get("forgotten", False) for each in fields) > 5
    more = [row._replace(offset=1_000 + row.offset) for row in rows]
    with opened(tmp_path / "first", parameters) as first, opened(tmp_path / "third", parameters) as third:
        expected, found = (index.admit(entries_of(more, parameters.bits), ends_of(more)) for index in (first, third))
    assert found.verdicts.tolist() == expected.verdicts.tolist()
    assert found.original_ids == expected.original_ids


def test_an_export_may_be_compressed_by_others_and_ids_may_hold_anything(tmp_path: Path) -> None:
    ids = ["\ud800 half a pair", 'quotes " and \n breaks', "汉字", "\x00"]
    rows = [Row(offset, 0xFFFF << (16 * offset), id=id_) for offset, id_ in enumerate(ids)]
    with opened(tmp_path / "first") as index:
        index.admit(entries_of(rows), ends_of(rows))
    exported(tmp_path / "first", tmp_path / "export.jsonl")
    (tmp_path / "export.gz").write_bytes(gzip.compress((tmp_path / "export.jsonl").read_bytes()))
    imported(tmp_path / "export.gz", tmp_path / "second")
    with looked_at(tmp_path / "second") as index:
        assert [document.id for document in index.documents(range(4)) if document] == ids


def test_an_export_of_an_index_that_another_process_writes_is_of_one_moment(tmp_path: Path) -> None:
    Index.open(tmp_path / "first", PARAMETERS, map_bytes_max=MAP_BYTES_MAX).close()
    command = [sys.executable, "-m", "tests.support.index_process", str(tmp_path / "first"), "0", "1000"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        process.stdin.write("\n")
        process.stdin.flush()
        counts = []
        for number in range(3):
            acknowledged = int(process.stdout.readline())
            counts.append(exported(tmp_path / "first", tmp_path / f"{number}.jsonl"))
            assert counts[-1] >= acknowledged
    for number, count in enumerate(counts):
        imported(tmp_path / f"{number}.jsonl", tmp_path / str(number))
        assert wrong(tmp_path / str(number)) == {}
        with looked_at(tmp_path / str(number)) as index:
            assert index.statistics().journal_rows == count
            assert [applied.offset for applied in index.applied().values()] == [count]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda found: found[:-1], r"ends too early, after line 61"),
        (lambda found: [*found, found[-2]], r"line 63 cannot be read: more lines follow the last one"),
        (lambda found: found[1:], r"not an export of an index"),
        (lambda _: [], r"not an export of an index"),
        (
            lambda found: [found[0].replace(b'_export":7', b'_export":2'), *found[1:]],
            r"version 2. This program reads version 7, and 6",
        ),
        (lambda found: [found[0], b"{", *found[1:]], r"line 2 cannot be read"),
        (lambda found: [found[0], found[1].replace(b'"stream":0', b'"stream":9'), *found[2:]], r"line 2 cannot be read"),
        (lambda found: [found[0], b'{"offset": 3}', *found[1:]], r"line 2 cannot be read: 'stream'"),
        (lambda found: [*found[:60], found[61]], r"has 59 positions of 60: lines are missing"),
        (lambda found: [found[0], found[1].replace(b'"number":0,', b""), *found[2:]], r"is unique, without its document"),
        (lambda found: [found[0], found[1].replace(b'"unique"', b'"duplicate"'), *found[2:]], r"with a document"),
    ],
)  # fmt: skip
def test_a_damaged_export_is_refused_and_what_was_read_verifies(change: Any, complaint: str, tmp_path: Path) -> None:
    rows = [Row(offset, offset << 32, ONE) for offset in range(60)]
    filled(tmp_path / "first", rows)
    exported(tmp_path / "first", tmp_path / "export.jsonl")
    found = (tmp_path / "export.jsonl").read_bytes().splitlines()
    assert len(found) == 62
    (tmp_path / "export.jsonl").write_bytes(b"".join(line + b"\n" for line in change(found)))
    with pytest.raises(InputUnreadable, match=complaint):
        imported(tmp_path / "export.jsonl", tmp_path / "second")
    if (tmp_path / "second").exists():
        assert wrong(tmp_path / "second") == {}


def former(export_lines: bytes, **parameters: object) -> bytes:
    """An export as the program before wrote it, of an index with these parameters."""
    header, *others = export_lines.splitlines(keepends=True)
    fields = json.loads(header)
    fields["neardup_index_export"] = 6
    if "root" in fields["parameters"]:
        root = fields["parameters"]["root"]
        fields["parameters"]["root"] = {"distance_max": root["distance_max"], "apart": root["member_distance_min"]}
    fields["parameters"] |= parameters
    return json.dumps(fields).encode() + b"\n" + b"".join(others)


def test_an_export_of_an_earlier_program_is_entered_with_its_limits_and_its_reasons_have_labels(tmp_path: Path) -> None:
    rows = [Row(offset, 0xFFFF << (16 * offset), id=str(offset)) for offset in range(4)]
    parameters = Parameters(64, 3, "root", root=RootRule(6, 2))
    filled(tmp_path / "first", rows, parameters)
    exported(tmp_path / "first", tmp_path / "export.jsonl")
    export_lines = former((tmp_path / "export.jsonl").read_bytes())
    for own, number in enumerate((3, 4, 5, 9)):
        export_lines = export_lines.replace(
            f'"offset":{own},"verdict":"unique","reason":0'.encode(),
            (f'"offset":{own},"verdict":"unique","reason":{number}'.encode()),
        )
    (tmp_path / "export.jsonl").write_bytes(export_lines)
    assert imported(tmp_path / "export.jsonl", tmp_path / "second") == (4, 0)
    with looked_at(tmp_path / "second") as index:
        assert index.parameters == parameters
        reasons = [Reason(record.reason) for record in all_records(index)]
    assert reasons == [Reason.ORDINARY, Reason.SHORT_TEXT, Reason.UPDATE_MINOR, Reason.CRAFTED]
    assert wrong(tmp_path / "second") == {}


def test_an_export_of_an_index_that_holds_all_documents_is_refused_with_the_way_out(tmp_path: Path) -> None:
    filled(tmp_path / "first", [Row(0, 1)])
    exported(tmp_path / "first", tmp_path / "export.jsonl")
    (tmp_path / "export.jsonl").write_bytes(former((tmp_path / "export.jsonl").read_bytes(), insert="all"))
    with pytest.raises(
        InputUnreadable, match=r'insert = "all", which was removed. Rebuild the index from the output topics'
    ):
        imported(tmp_path / "export.jsonl", tmp_path / "second")
    assert not (tmp_path / "second").exists()


def test_a_line_of_an_export_reads_by_itself(tmp_path: Path) -> None:
    rows = [
        Row(7, 0x0123456789ABCDEF, ONE, time_ms=5, id="a", reason=1, host="h", digests=(255, 16)),
        Row(8, 0x0123456789ABCDEE, ONE, id="b", digests=(1, 1)),
    ]
    with opened(tmp_path / "index") as index:
        index.begin(ONE, "news", 7)
        index.admit(entries_of(rows), ends_of(rows), {ONE: b"\x01\x02"})
        index.forget(["a"])
    exported(tmp_path / "index", tmp_path / "export.jsonl")
    header, *others = map(json.loads, (tmp_path / "export.jsonl").read_bytes().splitlines())
    assert header == {
        "neardup_index_export": 7,
        "parameters": {"bits": 64, "distance_max": 3, "insert": "unique", "fingerprint": {}},
        "streams": [["stream-one", "news"]],
        "positions": 2,
    }
    document = {
        "number": 0,
        "id": "a",
        "time_ms": 5,
        "kind": "near",
        "fingerprint": "0123456789abcdef",
        "forgotten": True,
        "text": "00000000000000ff",
        "substance": "0000000000000010",
        "host": "f5ef6a66",
    }
    position = {"stream": 0, "partition": 0, "original": 0}
    assert others == [
        {**position, "offset": 7, "verdict": "unique", "reason": 1, **document},
        {
            **position,
            "offset": 8,
            "verdict": "duplicate",
            "reason": 0,
            "distance": 1,
            "id": "b",
            "text": "0000000000000001",
            "origin": ["a", 0, 0, 7],
        },
        {"applied": [[0, 0, 9, "0102"]]},
    ]
