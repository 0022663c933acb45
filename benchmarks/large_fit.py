"""`oneof fit` on a large table, from the start of Python to report and review: seconds and peak memory.

    OMP_NUM_THREADS=1 python -m benchmarks.large_fit                            # 200,000 rows
    OMP_NUM_THREADS=1 python -m benchmarks.large_fit --rows 1000000 --features 256 --method rplg+ --memory 6GB

Features lie in a file, 1,000 classes, five candidates per row, one epoch. The peak is that of the whole
process and holds the pages that are mapped of the file (Linux).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.common import print_json, versions
from benchmarks.million import Sizes, candidates, write_features
from oneof.candidates.annotations import Annotations
from oneof.tables.candidate_files import save_annotations

# in a small process of its own: what a process has when it starts another one counts as the other's
PEAK_OF = """import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=sys.stderr)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6)"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--method", default="proden")
    parser.add_argument("--memory", default="1GB")
    given = parser.parse_args()
    sizes = Sizes(given.rows, 1000, 5, given.features)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_features(folder / "big.npy", sizes)
        save_annotations(Annotations(candidates(sizes)), folder / "big.parquet")
        options = f"--method {given.method} --epochs 1 --memory {given.memory}"
        command = f"fit big.npy --candidates big.parquet {options} --out model"
        began = time.perf_counter()
        run = [sys.executable, "-c", PEAK_OF, sys.executable, "-m", "oneof", *command.split()]
        peak = float(subprocess.run(run, cwd=folder, check=True, stdout=subprocess.PIPE).stdout)
        seconds = time.perf_counter() - began
    print_json(
        {**sizes._asdict(), "command": command, "seconds": round(seconds, 1), "peak_gb": round(peak, 2)}
        | {"versions": versions()}
    )


if __name__ == "__main__":
    main()
