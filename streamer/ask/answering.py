"""The answering process: it opens the index as a worker does, writes nothing, and answers one question at a time."""

import faulthandler
import gc
import signal
from multiprocessing.connection import Connection

import structlog

from index import errors
from streamer.ask.answers import Answers
from streamer.ask.filter import Filter
from streamer.ask.reply import READY
from streamer.errors import StreamerError
from streamer.observe.logs import configure_logging
from streamer.observe.process_start import end_with_parent
from streamer.service.wiring import exit_code_of
from streamer.settings.settings import Settings
from streamer.transports.kafka.output_log import KafkaOutputLog
from streamer.transports.output_log import RecordsAt

log = structlog.get_logger(__name__)

IDLE_SECONDS = 5.0
"""Maximum wait for a question before a check that the index is in place."""


def _records_at(settings: Settings) -> RecordsAt:
    """Reader of records; a short timeout leaves time to answer without texts."""
    timeout_ms = min(settings.kafka.request_timeout_ms, settings.ask.timeout_ms // 4)
    chosen = settings.replaced(kafka={"request_timeout_ms": timeout_ms})
    return KafkaOutputLog(chosen).records_at


def answer_questions(settings: Settings, connection: Connection) -> None:
    """Run the answering process: open a worker's index, and answer until killed."""
    configure_logging(settings.observe.log_level, settings.observe.log_format)
    end_with_parent()
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        # Not read-only: such a filter would continue with a removed or replaced index.
        with Filter(settings.index.directory, settings) as opened:
            answers = Answers(opened, settings, _records_at(settings) if settings.ask.texts else None)
            answers.warm_up()
            # A collection over all imports takes 65 ms, as long as forty answers, and frees nothing.
            gc.collect()
            gc.freeze()
            connection.send_bytes(READY)
            while True:
                while not connection.poll(IDLE_SECONDS):
                    # Raises for a removed index or lock file, so that this process does not hold it.
                    opened.index.statistics()
                connection.send(tuple(answers.answer(*connection.recv())))
    except EOFError:
        return
    except (StreamerError, errors.NeardupIndexError) as error:
        log.error("answering process ends", error=type(error).__name__, reason=str(error))
        raise SystemExit(exit_code_of(error)) from None
