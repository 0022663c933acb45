"""Reading a folder of records: what a protocol found, by net, data set and row, and `summary.json`."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from oneof.lab import LabError
from oneof.lab.plan import damaged_plan, read_plan
from oneof.lab.protocol import Protocol
from oneof.lab.protocols import PROTOCOLS
from oneof.lab.records import Record, Records, device_of
from oneof.lab.search import mean_score
from oneof.lab.statistics import Comparison, CriticalDifference, compare, critical_difference, ranks
from oneof.tables.files import write_text

UNRANKED = ("oracle",)
"""Rows that see the true labels: shown, but neither ranked nor in bold."""


@dataclass
class CellResult:
    """The reported trainings of one row on one data set with one net."""

    data: str
    label: str
    planned: int
    records: list[Record]
    """Those that are done and did not fail."""
    failed: int
    configuration: dict[str, Any] | None
    tried: list[tuple[dict[str, Any], float | None]]
    """Every configuration of the search with its mean score, in the order of the search."""
    best: bool = False
    """Whether no ranked row has a higher mean on the data set, to the two digits that are shown."""
    rank: float | None = None
    """Mean over the splits that all ranked rows have; None: it is not ranked, or they share none."""
    comparison: Comparison | None = None
    """The reference row against this one."""
    usual: str | None = None
    """Where most trainings on the data set ran: seconds elsewhere are not to be compared with theirs."""

    @property
    def ranked(self) -> bool:
        return self.label not in UNRANKED

    @cached_property
    def test(self) -> dict[int, float]:
        """Test accuracy in % by split."""
        return {r["config"]["split"]["seed"]: 100 * r["result"]["test"] for r in self.records}

    @cached_property
    def mean(self) -> float:
        return float(np.mean(list(self.test.values())))

    @cached_property
    def std(self) -> float:
        return float(np.std(list(self.test.values()), ddof=1)) if len(self.records) > 1 else 0.0

    @cached_property
    def selection_minus_test(self) -> float | None:
        """In points: the accuracy on the rows that choose, less the one on test rows. None: not recorded, or
        candidate sets chose, and what is recorded is how often they hold the prediction."""
        by_labels = [
            "selection" in r["result"] and r["config"].get("epoch_by") != "candidates" for r in self.records
        ]
        if not by_labels or not all(by_labels):
            return None
        return 100 * mean_of(self.records, "selection") - self.mean

    @property
    def comparable(self) -> list[Record]:
        """Those whose seconds can be compared: of trainings in the usual place."""
        return [r for r in self.records if device_of(r) in (None, self.usual)]

    @property
    def seconds(self) -> float:
        """Of a training in the usual place; NaN where they are not known."""
        return mean_of(self.comparable, "train_seconds")

    @property
    def seconds_per_epoch(self) -> float:
        return self.seconds / mean_of(self.comparable, "epochs")

    @property
    def elsewhere(self) -> Counter[str]:
        """How many of its trainings ran in another place, by place."""
        places = (device_of(r) for r in self.records)
        return Counter(place for place in places if place not in (None, self.usual))

    def summary(self) -> dict[str, Any]:
        """What `summary.json` says of it."""
        n = len(self.records)
        std = round(self.std, 4) if n > 1 else None
        values: dict[str, Any] = {"mean": round(self.mean, 4), "std": std, "n": n}
        if self.rank is not None:
            values["mean_rank"] = round(self.rank, 4)
        if test := self.comparison:
            values |= {name: float(f"{getattr(test, name):.3g}") for name in ("p", "p_corrected")}
            values["mark"] = test.mark
        return values


def mean_of(records: list[Record], name: str) -> float:
    """Mean of a number of records; NaN where one of them lacks it, or there are none."""
    return float(np.mean([r["result"].get(name, np.nan) for r in records])) if records else float("nan")


class NetResult:
    """What a protocol found with one net."""

    def __init__(self, result: Result, name: str, cells: list[CellResult]) -> None:
        self.result, self.name, self.cells = result, name, cells
        self.protocol, self.labels = result.protocol, result.labels
        self.rows: dict[str, dict[str, CellResult]] = {}
        """By data set and label the cells of which there is something to show."""
        for cell in cells:
            if cell.records:
                self.rows.setdefault(cell.data, {})[cell.label] = cell
        for rows in self.rows.values():
            _place(rows, self.protocol.reference)

    @cached_property
    def everywhere(self) -> list[str]:
        """The ranked rows that every data set has."""
        shown = list(self.rows.values())
        return [
            name
            for name in self.labels
            if shown and all(name in rows and rows[name].ranked for rows in shown)
        ]

    @property
    def rows_differ(self) -> bool:
        """Whether a ranked row is missing from some data set."""
        return any(
            cell.ranked and name not in self.everywhere
            for rows in self.rows.values()
            for name, cell in rows.items()
        )

    def mean_ranks(self) -> dict[str, float]:
        """Mean over data sets of the mean rank over splits, among the rows that every data set has."""
        per_set = [
            _ranks_over_splits([rows[name] for name in self.everywhere]) for rows in self.rows.values()
        ]
        found = [values for values in per_set if values]
        return dict(zip(self.everywhere, map(float, np.mean(found, axis=0)))) if found else {}

    def ranking(self) -> CriticalDifference | None:
        """Ranks of the mean accuracies over the data sets."""
        scores: dict[str, dict[str, float]] = {}
        for label in self.labels:
            cells = [rows[label] for rows in self.rows.values() if label in rows and rows[label].ranked]
            if cells:
                # the last digits of a mean depend on the order of the splits
                scores[label] = {cell.data: round(cell.mean, 9) for cell in cells}
        return critical_difference(scores)

    def summary(self) -> dict[str, Any]:
        """Data set → row → its numbers."""
        return {d: {label: cell.summary() for label, cell in rows.items()} for d, rows in self.rows.items()}


def _place(rows: dict[str, CellResult], reference: str) -> None:
    """Say of every row on a data set how it stands beside the others."""
    ranked = [cell for cell in rows.values() if cell.ranked]
    highest = max((round(cell.mean, 2) for cell in ranked), default=0.0)
    for cell in ranked:
        cell.best = round(cell.mean, 2) == highest
    for cell, rank in zip(ranked, _ranks_over_splits(ranked)):
        cell.rank = rank
    devices = Counter(filter(None, (device_of(record) for cell in rows.values() for record in cell.records)))
    usual = next((device for device, _ in devices.most_common(1)), None)
    for label, cell in rows.items():
        cell.usual = usual
        if reference in rows and label != reference:
            cell.comparison = compare(rows[reference].test, cell.test)


def _ranks_over_splits(cells: list[CellResult]) -> list[float]:
    """Mean ranks among cells of a data set over the splits that all of them have; empty: they share none."""
    shared = sorted(set.intersection(*(set(cell.test) for cell in cells))) if cells else []
    return ranks([[cell.test[seed] for cell in cells] for seed in shared]).tolist() if shared else []


class Result:
    """A protocol and the records that belong to it."""

    def __init__(self, plan: dict[str, Any], records: Records) -> None:
        self.plan, self.damaged = plan, records.damaged
        self.protocol = Protocol.from_dict(plan["protocol"])
        self.labels = [e.label for e in self.protocol.entries if e.reported]
        self.data = list(dict.fromkeys(c["data"] for c in plan["cells"]))
        found: dict[str, list[CellResult]] = {c["net"]: [] for c in plan["cells"]}
        for c in plan["cells"]:
            if c["reported"]:
                found[c["net"]].append(self._read_cell(c, records))
        for cells in found.values():  # in the order of the tables
            cells.sort(key=lambda cell: (self.data.index(cell.data), self.labels.index(cell.label)))
        self.nets = {name: NetResult(self, name, cells) for name, cells in found.items()}

    def _read_cell(self, c: dict[str, Any], records: Records) -> CellResult:
        found = [r for job in c["report"] if (r := records.get(job)) is not None]
        for record in found:
            _check_belongs(record, c)
        good = [r for r in found if r["status"] == "ok"]
        chosen = None if c["chosen"] is None else c["configurations"][c["chosen"]]
        searched = [[r for job in jobs if (r := records.get(job))] for jobs in c["search"]]
        scores = [mean_score(trials, self.protocol.criterion) for trials in searched]
        tried, failed = list(zip(c["configurations"], scores)), len(found) - len(good)
        return CellResult(c["data"], c["label"], len(self.protocol.seeds), good, failed, chosen, tried)

    @property
    def cells(self) -> list[CellResult]:
        return [cell for part in self.nets.values() for cell in part.cells]


def read_folder(folder: Path) -> list[Result]:
    """The results of every protocol that was run in a folder."""
    place = {f"plan-{name}": i for i, name in enumerate(PROTOCOLS)}  # those of one's own come last, by name
    plans = sorted(folder.glob("plan-*.json"), key=lambda path: (place.get(path.stem, len(place)), path.stem))
    if not plans:
        raise LabError(f"{folder} holds no plan-*.json; run `oneof bench PROTOCOL --to {folder}` first.")
    records, results = Records(folder), []
    for path in plans:
        plan = read_plan(path)
        try:
            results.append(Result(plan, records))
        except LabError:
            raise
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise damaged_plan(path, f"{type(error).__name__}: {error}") from error
    return results


def _check_belongs(record: Record, cell: dict[str, Any]) -> None:
    """A record that a plan names must be of its method and data: plans and records may have been mixed."""
    config = record["config"]
    trained, planned = (config["method"]["name"], config["data"]["name"]), (cell["method"], cell["data"])
    if trained != planned:
        raise LabError(
            f"the record of job {record['job']} is of {' on '.join(trained)}, but the plan has it as one of "
            f"{' on '.join(planned)}.\n  Plan and records are not of the same lab; get both again."
        )
    if record["status"] == "ok" and not 0 <= record["result"]["test"] <= 1:
        raise ValueError(f"job {record['job']} has a test accuracy of {record['result']['test']}")


def write_summary(folder: Path, results: list[Result]) -> Path:
    """`summary.json`: protocol → net → data set → row → mean, std, n, mean rank over splits."""
    named = {r.protocol.name: r for r in results}
    content: dict[str, Any] = {
        name: {net: part.summary() for net, part in r.nets.items() if part.rows} for name, r in named.items()
    }
    content["mean_rank"] = {
        name: {
            net: {label: round(rank, 4) for label, rank in part.mean_ranks().items()}
            for net, part in r.nets.items()
        }
        for name, r in named.items()
    }
    for part in ("versions", "command"):
        content[part] = {name: r.plan[part] for name, r in named.items()}
    path = folder / "summary.json"
    write_text(path, json.dumps(content, indent=1) + "\n")
    return path
