"""Checks on this machine: libraries, index folder and port. Most take their facts as arguments."""

import http.client
import socket
import ssl
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path

from index import Room, Writer, nearest_existing, room_of, writer_of
from streamer.doctor.finding import Finding, advice, attempted, ok, wrong
from streamer.observe.auth import port_auth
from streamer.records.schemas import require_avro
from streamer.settings.settings import Index, Observe, Settings
from streamer.transports.kafka.client import require_client

NETWORK_FILE_SYSTEMS = frozenset(
    ("9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs")
)
"""Shared file systems. LMDB's memory map and locks work on one machine only."""

PASSING_FILE_SYSTEMS = frozenset(("overlay", "ramfs", "tmpfs"))
"""File systems that vanish with their container or the next boot."""

ROOM_BYTES_MIN = 64 * 2**20

_ANSWER_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class IndexFolder:
    """The index's folder, or its nearest existing parent.

    problem      why it is not writable; empty if it is
    file_system  as Linux names it
    writer       process with the writer lock

    >>> inspect_folder(Path("/"), map_bytes_max=None).room.free_bytes > 0
    True
    """

    problem: str
    file_system: str
    room: Room
    writer: Writer | None = None


def inspect_folder(directory: Path, map_bytes_max: int | None) -> IndexFolder:
    """Inspect the folder of an index, which may grow to `map_bytes_max` bytes; leaves nothing in it."""
    nearest = nearest_existing(directory)
    problem = ""
    try:
        with tempfile.TemporaryFile(dir=nearest) as file:
            file.write(b"\0")
    except OSError as error:
        problem = f"{nearest}: {error.strerror}"
    room = room_of(directory, map_bytes_max)
    return IndexFolder(
        problem,
        file_system_of(nearest.resolve(), Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()),
        room,
        writer_of(directory) if room.file_bytes else None,
    )


def file_system_of(path: Path, mounts: Iterable[str]) -> str:
    """Type of a path's file system, from the lines of /proc/self/mountinfo; the last of equal mounts counts.

    >>> file_system_of(Path("/data/index"), ["36 35 98:0 / /data rw,noatime - ext4 /dev/root rw"])
    'ext4'
    """
    kind, depth = "", -1
    for line in mounts:
        fields = line.split(" ")
        point = Path(fields[4].encode().decode("unicode_escape"))
        if path.is_relative_to(point) and len(point.parts) >= depth:
            kind, depth = fields[fields.index("-") + 1], len(point.parts)
    return kind


def index_folder(index: Index, folder: IndexFolder) -> Iterator[Finding]:
    """Whether index.directory suits an index."""
    check = f"index.directory {str(index.directory)!r}"
    if folder.problem:
        remedy = "set another folder, or allow this user to write"
        yield wrong(check, f"is not writable: {folder.problem}", remedy)
    if folder.file_system in NETWORK_FILE_SYSTEMS or folder.file_system.startswith("fuse."):
        yield wrong(check, f"is on {folder.file_system}", "set a folder on a disk of this machine")
    elif folder.file_system in PASSING_FILE_SYSTEMS:
        lost = "the index vanishes with its container or at a reboot, and the service restores it from the topics"
        yield advice(check, f"is on {folder.file_system}: {lost}", "set a folder on a disk or volume")
    else:
        yield ok(check, f"is on {folder.file_system or 'a local file system'}")
    yield _room(index, folder)
    if folder.writer is not None and folder.writer.stopped:
        yield wrong(check, "a stopped process holds the writer lock", str(folder.writer))


def _room(index: Index, folder: IndexFolder) -> Finding:
    room, free = folder.room, f"{folder.room.free_bytes / 2**30:,.1f} GiB free"
    if room.free_bytes < ROOM_BYTES_MIN:
        return wrong("room for the index", free, "make room, or set another index.directory")
    if index.map_bytes_max is not None and room.file_bytes >= index.map_bytes_max:
        return wrong("room for the index", f"{index.map_bytes_max:,} bytes are used", "raise index.map_bytes_max")
    return ok("room for the index", f"{free}: the file can reach {room.bytes_max / 2**30:,.1f} GiB")


def libraries(available: Mapping[str, bool], compression: str) -> Iterator[Finding]:
    """Whether all codecs and fast checksums have their libraries."""
    for name, is_installed in available.items():
        check = f"library for {name}"
        if is_installed:
            yield ok(check, "is installed")
        elif name in ("crc32c", compression):
            yield wrong(check, "is missing", "reinstall neardup-streamer with pip")
        else:
            yield wrong(check, "is missing: input in this codec is unreadable", "install it with pip")


def extras(settings: Settings) -> Iterator[Finding]:
    """Whether the settings' extras can be imported."""
    installed, missing = "is installed", "cannot be used"
    if settings.kafka.client == "confluent-kafka":
        yield attempted("extra confluent (kafka.client)", partial(require_client, settings.kafka), installed, missing)
    if settings.decode.format == "avro":
        yield attempted("extra registry (decode.format)", require_avro, installed, missing)


def port_problem(host: str, port: int) -> str:
    """Why host and port cannot be bound now; empty if they can."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def port_files(observe: Observe) -> Iterator[Finding]:
    """Whether the port's certificate and password files, if any, are usable."""
    if observe.tls_certificate_file is not None or observe.user is not None:
        check = "certificate and password of the port"
        yield attempted(check, partial(port_auth, observe), "are usable", "are unusable")


def serves_health(observe: Observe) -> bool:
    """Whether the port answers as this service does."""
    if observe.tls_certificate_file is None:
        connection = http.client.HTTPConnection(observe.host, observe.port, timeout=_ANSWER_SECONDS)
    else:
        # The request has no secrets, so any certificate will do.
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection(observe.host, observe.port, timeout=_ANSWER_SECONDS, context=context)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status in (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE)
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def port(observe: Observe, problem: str, *, running: bool) -> Finding:
    """Whether the port is free, or this service's already (`running`)."""
    check = f"observe.port {observe.host}:{observe.port}"
    if not problem:
        return ok(check, "is free")
    if running:
        return ok(check, "is in use by the running service")
    return wrong(check, f"is unavailable: {problem}", "set another, or stop the process that listens")
