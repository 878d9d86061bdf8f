"""Checks on the brokers' answers, each a pure function."""

from collections.abc import Iterator, Mapping, Sequence

from streamer.doctor.finding import Finding, advice, away, ok, unchecked, wrong
from streamer.errors import BrokerUnavailable, SettingsError
from streamer.records.first_look import remedy
from streamer.settings.parts import PARTS, settings_of
from streamer.settings.settings import Decode, Settings
from streamer.transports.kafka.diagnosis import Facts, TopicFacts
from streamer.transports.kafka.handshake import Greeting
from streamer.transports.kafka.rights import DOCUMENTED_AT, Right, rights_of

CERTIFICATE_DAYS_MIN = 30.0
"""A certificate with fewer days left gets advice."""

AHEAD_SECONDS_MAX = 300.0
"""Accepted clock difference: usual without NTP, harmless for retention."""

BETWEEN_PARTS = ("fingerprints", "verdicts")
"""Topics that only a service in parts needs."""

_DAY_SECONDS = 86_400
_HOUR_MS = 3_600_000
_ANY_TIME_MS = 2**63 - 1


def connections(
    greetings: Mapping[str, Greeting | SettingsError | BrokerUnavailable], now_seconds: float
) -> Iterator[Finding]:
    """Whether each broker accepts certificate and password, and its own certificate's validity."""
    for address, answer in greetings.items():
        check = f"broker {address}"
        if isinstance(answer, SettingsError):
            yield wrong(check, "refuses this client", str(answer))
        elif isinstance(answer, BrokerUnavailable):
            yield away(check, str(answer), "start the broker, or correct kafka.bootstrap_servers")
        else:
            yield certificate(check, answer.certificate_expires, now_seconds, "renew it at the broker")


def certificate(check: str, expires_seconds: float | None, now_seconds: float, remedy: str) -> Finding:
    """Days until a certificate expires; `expires_seconds` is None without one.

    >>> certificate("broker", expires_seconds=0.0, now_seconds=10 * 86_400, remedy="renew it").result
    'certificate expired 10 days ago'
    """
    if expires_seconds is None:
        return ok(check, "answers")
    days = (expires_seconds - now_seconds) / _DAY_SECONDS
    if days < 0:
        return wrong(check, f"certificate expired {-days:,.0f} days ago", remedy)
    result = f"certificate good for {days:,.0f} days"
    return ok(check, result) if days >= CERTIFICATE_DAYS_MIN else advice(check, result, remedy)


def rights(settings: Settings, withheld: Sequence[Right]) -> Iterator[Finding]:
    """Rights that the service uses."""
    for right in rights_of(settings):
        if right not in withheld:
            yield ok(str(right), "allowed")
        else:
            finding = wrong if right.required else advice
            yield finding(str(right), f"not allowed; needed {right.purpose}", f"allow it: {DOCUMENTED_AT}")


def timeouts(settings: Settings, facts: Facts) -> Iterator[Finding]:
    """Timeouts that brokers limit."""
    kafka = settings.kafka
    for key, value, limits in (
        ("kafka.session_timeout_ms", kafka.session_timeout_ms, "group.min.session.timeout.ms and group.max..."),
        ("kafka.transaction_timeout_ms", kafka.transaction_timeout_ms, "transaction.max.timeout.ms"),
    ):
        if key in facts.untried:
            yield unchecked(key, "cannot be tried without the right above")
        elif key in facts.refused:
            yield wrong(key, f"{value} is not allowed", f"stay within the brokers' {limits}, or change these")
        else:
            yield ok(key, f"{value} is allowed")


def topics(
    settings: Settings, facts_by_topic: Mapping[str, TopicFacts | None], withheld: Sequence[Right]
) -> Iterator[Finding]:
    """Whether the topics exist and their settings fit together."""
    names = settings.topics
    unseen = {right.name for right in withheld}
    for key in type(names).model_fields:
        name = getattr(names, key)
        if key in BETWEEN_PARTS or name is None:
            continue
        facts = facts_by_topic[name]
        check = f"topic {name!r} (topics.{key})"
        if facts is None and name in unseen:
            yield unchecked(check, "cannot be seen without a right on it")
        elif facts is None:
            remedy = f"create it with `streamer topics create`, or correct topics.{key}"
            yield wrong(check, "does not exist", remedy)
        else:
            yield from _partitions(settings, key, check, facts)
            if facts.settings is None:
                yield unchecked(check, "its settings cannot be seen", "allow DESCRIBE_CONFIGS on it")
            else:
                yield from _policy(settings, key, check, facts, facts.settings)
    yield from _sizes(settings, facts_by_topic)


def parts(
    settings: Settings, facts_by_topic: Mapping[str, TopicFacts | None], withheld: Sequence[Right]
) -> Iterator[Finding]:
    """The topics between parts and each part's rights; no findings if neither topic exists."""
    names, of_input = settings.topics, facts_by_topic.get(settings.topics.input)
    between = {key: facts for key in BETWEEN_PARTS if (facts := facts_by_topic.get(getattr(names, key))) is not None}
    for key, facts in between.items():
        check = f"topic {getattr(names, key)!r} (topics.{key})"
        if of_input is not None and facts.partitions != of_input.partitions:
            result = f"{facts.partitions} partitions, but {names.input!r} has {of_input.partitions}"
            remedy = "add partitions to the smaller one: a part writes partition n for partition n"
            yield wrong(check, result, remedy)
        else:
            yield from _partitions(settings, key, check, facts)
        if facts.settings is not None:
            yield from _policy(settings, key, check, facts, facts.settings)
            if key == "fingerprints" and facts.settings["message.timestamp.type"] != "LogAppendTime":
                yield advice(
                    check,
                    f"message.timestamp.type is {facts.settings['message.timestamp.type']}",
                    "set it to LogAppendTime: an engine of several machines would decide in the order of these times",
                )
    for part in PARTS if between else ():
        for right in withheld:
            if right in rights_of(settings_of(settings, part)):
                result = f"not allowed; needed {right.purpose}"
                yield advice(f"{part}: {right}", result, f"allow it to this part: {DOCUMENTED_AT}")


def clock(newest_ms: int | None, now_seconds: float) -> Finding:
    """The input's latest record time against this machine's clock: Kafka reports no other time.

    A local clock that is ahead escapes this check.
    """
    if newest_ms is None:
        return unchecked("clock", "the input has no record time", "synchronize this machine by NTP")
    ahead_seconds = newest_ms / 1000 - now_seconds
    if ahead_seconds <= AHEAD_SECONDS_MAX:
        return ok("clock", "no record of the input is from the future")
    return advice(
        "clock",
        f"a record of the input is {ahead_seconds / 3600:,.1f} hours ahead of it",
        "synchronize this machine, brokers and producers by NTP: records from the future outlive retention.ms, and many of "
        "them let documents expire early (index.age_max_hours)",
    )


def hosts(decode: Decode, documents: int, with_host: int) -> Finding:
    """Whether the input's newest documents name a host, if site templates are learnt."""
    check = "hosts (decode.host)"
    if not documents:
        return unchecked(check, "the input has no documents yet")
    if not with_host:
        problem = f"none of the {documents:,} newest documents names one, so templates of sites are not learnt"
        return advice(check, problem, remedy(decode))
    return ok(check, f"{with_host:,} of the {documents:,} newest documents name one")


def _partitions(settings: Settings, key: str, check: str, facts: TopicFacts) -> Iterator[Finding]:
    workers = settings.workers.count
    if key == "input" and facts.partitions < workers:
        remedy = "lower workers.count, or add partitions"
        yield advice(check, f"{facts.partitions} partitions for {workers} workers: some idle", remedy)
    else:
        yield ok(check, f"{facts.partitions} partitions, {facts.replicas} replicas")


def _policy(settings: Settings, key: str, check: str, facts: TopicFacts, topic: Mapping[str, str]) -> Iterator[Finding]:
    if key == "stories":
        if topic["cleanup.policy"] != "compact":
            yield advice(
                check, f"cleanup.policy is {topic['cleanup.policy']}", "set it to compact: old values lose their use"
            )
    elif "compact" in topic["cleanup.policy"]:
        yield wrong(check, f"cleanup.policy is {topic['cleanup.policy']}", "set it to delete: compaction loses records")
    if key != "input" and int(topic["min.insync.replicas"]) > facts.replicas:
        yield wrong(
            check,
            f"min.insync.replicas is {topic['min.insync.replicas']} with {facts.replicas} replicas: writes fail",
            "lower it, or add replicas",
        )
    if key not in ("input", *BETWEEN_PARTS) and topic["message.timestamp.type"] == "CreateTime":
        yield from _times(check, topic)
    if key == "unique":
        yield from _restorable(settings, check, topic)


def _times(check: str, topic: Mapping[str, str]) -> Iterator[Finding]:
    """Whether an output takes every time that the input's records may have."""
    for way, finding in (("before", wrong), ("after", advice)):
        name = f"message.timestamp.{way}.max.ms"
        if int(topic.get(name, _ANY_TIME_MS)) < _ANY_TIME_MS:
            problem = f"{name} is {topic[name]}: a record whose time is further away stops the service"
            yield finding(check, problem, f"set it to {_ANY_TIME_MS}, as `streamer topics create` does")


def _restorable(settings: Settings, check: str, topic: Mapping[str, str]) -> Iterator[Finding]:
    kept_ms, kept_bytes = int(topic["retention.ms"]), int(topic["retention.bytes"])
    age = settings.index.age_max_hours
    for_ever = kept_ms < 0
    if kept_bytes >= 0 or (not for_ever and (age is None or kept_ms < age * _HOUR_MS)):
        kept = f"{kept_bytes:,} bytes a partition" if kept_bytes >= 0 else f"{kept_ms / _HOUR_MS:,.0f} hours"
        counts = "for ever" if age is None else f"for {age:g} hours"
        yield advice(
            check,
            f"keeps {kept}, but documents match {counts}: a lost index can only be restored in part",
            "raise retention.ms and retention.bytes, set index.age_max_hours, or keep backups (`streamer index backup`)",
        )


def _sizes(settings: Settings, facts_by_topic: Mapping[str, TopicFacts | None]) -> Iterator[Finding]:
    def limit(name: str) -> int | None:
        facts = facts_by_topic[name]
        return None if facts is None or facts.settings is None else int(facts.settings["max.message.bytes"])

    names = settings.topics
    of_input, sent = limit(names.input), settings.kafka.request_bytes_max
    if of_input is None:
        yield unchecked("largest record", "max.message.bytes of the input cannot be seen")
        return
    if of_input > sent:
        yield wrong(
            "largest record",
            f"the input takes {of_input:,} bytes, kafka.request_bytes_max is {sent:,}",
            "raise kafka.request_bytes_max: a larger record cannot be delivered, not even as a dead letter",
        )
    for name in (names.unique, names.duplicate, names.dead_letter):
        of_output = limit(name)
        if of_output is not None and of_output < of_input:
            yield wrong(
                "largest record",
                f"the input takes {of_input:,} bytes, {name!r} {of_output:,}",
                f"raise max.message.bytes of {name!r}",
            )
        elif of_output is not None:
            yield ok("largest record", f"{name!r} takes {of_input:,} bytes, as the input does")
