"""`oneof bench list`: the declared experiments, with the time and the data they need."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oneof.lab.protocol import Protocol

SECONDS = {"digits": 2, "lost": 3, "birdsong": 11, "msrcv2": 6, "labelme": 2}
"""A training on one core: the mean over methods and nets of our records."""
GPU_SECONDS = {"fmnist": 230, "cifar10": 500, "cifar100": 460}
"""A training of 70 epochs on one H200, in the same way."""
SHORT_EPOCHS = 70
NOTES = """takes about: one training at a time, on one core or one GPU (H200, images); * as far as known.
A data set in brackets is not here and is left out: `oneof data info NAME` says where it comes from.
next: oneof bench NAME, less of it with --methods, --data, --splits or --configurations 1
(defaults in place of a search); then oneof report runs/bench/NAME"""


def list_protocols(as_json: bool) -> int:
    from oneof.app.commands.show import show_table
    from oneof.lab.protocols import PROTOCOLS

    facts = [facts_of(protocol) for protocol in PROTOCOLS.values()]
    if as_json:
        print(json.dumps(facts, indent=1))
        return 0
    rows = [(f["name"], f["trainings"], time_of(f), ", ".join(data_words(f)), f["title"]) for f in facts]
    headings = ("name", "trainings", "takes about", "data", "what it shows")
    show_table("protocols", headings, rows, right=("trainings",), whole=("name", "takes about"))
    print(NOTES)
    return 0


def facts_of(protocol: Protocol) -> dict[str, Any]:
    """What a protocol needs; seconds of data sets that nobody has measured are left out."""
    trainings = {data: len(protocol.nets) * trainings_of(protocol) for data in protocol.data}
    longer = protocol.recipe["epochs"] / SHORT_EPOCHS
    return {
        "name": protocol.name,
        "title": protocol.title,
        "trainings": sum(trainings.values()),
        "core_seconds": sum(n * SECONDS.get(data, 0) for data, n in trainings.items()),
        "gpu_seconds": round(sum(n * longer * GPU_SECONDS.get(data, 0) for data, n in trainings.items())),
        "not_measured": [data for data in protocol.data if data not in SECONDS | GPU_SECONDS],
        "data": {data: at_hand(data) for data in protocol.data},
    }


def trainings_of(protocol: Protocol) -> int:
    """Trainings on one data set with one net: those that choose, and those that are reported."""
    from oneof.lab.search import configurations

    total = 0
    for row in protocol.entries:
        if protocol.search is not None and row.tuned_as is None:
            tried = len(configurations(row.method, protocol.search, {}, row.params))
            total += tried * len(protocol.search.seeds) if tried > 1 else 0
        total += len(protocol.seeds) if row.reported else 0
    return total


def at_hand(data: str) -> bool:
    from oneof.datasets.registry import data_folder, entry

    return bool(entry(data).present(data_folder()))


def time_of(facts: dict[str, Any]) -> str:
    seconds = facts["core_seconds"] + facts["gpu_seconds"]
    if not seconds:
        return "not measured"
    where = "GPU" if facts["gpu_seconds"] else "core"
    amount = f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"
    return f"{amount}, {where}{' *' if facts['not_measured'] else ''}"


def data_words(facts: dict[str, Any]) -> list[str]:
    return [data if there else f"({data})" for data, there in facts["data"].items()]
