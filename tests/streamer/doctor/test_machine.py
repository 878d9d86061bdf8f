"""Each check of this machine, and what makes it fail."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from index import Room, Writer
from streamer.doctor import machine
from streamer.doctor.finding import Finding, State
from streamer.doctor.machine import IndexFolder
from streamer.errors import SettingsError
from streamer.observe.auth import port_auth
from streamer.observe.http import HttpServer
from streamer.settings.settings import Decode, Index, Kafka, Observe, Settings

GOOD = IndexFolder("", "ext4", Room(0, 2**40, 2**30))
SETTINGS = Settings(index=Index(map_bytes_max=2**30))


def unwell(folder: IndexFolder, settings: Settings = SETTINGS) -> list[Finding]:
    return [finding for finding in machine.index_folder(settings.index, folder) if finding.state is not State.OK]


def test_a_folder_on_a_local_disk_with_room_is_well() -> None:
    assert unwell(GOOD) == []


@pytest.mark.parametrize(
    ("folder", "state", "words"),
    [
        (replace(GOOD, problem="/data: Read-only file system"), State.WRONG, "Read-only"),
        (replace(GOOD, file_system="nfs4"), State.WRONG, "a disk of this machine"),
        (replace(GOOD, file_system="fuse.sshfs"), State.WRONG, "is on fuse.sshfs"),
        (replace(GOOD, file_system="overlay"), State.ADVICE, "vanishes with its container"),
        (replace(GOOD, file_system="tmpfs"), State.ADVICE, "is on tmpfs"),
        (replace(GOOD, room=Room(0, 2**20, 2**20)), State.WRONG, "make room"),
        (replace(GOOD, room=Room(2**30, 2**40, 2**30)), State.WRONG, "raise index.map_bytes_max"),
        (replace(GOOD, writer=Writer(7, "streamer run", stopped=True)), State.WRONG, "kill -CONT 7"),
    ],
)
def test_a_folder_that_will_not_do_is_told(folder: IndexFolder, state: State, words: str) -> None:
    [found] = unwell(folder)
    assert found.state is state
    assert words in f"{found.result} {found.remedy}"


def test_a_process_that_writes_now_is_nothing_to_mend() -> None:
    assert unwell(replace(GOOD, writer=Writer(7, "streamer run", stopped=False))) == []


def test_looking_at_a_folder_leaves_nothing_there(tmp_path: Path) -> None:
    folder = machine.inspect_folder(tmp_path / "not" / "yet", map_bytes_max=None)
    assert list(tmp_path.iterdir()) == []
    assert folder.problem == ""
    assert folder.room.bytes_max == folder.room.free_bytes > 0
    assert folder.file_system


def test_a_folder_below_a_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert "Not a directory" in machine.inspect_folder(tmp_path / "file" / "index", map_bytes_max=None).problem


MOUNTS = [
    "1 0 8:1 / / rw shared:1 - ext4 /dev/sda1 rw",
    "2 1 0:5 / /data rw - nfs4 server:/data rw",
    "3 2 0:6 / /data/local\\040disk rw master:3 - xfs /dev/sdb1 rw",
    "4 1 0:7 / /over rw - ext4 /dev/sdc1 rw",
    "5 1 0:8 / /over rw - tmpfs none rw",
]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/index", "ext4"),
        ("/data", "nfs4"),
        ("/data/index", "nfs4"),
        ("/data/local disk/index", "xfs"),
        ("/database", "ext4"),
        ("/over/index", "tmpfs"),
    ],
)
def test_the_file_system_is_that_of_the_innermost_mount(path: str, found: str) -> None:
    assert machine.file_system_of(Path(path), MOUNTS) == found


@pytest.mark.parametrize("missing", ["crc32c", "gzip", "lz4", "snappy", "zstd"])
def test_a_library_that_is_missing_is_told(missing: str) -> None:
    available = dict.fromkeys(("crc32c", "gzip", "lz4", "snappy", "zstd"), True) | {missing: False}
    [found] = [each for each in machine.libraries(available, "lz4") if each.state is not State.OK]
    assert found.state is State.WRONG
    assert missing in found.check


def test_an_extra_is_looked_for_where_a_setting_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking() -> None:
        raise SettingsError("install it")

    assert list(machine.extras(Settings())) == []
    needing = Settings(decode=Decode(format="avro", registry_url="http://registry:8081"))
    assert [each.state for each in machine.extras(needing)] == [State.OK]
    monkeypatch.setattr(machine, "require_avro", lacking)
    assert [each.remedy for each in machine.extras(needing)] == ["install it"]


def test_the_package_that_reads_avro_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Settings(decode=Decode(format="avro", registry_url="http://registry:8081"))
    assert [each.state for each in machine.extras(reading)] == [State.OK]
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    (missing,) = machine.extras(reading)
    assert missing.state is State.WRONG
    assert " -m pip install 'fastavro>=" in missing.remedy


def test_the_package_of_the_chosen_client_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = Settings(kafka=Kafka(client="confluent-kafka"))
    assert [each.state for each in machine.extras(chosen)] == [State.OK]
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    (missing,) = machine.extras(chosen)
    assert missing.state is State.WRONG
    assert " -m pip install confluent-kafka==" in missing.remedy


def test_a_port_is_free_or_the_services_own_or_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = Settings(observe=Observe(port=taken.getsockname()[1]))
        problem = machine.port_problem("127.0.0.1", settings.observe.port)
        assert problem == "Address already in use"
    assert machine.port_problem("127.0.0.1", settings.observe.port) == ""
    assert not machine.serves_health(settings.observe)
    assert machine.port(settings.observe, "", running=False).state is State.OK
    assert machine.port(settings.observe, problem, running=False).state is State.WRONG
    assert machine.port(settings.observe, problem, running=True).state is State.OK


def test_an_address_of_another_machine_cannot_be_had() -> None:
    assert machine.port_problem("192.0.2.1", 9464) != ""
    assert machine.port_problem("no-such-host.invalid", 9464) != ""


def test_the_service_is_known_by_its_answer() -> None:
    with HttpServer("127.0.0.1", 0, lambda: b"", lambda: (False, "stopping"), lambda: (True, "ok")) as server:
        assert machine.serves_health(Observe(port=server.port))


def test_a_guard_is_looked_at_where_the_port_has_one(tmp_path: Path) -> None:
    assert list(machine.port_files(Observe())) == []
    password = tmp_path / "password"
    settings = Settings(observe=Observe(user="prometheus", password_file=password))
    [missing] = machine.port_files(settings.observe)
    assert missing.state is State.WRONG
    assert "observe.password_file" in missing.remedy
    password.write_text("word")
    assert [each.state for each in machine.port_files(settings.observe)] == [State.OK]


def test_the_service_is_known_by_its_answer_over_tls_too(tmp_path: Path) -> None:
    leaf = trustme.CA().issue_cert("127.0.0.1")
    file = tmp_path / "port.pem"
    leaf.private_key_and_cert_chain_pem.write_to_path(str(file))
    observe = Observe(tls_certificate_file=file, tls_key_file=file)
    with HttpServer(
        "127.0.0.1", 0, lambda: b"", lambda: (True, "ok"), lambda: (True, "ok"), port_auth(observe)
    ) as server:
        assert machine.serves_health(observe.model_copy(update={"port": server.port}))
        assert not machine.serves_health(Observe(port=server.port))
