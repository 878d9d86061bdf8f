"""The local broker keeps its records through crashes and freezes."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from deploy import local_kafka
from deploy.local_kafka import LocalCluster, LocalKafka, LocalKafkaError, require_broker

TOPIC = "documents"


def create_topic(bootstrap_servers: str) -> None:
    with KafkaAdminClient(bootstrap_servers=bootstrap_servers) as admin:
        admin.create_topics({TOPIC: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)


def produce_in_a_transaction(bootstrap_servers: str, value: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id="local-kafka-test")
    producer.init_transactions()
    producer.begin_transaction()
    sent = producer.send(TOPIC, value=value)
    producer.flush(timeout=10)
    sent.get(timeout=10)
    producer.commit_transaction()
    producer.close()


def committed_values(bootstrap_servers: str) -> list[bytes]:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap_servers, isolation_level="read_committed", enable_auto_commit=False
    )
    partition = TopicPartition(TOPIC, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    values: list[bytes] = []
    deadline = time.monotonic() + 10
    while not values and time.monotonic() < deadline:
        values += [record.value for record in consumer.poll(timeout_ms=200).get(partition, [])]
    consumer.close()
    return values


def command_line(directory: Path, port: int) -> list[str]:
    return [sys.executable, str(local_kafka.__file__), "--directory", str(directory), "--port", str(port)]


def port_becomes_free(port: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return True
        time.sleep(0.05)
    return False


@pytest.mark.kafka
def test_a_committed_record_survives_the_kill_of_the_broker(fragile_kafka: LocalKafka) -> None:
    broker = fragile_kafka
    address = broker.bootstrap_servers
    create_topic(address)
    produce_in_a_transaction(address, b"kept")
    assert committed_values(address) == [b"kept"]

    broker.kill()
    assert not broker.running
    broker.start()

    assert broker.bootstrap_servers == address
    assert committed_values(address) == [b"kept"]


@pytest.mark.kafka
def test_a_suspended_broker_is_silent_until_it_is_resumed(fragile_kafka: LocalKafka) -> None:
    broker = fragile_kafka
    host, port = broker.bootstrap_servers.split(":")
    # An ApiVersions request of version 0, without a client id.
    request = bytes.fromhex("0000000a0012000000000001ffff")

    with socket.create_connection((host, int(port)), timeout=0.5) as connection:
        broker.suspend()
        assert broker.running
        connection.sendall(request)
        with pytest.raises(TimeoutError):
            connection.recv(4)
        broker.resume()
        connection.settimeout(10)
        assert connection.recv(4)


@pytest.mark.kafka
def test_a_broker_does_not_outlive_the_process_that_started_it(tmp_path: Path) -> None:
    port = LocalKafka(tmp_path).port
    command = command_line(tmp_path, port)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == f"127.0.0.1:{port}\n"
        starter.kill()

    assert port_becomes_free(port)


@pytest.mark.kafka
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_stops_the_broker_on_a_signal_also_in_the_background(
    tmp_path: Path, number: signal.Signals
) -> None:
    port = LocalKafka(tmp_path).port
    # A shell without job control lets what it starts in the background ignore Ctrl-C.
    command = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", *command_line(tmp_path, port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == f"127.0.0.1:{port}\n"
        starter.send_signal(number)
        assert starter.stderr is not None
        while "stopping the broker" not in starter.stderr.readline():
            assert starter.poll() is None
        # A signal to the whole group comes twice: make passes it on.
        starter.send_signal(number)
        _, rest = starter.communicate(timeout=30)

    assert starter.returncode == 0
    assert "Traceback" not in rest
    assert port_becomes_free(port)


@pytest.mark.kafka
def test_a_broker_starts_with_the_classes_that_a_recorded_start_left(fragile_kafka: LocalKafka) -> None:
    assert fragile_kafka._process is not None
    maps = Path(f"/proc/{fragile_kafka._process.pid}/maps").read_text()
    assert str(local_kafka.class_archive()) in maps
    assert "[warning]" not in fragile_kafka.log_path.read_text()


@pytest.mark.kafka
def test_a_shared_broker_answers(kafka: SimpleNamespace) -> None:
    require_broker(kafka.bootstrap_servers)


@pytest.mark.kafka
def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    broker = LocalKafka(tmp_path)
    with socket.create_server(("127.0.0.1", broker.port)), pytest.raises(LocalKafkaError, match=str(broker.port)):
        broker.start()


@pytest.mark.kafka
def test_a_broker_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    broker = LocalKafka(tmp_path, overrides={"num.network.threads": "none"})
    with pytest.raises(LocalKafkaError, match=r"num\.network\.threads"):
        broker.start()


def test_jars_that_cannot_be_fetched_leave_a_remedy_and_no_half_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(into: Path) -> None:
        into.mkdir()
        (into / "half.jar").touch()
        raise ConnectionError("no route")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(local_kafka, "_download_jars", fail)
    with pytest.raises(LocalKafkaError, match=r"no route(.|\n)*KAFKA_BOOTSTRAP_SERVERS"):
        local_kafka.kafka_jars()
    assert list((tmp_path / "neardup-streamer").iterdir()) == []


def test_a_cluster_takes_records_while_one_of_its_three_brokers_is_away(tmp_path: Path) -> None:
    with LocalCluster(tmp_path) as cluster:
        servers = cluster.bootstrap_servers
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            admin.create_topics({"replicated": {"num_partitions": 3, "replication_factor": 3}})
        for broker in cluster.brokers:
            broker.kill()
            with KafkaProducer(bootstrap_servers=servers, acks="all") as producer:
                for partition in range(3):
                    producer.send("replicated", b"document", partition=partition).get(timeout=60)
            broker.start()
        with KafkaConsumer(bootstrap_servers=servers) as consumer:
            places = [TopicPartition("replicated", number) for number in range(3)]
            assert set(consumer.end_offsets(places).values()) == {3}
