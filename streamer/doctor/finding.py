"""What one check found, and what a person does about it."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class State(Enum):
    """How a check ended.

    OK         all is well
    ADVICE     the service runs, but a person should know
    WRONG      a setting or a right mends it; the service does not run, or not as it should
    AWAY       a broker or the registry does not answer, so that it may be well later
    UNCHECKED  not looked at, and why
    """

    OK = "ok"
    ADVICE = "advice"
    WRONG = "wrong"
    AWAY = "away"
    UNCHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of the table.

    check   what was looked at
    found   what stands there, in a few words
    remedy  what to do; empty where nothing is to be done
    """

    check: str
    state: State
    found: str
    remedy: str = ""


def exit_code(findings: Iterable[Finding]) -> int:
    """78 where a person has to change something, else 75 where a broker or the registry is away, else 0."""
    states = {finding.state for finding in findings}
    if State.WRONG in states:
        return os.EX_CONFIG
    return os.EX_TEMPFAIL if State.AWAY in states else os.EX_OK
