"""What several tests of benchmarks run over."""

import gzip
import lzma
from itertools import product
from pathlib import Path

import orjson
import pytest

from tests.support.jaccard import jaccard


@pytest.fixture
def small_set(tmp_path: Path) -> Path:
    """A folder `tiny` of documents with known truth, in files as the accuracy bench reads them.

    Six documents: 1 repeats 0, 3 nearly repeats 2, the last is empty; all similarities by the bench's own Jaccard.
    """
    folder = tmp_path / "tiny"
    folder.mkdir()
    base = [f"第{number}号船在清晨驶出港口，渔民们把网撒向{number * 37}米外的海面。" for number in range(40)]
    other = [
        f"The {word} of {place} lies open on table {row}."
        for row, (word, place) in enumerate(product("abcdefg", "uvwxyz"))
    ]
    ending = "Nothing follows behind this sentence, whatever anybody hopes."
    texts = [
        "".join(base),
        "".join(base),
        " ".join(other),
        " ".join([*other, ending]),
        "今天下雨。" * 2,
        "",
    ]
    rows = [{"id": f"d{row}", "title": "", "text": text} for row, text in enumerate(texts)]
    (folder / "docs.jsonl.xz").write_bytes(lzma.compress(b"\n".join(map(orjson.dumps, rows))))
    similar = [
        (row, earlier, jaccard(texts[row], texts[earlier], 5)) for row in range(len(texts)) for earlier in range(row)
    ]
    lines = ["#every pair with Jaccard >= 0.5", "id1\tid2\tjaccard"]
    lines += [f"d{earlier}\td{row}\t{value:.4f}" for row, earlier, value in similar if value >= 0.5]
    (folder / "pairs.tsv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    lines = ["#max_j", "id\tmax_j\tbest_earlier_id"]
    for row in range(len(texts)):
        largest = max((value for later, _, value in similar if later == row), default=0.0)
        lines.append(f"d{row}\t{largest:.4f}\t")
    (folder / "stream_truth.tsv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    return folder
