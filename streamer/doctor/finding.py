"""A check's result and remedy."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from streamer.errors import SettingsError


class State(Enum):
    """A check's outcome.

    ADVICE     the service runs, but a person should know
    WRONG      the service misbehaves until a setting or right changes
    AWAY       a broker or the registry does not answer now
    UNCHECKED  the check could not run

    >>> exit_code([wrong("clock", "is ahead"), away("broker", "does not answer")])
    78
    """

    OK = "ok"
    ADVICE = "advice"
    WRONG = "wrong"
    AWAY = "away"
    UNCHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of the table; `remedy` is empty if nothing is to do.

    >>> ok("kafka.session_timeout_ms", "45000 is allowed").state
    <State.OK: 'ok'>
    """

    check: str
    result: str
    remedy: str = ""
    state: State = field(kw_only=True)


ok = partial(Finding, state=State.OK)
advice = partial(Finding, state=State.ADVICE)
wrong = partial(Finding, state=State.WRONG)
away = partial(Finding, state=State.AWAY)
unchecked = partial(Finding, state=State.UNCHECKED)


def attempted(check: str, attempt: Callable[[], object], result: str, refused: str) -> Finding:
    """`result` if the attempt succeeds; `refused`, with the error as the remedy, if it raises SettingsError."""
    try:
        attempt()
    except SettingsError as error:
        return wrong(check, refused, str(error))
    return ok(check, result)


def exit_code(findings: Iterable[Finding]) -> int:
    """78 if a person must change something, else 75 if a broker or the registry is away, else 0."""
    states = {finding.state for finding in findings}
    if State.WRONG in states:
        return os.EX_CONFIG
    return os.EX_TEMPFAIL if State.AWAY in states else os.EX_OK
