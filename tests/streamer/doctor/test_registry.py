"""What is found of a schema registry: it answers, knows nothing, refuses, is away, or is no registry."""

from pathlib import Path

import pytest

from deploy.local_kafka import free_port
from streamer.doctor.finding import Finding, State
from streamer.doctor.registry import registry
from streamer.settings.settings import Decode, Settings
from tests.support.schema_registry import PAGE, Registry, serving


def found(url: str, **more: object) -> Finding:
    decode = Decode.model_validate({"format": "avro", "registry_url": url, "registry_timeout_ms": 1000, **more})
    (only,) = registry(decode)
    return only


def test_without_avro_there_is_nothing_to_find() -> None:
    assert list(registry(Settings().decode)) == []


@pytest.mark.parametrize("schemas", [0, 1])
def test_a_registry_that_answers_is_well_though_it_may_have_no_schema_yet(schemas: int) -> None:
    with serving(Registry()) as there:
        for number in range(schemas):
            there.add(number + 1, PAGE)
        assert found(there.url).state is State.OK


def test_a_registry_that_refuses_is_for_a_person_to_mend() -> None:
    with serving(Registry(credentials="reader:right")) as there:
        told = found(there.url, registry_user="reader", registry_password="mistaken")
        assert (told.state, told.result) == (State.WRONG, "refuses this client")
        assert "401" in told.remedy
        assert "mistaken" not in f"{told}"
        assert found(there.url, registry_user="reader", registry_password="right").state is State.OK


def test_a_registry_that_is_away_may_come_back() -> None:
    told = found(f"http://127.0.0.1:{free_port()}")
    assert told.state is State.AWAY
    assert "decode.registry_url" in told.remedy


def test_what_answers_otherwise_than_a_registry_is_told() -> None:
    with serving(Registry(instead=(200, b"<html>"))) as there:
        assert found(there.url).state is State.AWAY


def test_certificates_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    broken = tmp_path / "authorities.pem"
    broken.write_text("none")
    told = found("https://127.0.0.1:1", registry_cafile=str(broken))
    assert told.state is State.WRONG
    assert "decode.registry_cafile" in told.remedy
