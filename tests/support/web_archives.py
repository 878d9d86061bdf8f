"""WARC and WET as crawlers write them, by warcio's own writer."""

import gzip
from collections.abc import Sequence
from io import BytesIO

import zstandard
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

DATE = "2026-11-22T10:00:00Z"


class Archive:
    """Records one after the other; `plain`, `members` (gzip, one for each) and `frames` (zstd) give its bytes."""

    def __init__(self) -> None:
        self.records: list[bytes] = []

    def add(
        self,
        kind: str,
        url: str | None,
        block: bytes,
        content_type: str = "",
        http: Sequence[tuple[str, str]] = (),
        **more: str,
    ) -> str:
        """Add a record. `http`: headers of HTTP, of a status that `more["status"]` tells. Returns its id."""
        number = len(self.records)
        identity = f"<urn:uuid:00000000-0000-4000-8000-{number:012}>"
        status = more.pop("status", "200 OK")
        headers = {"WARC-Record-ID": identity, "WARC-Date": DATE} | {
            name.replace("_", "-"): value for name, value in more.items()
        }
        out = BytesIO()
        writer = WARCWriter(out, gzip=False)
        if kind in ("response", "request"):
            line = "GET / HTTP/1.1" if kind == "request" else status
            said = StatusAndHeaders(line, list(http), protocol="HTTP/1.1", is_http_request=kind == "request")
        else:
            said = None
        writer.write_record(
            writer.create_warc_record(
                url or "",
                kind,
                payload=BytesIO(block),
                length=len(block),
                warc_content_type=content_type,
                http_headers=said,
                warc_headers_dict=headers,
            )
        )
        self.records.append(out.getvalue())
        return identity

    def page(self, url: str, html: str, *http: tuple[str, str], charset: str = "utf-8") -> str:
        """Add the response that a crawler stores of a page."""
        given = http or (("Content-Type", f"text/html; charset={charset}"),)
        return self.add("response", url, html.encode(charset), http=given)

    @property
    def plain(self) -> bytes:
        return b"".join(self.records)

    @property
    def members(self) -> bytes:
        return b"".join(map(gzip.compress, self.records))

    @property
    def frames(self) -> bytes:
        return b"".join(map(zstandard.ZstdCompressor().compress, self.records))
