"""All errors that the streamer raises on purpose, with exit codes."""

import errno
import os

from index.errors import NeardupError

EXIT_INTERRUPTED = 130
"""Exit code after Ctrl-C, as in shells: 128 and the number of SIGINT."""


class StreamerError(NeardupError):
    """Base of all errors with an exit code. The message names the cause and what to do."""

    exit_code = os.EX_SOFTWARE


class SettingsError(StreamerError):
    """A setting is unknown, of the wrong type, out of range, or contradicts another."""

    exit_code = os.EX_CONFIG


class RecoveryRefused(StreamerError):
    """The state at start needs a person's decision. The message names the deciding setting."""

    exit_code = os.EX_CONFIG


class InputChanged(StreamerError):
    """A file differs from the one filtered before under its name."""

    exit_code = os.EX_DATAERR


class NoDocuments(StreamerError):
    """The readable input has nothing for the command."""

    exit_code = os.EX_DATAERR


class RecordsUnreadable(StreamerError):
    """Records are damaged, and a person decides about them. The message names offsets and setting."""

    exit_code = os.EX_CONFIG


class VerdictsMissing(StreamerError):
    """A record lacks a verdict, and later ones have one. The message is its position."""

    exit_code = os.EX_CONFIG


class MemoryTooSmall(StreamerError):
    """The process's memory limit is below its needs."""

    exit_code = os.EX_OSERR


class InputUnreadable(StreamerError):
    """A file cannot be opened or is damaged."""

    exit_code = os.EX_NOINPUT


class InputsUnread(InputUnreadable):
    """Files that are unreadable from some line on. All that could be read before and after is delivered."""


class InputLost(StreamerError):
    """A server does not give an input, or no more of it. A later run goes on."""

    exit_code = os.EX_TEMPFAIL


class OutputUnwritable(StreamerError):
    """An operator's command cannot write its output."""

    exit_code = os.EX_CANTCREAT


class StandardOutputFailed(StreamerError):
    """A command cannot write its answer: standard output is closed or full."""

    exit_code = os.EX_IOERR


class DeliveryDoubtful(StreamerError):
    """A batch was not delivered, or this is unknown. The worker ends, and a fresh one replays the batch."""

    exit_code = os.EX_TEMPFAIL


class Rebalancing(DeliveryDoubtful):
    """Nothing was committed during a rebalance: read, then try again."""


class OutputFull(DeliveryDoubtful):
    """A batch was not delivered, since the outputs' disk is full."""

    exit_code = os.EX_IOERR


class NoRoomForMetrics(StreamerError):
    """The folder for the processes' metrics files is unusable or full."""

    exit_code = os.EX_IOERR


FILE_LIMITS = {errno.EMFILE, errno.ENFILE}
"""Errors of a limit of open files."""

TOO_MANY_FILES = "too many open files: raise the limit (ulimit -n, RLIMIT_NOFILE, LimitNOFILE); nothing is lost"


class ProcessRefused(StreamerError):
    """A system limit allows no further process. The message names it."""

    exit_code = os.EX_TEMPFAIL


class TrialFailed(StreamerError):
    """A batch that had killed processes could not be tried to its end. A fresh worker continues."""

    exit_code = os.EX_TEMPFAIL


class JobFailed(StreamerError):
    """A job on Flink failed before it took in what a command wrote. The message has the cause."""

    exit_code = os.EX_CONFIG


class BrokerUnavailable(StreamerError):
    """The broker does not answer in time."""

    exit_code = os.EX_TEMPFAIL


class RegistryUnavailable(StreamerError):
    """The schema registry cannot be asked. The worker ends, and a fresh one reads the records again."""

    exit_code = os.EX_TEMPFAIL


class RegistryRefuses(RegistryUnavailable):
    """The registry answers, but refuses. Its operator may mend that, so the worker tries again."""


class TransactionHanging(StreamerError):
    """The broker holds a transaction open that nothing ends. Only a person may end it."""

    exit_code = os.EX_PROTOCOL
