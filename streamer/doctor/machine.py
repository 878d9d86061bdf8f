"""Checks of this machine: libraries, the index's folder, the port. What was looked up is an argument, but for `look_at`."""

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
from streamer.observe.guard import guard_of
from streamer.records.schemas import require_avro
from streamer.settings.settings import Settings
from streamer.text import main_text
from streamer.transports.kafka.client import require_client

NETWORK_FILE_SYSTEMS = frozenset(
    ("9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs")
)
"""File systems that several machines share. LMDB maps its file and locks it in memory, which only one machine can."""

PASSING_FILE_SYSTEMS = frozenset(("overlay", "ramfs", "tmpfs"))
"""File systems that are gone with their container, or with the machine's next start."""

ROOM_BYTES_MIN = 64 * 2**20

_ANSWER_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Place:
    """The folder of the index, or the nearest above it that is there.

    problem      why nothing can be written there; empty where it can
    file_system  its type as Linux names it
    free_bytes   room that is left
    used_bytes   size of the index's file; 0 where there is none
    writer       process that holds the index's writer lock now, or None
    """

    problem: str
    file_system: str
    free_bytes: int
    used_bytes: int = 0
    writer: Writer | None = None


def look_at(directory: Path) -> Place:
    """Place of an index; leaves nothing there."""
    nearest = next(folder for folder in (directory.absolute(), *directory.absolute().parents) if folder.exists())
    problem = ""
    try:
        with tempfile.TemporaryFile(dir=nearest) as file:
            file.write(b"\0")
    except OSError as error:
        problem = f"{nearest}: {error.strerror}"
    data = directory / DATA_FILE
    there = data.is_file()
    return Place(
        problem,
        file_system_of(nearest.resolve(), Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()),
        shutil.disk_usage(nearest).free,
        data.stat().st_size if there else 0,
        writer_of(directory) if there else None,
    )


def file_system_of(path: Path, mounts: Iterable[str]) -> str:
    """Type of the file system that holds a path, by the lines of /proc/self/mountinfo; the last of several counts."""
    found, depth = "", -1
    for line in mounts:
        fields = line.split(" ")
        point = Path(fields[4].encode().decode("unicode_escape"))
        if path.is_relative_to(point) and len(point.parts) >= depth:
            found, depth = fields[fields.index("-") + 1], len(point.parts)
    return found


def index_folder(settings: Settings, place: Place) -> Iterator[Finding]:
    """Whether an index can live where index.directory says."""
    check = f"index.directory {str(settings.index.directory)!r}"
    if place.problem:
        yield Finding(check, State.WRONG, f"cannot be written: {place.problem}", "name another, or let this user write")
    if place.file_system in NETWORK_FILE_SYSTEMS or place.file_system.startswith("fuse."):
        yield Finding(check, State.WRONG, f"is on {place.file_system}", "name a folder on a disk of this machine")
    elif place.file_system in PASSING_FILE_SYSTEMS:
        lost = "the index goes with its container or machine, and is restored from the topics each time"
        yield Finding(check, State.ADVICE, f"is on {place.file_system}: {lost}", "name a folder on a disk or volume")
    else:
        yield Finding(check, State.OK, f"is on {place.file_system or 'a local file system'}")
    yield _room(settings, place)
    if place.writer is not None and place.writer.stopped:
        yield Finding(check, State.WRONG, "nobody can write", str(place.writer))


def _room(settings: Settings, place: Place) -> Finding:
    limit, free = settings.index.map_bytes_max, f"{place.free_bytes / 2**30:,.1f} GiB free"
    if place.free_bytes < ROOM_BYTES_MIN:
        return Finding("room for the index", State.WRONG, free, "make room, or name another index.directory")
    if place.used_bytes >= limit:
        return Finding("room for the index", State.WRONG, f"{limit:,} bytes are used", "raise index.map_bytes_max")
    if limit - place.used_bytes > place.free_bytes:
        remedy = f"watch the disk, or set index.map_bytes_max to at most {place.used_bytes + place.free_bytes:,}"
        return Finding(
            "room for the index", State.ADVICE, f"{free}: the disk is full before NeardupIndexNearLimit warns", remedy
        )
    return Finding("room for the index", State.OK, free)


def libraries(available: Mapping[str, bool], compression: str) -> Iterator[Finding]:
    """Whether records of every codec can be read, those of `compression` written, and fast."""
    for name, there in available.items():
        check = f"library for {name}"
        if there:
            yield Finding(check, State.OK, "is there")
        elif name in ("crc32c", compression):
            yield Finding(check, State.WRONG, "is missing", "install neardup-streamer anew with pip")
        else:
            yield Finding(
                check, State.WRONG, "is missing: such records of the input cannot be read", "install it with pip"
            )


def extras(settings: Settings) -> Iterator[Finding]:
    """Whether the extras are installed that settings ask for."""
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
    """Why nothing can listen at host and port now; empty where something can."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def guard(settings: Settings) -> Iterator[Finding]:
    """Whether certificate and password of the port can be used, where it has any."""
    observe = settings.observe
    if observe.tls_certificate_file is None and observe.user is None:
        return
    check = "certificate and password of the port"
    try:
        guard_of(observe)
    except SettingsError as error:
        yield Finding(check, State.WRONG, "cannot be used", str(error))
    else:
        yield Finding(check, State.OK, "can be used")


def serves_health(settings: Settings) -> bool:
    """Whether what listens at the port answers as the service does."""
    observe = settings.observe
    if observe.tls_certificate_file is None:
        connection = http.client.HTTPConnection(observe.host, observe.port, timeout=_ANSWER_SECONDS)
    else:
        # Nothing is told to whoever listens there, so his certificate does not matter.
        anybody = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection(observe.host, observe.port, timeout=_ANSWER_SECONDS, context=anybody)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status in (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE)
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def port(settings: Settings, problem: str, *, running: bool) -> Finding:
    """Whether metrics can be served; `running`: what listens there answers as the service does."""
    observe = settings.observe
    check = f"observe.port {observe.host}:{observe.port}"
    if not problem:
        return Finding(check, State.OK, "is free")
    if running:
        return Finding(check, State.OK, "is the port of the service that runs now")
    return Finding(check, State.WRONG, f"cannot be had: {problem}", "name another, or end what listens there")
