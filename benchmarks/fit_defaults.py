"""Which method should be the default where nothing is compared?

    python -m benchmarks.fit_defaults [--workers 2] --to results/fit_defaults

Every method as `oneof fit` would run it: the estimator's defaults, nothing tuned, nothing selected. Random
80/10/10 splits, two seeds. `candidates`: the training rows with their candidate sets and nothing else.
`clean`: the 10 % validation rows with their true labels as clean rows besides. Test accuracy on the
other 10 %.

Records are appended one by one; a stopped run goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import warnings
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata

from benchmarks.common import print_json, print_table, versions
from oneof.classifier.estimator import PartialLabelClassifier
from oneof.datasets import split_80_10_10
from oneof.lab.prepared import prepare
from oneof.tables.files import write_text

DATA = ("digits", "lost", "msrcv2", "birdsong")
SEEDS = 2
WITHOUT = ("proden", "valen", "cc", "rc", "pop", "dirk", "lws", "cavl", "idgp", "average", "rplg", "rplg+")
WITH = ("proden", "valen", "cc", "rc", "lws", "cavl", "idgp", "rplg", "rplg+")


def jobs() -> list[dict[str, Any]]:
    made = []
    for seed in range(SEEDS):
        for data in DATA:
            for net in ("mlp", "linear"):
                for method in WITHOUT:
                    made.append({"level": "candidates", "row": method, "method": method, "clean_weight": 0.0})
                    made[-1] |= {"net": net, "data": data, "seed": seed}
                for method in WITH:
                    row = f"{method}+clean"
                    made.append({"level": "clean", "row": row, "method": method, "clean_weight": 1.0})
                    made[-1] |= {"net": net, "data": data, "seed": seed}
                made.append({"level": "clean", "row": "rplg", "method": "rplg", "clean_weight": 0.0})
                made[-1] |= {"net": net, "data": data, "seed": seed}
    return made


def run(job: dict[str, Any]) -> dict[str, Any]:
    data = prepare(job["data"])
    split = split_80_10_10(len(data.x), job["seed"], labels=data.truth)
    names = np.array(data.candidates.classes)
    model = PartialLabelClassifier(
        job["method"],
        net=job["net"],
        clean_weight=job["clean_weight"],
        random_state=job["seed"],
        device="cpu",
    )
    clean = None
    if job["level"] == "clean":
        clean = (data.x[split.validation], names[data.truth[split.validation]])
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(data.x[split.train], data.candidates.take(split.train), clean=clean)
    seconds = time.perf_counter() - began
    right = model.predict(data.x[split.test]) == names[data.truth[split.test]]
    return {
        **job,
        "test": round(float(right.mean()), 5),
        "seconds": round(seconds, 3),
        "clean_source": model.clean_source_,
        "n_clean": model.n_clean_,
    }


def summary(records: list[dict[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for level in ("candidates", "clean"):
        for net in ("mlp", "linear"):
            cells: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
            for r in sorted(records, key=lambda r: r["seed"]):
                if r["level"] == level and r["net"] == net:
                    cells[r["row"]][r["data"]].append(100 * r["test"])
            rows = list(cells)
            ranks: dict[str, list[float]] = {name: [] for name in rows}
            for data in DATA:
                table = np.array([cells[name][data] for name in rows])
                if table.ndim != 2:
                    continue
                for name, rank in zip(rows, rankdata(-table, axis=0).mean(axis=1)):
                    ranks[name].append(float(rank))
            made[f"{level}, {net}"] = {
                name: {
                    **{
                        d: [round(float(np.mean(v)), 2), round(float(np.std(v, ddof=1)), 2)]
                        for d, v in cells[name].items()
                        if len(v) > 1
                    },
                    "mean_rank": round(float(np.mean(ranks[name])), 2),
                }
                for name in rows
            }
    return made


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", type=Path, default=Path("results/fit_defaults"))
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    folder = given.to
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "records.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {(r["level"], r["row"], r["net"], r["data"], r["seed"]) for r in records}
    left = [j for j in jobs() if (j["level"], j["row"], j["net"], j["data"], j["seed"]) not in done]
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(given.workers, spawned, torch.set_num_threads, (1,)) as pool:
        for finished in as_completed([pool.submit(run, job) for job in left]):
            records.append(finished.result())
            with open(file, "a", encoding="utf-8") as out:
                out.write(json.dumps(records[-1]) + "\n")
    order = {name: place for place, name in enumerate(dict.fromkeys(job["row"] for job in jobs()))}
    records.sort(key=lambda r: order[r["row"]])
    made = summary(records)
    for title, rows in made.items():
        print_table(
            f"{title}: test accuracy in %, mean and std of {SEEDS} splits; mean rank over splits and data",
            ["method", *DATA, "mean rank"],
            [
                [name, *(f"{cell[d][0]:.2f} ± {cell[d][1]:.2f}" for d in DATA), cell["mean_rank"]]
                for name, cell in sorted(rows.items(), key=lambda item: item[1]["mean_rank"])
            ],
        )
    command = "python -m benchmarks.fit_defaults --to results/fit_defaults"
    write_text(
        folder / "summary.json",
        json.dumps({**made, "seeds": SEEDS, "command": command, "versions": versions()}, indent=1) + "\n",
    )
    print_json({"mean_rank": {t: {n: c["mean_rank"] for n, c in rows.items()} for t, rows in made.items()}})


if __name__ == "__main__":
    main()
