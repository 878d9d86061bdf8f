import ssl
from pathlib import Path

import pytest

from streamer.errors import SettingsError
from streamer.settings.named_files import no_password, read_named, usable


def test_a_named_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"\xff\n")
    assert read_named("ask.token_file", file) == b"\xff\n"


def test_an_unreadable_file_is_named_with_its_setting_and_the_cause(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=rf"^ask.token_file: {tmp_path}/none: cannot be read: No such file or directory$"
    ):
        read_named("ask.token_file", tmp_path / "none")


def test_a_file_of_other_content_is_named_with_what_it_must_hold(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"rubbish")
    with (
        pytest.raises(SettingsError, match=rf"^a.b: {file}: must hold certificates \(.+\)$"),
        usable("a.b", file, "certificates"),
    ):
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    with (
        pytest.raises(SettingsError, match=rf"^a.b: {file}: must hold a key \(the key is encrypted\)$"),
        usable("a.b", file, "a key"),
    ):
        no_password()
