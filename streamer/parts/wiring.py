"""Wiring of one worker in a part. `settings` are always the whole service's."""

from contextlib import closing
from functools import partial

from index import Index, Source
from streamer.audit.auditor import Auditor
from streamer.fingerprint.scheme import Scheme, measure_of
from streamer.parts.batches import Batches
from streamer.parts.decide import DecidePart
from streamer.parts.deciding import DecidingTransport
from streamer.parts.fingerprint import FingerprintPart
from streamer.parts.route import RoutePart
from streamer.parts.routing import RoutingTransport
from streamer.parts.starting import OffsetStarter
from streamer.records.envelope import stamp_text
from streamer.records.fingerprint_batch import unpack_fingerprints
from streamer.service.loop import Listener
from streamer.service.wiring import preparation_of, recoverer_of, router_of, usable_directory
from streamer.settings.parts import settings_of
from streamer.settings.settings import Settings
from streamer.transports.kafka.topics import claims_of_group
from streamer.transports.kafka.transport import KafkaTransport


def fingerprinted_to(settings: Settings, source: Source, _offset: int) -> int:
    """Offset below which all of a source's documents are fingerprinted. Raises BrokerUnavailable, RecordsUnreadable."""
    with closing(Batches(settings, settings.topics.fingerprints, unpack_fingerprints)) as batches:
        return batches.reached(source)


def fingerprint_part(
    settings: Settings, instance: str, fingerprinter: Scheme, listener: Listener
) -> tuple[KafkaTransport, FingerprintPart]:
    """A `fingerprint` worker. Without an index, its folder holds only notes of attempts. Raises SettingsError."""
    with usable_directory(settings):
        settings.index.directory.mkdir(parents=True, exist_ok=True)
    fingerprinter.sampled_one_in = settings.audit.one_in
    transport = KafkaTransport(settings_of(settings, "fingerprint"), instance, part="fingerprint")
    return transport, FingerprintPart(
        transport,
        OffsetStarter(
            transport, settings.recovery, partial(fingerprinted_to, settings), lambda: claims_of_group(settings)
        ),
        preparation_of(settings, fingerprinter),
        listener,
        stamp_text(fingerprinter.stamp()),
        idle_ms=settings.batch.idle_ms,
    )


def decide_part(
    settings: Settings, instance: str, index: Index, fingerprinter: Scheme, listener: Listener
) -> tuple[DecidingTransport, DecidePart]:
    """A `decide` worker. It reads texts only to restore a lost index."""
    transport = DecidingTransport(settings, instance, index.identity)
    policy = settings.recovery.model_copy(update={"first_start": "earliest"})
    recoverer = recoverer_of(settings, transport, index, fingerprinter, policy, listener)
    stamp, measure = stamp_text(fingerprinter.stamp()), measure_of(settings, index.parameters)
    return transport, DecidePart(transport, index, stamp, recoverer, listener, measure, Auditor(settings, index))


def route_part(
    settings: Settings, instance: str, fingerprinter: Scheme, listener: Listener
) -> tuple[RoutingTransport, RoutePart]:
    """A `route` worker."""
    transport = RoutingTransport(settings, instance, stamp_text(fingerprinter.stamp()))
    return transport, RoutePart(
        transport,
        OffsetStarter(transport, settings.recovery, transport.delivered_to),
        listener,
        router_of(settings, fingerprinter, task_id=instance),
    )
