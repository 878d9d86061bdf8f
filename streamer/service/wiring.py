"""Wiring of one worker for any transport; and exit codes of errors."""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from index import Guard, Index, Parameters, Recrawl, errors
from streamer.audit.auditor import Auditor
from streamer.errors import FILE_LIMITS, SettingsError, StreamerError
from streamer.fingerprint import scheme as schemes
from streamer.fingerprint.differences import by_settings
from streamer.fingerprint.scheme import Scheme, retention_of
from streamer.protected.folders import base_folders, secret_of
from streamer.protected.sets import ProtectedSets
from streamer.records.decode import Decoder
from streamer.records.first_look import MissingHosts
from streamer.records.reason import EQUAL_REASONS, recrawl_by
from streamer.records.route import Router
from streamer.service.claims import MARGIN_SECONDS
from streamer.service.index_steps import ByIndex
from streamer.service.loop import Listener, Loop
from streamer.service.outputs import Outputs
from streamer.service.pipeline import pure_steps
from streamer.service.poison.attempts import Attempts
from streamer.service.poison.trial import Trials
from streamer.service.processes import Processes
from streamer.service.recovery import Recoverer
from streamer.service.steps_ahead import StepsAhead
from streamer.service.stories import Stories
from streamer.settings.settings import Guard as GuardSettings
from streamer.settings.settings import Index as IndexSettings
from streamer.settings.settings import Recovery, Settings, needs_hosts
from streamer.transports.transport import Transport

NO_SETS = ProtectedSets({}, {})


def open_index(settings: Settings, fingerprinter: Scheme, *, read_only: bool = False) -> Index:
    """Open the configured index, stamped with all that changes a fingerprint. Raises NeardupIndexError, SettingsError."""
    return _open(settings, schemes.parameters_for(settings, fingerprinter.stamp()), read_only=read_only)


def open_with_scheme(
    settings: Settings, *, read_only: bool = False, secret: bytes | None = None
) -> tuple[Index, Scheme]:
    """Open the index, and create its fingerprints' scheme, with its key. A new index creates its own secret.

    secret  of a new index; None: that of protected sets, of base sets, or a new one

    Raises NeardupIndexError, SettingsError.
    """
    if schemes.knows_key(settings):
        scheme = schemes.scheme_for(settings, schemes.key_for(settings, None))
        return open_index(settings, scheme, read_only=read_only), scheme
    made: list[Scheme] = []

    def parameters(secret: bytes | None) -> Parameters:
        made.append(schemes.scheme_for(settings, schemes.key_for(settings, secret)))
        return schemes.parameters_for(settings, made[0].stamp())

    return _open(settings, parameters, read_only=read_only, secret=secret or secret_of(settings.index)), made[-1]


def _open(
    settings: Settings,
    parameters: Parameters | Callable[[bytes | None], Parameters],
    *,
    read_only: bool,
    secret: bytes | None = None,
) -> Index:
    with usable_directory(settings):
        return Index.open(
            settings.index.directory,
            parameters,
            map_bytes_max=settings.index.map_bytes_max,
            read_only=read_only,
            retention=retention_of(settings.index),
            guard=guard_of(settings.guard),
            recrawl=recrawl_of(settings.index),
            longer=schemes.longer_of(settings.index),
            stories=settings.topics.stories is not None,
            equal_reasons=EQUAL_REASONS,
            secret=secret,
            bases=base_folders(settings.index),
        )


@contextmanager
def usable_directory(settings: Settings) -> Iterator[None]:
    """Translate system errors at opening an index into SettingsError about index.directory, and columns into settings."""
    try:
        yield
    except errors.ParametersDifferError as problem:
        raise by_settings(problem, settings.fingerprint.scheme) from None
    except OSError as error:
        if error.errno in FILE_LIMITS:
            # The folder is not the cause.
            raise
        raise SettingsError(
            f"index.directory: {settings.index.directory}: cannot be used: {error.strerror}: name another folder."
        ) from error


def recrawl_of(settings: IndexSettings) -> Recrawl:
    """Configured treatment of recrawled pages."""
    return recrawl_by(settings.recrawl)


def guard_of(settings: GuardSettings) -> Guard:
    """Configured guard."""
    return Guard(settings.share_max, settings.documents_min, suspects=settings.policy == "pass")


def build_service(
    settings: Settings,
    transport: Transport,
    index: Index,
    fingerprinter: Scheme,
    listener: Listener,
    policy: Recovery,
    *,
    task_id: str = "0",
    supervised: bool = True,
    processes: Processes | None = None,
    protected: ProtectedSets = NO_SETS,
    steps: type[ByIndex] = ByIndex,
) -> Loop:
    """Build one worker's loop with the whole path; `task_id` identifies it in its group.

    protected   sets that report what resembles them
    steps       takes the steps `decide` and `route`
    processes   that decode and fingerprint; None: this one does
    supervised  a supervisor restarts a dead worker while its group waits; otherwise a person does, and no group waits
    """
    recoverer = recoverer_of(settings, transport, index, fingerprinter, policy, listener)
    router = replace(router_of(settings, fingerprinter, task_id), with_headers=transport.takes_headers)
    fingerprinter.sampled_one_in = settings.audit.one_in
    copies = settings.topics.protected is not None or not transport.takes_headers
    by_index = steps(index, router, Auditor(settings, index), protected, copies=copies)
    # Over files stories stay in the index.
    stories = Stories(index) if settings.topics.stories is not None and transport.takes_headers else None
    ahead = steps_ahead(
        settings, transport, fingerprinter, listener, by_index, supervised=supervised, processes=processes
    )
    outputs = Outputs(transport, listener, stories)
    return Loop(transport, recoverer, ahead, outputs, listener, schemes.measure_of(settings, index.parameters))


def recoverer_of(
    settings: Settings, transport: Transport, index: Index, fingerprinter: Scheme, policy: Recovery, listener: Listener
) -> Recoverer:
    """Recovery with an index; `policy` replaces the settings'."""
    patience_seconds = settings.kafka.session_timeout_ms / 1000 + MARGIN_SECONDS
    decoder = Decoder(settings.decode)
    return Recoverer(transport, index, decoder, fingerprinter, policy, listener, patience_seconds)


def steps_ahead(
    settings: Settings,
    transport: Transport,
    fingerprinter: Scheme,
    listener: Listener,
    by_index: ByIndex | None = None,
    *,
    supervised: bool = True,
    processes: Processes | None = None,
) -> StepsAhead:
    """Steps of a worker that reads texts; without `by_index` it does not decide. Others as above."""
    several = processes or Processes(settings, 1)
    several.use(fingerprinter)
    steps = pure_steps(Decoder(settings.decode), fingerprinter, several.take)
    if by_index is not None:
        steps |= {"decide": by_index.decide, "route": by_index.route}
    # After a longer trial, the member would leave its group before it can deliver.
    trial_seconds = settings.kafka.max_poll_interval_ms / 3000 if supervised else math.inf
    return StepsAhead(
        steps,
        transport,
        Attempts(settings.index.directory, settings.workers.deaths_max if supervised else 1),
        Trials(settings, fingerprinter, seconds_max=trial_seconds),
        several,
        MissingHosts(settings.decode, expected=needs_hosts(settings)),
        listener,
    )


def router_of(settings: Settings, fingerprinter: Scheme, task_id: str) -> Router:
    """Router for a worker; `task_id` identifies it in its group."""
    stamp = fingerprinter.stamp()
    return Router(
        connector_name=settings.kafka.group,
        task_id=task_id,
        settings_digest=schemes.settings_digest(settings, stamp),
        shadow=settings.route.shadow,
        measure=schemes.measure_of(settings, schemes.parameters_for(settings, stamp)),
    )


def exit_code_of(error: StreamerError | errors.NeardupIndexError) -> int:
    """Process exit code for an error. After EX_CONFIG a restart will not help; after others it may."""
    if isinstance(error, StreamerError):
        return error.exit_code
    return next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), os.EX_SOFTWARE)


_EXIT_CODES: dict[type[errors.NeardupIndexError], int] = {
    errors.IndexFullError: os.EX_IOERR,
    errors.IndexMissingError: os.EX_NOINPUT,
    errors.IndexExistsError: os.EX_CANTCREAT,
    errors.IndexInUseError: os.EX_TEMPFAIL,
    errors.GivingBackError: os.EX_TEMPFAIL,
    errors.IndexDamagedError: os.EX_DATAERR,
    errors.ParametersDifferError: os.EX_CONFIG,
    errors.StateDiffersError: os.EX_CONFIG,
    errors.FormatUnknownError: os.EX_CONFIG,
}
