"""The shell of `streamer doctor`: gathers all facts once for the checks."""

import time
from collections.abc import Iterator

from streamer.doctor import brokers, machine
from streamer.doctor.finding import Finding, away, unchecked, wrong
from streamer.doctor.registry import registry
from streamer.errors import BrokerUnavailable, RecordsUnreadable, RegistryUnavailable, SettingsError
from streamer.records.decode import Decoder, Document
from streamer.settings.settings import Settings, needs_hosts
from streamer.transports.kafka import diagnosis, handshake
from streamer.transports.kafka.topic_reader import newest_inputs

SAMPLE = 200
"""Examined newest records of the input."""


def examine(settings: Settings) -> Iterator[Finding]:
    """Check machine, registry, brokers, rights, topics, timeouts and clock, in start order. Changes nothing."""
    folder = machine.inspect_folder(settings.index.directory, settings.index.map_bytes_max)
    yield from machine.libraries(diagnosis.codecs(), settings.kafka.compression)
    yield from machine.extras(settings)
    yield from machine.index_folder(settings.index, folder)
    problem = machine.port_problem(settings.observe.host, settings.observe.port)
    yield machine.port(settings.observe, problem, running=bool(problem) and machine.serves_health(settings.observe))
    yield from machine.port_files(settings.observe)
    yield from registry(settings.decode)
    yield from _of_brokers(settings)


def _of_brokers(settings: Settings) -> Iterator[Finding]:
    now = time.time()
    try:
        expires = handshake.own_certificate_expires(settings.kafka)
    except SettingsError as error:
        yield wrong("certificates and keys", "cannot be used", str(error))
        return
    if settings.kafka.ssl_certfile is not None:
        yield brokers.certificate("kafka.ssl_certfile", expires, now, "ask its authority for a new one")
    greetings = dict(handshake.greetings(settings.kafka))
    yield from brokers.connections(greetings, now)
    if any(isinstance(answer, SettingsError) for answer in greetings.values()):
        yield unchecked("rights, topics, timeouts", "a broker refuses this client")
        return
    if all(isinstance(answer, BrokerUnavailable) for answer in greetings.values()):
        yield unchecked("rights, topics, timeouts", "no broker answers")
        return
    try:
        facts = diagnosis.diagnose(settings)
    except SettingsError as error:
        yield wrong("rights, topics, timeouts", "cannot be checked", str(error))
    except BrokerUnavailable as error:
        yield away("rights, topics, timeouts", str(error), "start the brokers, and run this again")
    else:
        yield from brokers.rights(settings, facts.withheld)
        yield from brokers.topics(settings, facts.topics, facts.withheld)
        yield from brokers.parts(settings, facts.topics, facts.withheld_from_parts)
        yield from brokers.timeouts(settings, facts)
        yield brokers.clock(facts.newest_ms, now)
        if needs_hosts(settings) and facts.topics[settings.topics.input] is not None:
            yield _hosts(settings)


def _hosts(settings: Settings) -> Finding:
    documents = with_host = 0
    try:
        decoder = Decoder(settings.decode)
        for records in newest_inputs(settings, SAMPLE):
            readable = [each for each in decoder.decode(records) if isinstance(each, Document)]
            documents += len(readable)
            with_host += sum(each.host is not None for each in readable)
    except (SettingsError, BrokerUnavailable, RecordsUnreadable, RegistryUnavailable) as error:
        return unchecked("hosts (decode.host)", "the input cannot be read", str(error))
    return brokers.hosts(settings.decode, documents, with_host)
