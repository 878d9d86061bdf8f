"""Wiring of one worker in a part. `settings` are always the whole service's."""

from contextlib import closing, suppress
from functools import partial

from index import Index, Source
from streamer.audit.auditor import Auditor
from streamer.fingerprint.scheme import Scheme, measure_of
from streamer.parts.batches import Batches
from streamer.parts.decide import DecidePart
from streamer.parts.deciding import DecidingTransport
from streamer.parts.envelope import stamp_text
from streamer.parts.fingerprint import FingerprintPart
from streamer.parts.fingerprint_batch import unpack_fingerprints
from streamer.parts.route import RoutePart
from streamer.parts.routing import RoutingTransport
from streamer.parts.starting import Notes, OffsetStarter
from streamer.parts.steps_in_turn import StepsInTurn
from streamer.service.loop import Listener, Loop
from streamer.service.outputs import Outputs
from streamer.service.processes import Processes
from streamer.service.wiring import recoverer_of, router_of, steps_ahead, usable_directory
from streamer.settings.parts import settings_of
from streamer.settings.settings import Settings
from streamer.transports.kafka.topics import claims_of_group
from streamer.transports.kafka.transport import KafkaTransport


def fingerprinted_to(settings: Settings, source: Source, _offset: int) -> int:
    """Offset below which all of a source's documents are fingerprinted. Raises BrokerUnavailable, RecordsUnreadable."""
    with closing(Batches(settings, settings.topics.fingerprints, unpack_fingerprints)) as batches:
        return batches.reached(source)


def fingerprint_part(
    settings: Settings, instance: str, fingerprinter: Scheme, listener: Listener, processes: Processes | None = None
) -> tuple[KafkaTransport, Loop]:
    """A `fingerprint` worker. Without an index, its folder holds only notes of attempts. Raises SettingsError."""
    with usable_directory(settings):
        settings.index.directory.mkdir(parents=True, exist_ok=True)
    fingerprinter.sampled_one_in = settings.audit.one_in
    transport = KafkaTransport(settings_of(settings, "fingerprint"), instance)
    starter = OffsetStarter(
        transport, settings.recovery, partial(fingerprinted_to, settings), lambda: claims_of_group(settings)
    )
    part = FingerprintPart(transport, stamp_text(fingerprinter.stamp()), idle_ms=settings.batch.idle_ms)
    steps = steps_ahead(settings, transport, fingerprinter, listener, processes=processes)
    return transport, Loop(transport, starter, steps, part, listener)


def decide_part(
    settings: Settings, instance: str, index: Index, fingerprinter: Scheme, listener: Listener
) -> tuple[DecidingTransport, Loop]:
    """A `decide` worker. It reads texts only to restore a lost index."""
    transport = DecidingTransport(settings, instance, index.identity)
    policy = settings.recovery.model_copy(update={"first_start": "earliest"})
    recoverer = recoverer_of(settings, transport, index, fingerprinter, policy, listener)
    part = DecidePart(transport, index, stamp_text(fingerprinter.stamp()), Auditor(settings, index))
    steps = StepsInTurn(listener, {"decide": part.decide}, part.runs)
    return transport, Loop(transport, recoverer, steps, part, listener, measure_of(settings, index.parameters))


def route_part(
    settings: Settings, instance: str, fingerprinter: Scheme, listener: Listener
) -> tuple[RoutingTransport, Loop]:
    """A `route` worker."""
    transport = RoutingTransport.over_kafka(settings, instance, stamp_text(fingerprinter.stamp()))
    # Notes of deliveries need a folder; without one the committed offsets alone count.
    with suppress(OSError):
        settings.index.directory.mkdir(parents=True, exist_ok=True)
    notes = Notes(transport.kafka.noted_to, transport.delivered_within)
    starter = OffsetStarter(transport, settings.recovery, transport.delivered_to, notes=notes)
    part = RoutePart(transport, router_of(settings, fingerprinter, task_id=instance))
    steps = StepsInTurn(listener, {"route": part.route})
    return transport, Loop(transport, starter, steps, Outputs(transport, listener), listener)
