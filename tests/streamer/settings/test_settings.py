import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from streamer.errors import SettingsError
from streamer.settings.relations import relations
from streamer.settings.settings import Kafka, Settings, Topics, load, without_use
from streamer.settings.toml import as_toml
from streamer.settings.values import fields, variable


def problems(
    tmp_path: Path, toml: str | None = None, *, options: tuple[str, ...] = (), variables: dict[str, str] | None = None
) -> list[str]:
    file = None
    if toml is not None:
        file = tmp_path / "x.toml"
        file.write_text(toml)
    with pytest.raises(SettingsError) as raised:
        load(file, options, variables or {})
    return str(raised.value).replace(str(tmp_path), "DIR").split("\n")


def test_without_anything_given_the_defaults_stand_and_hold_every_relation() -> None:
    settings = load(environment={})

    assert settings == Settings()
    assert all(relation.holds for relation in relations(settings.value))


def test_a_later_source_wins_over_an_earlier_one_key_by_key(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text("[index]\ndistance_max = 1\n[batch]\nrecords_max = 10\nwait_ms = 10\n[workers]\ncount = 2\n")
    variables = {"STREAMER_BATCH__RECORDS_MAX": "20", "STREAMER_BATCH__WAIT_MS": "20"}

    settings = load(file, ["batch.wait_ms=25", "batch.wait_ms=30"], variables)

    assert settings.index.distance_max == 1
    assert settings.workers.count == 2
    assert settings.batch.records_max == 20
    assert settings.batch.wait_ms == 30


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_bytes(b"\xef\xbb\xbf[workers]\r\ncount = 2\r\n")

    assert load(file, (), {}).workers.count == 2


def test_a_variable_names_the_file_unless_an_option_does(tmp_path: Path) -> None:
    named, given = tmp_path / "named.toml", tmp_path / "given.toml"
    named.write_text("[workers]\ncount = 2\n")
    given.write_text("[workers]\ncount = 3\n")

    assert load(None, (), {"STREAMER_CONFIG": str(named)}).workers.count == 2
    assert load(given, (), {"STREAMER_CONFIG": str(named)}).workers.count == 3


def test_the_environment_of_the_process_is_read_when_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMER_WORKERS__COUNT", "7")

    assert load().workers.count == 7


@pytest.mark.parametrize("text", ["a:1,b:2", " a:1 , b:2 ", '["a:1", "b:2"]'])
def test_a_list_in_a_variable_is_separated_by_commas_or_is_json(text: str) -> None:
    settings = load(None, (), {"STREAMER_KAFKA__BOOTSTRAP_SERVERS": text})

    assert settings.kafka.bootstrap_servers == ["a:1", "b:2"]


def test_texts_are_parsed_by_the_type_of_the_setting() -> None:
    settings = load(
        None,
        ["fingerprint.bits=128", "index.directory=/data/index", "decode.id=", "decode.title=/a=b", "kafka.group=7"],
        {"STREAMER_DECODE__ID": "/id", "STREAMER_DECODE__METADATA": "/tags,/keywords"},
    )

    assert settings.fingerprint.bits == 128
    assert settings.index.directory == Path("/data/index")
    assert settings.decode.id is None
    assert settings.decode.title == "/a=b"
    assert settings.decode.metadata == ["/tags", "/keywords"]
    assert settings.kafka.group == "7"


@pytest.mark.parametrize(
    ("toml", "line"),
    [
        (
            '[index]\ndistance_max = "nine"',
            'index.distance_max: must be a whole number from 0 to 7, not "nine" (file DIR/x.toml)',
        ),
        (
            "[index]\ndistance_max = true",
            "index.distance_max: must be a whole number from 0 to 7, not true (file DIR/x.toml)",
        ),
        (
            "[index]\ndistance_max = 8",
            "index.distance_max: must be a whole number from 0 to 7, not 8 (file DIR/x.toml)",
        ),
        ('[fingerprint]\nbits = "64"', 'fingerprint.bits: must be one of 64, 128, not "64" (file DIR/x.toml)'),
        (
            "[kafka]\nbootstrap_servers = 'a:1'",
            'kafka.bootstrap_servers: must be a list of host:port, not "a:1" (file DIR/x.toml)',
        ),
        (
            "[kafka]\nbootstrap_servers = ['a:1', 'http://b']",
            "kafka.bootstrap_servers: must be a list of host:port, not ['a:1', 'http://b'] (file DIR/x.toml)",
        ),
        (
            "[decode]\ntext = 'text'",
            'decode.text: must be a JSON pointer such as /text or /meta/title or unset, not "text" (file DIR/x.toml)',
        ),
        ("[kafka]\ngroup = ''", 'kafka.group: must be a text that is not empty, not "" (file DIR/x.toml)'),
        ("[index]\ndirectory = 3", "index.directory: must be a path, not 3 (file DIR/x.toml)"),
        (
            "[observe.port]\nx = 1",
            "observe.port: must be a whole number from 0 to 65535, not {'x': 1} (file DIR/x.toml)",
        ),
        (
            "[index]\ndistence_max = 3",
            "index.distence_max: there is no such setting; did you mean index.distance_max? (file DIR/x.toml)",
        ),
        (
            "[batch]\ndistance_max = 3",
            "batch.distance_max: there is no such setting; did you mean index.distance_max? (file DIR/x.toml)",
        ),
        ("[kafak]\ngroup = 'x'", "kafak: there is no such setting; did you mean kafka? (file DIR/x.toml)"),
        ("kafka = 3", "kafka: must be a table ([kafka]), not 3 (file DIR/x.toml)"),
        (
            "[kafka\n",
            "DIR/x.toml: is not valid TOML: Expected ']' at the end of a table declaration (at line 1, column 7)",
        ),
    ],
)
def test_a_problem_in_the_file_is_one_line_that_says_what_is_right(tmp_path: Path, toml: str, line: str) -> None:
    assert problems(tmp_path, toml) == [line]


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        (
            "STREAMER_INDEX__DISTANCE_MAX",
            "nine",
            'index.distance_max: must be a whole number from 0 to 7, not "nine" (variable STREAMER_INDEX__DISTANCE_MAX)',
        ),
        (
            "STREAMER_WORKERS__COUNT",
            "",
            'workers.count: must be a whole number from 1 to 64, not "" (variable STREAMER_WORKERS__COUNT)',
        ),
        (
            "STREAMER_OBSERVE__POTR",
            "1",
            "STREAMER_OBSERVE__POTR: there is no such setting; did you mean STREAMER_OBSERVE__PORT? (variable)",
        ),
        (
            "STREAMER_OBSERVE_PORT",
            "1",
            "STREAMER_OBSERVE_PORT: there is no such setting; did you mean STREAMER_OBSERVE__PORT? (variable)",
        ),
        (
            "STREAMER_DECODE__METADATA",
            "[/a",
            "decode.metadata: must be a list of a JSON pointer such as /text or /meta/title or unset, "
            'not "[/a" (variable STREAMER_DECODE__METADATA)',
        ),
    ],
)
def test_a_problem_in_a_variable_names_the_variable(tmp_path: Path, name: str, text: str, line: str) -> None:
    assert problems(tmp_path, variables={name: text}) == [line]


def test_variables_that_a_cluster_injects_for_a_service_named_streamer_are_not_ours() -> None:
    variables = {
        "STREAMER_SERVICE_HOST": "10.0.0.1",
        "STREAMER_SERVICE_PORT": "9464",
        "STREAMER_SERVICE_PORT_METRICS": "9464",
        "STREAMER_PORT": "tcp://10.0.0.1:9464",
        "STREAMER_PORT_9464_TCP": "tcp://10.0.0.1:9464",
        "STREAMER_PORT_9464_TCP_ADDR": "10.0.0.1",
        "STREAMER_METRICS_PORT": "tcp://10.0.0.1:9464",
    }
    assert load(None, (), variables) == Settings()


def test_a_problem_in_an_option_names_the_option(tmp_path: Path) -> None:
    assert problems(tmp_path, options=("index.distance_max=-1", "index.insert", "indx.insert=root")) == [
        "index.insert: has no value: write --set index.insert=VALUE (option --set)",
        "indx.insert: there is no such setting; did you mean index.insert? (option --set)",
        "index.distance_max: must be a whole number from 0 to 7, not -1 (option --set index.distance_max)",
    ]


@pytest.mark.parametrize(
    ("key", "value", "way_out"),
    [
        ("index.recrawl_minor", "duplicate", "Delete this setting"),
        ("index.recrawl_minor", "unique", "Delete this setting"),
        ("index.recrawl_history", "4", "Delete this setting"),
        ("index.insert", "all", 'Use "root"'),
        ("index.recrawl", "as-new", 'Use "update"'),
    ],
)
def test_a_setting_or_value_that_was_removed_is_refused_with_the_way_out_from_every_source(
    tmp_path: Path, key: str, value: str, way_out: str
) -> None:
    section, name = key.split(".")
    quoted = value if value.isdigit() else f'"{value}"'
    for lines, origin in (
        (problems(tmp_path, f"[{section}]\n{name} = {quoted}\n"), "file DIR/x.toml"),
        (problems(tmp_path, options=(f"{key}={value}",)), "option --set"),
        (problems(tmp_path, variables={variable(key): value}), "variable"),
    ):
        (line,) = lines
        assert key in line or variable(key) in line
        assert "was removed" in line
        assert way_out in line
        assert origin in line


def test_all_problems_are_told_at_once_one_line_each(tmp_path: Path) -> None:
    lines = problems(
        tmp_path, "[index]\ndistance_max = 9\ninsert = 'some'\n[x]\n", variables={"STREAMER_WORKERS__COUNT": "0"}
    )

    assert [line.split(":")[0] for line in lines] == ["x", "index.distance_max", "index.insert", "workers.count"]


def test_a_file_that_cannot_be_read_is_named_with_the_cause(tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    with pytest.raises(SettingsError) as raised:
        load(missing, (), {})
    assert str(raised.value) == f"{missing}: cannot be read: No such file or directory"

    latin = tmp_path / "latin.toml"
    latin.write_bytes(b"[kafka]\ngroup = 'caf\xe9'\n")
    with pytest.raises(SettingsError) as raised:
        load(latin, (), {})
    assert str(raised.value) == f"{latin}: line 2: is not UTF-8"


def test_a_password_is_in_no_message_and_in_no_print(tmp_path: Path) -> None:
    lines = problems(tmp_path, "[kafka]\nsasl_password = ['hunter2']\n")
    lines += problems(tmp_path, "[kafka]\nsasl_password = 'hunter2'\n")
    settings = load(
        None,
        [
            "kafka.security_protocol=SASL_SSL",
            "kafka.sasl_mechanism=PLAIN",
            "kafka.sasl_username=reader",
            "kafka.sasl_password=hunter2",
        ],
        {},
    )

    assert "hunter2" not in "\n".join(lines) + as_toml(settings) + repr(settings)
    assert settings.kafka.sasl_password is not None
    assert settings.kafka.sasl_password.get_secret_value() == "hunter2"
    assert "# sasl_password is set and not shown" in as_toml(settings).splitlines()


SASL = {"sasl_mechanism": "PLAIN", "sasl_username": "u", "sasl_password": "p"}


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        ({"kafka.delivery_timeout_ms": 15_000}, ("kafka.request_timeout_ms", "kafka.delivery_timeout_ms")),
        (
            {"kafka.delivery_timeout_ms": 60_000},
            ("kafka.delivery_timeout_ms", "workers.progress_timeout_ms"),
        ),
        (
            {"kafka.transaction_timeout_ms": 60_000},
            ("workers.progress_timeout_ms", "kafka.transaction_timeout_ms"),
        ),
        ({"kafka.max_poll_interval_ms": 180_000}, ("kafka.max_poll_interval_ms", "workers.progress_timeout_ms")),
        ({"kafka.session_timeout_ms": 300_000}, ("kafka.session_timeout_ms", "kafka.max_poll_interval_ms")),
        ({"workers.restart_backoff_ms": 15_001}, ("workers.restart_backoff_ms", "workers.restart_backoff_max_ms")),
        ({"topics.unique": "documents"}, ("topics.input", "topics.unique")),
        ({"topics.dead_letter": "documents-duplicate"}, ("topics.duplicate", "topics.dead_letter")),
        ({"decode.value_bytes_max": 16 * 2**20 + 1}, ("decode.value_bytes_max", "batch.bytes_max")),
        ({"kafka.request_bytes_max": 8 * 2**20 + 65_535}, ("kafka.request_bytes_max", "decode.value_bytes_max")),
        ({"kafka.sasl_username": "u"}, ("kafka.sasl_username", "kafka.security_protocol")),
        (
            {"kafka.security_protocol": "SASL_PLAINTEXT", "kafka.sasl_mechanism": "PLAIN", "kafka.sasl_username": "u"},
            ("kafka.sasl_password", "kafka.security_protocol"),
        ),
        ({"kafka.ssl_cafile": "ca.pem"}, ("kafka.ssl_cafile", "kafka.security_protocol")),
        (
            {"kafka.security_protocol": "SSL", "kafka.ssl_certfile": "c.pem"},
            ("kafka.ssl_certfile", "kafka.ssl_keyfile"),
        ),
        ({"decode.format": "text", "decode.text": "/text"}, ("decode.text", "decode.format")),
        ({"decode.format": "text", "decode.preset": "nutch"}, ("decode.preset", "decode.format")),
        ({"guard.policy": "pass", "index.insert": "unique"}, ("guard.policy", "index.insert")),
        ({"topics.stories": "stories", "index.insert": "unique"}, ("topics.stories", "index.insert")),
        ({"topics.stories": "documents-unique"}, ("topics.unique", "topics.stories")),
        ({"topics.protected": "copies"}, ("topics.protected", "index.protected")),
        ({"index.protected": '["evaluation"]', "decode.scope": "/tenant"}, ("index.protected", "decode.scope")),
    ],
)
def test_settings_that_contradict_each_other_are_both_named(
    tmp_path: Path, given: dict[str, Any], keys: tuple[str, str]
) -> None:
    lines = problems(tmp_path, options=tuple(f"{key}={value}" for key, value in given.items()))

    assert len(lines) == 1
    assert all(key in lines[0] for key in keys)
    assert lines[0].startswith(keys[0])
    assert "(option --set " in lines[0] or " option --set " in lines[0]


def test_a_contradiction_shows_both_values_and_where_they_came_from(tmp_path: Path) -> None:
    lines = problems(
        tmp_path, "[kafka]\nmax_poll_interval_ms = 1000\n", variables={"STREAMER_WORKERS__PROGRESS_TIMEOUT_MS": "40000"}
    )

    assert lines == [
        "kafka.session_timeout_ms (45000, the default) must be less than kafka.max_poll_interval_ms "
        "(1000, file DIR/x.toml)",
        "kafka.max_poll_interval_ms (1000, file DIR/x.toml) must be over three times workers.progress_timeout_ms "
        "(40000, variable STREAMER_WORKERS__PROGRESS_TIMEOUT_MS)",
    ]


@pytest.mark.parametrize(
    "given",
    [
        ["kafka.delivery_timeout_ms=15001"],
        ["kafka.delivery_timeout_ms=59999"],
        ["kafka.transaction_timeout_ms=60001"],
        ["kafka.max_poll_interval_ms=180001"],
        ["kafka.session_timeout_ms=299999"],
        ["workers.restart_backoff_ms=15000"],
        ["decode.value_bytes_max=16777216"],
        ["kafka.request_bytes_max=8454144"],
        ["kafka.security_protocol=SASL_PLAINTEXT", *(f"kafka.{key}={value}" for key, value in SASL.items())],
        ["kafka.security_protocol=SSL", "kafka.ssl_certfile=c.pem", "kafka.ssl_keyfile=k.pem"],
        ["kafka.security_protocol=SSL"],
        ["decode.format=text"],
    ],
)
def test_settings_just_within_their_relations_are_accepted(given: list[str]) -> None:
    load(None, given, {})


def test_settings_made_in_code_are_held_to_the_same_rules() -> None:
    with pytest.raises(ValidationError, match=r"topics\.input must differ from topics\.unique"):
        Settings(topics=Topics(input="a", unique="a"))
    with pytest.raises(ValidationError, match=r"less than kafka\.transaction_timeout_ms"):
        Settings(kafka=Kafka(transaction_timeout_ms=1))


@pytest.mark.parametrize(
    ("overrides", "keys"),
    [
        ([], []),
        (["fingerprint.markup=html", "fingerprint.simplify=true", "minhash.bins=64", "index.insert=unique"], []),
        (["index.distance_max=7", "fingerprint.bits=128"], ["fingerprint.bits", "index.distance_max"]),
        (["fingerprint.weight=tf", "fingerprint.title_factor=1"], ["fingerprint.weight"]),
        (["fingerprint.scheme=simhash", "index.distance_max=7", "fingerprint.weight=tf"], []),
        (["fingerprint.scheme=simhash", "minhash.similarity_min=0.8"], ["minhash.similarity_min"]),
        (["second_look.cosine_min=0.9", "index.entries_max=9", "index.directory=x"], ["second_look.cosine_min"]),
    ],
)  # fmt: skip
def test_what_the_scheme_makes_no_use_of_is_named(overrides: list[str], keys: list[str]) -> None:
    assert sorted(without_use(load(None, overrides, {}))) == keys


def test_what_is_as_shipped_is_not_named_however_it_was_set(tmp_path: Path) -> None:
    file = tmp_path / "printed.toml"
    file.write_text(as_toml(Settings()))
    assert without_use(load(file, (), {})) == []


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        Settings().kafka.group = "other"  # type: ignore[misc]


def test_what_is_printed_as_toml_gives_the_same_settings_again(tmp_path: Path) -> None:
    settings = load(
        None,
        [
            "index.directory=/data/ \"'\\\x7f索引",
            "kafka.bootstrap_servers=a:1,b:2",
            "decode.metadata=/a,/b~1c",
            "workers.count=3",
        ],
        {},
    )
    file = tmp_path / "printed.toml"
    file.write_text(as_toml(settings))

    assert load(file, (), {}) == settings
    assert tomllib.loads(as_toml(Settings()))["observe"]["port"] == 9464


def test_every_setting_has_a_meaning_and_a_variable() -> None:
    for key, field in fields(Settings).items():
        assert field.description, key
        assert field.description.endswith("."), key
        assert variable(key) == "STREAMER_" + key.upper().replace(".", "__")


def test_every_section_says_what_it_is() -> None:
    for section in Settings.model_fields.values():
        assert isinstance(section.annotation, type)
        assert section.annotation.__doc__


@pytest.mark.parametrize(("text", "value"), [("0.85", 0.85), (" 1 ", 1.0), ("0.30", 0.3)])
def test_a_number_with_a_fraction_is_read_from_text(text: str, value: float) -> None:
    assert load(None, [f"minhash.similarity_min={text}"], {}).minhash.similarity_min == value


@pytest.mark.parametrize("text", ["", "much", "0.2", "1.1", "nan", "1e-1", ".5"])
def test_what_is_no_number_within_bounds_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"minhash.similarity_min: must be a number from 0.3 to 1.0, not"):
        load(None, [f"minhash.similarity_min={text}"], {})


@pytest.mark.parametrize(
    "charset", ["utf-16", "utf-32-le", "idna", "punycode", "raw_unicode_escape", "zlib", "utf-7", "cp037"]
)
def test_a_charset_that_would_change_json_is_refused_and_utf_16_is_sent_to_its_conversion(charset: str) -> None:
    with pytest.raises(SettingsError, match=r"decode\.charset.*UTF-16 has to be converted first"):
        load(overrides=[f"decode.charset={charset}"])


@pytest.mark.parametrize("setting", ["index.directory", "kafka.ssl_cafile", "fingerprint.dictionary"])
@pytest.mark.parametrize("url", ["s3://corpora/index", "https://a.example/words.txt", "GS://a/b"])
def test_a_url_where_a_file_or_folder_of_this_machine_belongs_is_refused(setting: str, url: str) -> None:
    """Path would make a folder of it, named after the scheme."""
    with pytest.raises(SettingsError, match=rf"{setting}: must be a path.*, not .{url}"):
        load(None, [f"{setting}={url}"], {})
