"""Waiting until a job on Flink has taken in what a command wrote: a checkpoint of the job says so to the broker.

Flink's REST API says why one does not come. Without its address the time that passes is all that there is to say.
"""

import json
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from streamer.errors import JobFailed
from streamer.settings.settings import Settings
from streamer.transports.kafka import topics

ASKED_AGAIN_SECONDS = 1.0
SAID_FIRST_SECONDS, SAID_AGAIN_SECONDS = 5.0, 30.0
REST_TIMEOUT_SECONDS = 10.0
ENDED = ("FAILED", "FINISHED", "CANCELED")

Get = Callable[[str], Any]
"""JSON answer to a path of Flink's REST API."""


@dataclass(frozen=True, slots=True)
class Written:
    """The written topic, its entry count, and each partition's end.

    >>> written = Written("dataflow", entries=30, ends={0: 12, 1: 18})
    >>> written.entries == sum(written.ends.values())
    True
    """

    topic: str
    entries: int
    ends: Mapping[int, int]


def job_name(settings: Settings, *, seeding: bool) -> str:
    """Name of a job in Flink.

    >>> job_name(Settings(), seeding=True)
    'neardup: seed'
    """
    return f"{settings.kafka.group}: {'seed' if seeding else 'decide'}"


def rest_at(address: str) -> Get:
    """Flink's REST API at a URL. Answers raise OSError, and ValueError for what is no JSON."""

    def get(path: str) -> Any:
        with urllib.request.urlopen(f"{address.rstrip('/')}{path}", timeout=REST_TIMEOUT_SECONDS) as answer:
            return json.loads(answer.read())

    return get


def wait_until_taken_in(
    settings: Settings, written: Written, *, seeding: bool, get: Get | None, say: Callable[[str], None]
) -> None:
    """Wait until a job's checkpoint has everything written. Raises JobFailed, BrokerUnavailable.

    get  of the cluster's REST API, if its address is known
    say  takes what is heard of the job, and every SAID_AGAIN_SECONDS how long the wait is
    """
    name, begin, said, told = job_name(settings, seeding=seeding), time.time(), 0.0, ""
    while not taken_in(settings, written):
        heard = "" if get is None else news(get, name, begin)
        waited = time.time() - begin
        if waited - said >= SAID_AGAIN_SECONDS or (heard != told and waited >= SAID_FIRST_SECONDS):
            said, told = waited, heard
            way = heard or f"Look whether the job {name!r} runs. With --flink-address this command looks itself"
            say(f"{waited:.0f} s, and no checkpoint has all of the topic {written.topic}. {way}.")
        time.sleep(ASKED_AGAIN_SECONDS)


def news(get: Get, name: str, begin_seconds: float) -> str:
    """State of the latest job with a name, and its last exception. Raises JobFailed if it ended after this time.

    begin_seconds  since 1970
    """
    try:
        jobs = [each for each in get("/jobs/overview")["jobs"] if each["name"] == name]
        if not jobs:
            return f"Flink has no job {name!r}: submit it"
        job = max(jobs, key=lambda each: int(each["start-time"]))
        entries = get(f"/jobs/{job['jid']}/exceptions")["exceptionHistory"]["entries"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"Flink's REST API gives no answer ({error})"
    # The cause of causes comes last.
    causes = [line for each in entries[:1] for line in each["stacktrace"].splitlines() if _is_cause(line)]
    why = f": {causes[-1].strip()}" if causes else ""
    state = f"The job {name!r} is {job['state']}{why}"
    if job["state"] in ENDED and int(job["end-time"]) / 1_000 >= begin_seconds:
        raise JobFailed(f"{state}. Put that right, submit the job again, and repeat this command.")
    return state


def _is_cause(line: str) -> bool:
    """Whether a line of a Java stack trace is none of its places."""
    return bool(line.strip()) and not line.lstrip().startswith(("at ", "... ", "File "))


def taken_in(settings: Settings, written: Written) -> bool:
    """Whether a job's checkpoint has everything written. Raises BrokerUnavailable."""
    job_settings = settings.replaced(kafka={"group": f"{settings.kafka.group}.flink"}, topics={"input": written.topic})
    committed = {source.partition: offset for source, offset in topics.committed_offsets(job_settings).items()}
    return all(committed.get(partition, 0) >= end for partition, end in written.ends.items())
