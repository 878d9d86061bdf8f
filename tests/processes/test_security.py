"""The service and its parts with TLS, a password and the documented rights, and what ends it when one of them is wrong."""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from deploy.kafka_run import Outputs, Run, create_topics, fill, stop
from deploy.local_kafka import free_port
from streamer.demo.demo import documents
from tests.support.secure_kafka import Right, SecureKafka, documented_rights
from tests.support.services import Started, make_run, require_every_position_once, wait_until

START_SECONDS = 120
"""A busy machine imports, and may compile, for most of a minute."""


LIFE_SECONDS = 90
"""Life of a certificate that expires while its service runs."""


def guarded(secure_kafka: SecureKafka, run: Run, user: str) -> Run:
    """The same run, over TLS and with a password."""
    right = secure_kafka.connection("SECURE", user)
    servers = right.pop("bootstrap_servers")
    assert isinstance(servers, list)
    return replace(
        run,
        bootstrap_servers=servers[0],
        settings=(*run.settings, *(f"kafka.{key}={value}" for key, value in right.items())),
    )


def rights_for(run: Run) -> list[Right]:
    """The documented rights, under the names of this run."""
    names = {
        "documents": run.input_topic,
        "neardup": run.name,
        "neardup:0-": f"{run.name}:0-",
        **{
            f"documents-{destination}": run.topic(destination) for destination in ("unique", "duplicate", "dead-letter")
        },
    }
    return [replace(right, name=names.get(right.name, right.name)) for right in documented_rights()]


def test_the_documented_rights_are_enough_and_each_withdrawal_needs_a_person(
    secure_kafka: SecureKafka, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    run = make_run(secure_kafka.open_address, tmp_path)
    user = secure_kafka.make_user()
    secure_kafka.allow(user, rights_for(run))
    values = list(documents(120))
    fill(secure_kafka.open_address, run.input_topic, values[:60])
    service = start(guarded(secure_kafka, run, user))
    wait_until(lambda: run.delivered() >= 60, START_SECONDS)
    # Withdrawn amid the run: it ends, and says why. Given back: nothing was lost, and nothing comes twice.
    write = Right("WRITE", "topic", run.topic("unique"))
    secure_kafka.withdraw(user, write)
    fill(secure_kafka.open_address, run.input_topic, values[60:])
    assert service.process.wait(START_SECONDS) == os.EX_CONFIG
    assert f"user '{user}' (kafka.sasl_username)" in service.log.read_text()
    assert write.name in service.log.read_text().partition("does not allow")[2]
    secure_kafka.allow(user, [write])
    again = start(guarded(secure_kafka, run, user))
    outputs = Outputs(run)
    require_every_position_once(outputs, 120)
    log = again.log.read_text()
    assert stop(again.process) == 0
    assert "cannot look for transactions" not in log
    assert "right-password" not in log


def rights_for_parts(run: Run) -> list[Right]:
    """What docs/scaling.md adds to the documented rights, under the names of this run."""
    between = (run.topic("fingerprints"), run.topic("verdicts"))
    groups = (f"{run.name}.fingerprint", f"{run.name}.decide")
    return [
        *(Right(operation, "topic", topic) for topic in between for operation in ("READ", "WRITE")),
        *(Right("READ", "group", group) for group in groups),
        *(Right("WRITE", "transactional_id", group, prefixed=True) for group in groups),
    ]


def test_parts_speak_to_the_brokers_as_the_whole_service_does_and_need_the_rights_that_their_page_adds(
    secure_kafka: SecureKafka, tmp_path: Path, start: Callable[..., Started]
) -> None:
    run = make_run(secure_kafka.open_address, tmp_path)
    between = {name: run.topic(name) for name in ("fingerprints", "verdicts")}
    create_topics(secure_kafka.open_address, between.values())
    run = replace(run, settings=(*run.settings, *(f"topics.{name}={topic}" for name, topic in between.items())))
    user = secure_kafka.make_user()
    secure_kafka.allow(user, [*rights_for(run), *rights_for_parts(run)])
    fill(secure_kafka.open_address, run.input_topic, list(documents(120)))
    chosen = guarded(secure_kafka, run, user)
    parts = [
        start(replace(chosen, port=free_port()), "run", *words)
        for words in (("--part", "fingerprint", "--part", "route"), ("--part", "decide"))
    ]
    outputs = Outputs(run)
    wait_until(lambda: outputs.poll(50) >= 120, START_SECONDS)
    require_every_position_once(outputs, 120)
    for part in parts:
        assert stop(part.process) == 0
        assert "right-password" not in part.log.read_text()


def test_a_wrong_password_ends_the_service_at_once(
    secure_kafka: SecureKafka, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    run = guarded(secure_kafka, make_run(secure_kafka.open_address, tmp_path), secure_kafka.make_user())
    service = start(replace(run, settings=(*run.settings, "kafka.sasl_password=guessed-password")))
    assert service.process.wait(START_SECONDS) == os.EX_CONFIG
    log = service.log.read_text()
    assert "kafka.sasl_password: " in log
    assert "guessed-password" not in log
    assert log.count("worker ends") == 1


def test_a_password_that_is_changed_ends_the_service_when_its_connections_do_and_the_new_one_goes_on(
    secure_kafka: SecureKafka, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    run = make_run(secure_kafka.open_address, tmp_path)
    user = secure_kafka.make_user()
    secure_kafka.allow(user, rights_for(run))
    values = list(documents(120))
    fill(secure_kafka.open_address, run.input_topic, values[:60])
    service = start(guarded(secure_kafka, run, user))
    wait_until(lambda: run.delivered() >= 60, START_SECONDS)
    secure_kafka.change_password(user, "changed-password")
    fill(secure_kafka.open_address, run.input_topic, values[60:90])
    # A connection that is open needs no password.
    wait_until(lambda: run.delivered() >= 90, START_SECONDS)
    secure_kafka.restart()
    assert service.process.wait(START_SECONDS) == os.EX_CONFIG
    log = service.log.read_text()
    assert "kafka.sasl_password: " in log
    assert "right-password" not in log
    fill(secure_kafka.open_address, run.input_topic, values[90:])
    new = guarded(secure_kafka, run, user)
    again = start(replace(new, settings=(*new.settings, "kafka.sasl_password=changed-password")))
    require_every_position_once(Outputs(run), 120)
    assert stop(again.process) == 0


@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka"])
@pytest.mark.parametrize(
    ("listener", "shown", "said"),
    [
        ("EXPIRED", "client", "has expired: renew it"),
        ("MUTUAL", "expired_client", "be valid now"),
    ],
)
def test_a_certificate_that_expired_ends_the_service_at_once_with_either_client(
    secure_kafka: SecureKafka,
    tmp_path: Path,
    start: Callable[[Run], Started],
    client: str,
    listener: str,
    shown: str,
    said: str,
) -> None:
    run, held = make_run(secure_kafka.open_address, tmp_path), secure_kafka.certificates
    chosen = (
        f"kafka.client={client}",
        "kafka.security_protocol=SSL",
        f"kafka.ssl_cafile={held.trusted}",
        f"kafka.ssl_certfile={getattr(held, shown)}",
        f"kafka.ssl_keyfile={getattr(held, f'{shown}_key')}",
    )
    run = replace(run, bootstrap_servers=secure_kafka.address(listener), settings=(*run.settings, *chosen))
    service = start(run)
    assert service.process.wait(START_SECONDS) == os.EX_CONFIG
    log = service.log.read_text()
    assert said in " ".join(log.split())
    assert log.count("worker ends") <= 1


def test_a_certificate_that_expires_while_the_service_runs_ends_it_with_its_next_connection_whatever_the_client(
    secure_kafka: SecureKafka, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    expires = datetime.now(UTC) + timedelta(seconds=LIFE_SECONDS)
    values = list(documents(120))
    runs, renewals = list[Run](), list[tuple[Path, Path]]()
    for client in ("kafka-python", "confluent-kafka"):
        user, folder = f"shown-by-{client}", tmp_path / client
        folder.mkdir()
        run = make_run(secure_kafka.open_address, folder, f"kafka.client={client}")
        secure_kafka.allow(user, rights_for(run))
        shown, key = secure_kafka.client_certificate(folder, user, expires)
        new = secure_kafka.client_certificate(folder, user, expires + timedelta(days=1))
        renewals += zip(new, (shown, key), strict=True)
        chosen = (
            "kafka.security_protocol=SSL",
            f"kafka.ssl_cafile={secure_kafka.certificates.trusted}",
            f"kafka.ssl_certfile={shown}",
            f"kafka.ssl_keyfile={key}",
        )
        fill(secure_kafka.open_address, run.input_topic, values[:60])
        runs.append(replace(run, bootstrap_servers=secure_kafka.address("MUTUAL"), settings=(*run.settings, *chosen)))
    services = [start(run) for run in runs]
    wait_until(lambda: all(run.delivered() == 60 for run in runs))
    assert datetime.now(UTC) < expires, "the machine is too slow for this test"
    wait_until(lambda: datetime.now(UTC) > expires + timedelta(seconds=1))
    # An open connection outlives its certificate.
    for run in runs:
        fill(secure_kafka.open_address, run.input_topic, values[60:90])
    wait_until(lambda: all(run.delivered() == 90 for run in runs))
    secure_kafka.restart()
    for service in services:
        assert service.process.wait(START_SECONDS) == os.EX_CONFIG
        assert "be valid now" in " ".join(service.log.read_text().split())
    for new, file in renewals:
        file.write_bytes(new.read_bytes())
    for run in runs:
        fill(secure_kafka.open_address, run.input_topic, values[90:])
        start(run)
    for run in runs:
        require_every_position_once(Outputs(replace(run, bootstrap_servers=secure_kafka.open_address)), 120)


def test_a_port_whose_certificate_is_missing_ends_the_service_at_once(
    secure_kafka: SecureKafka, tmp_path: Path, start: Callable[[Run], Started]
) -> None:
    files = (f"observe.tls_certificate_file={tmp_path / 'none.pem'}", f"observe.tls_key_file={tmp_path / 'none.key'}")
    service = start(make_run(secure_kafka.open_address, tmp_path, *files))
    assert service.process.wait(START_SECONDS) == os.EX_CONFIG
    assert "observe.tls_certificate_file: " in service.log.read_text()
