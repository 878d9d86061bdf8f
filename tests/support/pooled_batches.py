"""Prepares batches of values in processes, and prints of each: suspected, or its ids, its dead letters and its fingerprints."""

import json
import sys
import time
from collections.abc import Sequence

from index import Source
from streamer.errors import StreamerError
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.fingerprint.key import PUBLIC
from streamer.fingerprint.scheme import scheme_for
from streamer.observe.logs import configure_logging
from streamer.records.decode import DeadLetter, Document
from streamer.records.record import Record
from streamer.service.processes import BATCHES_MIN, Processes, RecordsSuspected
from streamer.settings.settings import Settings
from streamer.transports.transport import NO_TIMESTAMP_MS

START_SECONDS_MAX = 120.0


def records_of(values: Sequence[str]) -> list[Record]:
    source = Source("stream", 0)
    return [Record(source, "lines", place, None, each.encode(), NO_TIMESTAMP_MS) for place, each in enumerate(values)]


def shown(documents: Sequence[Document | DeadLetter], fingerprints: Fingerprints) -> list[object]:
    """What is compared."""
    ids = [each.id if isinstance(each, Document) else each.reason.name for each in documents]
    return [ids, fingerprints.fingerprints.tolist(), fingerprints.reasons.tolist()]


def take(processes: Processes, records: Sequence[Record]) -> list[object]:
    fillers = [records_of(["{"]) for _ in range(BATCHES_MIN)]
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        processes.begin([records, *fillers])
        try:
            if (prepared := processes.take(records)) is not None:
                return shown(prepared.documents, prepared.fingerprints)
        except RecordsSuspected:
            return ["suspected"]
        time.sleep(0.02)
    raise StreamerError("the processes do not start")


def main() -> None:
    # Unconfigured, structlog would write into the answer.
    configure_logging("warning", "console")
    asked = json.load(sys.stdin)
    settings = Settings.model_validate(asked["settings"])
    processes = Processes(settings, 2)
    processes.use(scheme_for(settings, PUBLIC))
    answers = [take(processes, records_of(values)) for values in asked["batches"]]
    processes.end()
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
