"""Whoever opens the port to other machines names a token; a token is never printed."""

import pytest

from streamer.errors import SettingsError
from streamer.settings.ask import is_loopback
from streamer.settings.settings import load
from streamer.settings.toml import as_toml

SECRET = "correct horse battery staple"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "filter.example"])
def test_without_a_token_only_this_machine_may_ask(host: str) -> None:
    with pytest.raises(SettingsError, match=r"^ask\.token_file \(unset\) must be set, .* observe\.host") as refused:
        load(None, ["ask.enabled=true", f"observe.host={host}"], {})
    assert refused.value.exit_code == 78
    assert load(None, ["ask.enabled=true", f"observe.host={host}", f"ask.token={SECRET}"], {}).ask.enabled
    assert not load(None, [f"observe.host={host}"], {}).ask.enabled


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_this_machine_needs_none(host: str) -> None:
    assert is_loopback(host)
    assert load(None, ["ask.enabled=true", f"observe.host={host}"], {}).ask.enabled


def test_a_token_stands_in_one_place_and_is_not_shown() -> None:
    with pytest.raises(SettingsError, match=r"ask\.token .* must not be set together with ask\.token_file") as refused:
        load(None, ["ask.token_file=token"], {"STREAMER_ASK__TOKEN": SECRET})
    assert SECRET not in str(refused.value)
    with pytest.raises(
        SettingsError, match=r"ask\.token: must be a text of at least 16 characters or unset"
    ) as refused:
        load(None, ["ask.token=short"], {})
    assert "short" not in str(refused.value)
    assert SECRET not in as_toml(load(None, [f"ask.token={SECRET}"], {}))
