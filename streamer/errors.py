"""Everything the streamer may raise on purpose, and the exit code that each becomes."""

import os


class StreamerError(Exception):
    """Base of all errors of the streamer; the message names the cause and what to do."""

    exit_code = os.EX_SOFTWARE


class SettingsError(StreamerError):
    """A setting is unknown, of the wrong type, out of range, or contradicts another one."""

    exit_code = os.EX_CONFIG


class RecoveryRefused(StreamerError):
    """The state found at start needs a person's decision; the message names the setting that makes it."""

    exit_code = os.EX_CONFIG


class InputChanged(StreamerError):
    """A file is no longer what was filtered before under its name."""

    exit_code = os.EX_DATAERR


class InputUnreadable(StreamerError):
    """A file cannot be opened or is damaged."""

    exit_code = os.EX_NOINPUT


class OutputUnwritable(StreamerError):
    """What an operator's command was to write cannot be written."""

    exit_code = os.EX_CANTCREAT


class DeliveryDoubtful(StreamerError):
    """It is not known, or known not to be so, that a batch was delivered. The worker ends and a fresh one replays."""

    exit_code = os.EX_TEMPFAIL


class BrokerUnavailable(StreamerError):
    """The broker does not answer, or not in time."""

    exit_code = os.EX_TEMPFAIL


class TransactionHanging(StreamerError):
    """The broker holds a transaction open that nothing will end, and that must not be ended by guess. A person has to."""

    exit_code = os.EX_PROTOCOL
