"""Settings for the requests that the service's port answers, beyond metrics and health."""

from ipaddress import ip_address

from pydantic import Field, SecretStr

from streamer.settings.types import File, Milliseconds, Section

TOKEN_CHARACTERS_MIN = 16


class Ask(Section):
    """Questions to the running service: /v1/check, /v1/documents, and the page at /. They share port and TLS with /metrics."""

    enabled: bool = False
    """Whether the port answers questions and shows the page."""
    token: SecretStr | None = Field(
        None, min_length=TOKEN_CHARACTERS_MIN, title=f"a text of at least {TOKEN_CHARACTERS_MIN} characters"
    )
    """Token that a request must bear (`Authorization: Bearer`); never printed. Unset, anyone who reaches the port may ask."""
    token_file: File | None = None
    """File with the token, instead of `ask.token`; read once, at the start."""
    documents_max: int = Field(100, ge=1, le=1_000)
    """Maximum documents in a request."""
    body_bytes_max: int = Field(16 * 2**20, ge=2**10)
    """Maximum bytes in a request's body."""
    requests_per_second: int = Field(500, ge=1, le=100_000)
    """Maximum requests a second, from all callers together; also the largest burst."""
    timeout_ms: Milliseconds = 10_000
    """Longest time for an answer; the process that exceeds it is restarted."""
    texts: bool = False
    """Whether answers may show words of documents, read from the topics."""


def is_loopback(host: str) -> bool:
    """Whether an address is reachable only from this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
