"""Keep the rows of a Parquet file that are no near-duplicates, with all their columns as they were.

python unique_rows.py PAGES.parquet KEPT.parquet [FOLDER] [SETTING=VALUE ...]

A row of the filter's input is a line of verdicts.jsonl. So the verdicts are columns of the file, and what is kept is a choice
of rows. Here a duplicate and a row without a text go; both stand in the file beside KEPT, with the reason.
"""

import subprocess
import sys
from pathlib import Path

import pandas


def main(pages: str, kept: str, folder: str = "filtered", *settings: str) -> None:
    """Filter PAGES into FOLDER, against all that was filtered there before, and write KEPT and dropped-KEPT."""
    out = Path(folder) / Path(pages).stem
    chosen = [word for setting in settings for word in ("--set", setting)]
    subprocess.run(
        ["streamer", "filter", pages, "--out", str(out), "--index", str(Path(folder) / "index"), *chosen], check=True
    )

    verdicts = pandas.read_json(out / "verdicts.jsonl", lines=True, dtype=False, convert_dates=False)
    # A row that a person gave back has a second line, which counts.
    verdicts = verdicts.drop_duplicates("line", keep="last").sort_values("line")
    # Arrow's types hold what pandas' own would change, such as whole numbers beside nulls.
    rows = pandas.read_parquet(pages, dtype_backend="pyarrow")
    is_kept = (~verdicts["verdict"].isin(["duplicate", "dead-letter"])).to_numpy()
    rows[is_kept].to_parquet(kept, index=False)
    dropped = rows[~is_kept].assign(
        verdict=verdicts["verdict"].to_numpy()[~is_kept], original=verdicts["original"].to_numpy()[~is_kept]
    )
    dropped.to_parquet(Path(kept).with_name(f"dropped-{Path(kept).name}"), index=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
