"""From a protocol to jobs: per data set, net and entry a search, and the reported trainings after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from oneof.datasets import DataError, MissingDataError
from oneof.lab import LabError
from oneof.lab.prepared import Prepared, is_table, prepare
from oneof.lab.protocol import Protocol, Row
from oneof.lab.protocols import net_for, views_for
from oneof.lab.records import Job, Record, Records
from oneof.lab.search import configurations, winner
from oneof.methods import Method, make_method
from oneof.tables.files import only_plain_entries, read_sealed, sealed_json, write_text
from oneof.training.run import code_of


@dataclass
class Cell:
    """One entry on one data set with one net."""

    data: str
    net: str
    entry: Row
    configurations: list[dict[str, Any]] = field(default_factory=list)
    search: list[list[Job]] = field(default_factory=list)
    """Per configuration the trainings on the search splits; empty where nothing is searched."""
    chosen: int | None = None
    report: list[Job] = field(default_factory=list)
    parent: Cell | None = None
    """The cell whose best configuration this one varies."""
    dead: bool = False
    """No configuration could be trained: there is nothing to report."""

    @property
    def jobs(self) -> list[Job]:
        """Those that are known by now: the reported ones follow from the search."""
        return [job for jobs in self.search for job in jobs] + self.report

    def to_dict(self) -> dict[str, Any]:
        return {
            "data": self.data,
            "net": self.net,
            "label": self.entry.label,
            "method": self.entry.method,
            "reported": self.entry.reported,
            "configurations": self.configurations,
            "search": [[job.hash for job in jobs] for jobs in self.search],
            "chosen": self.chosen,
            "report": [job.hash for job in self.report],
        }


class Plan:
    """All cells of a protocol. `ready` gives the jobs whose turn has come; records move it on."""

    def __init__(self, protocol: Protocol, records: Records, strict: bool = False) -> None:
        self.protocol, self.records = protocol, records
        self.left_out: dict[str, str] = {}
        self.data: dict[str, Prepared] = {}
        for name in protocol.data:
            try:
                own = protocol.columns if is_table(name) else None
                prepared = prepare(name, own, robbed=protocol.robbed)
            except DataError as error:
                if strict:
                    raise
                missing = f"its files are not in the data folder (oneof data fetch {name})"
                self.left_out[name] = missing if isinstance(error, MissingDataError) else str(error)
            else:
                self.data[prepared.name] = prepared
        if not self.data:
            reasons = "\n".join(f"  {name}: {reason}" for name, reason in self.left_out.items())
            raise LabError(f"{protocol.name} cannot run here, none of its data sets is at hand:\n{reasons}")
        self.cells: list[Cell] = []
        for name in self.data:
            for net in protocol.nets:
                made: dict[str, Cell] = {}
                for entry in sorted(protocol.entries, key=lambda e: e.tuned_as is not None):  # parents first
                    made[entry.label] = self._cell(name, net, entry, made.get(entry.tuned_as or ""))
                self.cells += made.values()
        self.handed_out: set[str] = set()

    def _cell(self, data: str, net: str, entry: Row, parent: Cell | None) -> Cell:
        p = self.protocol
        cell = Cell(data, net, entry, parent=parent)
        if parent is None:
            shared = {"lr": p.lr, "weight_decay": p.weight_decay, "scaling": p.scaling}
            cell.configurations = configurations(entry.method, p.search, shared, entry.params)
            if p.search is None or len(cell.configurations) == 1:  # there is nothing to choose from
                cell.chosen = 0
            else:
                seeds = p.search.seeds
                cell.search = [[self._job(cell, one, s, True) for s in seeds] for one in cell.configurations]
        return cell

    def _job(self, cell: Cell, values: Mapping[str, Any], seed: int, searching: bool) -> Job:
        p, data, entry, prepared = self.protocol, cell.data, cell.entry, self.data[cell.data]
        images = prepared.pixels is not None
        if images and prepared.rule is not None:
            # every trial on images has a draw of its own: the official test rows do not vary
            prepared = prepare(data, {**prepared.rule, "seed": seed})
        recipe = dict(p.recipe) if searching else {**p.recipe, **p.report_recipe}
        recipe |= {"lr": values["lr"], "weight_decay": values["weight_decay"]}
        method = make_method(entry.method, dict(values["params"]))
        information = self._information(entry, method, searching)
        if information not in ("loss", "half"):
            recipe["clean_weight"] = 0.0
        # a search on a reported split is a reported training, too
        number = p.seeds.index(seed) if seed in p.seeds else -1
        split = "80/10/10" if prepared.test is None else "90/10, official test"
        config = {
            "data": {"name": data, "candidates": prepared.rule, "hash": prepared.hash},
            "split": {"rule": split, "seed": seed},
            "scaling": "pixels" if images else values["scaling"],
            "net": net_for(cell.net, data),
            "method": {"name": entry.method, **method.params()},
            **code_of(method),
            "recipe": recipe,
            "information": information,
            "epoch_by": "labels" if p.criterion == "accuracy" else "candidates",
            "curves": 0 <= number < p.curves,
        }
        if images:
            config["views"] = views_for(data, p.policy)
        if entry.clean_share is not None:
            config["clean_share"] = entry.clean_share
        return Job(config)

    def _information(self, entry: Row, method: Method, searching: bool) -> str:
        """What clean rows are used for; without a use for them `none` and `select` are the same training."""
        information = entry.information or self.protocol.information
        if information == "loss":
            return "half" if searching else "loss"
        learns = method.clean_rows(self.protocol.recipe["batch_size"] or 64) > 0
        return information if learns else "select"

    # ---- going on -----------------------------------------------------------------------------

    def ready(self) -> Iterator[Job]:
        """Jobs that can run now and were not given out before; finished ones are left out."""
        for cell in self.cells:  # a parent comes before the cells that vary it
            self._advance(cell)
            for job in cell.jobs:
                if job.hash not in self.handed_out:
                    self.handed_out.add(job.hash)
                    if self.records.get(job.hash) is None:
                        yield job

    def _advance(self, cell: Cell) -> None:
        """Once a cell's search, or its parent's, is complete: its configuration and its reported jobs."""
        if cell.chosen is None and cell.parent is not None:
            cell.dead = cell.parent.dead
            if cell.parent.chosen is not None:
                values = dict(cell.parent.configurations[cell.parent.chosen])
                values["params"] = {**values["params"], **cell.entry.params}
                cell.configurations, cell.chosen = [values], 0
        elif cell.chosen is None and not self.open_jobs(cell):
            trials = [[self.records.by_job[job.hash] for job in jobs] for jobs in cell.search]
            cell.chosen = winner(trials, self.protocol.criterion)
            cell.dead = cell.chosen is None
        if cell.chosen is not None and cell.entry.reported and not cell.report:
            values = cell.configurations[cell.chosen]
            cell.report = [self._job(cell, values, seed, searching=False) for seed in self.protocol.seeds]

    # ---- how far ------------------------------------------------------------------------------

    @property
    def total(self) -> int:
        """Number of jobs of the whole protocol; the reported ones are counted before they are known."""
        return sum(len(cell.jobs) + self.to_come(cell) for cell in self.cells)

    def to_come(self, cell: Cell) -> int:
        """How many reported jobs of a cell wait for its search."""
        waits = cell.entry.reported and not cell.report and not cell.dead
        return len(self.protocol.seeds) if waits else 0

    def open_jobs(self, cell: Cell) -> int:
        """How many known jobs of a cell have no record."""
        return sum(self.records.get(job.hash) is None for job in cell.jobs)

    @property
    def done(self) -> int:
        return sum(len(cell.jobs) - self.open_jobs(cell) for cell in self.cells)

    @property
    def complete(self) -> bool:
        return self.done == self.total

    def failed(self) -> list[Record]:
        found = {job.hash: self.records.get(job.hash) for cell in self.cells for job in cell.jobs}
        return [record for record in found.values() if record and record["status"] == "failed"]

    def save(self, folder: Path, facts: Mapping[str, Any]) -> None:
        """Write `plan-<protocol>.json`: which records are whose. Reports need it and the records only.

        What it says of other data sets stays, if they can stand beside these.
        """
        content: dict[str, Any] = {
            "protocol": self.protocol.to_dict(),
            **facts,
            "left_out": self.left_out,
            "data": {name: prepared.facts() for name, prepared in self.data.items()},
            "cells": [cell.to_dict() for cell in self.cells],
        }
        earlier = self.earlier(folder)
        if beside := self.beside(earlier):
            order = list(dict.fromkeys(c["data"] for c in [*earlier["cells"], *content["cells"]]))
            content["data"] = {name: {**earlier["data"], **content["data"]}[name] for name in order}
            content["cells"] = sorted(beside + content["cells"], key=lambda c: order.index(c["data"]))
            longest = max(len(c["report"]) for c in beside)
            seeds = max(earlier["protocol"]["seeds"][:longest], self.protocol.seeds, key=len)
            content["protocol"] |= {"data": order, "seeds": seeds}
            missing = {**earlier["left_out"], **self.left_out}
            content["left_out"] = {name: why for name, why in missing.items() if name not in order}
            content["command"] = joined(earlier["command"], facts["command"], " && ")
        write_text(self._file(folder), sealed_json(content, indent=1))

    def beside(self, earlier: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Cells of an earlier plan on data sets that this one lacks; none if more than the number of splits
        is different, as their numbers do not belong in one table."""
        if not earlier:
            return []
        # a title says how numbers were made only where it names tables of one's own
        free = ("data", "seeds", "figures", *(() if self.protocol.columns else ("title",)))
        theirs = Protocol.from_dict(earlier["protocol"])
        if replace(theirs, **{name: getattr(self.protocol, name) for name in free}) != self.protocol:
            return []
        return [c for c in earlier["cells"] if c["data"] not in self.data]

    def earlier(self, folder: Path) -> dict[str, Any]:
        """What an earlier lab in the folder has saved of this protocol; empty: there was none."""
        file = self._file(folder)
        return read_plan(file) if file.exists() else {}

    def needed(self, earlier: Mapping[str, Any]) -> set[str]:
        """All jobs of the table: these, and those of an earlier plan that stay beside them."""
        return {job.hash for cell in self.cells for job in cell.jobs} | _named(self.beside(earlier))

    def makers(self, folder: Path, jobs: set[str]) -> Iterator[Mapping[str, str]]:
        """The versions of a folder's plans that have these jobs; the one of this protocol speaks first."""
        own = self._file(folder)
        for file in sorted(folder.glob("plan-*.json"), key=lambda file: (file != own, file)):
            if jobs:
                plan = read_plan(file)
                named = _named(plan["cells"])
                if named & jobs:
                    yield plan["versions"]
                jobs = jobs - named

    def without(self, earlier: Mapping[str, Any]) -> list[str]:
        """Reported rows of an earlier plan that this one lacks and that cannot stand beside it."""
        here = {(cell.data, cell.net, cell.entry.label) for cell in self.cells}
        beside = self.beside(earlier)
        there = [c for c in earlier.get("cells", ()) if c["reported"] and c not in beside]
        gone = [c for c in there if (c["data"], c["net"], c["label"]) not in here]
        return [f"{c['label']} on {c['data']}" for c in gone]

    def _file(self, folder: Path) -> Path:
        return folder / f"plan-{self.protocol.name}.json"


def _named(cells: list[dict[str, Any]]) -> set[str]:
    """All jobs of a stored plan's cells."""
    return {job for c in cells for jobs in (*c["search"], c["report"]) for job in jobs}


PARTS = {"protocol": dict, "command": str, "versions": dict, "left_out": dict, "data": dict, "cells": list}


def read_plan(file: Path) -> dict[str, Any]:
    """What `Plan.save` wrote."""
    only_plain_entries(file.parent, [file.name], LabError)
    try:
        plan = read_sealed(file.read_bytes(), "it", plain=PARTS)  # plans of earlier versions have no digest
        if not all(isinstance(plan.get(name), kind) for name, kind in PARTS.items()):
            raise ValueError("some of its parts are missing")
    except (ValueError, OSError) as error:
        raise damaged_plan(file, error) from None
    return plan


def damaged_plan(file: Path, why: object) -> LabError:
    return LabError(
        f"{file}: the plan is damaged ({why}).\n"
        "  Remove the file and run its `oneof bench` command again; finished jobs are kept."
    )


def joined(earlier: str, now: str, separator: str) -> str:
    """A text after others, each of them once."""
    return separator.join(filter(None, dict.fromkeys(earlier.split(separator) + now.split(separator))))
