"""A site whose pages share a template, crawled amid other documents: what an index on disk keeps of it, by policy.

    python -m bench.incident [--own-shares 0.1,0.2] [--others 18000] [--json]

Both languages, each share of own text, and three policies: frames of hosts are learnt and longer versions pass (the default),
duplicates enter by their root without either, and unique documents alone enter. The site is one host, the other documents have
none. `changed` counts the other documents whose verdict is not as without the site. All texts are made up
(`deploy.made_up_site`); the index is in a temporary folder, which TMPDIR names.
"""

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import orjson
from rich.console import Console
from rich.table import Table

from deploy.made_up_site import LANGUAGES, Language, admitted, amid, kept, others, site
from index import Index, Verdict
from streamer.fingerprint.fingerprints import Fingerprints
from streamer.fingerprint.scheme import longer_of, parameters_for, scheme_for
from streamer.settings.settings import Settings

POLICIES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "templates": {},
        "root": {"templates": False, "longer": "duplicate"},
        "unique": {"insert": "unique", "templates": False, "longer": "duplicate"},
    }
)
LONGER_DROPPED = "longer dropped"
"""The default without `index.longer = "pass"`."""
_SETTINGS = {**POLICIES, LONGER_DROPPED: {"longer": "duplicate"}}
OWN_SHARES = "0.03,0.05,0.1,0.18,0.22,0.3,0.5"
MAP_BYTES = 2**34


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one crawl with one policy.

    kept     pages of the site of which a text was delivered
    found    pages that came twice, of which at most one text was delivered
    by_template  documents that resembled another one, and were unique by a frame alone
    changed  other documents whose verdict is not as without the site
    seconds  time to decide all of them, without fingerprints
    """

    language: str
    own_share: float
    policy: str
    pages: int
    kept: int
    copies: int
    found: int
    by_template: int
    others: int
    changed: int
    seconds: float


def outcomes(own_shares: list[float], count: int) -> Iterator[Outcome]:
    """Outcome of every language, share and policy."""
    scheme = scheme_for(Settings())
    for language in LANGUAGES:
        rest = others(language, count)
        prints = scheme.fingerprint(rest.texts)
        alone = {policy: verdicts_of(prints, policy)[0] for policy in POLICIES}
        for own_share in own_shares:
            yield from _of_site(language, own_share, count, alone)


def _of_site(
    language: Language, own_share: float, count: int, alone: Mapping[str, npt.NDArray[np.uint8]]
) -> Iterator[Outcome]:
    documents = amid(site(language, own_share), others(language, count))
    prints = scheme_for(Settings()).fingerprint(documents.texts)
    for policy in POLICIES:
        verdicts, seconds = verdicts_of(prints, policy, ["site" if of_site else None for of_site in documents.of_site])
        found = kept(documents.pages, verdicts == Verdict.DUPLICATE)
        changed = int(np.count_nonzero(verdicts[~documents.of_site] != alone[policy]))
        by_template = int(np.count_nonzero(verdicts == Verdict.TEMPLATE))
        yield Outcome(
            language,
            own_share,
            policy,
            found.pages,
            found.kept,
            found.copies,
            found.matched,
            by_template,
            count,
            changed,
            seconds,
        )


def verdicts_of(
    prints: Fingerprints, policy: str, hosts: Sequence[str | None] | None = None
) -> tuple[npt.NDArray[np.uint8], float]:
    """Verdicts of an index of this policy, or LONGER_DROPPED, uint8 [n], and their seconds; hosts: of each document."""
    settings = Settings.model_validate({"index": _SETTINGS[policy]})
    parameters = parameters_for(settings, scheme_for(settings).stamp())
    with (
        tempfile.TemporaryDirectory() as folder,
        Index.open(Path(folder), parameters, map_bytes_max=MAP_BYTES, longer=longer_of(settings.index)) as index,
    ):
        began = time.perf_counter()
        verdicts = [decisions.verdicts for decisions in admitted(index, prints, hosts=hosts)]
        return np.concatenate([np.zeros(0, np.uint8), *verdicts]), time.perf_counter() - began


def _table(found: list[Outcome]) -> Table:
    rows = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("language", "own text", "policy"):
        rows.add_column(heading)
    for heading in ("pages kept", "copies found", "by template", "others changed", "documents/s"):
        rows.add_column(heading, justify="right")
    for each in found:
        documents = each.others + each.pages + each.copies
        rows.add_row(
            each.language,
            f"{each.own_share:.0%}",
            each.policy,
            f"{each.kept} of {each.pages}",
            f"{each.found} of {each.copies}",
            f"{each.by_template}",
            f"{each.changed} of {each.others:,}",
            f"{documents / each.seconds:,.0f}",
        )
    return rows


@click.command()
@click.option("--own-shares", default=OWN_SHARES, show_default=True, help="Shares of own text, by commas.")
@click.option("--others", "count", default=18_000, show_default=True, type=click.IntRange(0), help="Other documents.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def main(own_shares: str, count: int, as_json: bool) -> None:
    """Crawl a made-up site whose pages share a template."""
    found = list(outcomes([float(share) for share in own_shares.split(",")], count))
    if as_json:
        click.echo(orjson.dumps([asdict(each) for each in found], option=orjson.OPT_INDENT_2))
    else:
        Console().print(_table(found))


if __name__ == "__main__":
    main()
