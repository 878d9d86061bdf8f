"""Delivery in transactions with either client: the steps' order, and each error's meaning.

take over -> (marks of the last transaction set? -> note -> begin -> records and offsets -> note -> commit), for each
batch
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import InitVar, dataclass
from operator import attrgetter
from pathlib import Path

from kafka import KafkaAdminClient, KafkaProducer, errors

from streamer.errors import DeliveryDoubtful, SettingsError
from streamer.settings.settings import Settings
from streamer.transports.kafka.client import Commits, Producer, Send
from streamer.transports.kafka.clients import BATCH_BYTES_MAX, broker_errors, output_bytes_max, within_timeout
from streamer.transports.kafka.refusals import FINAL, why_refused
from streamer.transports.kafka.rights import refusal, require_rights_on_topics, transactional_id, withheld_in
from streamer.transports.kafka.transactions.commit_note import CommitNote
from streamer.transports.kafka.transactions.hanging import require_all_ended, take_over

_ATTEMPTS_MAX = 3
_record_of = attrgetter("record")

MakeProducer = Callable[[Settings, str, KafkaAdminClient, KafkaProducer, int], Producer]
"""Makes an instance's producer from the client that took over, and the batch size in bytes."""


@dataclass
class Writer:
    """Writer under an instance's transactional id; a new one fences its predecessor.

    topics          its own and its predecessor's outputs
    note            path for the note of steps; None: no note
    by_coordinator  as in `take_over`

    Raises BrokerUnavailable, SettingsError, TransactionHanging.
    """

    _settings: Settings
    _instance: str
    _admin: KafkaAdminClient
    _make: MakeProducer
    _topics: Collection[str]
    note: InitVar[Path | None]
    by_coordinator: bool = False

    def __post_init__(self, note: Path | None) -> None:
        settings, instance, topics = self._settings, self._instance, self._topics
        with broker_errors(settings, f"taking over the transactions of {transactional_id(settings.kafka, instance)!r}"):
            taken = take_over(settings, instance, self._admin, topics, by_coordinator=self.by_coordinator)
            self._batch_bytes = min(BATCH_BYTES_MAX, output_bytes_max(self._admin, topics) or BATCH_BYTES_MAX)
            self.producer = self._make(settings, instance, self._admin, taken, self._batch_bytes)
        self._note = CommitNote(note)

    def deliver(self, sends: Sequence[Send], commits: Commits, proof: object) -> None:
        """Write all `sends` and commit, in one transaction. `proof`: of the group membership for `commits`.

        Raises DeliveryDoubtful, and SettingsError if no retry helps; then only `close` is allowed. The instance's next
        writer aborts.
        """
        producer, settings = self.producer, self._settings
        with self._errors(sends):
            for _ in range(_ATTEMPTS_MAX):
                identity = producer.identity
                if producer.has_lost_connection() and identity is not None:
                    require_all_ended(settings, self._admin, identity[0], self._topics)
                if identity is not None:
                    self._note.begin(map(_record_of, sends), identity)
                producer.begin()
                if producer.fill(sends, commits, proof):
                    self._note.ask()
                    within_timeout(settings.kafka, producer.commit, "commit")
                    self._note.committed(commits)
                    return
                # Nothing is in doubt: no commit was asked for.
                within_timeout(settings.kafka, producer.abort, "abort")
        raise DeliveryDoubtful(f"the rebalance did not finish within {_ATTEMPTS_MAX} attempts to commit")

    def close(self) -> None:
        """Release every resource quickly, in any state; never raises."""
        self.producer.close()
        self._note.close()

    @contextmanager
    def _errors(self, sends: Sequence[Send]) -> Iterator[None]:
        try:
            yield
        except (errors.KafkaError, ValueError) as raised:
            error = cause_of(raised)
            if isinstance(error, errors.MessageSizeTooLargeError | errors.RecordListTooLargeError):
                raise self._too_large(error, sends) from raised
            if isinstance(error, FINAL):
                with broker_errors(self._settings, "asking why an output refuses records"):
                    reason = why_refused(self._admin, error, sends)
                raise SettingsError(reason) from raised
            if isinstance(error, errors.AuthorizationError):
                if isinstance(error, errors.TopicAuthorizationFailedError):
                    # confluent-kafka does not name the topic.
                    with broker_errors(self._settings, "asking what is allowed"):
                        require_rights_on_topics(self._settings, self._admin)
                withheld = withheld_in(self._settings, error, "delivering")
                raise SettingsError(refusal(self._settings, withheld)) from raised
            raise DeliveryDoubtful(str(raised)) from raised

    def _too_large(self, error: errors.KafkaError, sends: Sequence[Send]) -> SettingsError | DeliveryDoubtful:
        with broker_errors(self._settings, "asking what the outputs take"):
            taken = output_bytes_max(self._admin, self._topics)
        largest = max(sends, key=_size)
        # Brokers refuse a client's whole batch, and name no record.
        named = f"{error}; the largest, {largest.record.position}, has {_size(largest)} bytes"
        if taken is not None and taken < self._batch_bytes:
            return DeliveryDoubtful(f"an output takes no more than {taken} bytes by now ({named})")
        return SettingsError(
            f"a record is larger than its topic or the broker takes ({named}): raise max.message.bytes of the topic that is "
            "written, or kafka.request_bytes_max, beyond what the topic takes that is read"
        )


def _size(send: Send) -> int:
    record = send.record
    headers = sum(len(name) + len(value or b"") for name, value in send.headers)
    return len(record.value or b"") + len(record.key or b"") + headers


def cause_of(error: Exception) -> Exception:
    """The error that made kafka-python refuse a send: it fails all sends after the first error with that as an argument.

    >>> cause_of(errors.KafkaError("a previous request has failed", errors.TopicAuthorizationFailedError()))
    TopicAuthorizationFailedError()
    """
    return next((part for part in error.args if isinstance(part, errors.KafkaError)), error)
