"""What reading the outputs keeps in memory."""

from pathlib import Path

from index import Source
from streamer.delivered.table import opened
from streamer.records.output_headers import parse_headers
from streamer.records.record import Destination, Record
from streamer.transports.output_log import Extent, Output
from streamer.verification.findings import Findings
from streamer.verification.outputs import Reading

SOURCE = Source("stream", 0)
EXTENT = Extent({"stream": "pages"}, {SOURCE: 5}, {SOURCE: 9}, {SOURCE: 9}, outputs=9, inputs=4)


def output(offset: int) -> Output:
    named = {"verdict": "undecidable", "reason": "empty", "position": f"pages/0/{offset}", "stream": "stream"}
    headers = tuple((f"neardup.{name}", text.encode()) for name, text in named.items())
    record = Record(SOURCE, "pages", offset, None, b"{}", 0, headers)
    return Output(Destination.UNIQUE, "pages-unique/0", offset, parse_headers(headers, Destination.UNIQUE), record)


def test_of_outputs_without_a_record_only_those_of_unreadable_records_stay_in_memory(tmp_path: Path) -> None:
    findings = Findings()
    with opened(tmp_path / "delivered", EXTENT) as table:
        reading = Reading(table, EXTENT, findings, {"stream": "pages"}, None, "", 0.1)  # type: ignore[arg-type]
        reading.unreadable = {SOURCE: [range(7, 9)]}
        reading.add([output(offset) for offset in (0, 1, 2, 7)])
    assert {each.offset for each in reading.came_out} == {7}
    assert findings.unchecked["outputs of records that have left the input"] == 3
