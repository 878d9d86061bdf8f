"""Readiness of the service, from its workers' reports; pure."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from streamer.service.state import State
from streamer.settings.parts import input_key
from streamer.settings.settings import Settings
from streamer.transports.kafka.silence import silence_ms_max

_OWING_MS_MAX = 8_000
_CONTACT_AGE_MS_MAX = 9_000
_SILENT_BEFORE_SECONDS = 1.0

_DOING = {
    "decode": "decoding",
    "fingerprint": "fingerprinting",
    "decide": "deciding",
    "route": "routing",
    "commit": "delivering",
}


@dataclass(frozen=True, slots=True)
class WorkerSeen:
    """Observations of one worker, and of its process.

    batch_age_seconds    since the current batch was read; 0 without one
    contact_age_seconds  since the brokers answered it or its predecessor; None without any answer
    owed                 partitions with deliverable but undelivered records
    owing_seconds        time with such records, or a batch, and without a delivery; 0 without them
    started              the process was started, without a noticed end
    alive                that process lives
    waits_for            obstacle to its start or its writes, or ""

    >>> seen = WorkerSeen(0, State.STARTING, "read", 0.0, None, started=True, alive=True)
    >>> readiness(Settings(), [seen], GroupSeen())
    (False, 'worker 0 is starting')
    """

    number: int
    state: State
    step: str
    batch_age_seconds: float
    contact_age_seconds: float | None
    owed: Sequence[int] = ()
    owing_seconds: float = 0.0
    started: bool = False
    alive: bool = False
    exit_code: int | None = None
    waits_for: str = ""


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """A worker's problems with its group.

    unowned    input partitions without a reader
    strangers  other programs: client, host and partitions

    >>> GroupSeen(unowned=(3,)).strangers
    ()
    """

    unowned: tuple[int, ...] = ()
    strangers: tuple[str, ...] = ()


def batch_age_ms_max(settings: Settings) -> float:
    """Batch age beyond which a worker is not ready: half the age that gets it killed."""
    return settings.workers.progress_timeout_ms / 2


def contact_age_ms_max(settings: Settings) -> float:
    """Silence of the brokers beyond which a worker is not ready: within ten seconds."""
    return min(_CONTACT_AGE_MS_MAX, silence_ms_max(settings))


def readiness(settings: Settings, workers: Sequence[WorkerSeen], group: GroupSeen) -> tuple[bool, str]:
    """Whether every worker runs, hears from the brokers and advances, and only they read all partitions; else the problem."""
    for worker in workers:
        if words := _lacks(settings, worker):
            return False, f"worker {worker.number} {words}" + (f"; {worker.waits_for}" if worker.waits_for else "")
    if group.strangers:
        return False, (
            f"other programs are members of group {settings.kafka.group!r} and take partitions of {settings.topics.input!r} "
            f"away: {'; '.join(group.strangers)}. End them, or give them a group of their own"
        )
    if group.unowned:
        named = ", ".join(map(str, group.unowned))
        return False, f"no worker reads partitions {named} of {settings.topics.input!r}; the workers rejoin"
    return True, "ok"


def _lacks(settings: Settings, worker: WorkerSeen) -> str:
    if not worker.started:
        return "is waiting to be restarted" + _why_it_ended(settings, worker)
    if not worker.alive:
        return "has just ended and will be restarted"
    if worker.state is not State.RUNNING:
        return f"is {worker.state.value}" + _why_it_ended(settings, worker)
    # Step and age are read separately: a batch may have an age just after its delivery.
    if worker.step in _DOING and worker.batch_age_seconds > batch_age_ms_max(settings) / 1000:
        return (
            f"has had one batch for {worker.batch_age_seconds:.0f} s and is still {_DOING[worker.step]}; it is killed when "
            f"it makes no progress for workers.progress_timeout_ms = {settings.workers.progress_timeout_ms}"
        )
    if worker.batch_age_seconds:
        # The worker does not poll the brokers now; its delivery will. If they were silent before the batch, that counts too.
        silent_seconds = (worker.contact_age_seconds or 0.0) - worker.batch_age_seconds
        asks_again = worker.step == "commit" and silent_seconds > _SILENT_BEFORE_SECONDS
        silence = _silence(settings, worker) if asks_again else ""
        return silence or _owing(settings, worker, batch_age_ms_max(settings))
    return _silence(settings, worker) or _owing(settings, worker, min(_OWING_MS_MAX, batch_age_ms_max(settings)))


def _owing(settings: Settings, worker: WorkerSeen, ms_max: float) -> str:
    if worker.owing_seconds <= ms_max / 1000:
        return ""
    input_name = getattr(settings.topics, input_key(settings).removeprefix("topics."))
    named = ", ".join(f"{input_name}/{partition}" for partition in worker.owed) or input_name
    words = f"has delivered nothing for {worker.owing_seconds:.0f} s, and has records of {named} to deliver"
    if settings.part != "route":
        return words
    return f"{words}; records wait for verdicts in {settings.topics.verdicts!r}: see whether fingerprint and decide are ready"


def _silence(settings: Settings, worker: WorkerSeen) -> str:
    age_seconds = worker.contact_age_seconds
    if age_seconds is None or age_seconds <= contact_age_ms_max(settings) / 1000:
        return ""
    servers = ", ".join(settings.kafka.bootstrap_servers)
    return f"has heard nothing from the broker for {age_seconds:.0f} s (kafka.bootstrap_servers: {servers})"


def _why_it_ended(settings: Settings, worker: WorkerSeen) -> str:
    if worker.exit_code == os.EX_PROTOCOL:
        return (
            f"; group {settings.kafka.group!r} stands still: the broker holds a transaction open that a person has to "
            "end; the log says which, and docs/runbook.md under NeardupTransactionHanging how"
        )
    if worker.exit_code == os.EX_IOERR:
        return "; the one before ended for a disk that is full or fails: the log says which"
    silence = _silence(settings, worker) if worker.exit_code == os.EX_TEMPFAIL else ""
    return f" and {silence}" if silence else ""
