"""A million candidate sets from CSV, JSONL and Parquet: seconds and peak memory, beside polars.

    python -m benchmarks.import_sets > results/scale/import.txt

Each row has an id and five labels of a thousand: a cell `crow|raven|…`, a list in JSONL and Parquet. What is
measured is `oneof candidates import FILE --format records`, from the start of Python to the written file;
polars reads the same file in a process of its own and does nothing with it. Peaks are those of whole
processes (Linux).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars

from benchmarks.common import print_json, print_table
from benchmarks.compact import drawn
from benchmarks.large_fit import PEAK_OF

READ = {
    "csv": "polars.read_csv",
    "jsonl": "polars.read_ndjson",
    "parquet": "polars.read_parquet",
}


def write(folder: Path, n: int, c: int, k: int) -> None:
    names = np.array([f"class {i:03}" for i in range(c)])
    sets = names[drawn(n, c, k)[0]].reshape(n, k)
    table = polars.DataFrame({"id": [f"row{i}" for i in range(n)], "label": sets.tolist()})
    table.write_parquet(folder / "sets.parquet")
    table.with_columns(polars.col("label").list.join("|")).write_csv(folder / "sets.csv")
    table.write_ndjson(folder / "sets.jsonl")


def measured(arguments: list[str], folder: Path) -> dict[str, float]:
    """Seconds and peak memory of a command of Python."""
    began = time.perf_counter()
    run = [sys.executable, "-c", PEAK_OF, sys.executable, *arguments]
    peak = float(subprocess.run(run, cwd=folder, check=True, stdout=subprocess.PIPE).stdout)
    return {"seconds": round(time.perf_counter() - began, 1), "peak_gb": round(peak, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("rows", 10**6), ("classes", 1000), ("candidates", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    chosen = parser.parse_args()
    found: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write(folder, chosen.rows, chosen.classes, chosen.candidates)
        for ending, read in READ.items():
            file = f"sets.{ending}"
            command = f"candidates import {file} --format records --out {ending}.npz"
            alone = ["-c", f"import polars; {read}({json.dumps(file)})"]
            ours = measured(["-m", "oneof", *command.split()], folder)
            found[ending] = {"oneof": ours, "polars": measured(alone, folder)}
            found[ending]["file"] = {"mb": round((folder / file).stat().st_size / 1e6, 1)}
    print_table(
        f"{chosen.rows:,} rows of {chosen.candidates} labels of {chosen.classes:,}",
        ["file", "MB", "oneof, s", "oneof, GB", "polars, s", "polars, GB"],
        [
            [name, all_["file"]["mb"], *all_["oneof"].values(), *all_["polars"].values()]
            for name, all_ in found.items()
        ],
    )
    print_json({"rows": chosen.rows, "classes": chosen.classes, "files": found})


if __name__ == "__main__":
    main()
