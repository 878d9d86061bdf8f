"""All errors that the streamer raises on purpose, each with its exit code."""

import errno
import os

EXIT_INTERRUPTED = 130
"""Exit code after Ctrl-C, by the custom of shells: 128 and the number of SIGINT."""


class StreamerError(Exception):
    """Base of all errors of the streamer. The message names the cause and what to do."""

    exit_code = os.EX_SOFTWARE


class SettingsError(StreamerError):
    """A setting is unknown, of the wrong type, out of range, or contradicts another setting."""

    exit_code = os.EX_CONFIG


class RecoveryRefused(StreamerError):
    """The state at start needs a person's decision. The message names the setting that makes the decision."""

    exit_code = os.EX_CONFIG


class InputChanged(StreamerError):
    """A file differs from the one that was filtered before under its name."""

    exit_code = os.EX_DATAERR


class NoDocuments(StreamerError):
    """The input could be read, and nothing in it is what the command works on."""

    exit_code = os.EX_DATAERR


class RecordsUnreadable(StreamerError):
    """Records are damaged, and a person has to decide what becomes of them. The message names offsets and setting."""

    exit_code = os.EX_CONFIG


class VerdictsMissing(StreamerError):
    """A record has no verdict, though there are verdicts on what follows it. The message is its position."""

    exit_code = os.EX_CONFIG


class MemoryTooSmall(StreamerError):
    """The process may not have as much memory as it needs."""

    exit_code = os.EX_OSERR


class InputUnreadable(StreamerError):
    """A file cannot be opened or is damaged."""

    exit_code = os.EX_NOINPUT


class OutputUnwritable(StreamerError):
    """An operator's command cannot write its output."""

    exit_code = os.EX_CANTCREAT


class DeliveryDoubtful(StreamerError):
    """A batch was not delivered, or this is unknown. The worker ends, and a fresh worker replays the batch."""

    exit_code = os.EX_TEMPFAIL


class Rebalancing(DeliveryDoubtful):
    """Nothing was committed, for the group is giving sources to other members just now: read, then try again."""


class OutputFull(DeliveryDoubtful):
    """A batch was not delivered, for the disk of the outputs is full."""

    exit_code = os.EX_IOERR


class NoRoomForMetrics(StreamerError):
    """The folder for temporary files, where the processes count their metrics, cannot be used or is full."""

    exit_code = os.EX_IOERR


FILE_LIMITS = {errno.EMFILE, errno.ENFILE}
"""Errors of a limit of open files."""

TOO_MANY_FILES = "too many open files: raise the limit (ulimit -n, RLIMIT_NOFILE, LimitNOFILE); nothing is lost"


class ProcessRefused(StreamerError):
    """The system starts no further process: a limit is reached. The message names it."""

    exit_code = os.EX_TEMPFAIL


class TrialFailed(StreamerError):
    """A batch that processes died over could not be tried, or not to its end. A fresh worker goes on with what is left."""

    exit_code = os.EX_TEMPFAIL


class BrokerUnavailable(StreamerError):
    """The broker does not answer in time."""

    exit_code = os.EX_TEMPFAIL


class RegistryUnavailable(StreamerError):
    """The schema registry cannot be asked. The worker ends, and a fresh worker reads the records again."""

    exit_code = os.EX_TEMPFAIL


class RegistryRefuses(RegistryUnavailable):
    """It answers, but not to this client. A person at the registry may mend that too, so the worker tries again."""


class TransactionHanging(StreamerError):
    """The broker holds a transaction open that nothing will end. Only a person may end it, not a guess."""

    exit_code = os.EX_PROTOCOL
