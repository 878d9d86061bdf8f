"""How the parts of one worker are put together, whatever the transport, and what its errors mean to the outside."""

import os

from index.decide.retention import Retention
from index.errors import FormatUnknown, IndexExists, IndexFull, IndexInUse, IndexMissing, IndexProblem, ParametersDiffer
from index.index import Index
from streamer.errors import SettingsError, StreamerError
from streamer.fingerprint.scheme import Scheme, parameters_for
from streamer.records.decode import Decoder
from streamer.service.loop import Listener, Service
from streamer.service.recovery import Recoverer
from streamer.settings.settings import Index as IndexSettings
from streamer.settings.settings import Recovery, Settings
from streamer.transports.transport import Transport


def open_index(settings: Settings, fingerprinter: Scheme) -> Index:
    """The index that the settings name, stamped with all that changes a fingerprint. Raises IndexProblem, SettingsError."""
    try:
        return Index.open(
            settings.index.directory,
            parameters_for(settings, fingerprinter.stamp()),
            map_bytes_max=settings.index.map_bytes_max,
            retention=retention_of(settings.index),
        )
    except OSError as error:
        raise SettingsError(
            f"index.directory: {settings.index.directory}: cannot be used: {error.strerror}: name another folder."
        ) from error


def retention_of(settings: IndexSettings) -> Retention:
    """What is kept, as the settings say it."""
    hours = settings.age_max_hours
    return Retention(settings.entries_max, None if hours is None else max(1, round(hours * 3_600_000)))


def build_service(
    settings: Settings,
    transport: Transport,
    index: Index,
    fingerprinter: Scheme,
    listener: Listener,
    policy: Recovery,
    *,
    task_id: str = "0",
) -> Service:
    """Wire the parts of one worker together; `task_id` tells it from the others of its group."""
    decoder = Decoder(settings.decode)
    recoverer = Recoverer(
        transport,
        index,
        decoder,
        fingerprinter,
        policy,
        insert=settings.index.insert,
        progress=listener.restored,
    )
    return Service(
        transport,
        index,
        decoder,
        fingerprinter,
        recoverer,
        listener,
        connector_name=settings.kafka.group,
        task_id=task_id,
    )


def exit_code_of(error: StreamerError | IndexProblem) -> int:
    """What the process ends with: EX_CONFIG means that a restart will not help, all else that it may."""
    if isinstance(error, StreamerError):
        return error.exit_code
    return next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), os.EX_SOFTWARE)


_EXIT_CODES: dict[type[IndexProblem], int] = {
    IndexFull: os.EX_IOERR,
    IndexMissing: os.EX_NOINPUT,
    IndexExists: os.EX_CANTCREAT,
    IndexInUse: os.EX_TEMPFAIL,
    ParametersDiffer: os.EX_CONFIG,
    FormatUnknown: os.EX_CONFIG,
}
