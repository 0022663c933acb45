"""A campaign of faults: kills, damage, hostile input, thousands of times, and what came of it.

    python -m benchmarks.campaign --part faults --minutes 10               goes on where the last call ended
    python -m benchmarks.campaign --part faults --seed 4711 --tries 1      one attempt again

Every attempt has a seed and does all it does by that seed. What an attempt that failed has left is kept
beside the summary, `results/campaign/PART.json`: tries, hits (the fault was noticed, or had an effect; a try
of `kills` can hold several), failures. Calls add up there, except attempts that were counted already.
Parts are modules of `benchmarks/campaign/`; see its `__init__` for how one is written.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
import traceback
import warnings
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.campaign import PARTS, Attempt
from benchmarks.common import print_json, print_table, versions
from oneof.tables.files import write_text


def attempted(attempt: Attempt, seed: int, folder: Path) -> tuple[str, int, str | None]:
    """Kind, how often it hit, and what failed; whatever an attempt does not expect is a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            kind, hit = attempt(np.random.default_rng(seed), folder)
            return kind, hit, None
        except Exception as error:
            kind = (folder / "kind").read_text(encoding="utf-8") if (folder / "kind").exists() else "?"
            where = traceback.extract_tb(error.__traceback__)[-1]
            return (
                kind,
                1,
                f"{type(error).__name__}: {error!s:.300} ({Path(where.filename).name}:{where.lineno})",
            )


def counted_before(file: Path) -> dict[str, Any]:
    """The summary of earlier calls."""
    if not file.exists():
        return {"seeds": [], "kinds": {}, "failed": []}
    return json.loads(file.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--minutes", type=float, default=1.0, help="begin no attempt later")
    parser.add_argument("--tries", type=int, default=10**9, help="make no more attempts")
    parser.add_argument(
        "--seed", type=int, help="of the first attempt; the next have the next numbers (default: go on)"
    )
    parser.add_argument("--out", type=Path, default=Path("results/campaign"))
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    file = chosen.out / f"{chosen.part}.json"
    before = counted_before(file)
    first = max((last + 1 for _, last in before["seeds"]), default=0) if chosen.seed is None else chosen.seed
    print(f"{chosen.part}: seeds from {first}", flush=True)
    counts: dict[str, dict[str, int]] = defaultdict(lambda: {"tries": 0, "hits": 0, "failures": 0})
    failed: list[dict[str, Any]] = []
    seed = first
    with tempfile.TemporaryDirectory() as work:
        attempt = import_module(f"benchmarks.campaign.{chosen.part}").start(Path(work) / "templates")
        end = time.monotonic() + 60 * chosen.minutes
        while seed < first + chosen.tries and time.monotonic() < end:
            folder = Path(work) / str(seed)
            folder.mkdir()
            kind, hits, failure = attempted(attempt, seed, folder)
            counts[kind]["tries"] += 1
            counts[kind]["hits"] += hits
            if failure is not None:
                counts[kind]["failures"] += 1
                failed.append({"seed": seed, "kind": kind, "failure": failure})
                kept = chosen.out / "failed" / f"{chosen.part}-{seed}"
                shutil.copytree(folder, kept, dirs_exist_ok=True, symlinks=True)
                print(f"seed {seed}, {kind}: {failure}\n  kept in {kept}", flush=True)
            shutil.rmtree(folder, ignore_errors=True)
            seed += 1
    before = counted_before(file)  # again: another call may have ended meanwhile
    if any(first <= last and seed > start for start, last in before["seeds"]):
        print("some of these attempts were counted before: the summary stays as it is.")
    elif seed > first:
        for kind, earlier in before["kinds"].items():
            for name, number in earlier.items():
                counts[kind][name] += number
        failed, before["seeds"] = before["failed"] + failed, [*before["seeds"], [first, seed - 1]]
    summary = {
        "part": chosen.part,
        "seeds": joined(before["seeds"]),
        **{name: sum(count[name] for count in counts.values()) for name in ("tries", "hits", "failures")},
        "kinds": dict(sorted(counts.items())),
        "failed": failed[:50],
        "mended": before.get("mended", []),
    }
    if [first, seed - 1] in before["seeds"]:
        text = json.dumps({**summary, "versions": versions()}, indent=1) + "\n"
        write_text(file, text)
    print_table(
        chosen.part,
        ["kind", "tries", "hits", "failures"],
        [[k, *c.values()] for k, c in sorted(counts.items())],
    )
    print_json(summary)


def joined(ranges: list[list[int]]) -> list[list[int]]:
    """First and last seeds, in order, neighbours as one."""
    made: list[list[int]] = []
    for first, last in sorted(ranges):
        if made and made[-1][1] + 1 == first:
            made[-1][1] = last
        else:
            made.append([first, last])
    return made


if __name__ == "__main__":
    main()
