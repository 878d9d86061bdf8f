"""Checks on this machine: libraries, index folder and port. Most take their facts as arguments."""

import http.client
import shutil
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from index.tools import DATA_FILE, Writer, writer_of
from streamer.doctor.finding import Finding, State
from streamer.errors import SettingsError
from streamer.observe.auth import port_auth
from streamer.records.schemas import require_avro
from streamer.settings.settings import Index, Observe, Settings
from streamer.text import main_text
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
    used_bytes   index file size; 0 if missing
    writer       process with the writer lock
    """

    problem: str
    file_system: str
    free_bytes: int
    used_bytes: int = 0
    writer: Writer | None = None


def inspect_folder(directory: Path) -> IndexFolder:
    """Inspect an index's folder; leaves nothing in it."""
    nearest = next(folder for folder in (directory.absolute(), *directory.absolute().parents) if folder.exists())
    problem = ""
    try:
        with tempfile.TemporaryFile(dir=nearest) as file:
            file.write(b"\0")
    except OSError as error:
        problem = f"{nearest}: {error.strerror}"
    data = directory / DATA_FILE
    there = data.is_file()
    return IndexFolder(
        problem,
        file_system_of(nearest.resolve(), Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()),
        shutil.disk_usage(nearest).free,
        data.stat().st_size if there else 0,
        writer_of(directory) if there else None,
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
        yield Finding(check, State.WRONG, f"is not writable: {folder.problem}", remedy)
    if folder.file_system in NETWORK_FILE_SYSTEMS or folder.file_system.startswith("fuse."):
        yield Finding(check, State.WRONG, f"is on {folder.file_system}", "set a folder on a disk of this machine")
    elif folder.file_system in PASSING_FILE_SYSTEMS:
        lost = "the index vanishes with its container or at a reboot, and the service restores it from the topics"
        yield Finding(check, State.ADVICE, f"is on {folder.file_system}: {lost}", "set a folder on a disk or volume")
    else:
        yield Finding(check, State.OK, f"is on {folder.file_system or 'a local file system'}")
    yield _room(index, folder)
    if folder.writer is not None and folder.writer.stopped:
        yield Finding(check, State.WRONG, "a stopped process holds the writer lock", str(folder.writer))


def _room(index: Index, folder: IndexFolder) -> Finding:
    limit, free = index.map_bytes_max, f"{folder.free_bytes / 2**30:,.1f} GiB free"
    if folder.free_bytes < ROOM_BYTES_MIN:
        return Finding("room for the index", State.WRONG, free, "make room, or set another index.directory")
    if folder.used_bytes >= limit:
        return Finding("room for the index", State.WRONG, f"{limit:,} bytes are used", "raise index.map_bytes_max")
    if limit - folder.used_bytes > folder.free_bytes:
        remedy = f"watch the disk, or set index.map_bytes_max to at most {folder.used_bytes + folder.free_bytes:,}"
        return Finding(
            "room for the index", State.ADVICE, f"{free}: the disk is full before NeardupIndexNearLimit warns", remedy
        )
    return Finding("room for the index", State.OK, free)


def libraries(available: Mapping[str, bool], compression: str) -> Iterator[Finding]:
    """Whether all codecs and fast checksums have their libraries."""
    for name, is_installed in available.items():
        check = f"library for {name}"
        if is_installed:
            yield Finding(check, State.OK, "is installed")
        elif name in ("crc32c", compression):
            yield Finding(check, State.WRONG, "is missing", "reinstall neardup-streamer with pip")
        else:
            yield Finding(check, State.WRONG, "is missing: input in this codec is unreadable", "install it with pip")


def extras(settings: Settings) -> Iterator[Finding]:
    """Whether the settings' extras are installed."""
    if settings.fingerprint.markup == "html-main":
        yield _extra("extra html (fingerprint.markup)", main_text.require)
    if settings.kafka.client == "confluent-kafka":
        yield _extra("extra confluent (kafka.client)", lambda: require_client(settings))
    if settings.decode.format == "avro":
        yield _extra("extra registry (decode.format)", require_avro)


def _extra(check: str, require: Callable[[], None]) -> Finding:
    try:
        require()
    except SettingsError as error:
        return Finding(check, State.WRONG, "is not installed", str(error))
    return Finding(check, State.OK, "is installed")


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
    if observe.tls_certificate_file is None and observe.user is None:
        return
    check = "certificate and password of the port"
    try:
        port_auth(observe)
    except SettingsError as error:
        yield Finding(check, State.WRONG, "are unusable", str(error))
    else:
        yield Finding(check, State.OK, "are usable")


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
        return Finding(check, State.OK, "is free")
    if running:
        return Finding(check, State.OK, "is in use by the running service")
    return Finding(check, State.WRONG, f"is unavailable: {problem}", "set another, or stop the process that listens")
