"""How closely recorded trainings repeat on another machine: run them again and compare.

    ONEOF_DATA=DIR python -m benchmarks.repeat > results/repeat/repeat.txt

Takes the reported trainings of some rows of `results/table2` (MLP, the paper's protocol, ten splits), which
were made on a GPU. On one CPU a training repeats to the bit. Elsewhere another device, other processor
instructions or another number of threads round differently, and training magnifies the last digit.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from benchmarks.common import print_json, print_table
from oneof.lab.records import Job
from oneof.lab.summary import read_folder
from oneof.lab.trial import run_job

ROWS = [(data, method) for data in ("lost", "msrcv2") for method in ("proden", "rplg")]


def main() -> None:
    torch.set_num_threads(1)
    results = {r.protocol.name: r for r in read_folder(Path("results/table2"))}
    rows, figures = [], {}
    for data, method in ROWS:
        records = results["table2"].nets["mlp"].rows[data][method].records
        before = np.array([100 * r["result"]["test"] for r in records])
        after = np.array([100 * run_job(Job(dict(r["config"])))["result"]["test"] for r in records])
        apart = np.abs(after - before)
        figures[f"{data}/{method}"] = {
            "recorded": round(float(before.mean()), 2),
            "again": round(float(after.mean()), 2),
            "apart_mean": round(float(apart.mean()), 2),
            "apart_max": round(float(apart.max()), 2),
        }
        rows.append([data, method, *figures[f"{data}/{method}"].values()])
    columns = ["data", "method", "recorded mean", "again", "a split differs by, mean", "at most"]
    print_table("table 2, MLP, ten splits, test accuracy in %", columns, rows)
    print_json({**figures, "processor": torch.backends.cpu.get_cpu_capability()})


if __name__ == "__main__":
    main()
