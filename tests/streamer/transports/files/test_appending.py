"""Giving back over files: lines and verdicts are appended together or not at all, and never beside a filter at work."""

from contextlib import suppress
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index import Verdict
from streamer.errors import SettingsError
from streamer.records.record import Destination, Record
from streamer.records.route import given_back
from streamer.settings.settings import Batching
from streamer.transports.files.output_folder import OUTPUTS, VERDICTS, Delivered, DeliveryHooks, OutputFolder
from streamer.transports.files.output_log import FileOutputLog
from streamer.transports.output_log import GIVE_BACK
from tests.support.examples import examples
from tests.support.file_filter import outputs

INPUT = Delivered("/data/one.jsonl", "one.jsonl", "stream-1", lines=6)


def filtered(folder: Path, compression: str | None = None) -> Path:
    """A folder with one unique line and five duplicates of it."""
    written = OutputFolder(folder, DeliveryHooks(), compression)
    written.open()
    verdicts = [{"source": "one.jsonl", "line": 1, "id": "kept", "verdict": "unique", "original": None}]
    verdicts += [
        {"source": "one.jsonl", "line": line, "id": f"page {line}", "verdict": "duplicate", "original": "kept"}
        | {"original_source": "one.jsonl", "original_line": 1}
        for line in range(2, 7)
    ]
    lines = b"".join(orjson.dumps(each | {"distance": None, "reason": "similar"}) + b"\n" for each in verdicts)
    dropped = b"".join(b"line %d\n" % line for line in range(2, 7))
    written.append({"unique.jsonl": b"line 1\n", "duplicate.jsonl": dropped, VERDICTS: lines}, [INPUT])
    written.close()
    return folder


class Died(Exception):
    """The process died."""


def died() -> None:
    raise Died


def output_log(folder: Path, hooks: DeliveryHooks | None = None) -> FileOutputLog:
    return FileOutputLog(folder, Batching(records_max=2), hooks)


def dropped(of: FileOutputLog) -> list[Record]:
    found = [each.record for outputs in of.outputs([Destination.DUPLICATE]) for each in outputs]
    return [record for record in found if record is not None]


@examples(10)
@given(
    st.lists(st.sampled_from(["before_outputs", "after_outputs", "after_checkpoint", None]), max_size=5),
    st.sampled_from(["", "gz", "zst"]),
)
def test_wherever_it_dies_every_line_comes_back_once(
    tmp_path_factory: pytest.TempPathFactory, lives: list[str | None], compression: str
) -> None:
    folder = filtered(tmp_path_factory.mktemp("out"), compression)
    for moment in [*lives, None]:
        giving = output_log(folder, DeliveryHooks(**({} if moment is None else {moment: died})))
        giving.open(GIVE_BACK)
        try:
            sent = {
                each.record.offset
                for outputs in giving.outputs([Destination.UNIQUE])
                for each in outputs
                if each.record is not None and each.headers.verdict is Verdict.GIVEN_BACK
            }
            left = [record for record in dropped(giving) if record.offset not in sent]
            for record in left:
                record.headers = given_back(record.headers)
            with suppress(Died):
                for record in left:
                    giving.append([record])
        finally:
            giving.close()
    assert sorted(outputs(folder)["unique.jsonl"].splitlines()) == [b"line %d" % line for line in range(1, 7)]
    verdicts = [orjson.loads(line) for line in outputs(folder)[VERDICTS].splitlines()]
    back = {each["line"]: each["id"] for each in verdicts if each["verdict"] == "given-back"}
    assert back == {line: f"page {line}" for line in range(2, 7)}
    assert len(verdicts) == 11


def test_a_folder_in_which_a_filter_writes_is_refused(tmp_path: Path) -> None:
    folder = filtered(tmp_path / "out")
    filtering = OutputFolder(folder, DeliveryHooks())
    filtering.open()
    with pytest.raises(SettingsError, match="another filter writes here"):
        output_log(folder).open(GIVE_BACK)
    # A dry run reads beside it.
    looking = output_log(folder)
    looking.open(None)
    assert len(dropped(looking)) == 5
    assert {claim.offset for claim in looking.claims().values()} == {6}
    filtering.close()


def test_a_folder_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="checkpoint"):
        output_log(tmp_path).open(GIVE_BACK)
    assert not any((tmp_path / name).exists() for name in OUTPUTS)
