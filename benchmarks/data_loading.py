"""How long the data sets of the data folder take to load into memory, and how large they are there.

    ONEOF_DATA=DIR python -m benchmarks.data_loading [NAME ...]

Every data set is loaded several times; the best time counts, so files are read from the page cache.
"""

import argparse
import json
import time

from oneof.datasets import load, names
from oneof.datasets.registry import data_folder, entry


def measure(name: str, repeats: int) -> dict[str, object]:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        data = load(name)
        times.append(time.perf_counter() - start)
    arrays = [data.x_train, data.y_train, data.x_test, data.y_test]
    megabytes = sum(a.nbytes for a in arrays if a is not None) / 1e6
    return {
        "data_set": name,
        "first_s": round(times[0], 3),
        "best_s": round(min(times), 3),
        "MB": round(megabytes, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="data sets; without any, all that are there")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    folder = data_folder()
    for name in given.names or [name for name in names() if entry(name).present(folder)]:
        print(json.dumps(measure(name, given.repeats)), flush=True)


if __name__ == "__main__":
    main()
