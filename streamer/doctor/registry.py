"""Check on the schema registry, with the service's own request."""

from collections.abc import Iterator

from streamer.doctor.finding import Finding, away, ok, wrong
from streamer.errors import RegistryRefuses, RegistryUnavailable, SettingsError
from streamer.records.schemas import Schemas
from streamer.settings.settings import Decode


def registry(decode: Decode) -> Iterator[Finding]:
    """Whether the schema registry answers this client; no finding if not needed."""
    if decode.format != "avro":
        return
    check = f"decode.registry_url {decode.registry_url}"
    try:
        Schemas(decode).require_answer()
    except SettingsError as error:
        yield wrong(check, "cannot be queried", str(error))
    except RegistryRefuses as error:
        yield wrong(check, "refuses this client", str(error))
    except RegistryUnavailable as error:
        yield away(check, str(error), "start the registry, or correct decode.registry_url")
    else:
        yield ok(check, "answers")
