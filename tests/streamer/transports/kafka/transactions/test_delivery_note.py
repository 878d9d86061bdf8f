"""What workers note of their deliveries proves what was delivered, and never more."""

from contextlib import closing
from pathlib import Path

import pytest

from streamer.settings.kafka import Kafka
from streamer.transports.kafka.transactions.delivery_note import Delivered, DeliveryNote


def note(folder: Path | None, instance: str = "0", stream: str = "pages", group: str = "neardup") -> DeliveryNote:
    return DeliveryNote(folder, Kafka(group=group), instance, stream)


def test_each_worker_knows_what_any_worker_of_its_group_and_stream_delivered(tmp_path: Path) -> None:
    with closing(note(tmp_path)) as first, closing(note(tmp_path, "1")) as second:
        first.deliver({0: 70, 1: 5})
        second.deliver({1: 9})
        assert first.of_all() == second.of_all() == {0: Delivered(0, 70), 1: Delivered(0, 9)}
    for other in (note(tmp_path, stream="again"), note(tmp_path, group="other"), note(None)):
        assert other.of_all() == {}
        other.close()


def test_a_worker_that_starts_again_keeps_what_it_noted(tmp_path: Path) -> None:
    for offset in (70, 7_000, 80):
        with closing(note(tmp_path)) as before:
            before.deliver({0: offset, 1: 1})
    with closing(note(tmp_path)) as again:
        again.deliver({1: 2})
        assert again.of_all() == {0: Delivered(0, 80), 1: Delivered(0, 2)}


def test_a_partition_that_begins_before_its_end_again_counts_from_there_for_every_worker(tmp_path: Path) -> None:
    with closing(note(tmp_path)) as first, closing(note(tmp_path, "1")) as second:
        first.deliver({0: 70})
        second.begin(0, 70)
        assert second.of_all() == {0: Delivered(0, 70)}
        second.begin(0, 20)
        second.deliver({0: 30})
        assert first.of_all() == {0: Delivered(1, 30)}


@pytest.mark.parametrize("damage", [b"", b"\n", b"0" * 40, b'0123456789abcdef["neardup"'])
def test_a_damaged_note_counts_as_none(tmp_path: Path, damage: bytes) -> None:
    with closing(note(tmp_path)) as first:
        first.deliver({0: 70})
    (file,) = tmp_path.iterdir()
    assert file.name == "neardup%3A0.delivered"
    file.write_bytes(damage)
    with closing(note(tmp_path)) as again:
        assert again.of_all() == {}


def test_a_folder_that_is_gone_or_full_stops_no_delivery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(note(tmp_path / "gone")) as none:
        none.deliver({0: 70})

    def full(*_: object) -> int:
        raise OSError("no space left on device")

    with closing(note(tmp_path)) as first:
        first.deliver({0: 60})
        monkeypatch.setattr("os.pwrite", full)
        first.deliver({0: 70})
        with closing(note(tmp_path, "1")) as second:
            assert second.of_all() == {0: Delivered(0, 60)}
