"""Scopes: documents of different tenants never match, whatever path they take, and each tenant is decided as if alone."""

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from deploy.made_up_site import site
from index import Source, errors
from index.dataflow import Dataflow
from index.index import Index
from streamer import Answer, Filter
from streamer.ask.answers import Answers
from streamer.fingerprint.documents import fingerprint_documents, prepare
from streamer.fingerprint.scheme import scheme_with_parameters
from streamer.records.decode import Decoder, Document
from streamer.records.names import scope_named, without_scope
from streamer.records.record import Record
from streamer.service.processes import Prepared
from streamer.settings.settings import Settings, load
from tests.support.command_line import run
from tests.support.dataflow import STREAM, Batch, Cluster, answers_by_position, in_order
from tests.support.examples import examples
from tests.support.flow_logs import parse_headers
from tests.support.memory_service import World
from tests.support.parts_world import PartsWorld
from tests.support.tenants import TENANTS, documents, texts
from tests.support.tiers import first_of

SCOPED = "decode.scope=/tenant"
SCHEMES = first_of("minhash", "simhash")
COUNT = 1_000


def settings_of(scheme: str = "minhash", *more: str) -> Settings:
    return load(None, [f"fingerprint.scheme={scheme}", SCOPED, *more], {})


def verdicts(out: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (out / "verdicts.jsonl").read_bytes().splitlines()]


def kept(lines: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    return Counter((line["id"].partition("/")[0], line["verdict"]) for line in lines)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_two_tenants_with_the_same_documents_keep_all_of_theirs_over_files(tmp_path: Path, scheme: str) -> None:
    chosen = texts(COUNT)
    for tenant in TENANTS:
        (tmp_path / f"{tenant}.jsonl").write_bytes(b"\n".join(documents(tenant, chosen)) + b"\n")
    folders = ("--out", tmp_path / "out", "--index", tmp_path / "index", "--set", SCOPED)
    arguments = ("--set", f"fingerprint.scheme={scheme}", *folders)
    done = run("filter", *(tmp_path / f"{tenant}.jsonl" for tenant in TENANTS), *arguments)
    assert done.code == 0, done.err
    assert kept(verdicts(tmp_path / "out")) == {(tenant, "unique"): COUNT for tenant in TENANTS}
    # Another copy of each is a duplicate of the tenant's own document, also through a lost index.
    shutil.rmtree(tmp_path / "index")
    again = [documents(tenant, chosen, again=True) for tenant in TENANTS]
    (tmp_path / "again.jsonl").write_bytes(
        b"\n".join(line for both in zip(*again, strict=True) for line in both) + b"\n"
    )
    done = run("filter", *(tmp_path / f"{name}.jsonl" for name in (*TENANTS, "again")), *arguments)
    assert done.code == 0, done.err
    lines = verdicts(tmp_path / "out")[2 * COUNT :]
    assert kept(lines) == {(tenant, "duplicate"): COUNT for tenant in TENANTS}
    assert all(line["original"] == line["id"] for line in lines)
    named = {(line["id"].partition("/")[0], Path(line["original_source"]).stem) for line in lines}
    assert named == {(tenant, tenant) for tenant in TENANTS}
    checked = run("verify", *arguments)
    assert checked.code == 0, checked.out + checked.err


def test_one_scope_is_forgotten_and_the_others_stay(tmp_path: Path) -> None:
    chosen = texts(60)
    tenants = ("a", "a/b", "ab", "")
    lines = [line for tenant in tenants for line in documents(tenant or None, chosen)]
    (tmp_path / "first.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    (tmp_path / "again.jsonl").write_bytes(b"\n".join([*reversed(lines)]) + b"\n")
    folders = ("--index", tmp_path / "index", "--set", SCOPED)
    assert run("filter", tmp_path / "first.jsonl", "--out", tmp_path / "out", *folders).code == 0
    forget = ("--set", SCOPED, "index", "--directory", tmp_path / "index", "forget", "--json", "--scope")
    assert orjson.loads(run(*forget, "a/b", "--dry-run").out) == {"scope": "a/b", "forgotten": 60, "dry_run": True}
    assert run(*forget, "nobody").code == 1
    assert [orjson.loads(run(*forget, tenant).out)["forgotten"] for tenant in ("a", "")] == [60, 60]
    assert run("filter", tmp_path / "again.jsonl", "--out", tmp_path / "out", *folders).code == 0
    counts = kept(verdicts(tmp_path / "out")[len(lines) :])
    assert counts == {("a", "unique"): 60, ("", "unique"): 60, ("a~1b", "duplicate"): 60, ("ab", "duplicate"): 60}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_two_tenants_keep_theirs_over_a_broker_and_through_a_lost_index(tmp_path: Path, scheme: str) -> None:
    world, chosen = World(tmp_path / "index", settings_of(scheme)), texts(COUNT)
    for partition, tenant in enumerate(TENANTS):
        world.fill(documents(tenant, chosen), partition, partitions=2)
    world.run()
    topics = world.settings.topics
    assert [destination for destination, _ in world.outputs().values()] == [topics.unique] * 2 * COUNT
    shutil.rmtree(world.directory)
    # Each tenant's copies come on the partition of the other one.
    for partition, tenant in enumerate(reversed(TENANTS)):
        world.fill(documents(tenant, chosen, again=True), partition)
    world.run()
    assert world.restored
    for record in world.broker.records(topics.duplicate):
        headers = dict(record.headers)
        own = orjson.loads(record.value or b"")
        position = f"{topics.input}/{TENANTS.index(own['tenant'])}/{own['id'].partition('-')[2]}"
        assert headers["neardup.original.id"] == f"{own['tenant']}/{own['id']}".encode()
        assert headers["neardup.original.position"] == position.encode()
    assert len(world.broker.records(topics.duplicate)) == 2 * COUNT


@pytest.mark.parametrize("in_parts", [False, True])
def test_two_tenants_keep_theirs_over_kafka_whole_and_in_parts(
    kafka: SimpleNamespace, tmp_path: Path, in_parts: bool
) -> None:
    world, chosen = PartsWorld(kafka.bootstrap_servers, tmp_path, records_max=500), texts(COUNT)
    world.settings = world.settings.replaced(decode={"scope": "/tenant"})
    values = [line for tenant in TENANTS for line in documents(tenant, chosen)]
    world.write([*values, *values])
    if in_parts:
        world.run("fingerprint", 4 * COUNT)
        world.run("decide", len(world.records(world.settings.topics.fingerprints)))
        world.run("route", 4 * COUNT)
    else:
        world.run(None, 4 * COUNT)
    expected = ["unique"] * 2 * COUNT + ["duplicate"] * 2 * COUNT
    assert world.delivered() == [*enumerate(expected)]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_two_tenants_keep_theirs_in_the_dataflow(tmp_path: Path, scheme: str) -> None:
    """Operators of engines know no scopes: fingerprints, ids and hosts carry them."""
    settings, chosen = settings_of(scheme), texts(60)
    made, parameters = scheme_with_parameters(settings)
    logs: dict[int, list[Batch]] = {}
    for partition, tenant in enumerate(TENANTS):
        values = [*documents(tenant, chosen), *documents(tenant, chosen)]
        source = Source(STREAM, partition)
        records = [Record(source, "documents", offset, None, value, 0) for offset, value in enumerate(values)]
        entries = prepare(Decoder(settings.decode), made, records)
        logs[partition] = [
            Batch(10 * begin + partition, partition, begin, begin + 20, entries.take(np.arange(begin, begin + 20)))
            for begin in range(0, len(values), 20)
        ]
    cluster = Cluster(Dataflow(parameters, shards=2, slot_ms=1), logs, np.random.default_rng(1))
    assert cluster.run()
    answers = answers_by_position(cluster.decided, logs)
    with Index.open(tmp_path, parameters, map_bytes_max=2**30) as index:
        assert answers == parse_headers(index, in_order(logs))
    for (partition, offset), answer in answers.items():
        own = answer.original_id is None or answer.original_id.startswith(f"{TENANTS[partition]}/")
        assert (answer.verdict, own) == (0 if offset < len(chosen) else 1, True)


Stream = list[tuple[object, dict[str, Any]]]
TEXTS = texts(8, seed=11)
PAGES = st.builds(
    lambda number, cut, id_, host: {"text": TEXTS[number][cut:], "id": id_, "host": host},
    st.integers(0, len(TEXTS) - 1),
    st.sampled_from((0, 0, 1, 30)),
    st.sampled_from(("id-0", "id-1", "id-2", None)),
    st.sampled_from(("a.example", "b.example", None)),
)
SCOPES = ("tenant-a", "tenant-a/id-0", "租户", "", None, 7, ["tenant-a"], True)


def scope_of(value: object) -> str:
    """As settings have it: a text or a number, and all else is no scope."""
    return scope_named(str(value) if type(value) in (str, int) else "")


def decided(opened: Filter, stream: Stream, batch: int) -> list[Answer]:
    """Answers whose originals are places in the stream, and whose ids are those of the documents."""
    answers = []
    for begin in range(0, len(stream), batch):
        values = [document | {"tenant": scope} for scope, document in stream[begin : begin + batch]]
        answers += opened.admit(values)
    return [
        replace(
            each,
            id=None if each.id is None else without_scope(each.id),
            original_id=None,
            original_position=each.original_position and each.original_position.rpartition("/")[2],
        )
        for each in answers
    ]


def require_each_scope_as_if_alone(stream: Stream, *settings: str, batch: int = 7) -> Counter[str]:
    """A mixed stream has the answers of an index for each scope. Returns the reasons."""
    chosen = dict(pair.split("=", 1) for pair in (SCOPED, "fingerprint.key=public", *settings))
    with TemporaryDirectory() as folder:
        with Filter(f"{folder}/mixed", chosen, source="mixed") as mixed:
            found = decided(mixed, stream, batch)
        for number, scope in enumerate(sorted({scope_of(each) for each, _ in stream})):
            places = [place for place, (each, _) in enumerate(stream) if scope_of(each) == scope]
            with Filter(f"{folder}/{number}", chosen, source="mixed") as alone:
                expected = decided(alone, [stream[place] for place in places], batch)
            for place, answer in zip(places, expected, strict=True):
                original = answer.original_position
                named = None if original is None else str(places[int(original)])
                assert found[place] == replace(answer, original_position=named), place
    return Counter(each.reason for each in found)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(st.lists(st.tuples(st.sampled_from(SCOPES), PAGES), min_size=1, max_size=40), st.sampled_from((1, 7, 40)))
@examples(40)
def test_each_tenant_is_decided_as_if_it_were_alone(scheme: str, stream: Stream, batch: int) -> None:
    require_each_scope_as_if_alone(stream, f"fingerprint.scheme={scheme}", batch=batch)


@pytest.mark.parametrize(("policy", "batch"), first_of(("alert", 7), ("pass", 1)))
def test_templates_and_the_guard_know_only_the_pages_of_the_tenant(policy: str, batch: int) -> None:
    """The tenants crawled one site, each in an order of its own: what a tenant has not seen is no frame of its host."""
    generator = np.random.default_rng(5)
    stream: Stream = []
    pages = site("en", 0.15, pages=80, copies=40).texts
    for tenant in ("tenant-a", "tenant-b", "tenant-c"):
        stream += [(tenant, {"text": text, "host": "news.example", "id": f"page-{n}"}) for n, text in enumerate(pages)]
    stream = [stream[place] for place in generator.permutation(len(stream)).tolist()]
    # A host crosses the guard's limits between two batches, so with its policy the batches have to be the same.
    limits = f"guard.policy={policy}", "guard.documents_min=20", "guard.share_max=0.2"
    reasons = require_each_scope_as_if_alone(stream, *limits, batch=batch)
    assert reasons["template"] > 5, reasons
    assert reasons["similar" if policy == "alert" else "host-beyond-limits"] > 50, reasons


def test_the_same_id_in_a_hundred_tenants_is_still_the_page_of_each(tmp_path: Path) -> None:
    """An index looks at the last records with an id: those of other tenants must not push the own ones out."""
    old, new = TEXTS[1], TEXTS[2]
    with Filter(tmp_path, {SCOPED.partition("=")[0]: "/tenant"}) as opened:
        for text, verdict in ((old, "unique"), (new, "update")):
            answers = opened.admit([{"id": "7", "text": text, "tenant": f"tenant-{number}"} for number in range(100)])
            assert {answer.verdict for answer in answers} == {verdict}
            assert {answer.original_id in (None, answer.id) for answer in answers} == {True}


def test_an_index_made_without_scopes_is_refused_by_the_setting_that_differs(tmp_path: Path) -> None:
    """Its documents have no scope, and those that a restoration read again would have theirs."""
    Filter(tmp_path / "without", text="/text").close()
    Filter(tmp_path / "with", scope="/tenant").close()
    for folder, scope in (("without", "/tenant"), ("with", None), ("with", "/source")):
        with pytest.raises(errors.ParametersDifferError, match=r"decode\.scope"):
            Filter(tmp_path / folder, scope=scope)


def test_what_has_no_scope_is_counted_and_the_first_one_is_named(tmp_path: Path) -> None:
    """A wrong pointer would put all tenants into one scope."""
    world = World(tmp_path, settings_of())
    world.fill([*documents("tenant-a", texts(3)), *documents(None, texts(4))])
    with capture_logs() as logged:
        world.run()
    assert sum(world.without_scope) == 4
    (line,) = [line for line in logged if "no scope" in line["event"]]
    assert (line["id"], "decode.scope" in line["remedy"]) == ("/page-0", True)
    unset = World(tmp_path / "unset")
    unset.fill(documents("tenant-a", texts(3)))
    unset.run()
    assert sum(unset.without_scope) == 0


def test_processes_hand_on_what_has_no_scope() -> None:
    settings = settings_of()
    values = [*documents("tenant-a", TEXTS[:1]), *documents(None, TEXTS[:1])]
    records = [Record(Source("s", 0), "t", offset, None, value, 0) for offset, value in enumerate(values)]
    found = Decoder(settings.decode).decode(records)
    prints = fingerprint_documents(scheme_with_parameters(settings)[0], found)
    handed = [each for each in Prepared.of(found, prints).documents() if isinstance(each, Document)]
    assert [(each.id, each.host, each.scope == "") for each in handed] == [
        ("tenant-a/page-0", "tenant-a/h0.example", False),
        ("/page-0", "/h0.example", True),
    ]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the outputs and the index of two tenants, each with ten documents and a copy of each."""
    folder = tmp_path_factory.mktemp("shared")
    chosen = texts(10)
    copies = [text + " again" for text in chosen]
    lines = [line for each in (chosen, copies) for tenant in TENANTS for line in documents(tenant, each)]
    (folder / "pages.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    done = run("filter", folder / "pages.jsonl", *folders(folder), "--json", "--set", "index.recrawl=duplicate")
    assert done.code == 0, done.err
    return folder


def folders(folder: Path) -> tuple[object, ...]:
    return "--out", folder / "out", "--index", folder / "index", "--scope", "/tenant"


def in_place(folder: Path) -> tuple[str, ...]:
    return "--set", f"index.directory={folder / 'index'}", "--set", SCOPED, "--json"


def test_why_and_query_stay_within_the_scope_that_a_name_says(shared: Path) -> None:
    out = ("--out", shared / "out")
    for tenant, other in zip(TENANTS, reversed(TENANTS), strict=True):
        told = run("why", f"{tenant}/page-1", *out, *in_place(shared)).out
        assert f"{tenant}/page-1" in told
        assert f"{other}/" not in told
        found = orjson.loads(run("index", "query", "--text", texts(10)[1], "--scope", tenant, *in_place(shared)).out)
        assert [match["id"] for match in found["answers"][0]["matches"]] == [f"{tenant}/page-1"]
    assert run("why", "page-1", *out, *in_place(shared)).code == 1
    elsewhere = orjson.loads(run("index", "query", "--text", texts(10)[1], *in_place(shared)).out)
    assert elsewhere["answers"][0]["matches"] == []
    refused = run("index", "query", "--text", "t", "--scope", "a", "--set", f"index.directory={shared / 'index'}")
    assert (refused.code, "set decode.scope" in refused.err) == (78, True)


def test_giving_back_takes_the_host_of_one_tenant(shared: Path) -> None:
    for host, count in (("tenant-a/h1.example", 3), ("tenant-a/https://H1.example/x", 3), ("h1.example", 0)):
        done = run("give-back", "--host", host, "--dry-run", "--out", shared / "out", *in_place(shared))
        assert orjson.loads(done.out)["matched"] == count, done.err


def test_checks_over_http_answer_within_the_scope_of_each_document(shared: Path) -> None:
    settings = load(None, [SCOPED, "fingerprint.key=public"], {}, over_files=True)
    with Filter(shared / "index", settings, read_only=True) as opened:
        asked = [{"id": "new", "text": texts(10)[1], "tenant": tenant} for tenant in ("tenant-b", "tenant-c")]
        reply = Answers(opened, settings).answer("check", orjson.dumps({"documents": asked}))
        answers = orjson.loads(reply.body)["answers"]
        assert [(each["verdict"], each["original_id"]) for each in answers] == [
            ("duplicate", "tenant-b/page-1"),
            ("unique", None),
        ]


def test_compare_says_what_scopes_would_change(shared: Path) -> None:
    """Without scopes the second tenant's documents would be copies of the first one's."""
    with_scopes = ("compare", "--out", shared / "out", *in_place(shared), "--set", "index.recrawl=duplicate")
    assert orjson.loads(run(*with_scopes).out)["changed"] == 0
    without = run("compare", "--out", shared / "out", "--set", f"index.directory={shared / 'index'}", "--json")
    assert orjson.loads(without.out)["other"]["unique"] == 10, without.err
    found = orjson.loads(run("compare", shared / "pages.jsonl", "--scope", "/tenant", "--json").out)
    assert (found["delivered"]["unique"], found["other"]["unique"]) == (10, 20)
