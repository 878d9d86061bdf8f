"""A check's result and remedy."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class State(Enum):
    """A check's outcome.

    ADVICE     the service runs, but a person should know
    WRONG      the service misbehaves until a setting or right changes
    AWAY       a broker or the registry does not answer now
    UNCHECKED  the check could not run
    """

    OK = "ok"
    ADVICE = "advice"
    WRONG = "wrong"
    AWAY = "away"
    UNCHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of the table; `remedy` is empty if nothing is to do.

    >>> Finding("kafka.session_timeout_ms", State.OK, "45000 is allowed").remedy
    ''
    """

    check: str
    state: State
    result: str
    remedy: str = ""


def exit_code(findings: Iterable[Finding]) -> int:
    """78 if a person must change something, else 75 if a broker or the registry is away, else 0."""
    states = {finding.state for finding in findings}
    if State.WRONG in states:
        return os.EX_CONFIG
    return os.EX_TEMPFAIL if State.AWAY in states else os.EX_OK
