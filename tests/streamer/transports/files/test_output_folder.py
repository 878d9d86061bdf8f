import os
import signal
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import orjson
import pytest
from pyarrow import parquet as arrow_parquet

from streamer.errors import RecoveryRefused, SettingsError
from streamer.transports.files.output_folder import COMPRESSIONS, Delivered, DeliveryHooks, OutputFolder, write_parquet
from tests.support.file_filter import outputs
from tests.support.paths import ROOT

HOLD = (
    "import sys, signal; from pathlib import Path\n"
    "from streamer.transports.files.output_folder import DeliveryHooks, OutputFolder\n"
    "folder = OutputFolder(Path(sys.argv[1]), DeliveryHooks()); folder.open()\n"
    "print('open', flush=True); signal.pause()\n"
)
ONE = Delivered("/data/one.jsonl", "one.jsonl", "0" * 32)


def opened(path: Path) -> OutputFolder:
    folder = OutputFolder(path, DeliveryHooks())
    folder.open()
    return folder


def test_a_second_filter_is_refused_while_the_first_lives_and_only_then(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path / "out"], stdout=subprocess.PIPE, cwd=ROOT) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"open\n"
        second = OutputFolder(tmp_path / "out", DeliveryHooks())
        with pytest.raises(
            SettingsError, match=rf"another filter writes here \(process {first.pid}\): wait for its end"
        ):
            second.open()
        second.close()
        first.send_signal(signal.SIGKILL)
    opened(tmp_path / "out").close()


def test_two_openings_in_one_process_are_refused_too(tmp_path: Path) -> None:
    first = opened(tmp_path)
    second = OutputFolder(tmp_path, DeliveryHooks())
    with pytest.raises(SettingsError, match=f"process {os.getpid()}"):
        second.open()
    second.close()
    first.close()


def test_the_checkpoint_is_written_like_this(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    folder.register([ONE])
    folder.append(
        {"unique.jsonl": b"a\n", "verdicts.jsonl": b"{}\n"},
        [ONE.going_on(begin=0, lines=1, mark="ab" * 16, settings="1f")],
        {"unique/no-match": 1},
    )
    folder.close()
    assert (tmp_path / "checkpoint.json").read_text() == (
        '{"format":2,"compression":"","lengths":{"unique.jsonl":2,"duplicate.jsonl":0,"dead-letter.jsonl":0,"verdicts.jsonl":3},'
        '"sources":[{"path":"/data/one.jsonl","name":"one.jsonl","stream":"00000000000000000000000000000000",'
        '"lines":1,"mark":"abababababababababababababababab","settings":[["1f",0]]}],"outcomes":{"unique/no-match":1}}\n'
    )
    again = opened(tmp_path)
    assert again.sources == {ONE.path: Delivered(ONE.path, ONE.name, ONE.stream, 1, "ab" * 16, (("1f", 0),))}
    again.close()


def test_outcomes_add_up_over_runs_unless_a_former_build_delivered_some(tmp_path: Path) -> None:
    for count in (2, 3):
        folder = opened(tmp_path)
        folder.append({"unique.jsonl": b"a\n"}, [ONE], {"unique/no-match": 1, "duplicate/similar": count})
        folder.close()
        assert folder.outcomes == {"unique/no-match": count - 1, "duplicate/similar": 2 + 3 * (count - 2)}
    checkpoint = tmp_path / "checkpoint.json"
    former = orjson.loads(checkpoint.read_bytes())
    del former["outcomes"]
    checkpoint.write_bytes(orjson.dumps(former))
    for _ in range(2):
        folder = opened(tmp_path)
        folder.append({"unique.jsonl": b"a\n"}, [ONE], {"unique/no-match": 1})
        folder.close()
        assert folder.outcomes is None


@pytest.mark.parametrize(("point", "counted"), [("after_outputs", 1), ("after_checkpoint", 2)])
def test_outcomes_are_delivered_with_their_lines_or_not_at_all(tmp_path: Path, point: str, counted: int) -> None:
    folder = opened(tmp_path)
    folder.append({"unique.jsonl": b"a\n"}, [ONE], {"unique/no-match": 1})
    folder.close()

    def fail() -> None:
        raise KeyboardInterrupt

    folder = OutputFolder(tmp_path, DeliveryHooks(**{point: fail}))
    folder.open()
    with pytest.raises(KeyboardInterrupt):
        folder.append({"unique.jsonl": b"b\n"}, [ONE], {"unique/no-match": 1})
    folder.close()
    folder = OutputFolder(tmp_path, DeliveryHooks())
    folder.look()
    assert folder.outcomes == {"unique/no-match": counted}


def test_lines_are_known_by_the_settings_that_decided_them_and_those_of_older_checkpoints_by_none() -> None:
    before = Delivered(ONE.path, ONE.name, ONE.stream, 5)
    first = before.going_on(begin=5, lines=8, mark="", settings="1f")
    same = first.going_on(begin=8, lines=9, mark="", settings="1f")
    other = same.going_on(begin=9, lines=12, mark="", settings="2e")
    assert [other.settings_at(line) for line in (0, 4, 5, 8, 9, 99)] == ["", "", "1f", "1f", "2e", "2e"]
    assert len(other.settings) == 2


def test_a_write_that_comes_in_pieces_is_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pwrite
    folder = opened(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda descriptor, content, offset: whole(descriptor, content[:7], offset))
        for number in range(3):
            folder.append({"unique.jsonl": b"%d, a line of some length\n" % number}, [ONE])
    folder.close()
    assert (tmp_path / "unique.jsonl").read_bytes() == b"".join(b"%d, a line of some length\n" % n for n in range(3))


def test_what_was_written_but_not_delivered_is_cut_off_at_the_next_opening(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    folder.append({"unique.jsonl": b"a\n", "verdicts.jsonl": b"{}\n"}, [ONE])
    folder.close()
    for name in ("unique.jsonl", "duplicate.jsonl"):
        with (tmp_path / name).open("ab") as file:
            file.write(b"half a li")
    opened(tmp_path).close()
    assert (tmp_path / "unique.jsonl").read_bytes() == b"a\n"
    assert (tmp_path / "duplicate.jsonl").read_bytes() == b""


@pytest.mark.parametrize(
    ("field", "damaged"),
    [
        (b'"unique.jsonl":6', b'"unique.jsonl":0'),
        (b'"unique.jsonl":6', b'"unique.jsonl":3'),
        (b'"unique.jsonl":6', b'"unique.jsonl":4'),
        (b'"unique.jsonl":6', b'"unique.jsonl":-1'),
        (b'"unique.jsonl":6,', b""),
        (b'"unique.jsonl":6', b'"elsewhere.jsonl":6'),
        (b'"unique.jsonl":6,"duplicate.jsonl":2', b'"unique.jsonl":0,"duplicate.jsonl":0'),
        (b'"verdicts.jsonl":12', b'"verdicts.jsonl":0'),
        (b'"verdicts.jsonl":12', b'"verdicts.jsonl":6'),
        (b'"lines":4', b'"lines":-4'),
        (b'"unique/no-match":3', b'"unique/no-match":-3'),
        (b'"mark":"ab', b'"mark":"xy'),
    ],
)
def test_a_checkpoint_that_cannot_be_right_is_refused_and_cuts_nothing(
    tmp_path: Path, field: bytes, damaged: bytes
) -> None:
    folder = opened(tmp_path)
    contents = {"unique.jsonl": b"a\nb\nc\n", "duplicate.jsonl": b"a\n", "verdicts.jsonl": b"{}\n" * 4}
    folder.append(contents, [Delivered(ONE.path, ONE.name, ONE.stream, 4, "ab" * 16)], {"unique/no-match": 3})
    folder.close()
    checkpoint = tmp_path / "checkpoint.json"
    right = checkpoint.read_bytes()
    assert right.count(field) == 1
    checkpoint.write_bytes(right.replace(field, damaged))
    refused = OutputFolder(tmp_path, DeliveryHooks())
    with pytest.raises(RecoveryRefused, match=r"checkpoint\.json: is damaged"):
        refused.open()
    refused.close()
    assert {name: (tmp_path / name).read_bytes() for name in contents} == contents


CONTENTS = {
    "unique.jsonl": b"a\nb\n",
    "duplicate.jsonl": b"",
    "dead-letter.jsonl": b"\x1f\x8b\n",
    "verdicts.jsonl": b"{}\n" * 3,
}


def packed(path: Path, compression: str, *, undelivered: bytes = b"") -> OutputFolder:
    """A closed folder with two deliveries of CONTENTS, and bytes after them."""
    folder = OutputFolder(path, DeliveryHooks(), compression)
    folder.open()
    for lines in (3, 6):
        folder.append(CONTENTS, [Delivered(ONE.path, ONE.name, ONE.stream, lines, "ab" * 16)])
    folder.close()
    with folder.path("unique.jsonl").open("ab") as file:
        file.write(undelivered)
    return folder


@pytest.mark.parametrize("compression", ["gz", "zst"])
def test_each_delivery_is_a_member_and_members_read_back_as_one_file(tmp_path: Path, compression: str) -> None:
    folder = packed(tmp_path, compression)
    assert outputs(tmp_path) == {name: 2 * content for name, content in CONTENTS.items()}
    lengths, _ = folder.look()
    for name, content in CONTENTS.items():
        size = folder.path(name).stat().st_size
        assert size == lengths[name]
        assert list(folder.lines(name, size)) == (2 * content).splitlines()
        assert list(folder.lines(name, size // 2)) == content.splitlines()


@pytest.mark.parametrize("compression", ["", "gz", "zst"])
def test_half_a_member_is_cut_off_at_the_next_opening(tmp_path: Path, compression: str) -> None:
    member = COMPRESSIONS[compression](b"never delivered\n")
    folder = packed(tmp_path, compression, undelivered=member[: len(member) // 2])
    with pytest.raises((EOFError, AssertionError)):
        assert outputs(tmp_path)["unique.jsonl"] == 2 * CONTENTS["unique.jsonl"]
    opened(tmp_path).close()
    assert outputs(tmp_path)["unique.jsonl"] == 2 * CONTENTS["unique.jsonl"]
    assert folder.look()[0]["unique.jsonl"] == folder.path("unique.jsonl").stat().st_size


@pytest.mark.parametrize("compression", ["gz", "zst"])
@pytest.mark.parametrize("moved", [-9, 7, "one delivery"])
def test_a_length_that_is_no_border_of_all_deliveries_is_refused_and_cuts_nothing(
    tmp_path: Path, compression: str, moved: int | str
) -> None:
    folder = packed(tmp_path, compression, undelivered=COMPRESSIONS[compression](b"never delivered\n"))
    length = folder.look()[0]["unique.jsonl"]
    wrong = length // 2 if isinstance(moved, str) else length + moved
    checkpoint = tmp_path / "checkpoint.json"
    checkpoint.write_text(checkpoint.read_text().replace(f'"unique.jsonl":{length}', f'"unique.jsonl":{wrong}'))
    before = folder.path("unique.jsonl").read_bytes()
    refused = OutputFolder(tmp_path, DeliveryHooks())
    with pytest.raises(RecoveryRefused, match=r"is damaged|is truncated"):
        refused.open()
    refused.close()
    assert folder.path("unique.jsonl").read_bytes() == before


@pytest.mark.parametrize("compression", ["gz", "zst"])
def test_damaged_outputs_are_refused_by_name(tmp_path: Path, compression: str) -> None:
    folder = packed(tmp_path, compression)
    path = folder.path("verdicts.jsonl")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + b"?" * (len(content) - len(content) // 2))
    with pytest.raises(RecoveryRefused, match=rf"verdicts\.jsonl\.{compression}: the compressed data is damaged"):
        list(folder.lines("verdicts.jsonl", len(content)))


def test_a_folder_keeps_its_compression_and_another_one_is_refused(tmp_path: Path) -> None:
    packed(tmp_path, "gz")
    for other in ("", "zst"):
        refused = OutputFolder(tmp_path, DeliveryHooks(), other)
        with pytest.raises(SettingsError, match="its outputs are gz: leave out --compress, or name another --out"):
            refused.open()
        refused.close()
    goes_on = opened(tmp_path)
    goes_on.append({"unique.jsonl": b"c\n"}, [])
    goes_on.close()
    assert outputs(tmp_path)["unique.jsonl"] == 2 * CONTENTS["unique.jsonl"] + b"c\n"
    assert not (tmp_path / "unique.jsonl").exists()


def table_of(path: Path) -> list[object]:
    rows = arrow_parquet.read_table(path).to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


WITH_PARQUET = (
    "import os, signal, sys\n"
    "from pathlib import Path\n"
    "from streamer.transports.files import output_folder, parquet\n"
    "rows = parquet._row\n"
    "def dies(line):\n"
    "    left[0] -= 1\n"
    "    left[0] or os.kill(os.getpid(), signal.SIGKILL)\n"
    "    return rows(line)\n"
    "left = [int(sys.argv[2])]\n"
    "parquet._row, parquet._GROUP_ROWS_MAX = dies, 2\n"
    "output_folder.write_parquet(Path(sys.argv[1]))\n"
)


@pytest.mark.parametrize("compression", ["", "zst"])
def test_a_conversion_that_is_killed_leaves_no_half_file_and_is_repeated(tmp_path: Path, compression: str) -> None:
    folder = OutputFolder(tmp_path, DeliveryHooks(), compression)
    folder.open()
    lines = [{"id": f"page {number}", "words": number} for number in range(7)]
    content = b"".join(orjson.dumps(line) + b"\n" for line in lines)
    folder.append({"unique.jsonl": content, "verdicts.jsonl": content}, [])
    folder.close()
    for dies_at in (3, 12, 23):
        command = [sys.executable, "-c", WITH_PARQUET, tmp_path, str(dies_at)]
        assert subprocess.run(command, cwd=ROOT, check=False).returncode == -signal.SIGKILL
        done = [path for path in tmp_path.glob("*.parquet") if "duplicate" not in path.name and "dead" not in path.name]
        assert {path.name for path in done} <= {"unique.parquet"}
        assert all(table_of(path) == lines for path in done)
    assert len(done) == 1
    inode = done[0].stat().st_ino
    write_parquet(tmp_path)
    assert done[0].stat().st_ino == inode
    assert {path.name: table_of(path) for path in tmp_path.glob("*.parquet")} == {
        "unique.parquet": lines,
        "duplicate.parquet": [],
        "dead-letter.parquet": [],
        "verdicts.parquet": lines,
    }
    assert not list(tmp_path.glob("*.unfinished"))

    grown = opened(tmp_path)
    grown.append({"unique.jsonl": b'{"id": 8}\n'}, [])
    grown.write_parquet()
    grown.close()
    table = arrow_parquet.read_table(tmp_path / "unique.parquet")
    assert table.column("id").to_pylist() == [*(f'"page {number}"' for number in range(7)), "8"]


def test_a_folder_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file", tmp_path / "file" / "out"):
        with pytest.raises(SettingsError, match=r"--out .*file.*: cannot be used"):
            opened(path)


def test_a_hook_is_called_at_each_point_of_a_delivery(tmp_path: Path) -> None:
    seen: list[tuple[str, bytes, bool]] = []

    def look(point: str) -> None:
        checkpoint = (tmp_path / "checkpoint.json").read_bytes()
        seen.append((point, (tmp_path / "unique.jsonl").read_bytes(), b'"unique.jsonl":2' in checkpoint))

    folder = OutputFolder(
        tmp_path,
        DeliveryHooks(
            before_outputs=lambda: look("before"),
            after_outputs=lambda: look("between"),
            after_checkpoint=lambda: look("after"),
        ),
    )
    folder.open()
    folder.append({"unique.jsonl": b"a\n"}, [ONE])
    folder.close()
    assert seen == [("before", b"", False), ("between", b"a\n", False), ("after", b"a\n", True)]


@pytest.mark.parametrize("name", ["lock", "unique.jsonl", "checkpoint.json.unfinished", "unique.parquet.new"])
@pytest.mark.parametrize("is_there", [True, False])
def test_links_that_somebody_planted_lead_no_line_elsewhere(tmp_path: Path, name: str, is_there: bool) -> None:
    folder, victim = tmp_path / "out", tmp_path / "victim"
    folder.mkdir()
    if is_there:
        victim.write_bytes(b"mine")
    (folder / name).symlink_to(victim)
    output = OutputFolder(folder, DeliveryHooks())
    with suppress(SettingsError, RecoveryRefused), closing(output):
        output.open()
        output.append({"unique.jsonl": b"{}\n", "verdicts.jsonl": b"{}\n"}, [])
        output.write_parquet()
    assert (victim.read_bytes() if victim.exists() else None) == (b"mine" if is_there else None)
