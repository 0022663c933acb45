"""Predicting a Parquet file that is larger than the memory: how much memory, and what sets the pace?

    python -m benchmarks.predict_stream    # 10 million rows of 100 features: 4 GB on the disk
    python -m benchmarks.predict_stream --rows 1000000

Makes a Parquet file of random float32 in row groups of 100 000 rows, runs `oneof predict` on it as a
process of its own and records its peak memory (everything counted: Python, torch, the net).

What sets the pace is measured on the first rows of the same kind of file, with the same number of threads:
the same pipeline and the bare network on rows in memory (batches of 1024, no scaling, no softmax) take turns
every 16 batches in one process, so that other work on the machine slows down both. The reader alone, from
the file to matrices, runs in a process of its own. MLP 100-300-300-10 with batch normalisation.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.common import print_json, print_table

FEATURES, CLASSES, GROUP = 100, 10, 100_000
TURNS_ROWS = 3_000_000
NAMES = [f"f{i}" for i in range(FEATURES)]


def make_model(folder: Path) -> None:
    from oneof import PartialLabelClassifier

    rng = np.random.default_rng(0)
    x = rng.standard_normal((2000, FEATURES), dtype=np.float32)
    mask = np.eye(CLASSES, dtype=bool)[x[:, :CLASSES].argmax(axis=1)]
    mask[np.arange(len(x)), rng.integers(CLASSES, size=len(x))] = True
    model = PartialLabelClassifier("proden", hidden=(300, 300), epochs=3, device="cpu").fit(x, mask)
    model.feature_names_in_ = np.asarray(NAMES, dtype=object)
    model.save(folder)


def make_table(path: Path, rows: int) -> None:
    """Random rows, one row group at a time."""
    import polars as pl
    from polars.io.plugins import register_io_source

    def groups(*_: Any) -> Any:
        rng = np.random.default_rng(1)
        for start in range(0, rows, GROUP):
            x = rng.standard_normal((min(GROUP, rows - start), FEATURES), dtype=np.float32)
            yield pl.DataFrame(x, schema=NAMES, orient="row")

    frame = register_io_source(groups, schema=dict.fromkeys(NAMES, pl.Float32))
    frame.sink_parquet(path, row_group_size=GROUP)


class Turns:
    """Told how far the pipeline has come, lets the bare network do as many rows now and then."""

    def __init__(self, net: nn.Module) -> None:
        self.net, self.x = net, torch.randn(64 * 1024, FEATURES)
        self.seen = self.batches = 0
        self.net_s = self.net_cpu = 0.0
        self.rounds: list[list[float]] = []
        self.began = time.perf_counter()

    def __call__(self, rows: int) -> None:
        self.batches += 1
        if self.batches % 16:
            return
        began, cpu = time.perf_counter(), time.process_time()
        with torch.no_grad():
            for start in range(self.seen, rows, 1024):
                self.net(self.x[start % len(self.x) :][: min(1024, rows - start)])
        passed = time.perf_counter() - began
        self.rounds.append([rows - self.seen, began - self.began, passed])
        self.net_s += passed
        self.net_cpu += time.process_time() - cpu
        self.seen, self.began = rows, time.perf_counter()


def take_turns(model_folder: Path, table: Path) -> dict[str, Any]:
    """The pipeline and the bare network in turns, without the first round, in which all starts."""
    import oneof
    from oneof.app.streaming import predict_file

    model = oneof.load(model_folder)
    turns = Turns(model.net_[0].eval())
    began, cpu = time.perf_counter(), time.process_time()
    done = predict_file(model, table, table.with_suffix(".out.parquet"), progress=turns)
    cpu, passed = time.process_time() - cpu - turns.net_cpu, time.perf_counter() - began
    rows, stream_s, net_s = (sum(column) for column in zip(*turns.rounds[1:]))
    return {
        "stream_rows_per_s": rows / stream_s,
        "net_rows_per_s": rows / net_s,
        "ratio_of_rounds": [round(net / stream, 3) for _, stream, net in turns.rounds[1:]],
        "waiting": done.waited / (passed - turns.net_s),
        "stream_cpu_us_per_row": 1e6 * cpu / done.rows,
        "net_cpu_us_per_row": 1e6 * turns.net_cpu / turns.seen,
    }


def reader_alone(model_folder: Path, table: Path) -> dict[str, float]:
    """Rows per second from the file to matrices of features."""
    import oneof
    from oneof.app.streaming import model_inputs
    from oneof.tables.reader import rows_per_batch, table_batches

    model = oneof.load(model_folder)
    rows, began, cpu = 0, time.perf_counter(), time.process_time()
    for _, part in table_batches(table, rows_per_batch(FEATURES), set(NAMES)):
        rows += len(model_inputs(model, part))
    passed = time.perf_counter() - began
    return {"rows_per_s": rows / passed, "cpu_us_per_row": 1e6 * (time.process_time() - cpu) / rows}


def in_a_process(threads: int, *arguments: Any) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.predict_stream", "--part", *map(str, arguments)]
    done = subprocess.run(command, env=environment(threads), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def environment(threads: int) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": str(threads), "POLARS_MAX_THREADS": str(threads)}


def stream(model_folder: Path, table: Path, out: Path, threads: int) -> dict[str, float]:
    """`oneof predict` as a user calls it: time from start to end, peak memory, processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    command = [
        sys.executable,
        "-m",
        "oneof.app.cli",
        "predict",
        str(model_folder),
        str(table),
        "--out",
        str(out),
    ]
    process = subprocess.Popen(command, env=environment(threads))
    peak = 0
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            break
        peak = max(
            [peak, *(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))]
        )
        time.sleep(0.1)
    if process.wait():
        raise SystemExit("oneof predict failed")
    passed = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": passed, "peak_mb": peak * 1024 / 1e6, "cpu_seconds": cpu}


def measure(rows: int, threads: int, folder: Path) -> None:
    model_folder, table, out = folder / "model", folder / "table.parquet", folder / "predictions.parquet"
    make_model(model_folder)
    print(f"writing {rows} rows", flush=True)
    make_table(table, rows)
    print(f"{table.stat().st_size / 1e9:.2f} GB; measuring", flush=True)
    streamed = stream(model_folder, table, out, threads)
    check_rows(out, rows)
    gigabytes = table.stat().st_size / 1e9
    make_table(table, min(rows, TURNS_ROWS))
    turns = in_a_process(threads, "turns", model_folder, table)
    reader = in_a_process(threads, "reader", model_folder, table)
    ratio = turns["stream_rows_per_s"] / turns["net_rows_per_s"]
    print_table(
        f"{min(rows, TURNS_ROWS)} rows of {FEATURES} features, MLP 300-300, {threads} thread(s), in turns",
        ["what", "rows per second", "x net", "µs of processor time per row"],
        [
            ["net alone", turns["net_rows_per_s"], 1.0, turns["net_cpu_us_per_row"]],
            ["predict_file", turns["stream_rows_per_s"], ratio, turns["stream_cpu_us_per_row"]],
            [
                "reader alone",
                reader["rows_per_s"],
                reader["rows_per_s"] / turns["net_rows_per_s"],
                reader["cpu_us_per_row"],
            ],
        ],
    )
    print(f"\nthe network waited for the reader {turns['waiting']:.1%} of the time")
    print(
        f"oneof predict, {rows} rows: {streamed['seconds']:.0f} s from start to end, "
        f"peak memory {streamed['peak_mb']:.0f} MB"
    )
    print_json(
        {
            "rows": rows,
            "features": FEATURES,
            "threads": threads,
            "table_gb": round(gigabytes, 3),
            "peak_mb": round(streamed["peak_mb"]),
            "command_s": round(streamed["seconds"], 1),
            "command_cpu_s": round(streamed["cpu_seconds"], 1),
            "turns_rows": min(rows, TURNS_ROWS),
            "stream_rows_per_s": round(turns["stream_rows_per_s"]),
            "net_rows_per_s": round(turns["net_rows_per_s"]),
            "reader_rows_per_s": round(reader["rows_per_s"]),
            "stream_over_net": round(ratio, 3),
            "stream_over_net_by_round": turns["ratio_of_rounds"],
            "waiting_for_the_reader": round(turns["waiting"], 4),
            "cpu_us_per_row": {
                "net": round(turns["net_cpu_us_per_row"], 2),
                "stream": round(turns["stream_cpu_us_per_row"], 2),
                "reader": round(reader["cpu_us_per_row"], 2),
            },
            "load_average": os.getloadavg()[0],
        }
    )


def check_rows(out: Path, rows: int) -> None:
    import polars as pl

    facts = (
        pl.scan_parquet(out).select(n=pl.len(), first=pl.col("row").min(), last=pl.col("row").max()).collect()
    )
    if facts.row(0) != (rows, 0, rows - 1):
        raise SystemExit(f"the predictions hold rows {facts.row(0)}, not {rows}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=None, help="where to put the large files for a while")
    parser.add_argument("--part", nargs="+", default=None, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.part:
        work = {"turns": take_turns, "reader": reader_alone}[chosen.part[0]]
        print(json.dumps(work(*map(Path, chosen.part[1:]))))
        return
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        needed = chosen.rows * (FEATURES + 3 * CLASSES) * 4
        if shutil.disk_usage(folder).free < 1.5 * needed:
            raise SystemExit(f"{folder}: about {1.5 * needed / 1e9:.0f} GB of free disk are needed.")
        torch.set_num_threads(chosen.threads)
        measure(chosen.rows, chosen.threads, Path(folder))


if __name__ == "__main__":
    main()
