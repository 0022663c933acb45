"""Pack the candidate sets that trainings of the lab had, so that later runs have the same ones.

    ONEOF_DATA=DIR python -m benchmarks.pack_candidates cifar10 --seeds 0 1 2
    cp results/candidates/*_r*.* $ONEOF_DATA/candidates/         # where the lab looks for them first

One file per data set and rate: an array of bits for every seed (`oneof.datasets.ready_made`), and a JSON file
with the rule, the generator, its accuracies, sizes and checksums.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

import numpy as np

from oneof.datasets import load
from oneof.lab.generator import beliefs
from oneof.lab.prepared import candidate_rule, prepare
from oneof.tables.files import write_text, write_with

LIMIT = 500_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--to", type=Path, default=Path("results/candidates"))
    given = parser.parse_args()
    for name in given.data:
        pack(name, given.seeds, given.to)


def pack(name: str, seeds: list[int], to: Path) -> None:
    data = load(name)
    rule = candidate_rule(len(data.classes))
    found = beliefs(data)
    bits, draws = {}, []
    for seed in seeds:
        sets = prepare(name, {**rule, "seed": seed}).candidates
        bits[f"seed{seed}"] = np.packbits(sets.mask, axis=1)
        digest = hashlib.sha256(sets.mask.astype(np.uint8).tobytes()).hexdigest()
        size = round(float(sets.sizes.mean()), 4)
        draws.append({"seed": seed, "mean_set_size": size, "sha256": digest, "hash": sets.hash})
    stem = f"{data.name}_{found.file.removeprefix(data.name + '_').removesuffix('_q.npy')}_r{rule['rate']:g}"
    write_with(to / f"{stem}.npz", lambda out: np.savez_compressed(out, **bits))
    facts = {"data_set": data.name, "rule": rule["rule"], "rate": rule["rate"], "draws": draws}
    write_text(
        to / f"{stem}.json", json.dumps(facts | {"generator": found.facts["generator"]}, indent=1) + "\n"
    )
    size = (to / f"{stem}.npz").stat().st_size
    print(
        f"{stem}.npz: {len(seeds)} seeds, {size / 1000:.0f} KB, "
        + ", ".join(f"{d['mean_set_size']}" for d in draws)
    )
    if size > LIMIT:
        raise SystemExit(f"{stem}.npz is larger than {LIMIT // 1000} KB: pack fewer seeds at a time.")


if __name__ == "__main__":
    main()
