"""`oneof bench`: its options and what it does with them. The program adds nothing but their parsing."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from oneof.lab import LabError

if TYPE_CHECKING:
    from oneof.lab.runners import Runner


UNRECORDED = {
    "--minutes": 1,
    "--workers": 1,
    "--retry-failed": 0,
    "--no-retry-failed": 0,
    "--reuse": sys.maxsize,
}
"""Options that say when jobs run and where finished ones come from, not which jobs there are; and how many
values each has at most."""


@dataclass
class BenchOptions:
    """Run a benchmark protocol; finished jobs are kept, an interrupted one continues."""

    protocol: str = "quick"
    """table1, table2, table3, equal-information, quick, images, sensitivity and others; `list` shows what
    each of them is, and the time and data it needs."""
    out: Path | None = None
    """Folder of the records; default runs/bench/PROTOCOL. Several protocols may share a folder."""
    methods: tuple[str, ...] = ()
    """Only these rows of the table, or other methods; `--plugin mine.py` adds your own."""
    data: tuple[str, ...] = ()
    """Only these data sets, or others; without it those that are not at hand are left out. A table of your
    own (CSV, TSV, Parquet, npz) by its path."""
    candidates: str = "candidates"
    """Of a table of your own: the column with the candidate labels, such as cat|dog."""
    truth: str = "truth"
    """Of a table of your own: the column with the true label; rows without one are left out."""
    accept: tuple[str, ...] = ()
    """Answers to questions about such a table, as in `oneof fit`."""
    nets: tuple[str, ...] = ()
    """Only these nets: linear, mlp."""
    splits: int | None = None
    """Number of reported splits."""
    epochs: int | None = None
    """Largest number of epochs."""
    configurations: int | None = None
    """Configurations that the search tries; 1: no search."""
    select_by: Literal["accuracy", "covering", "approximated"] | None = None
    """Select epoch and configuration by clean accuracy, or without labels."""
    curves: int | None = None
    """Keep the epoch log of so many reported splits."""
    set: tuple[str, ...] = ()
    """Other changes, as name=value: rplg.alpha=0.3, recipe.batch_size=64, search.seed=1, lr=0.1."""
    reuse: tuple[Path, ...] = ()
    """Folders of other labs; jobs that were done there are copied."""
    retry_failed: bool = False
    """Run failed jobs again."""
    minutes: float | None = None
    """Start no job that would end later than this, judged by the jobs before; images stop at a checkpoint."""
    runner: Literal["local", "ray"] = "local"
    """Processes of this machine, or a Ray cluster (extra `cluster`)."""
    workers: int | None = None
    """Jobs at once on this machine; default one per core, as far as the memory goes."""
    address: str = "auto"
    """Ray: address of the cluster; `local` starts one on this machine."""
    device: str = "cpu"
    """Where the jobs train."""
    speed: Literal["auto", "eager", "graph", "compiled"] = "auto"
    """How steps are computed on a GPU; compiled pays for long trainings of images."""

    def run(self, given: list[str] | None = None) -> int:
        """`given` is the command line behind `oneof bench`, for the record."""
        from oneof.lab.overrides import override
        from oneof.lab.progress import describe
        from oneof.lab.protocols import PROTOCOLS, protocol
        from oneof.lab.run import run_lab
        from oneof.lab.summary import read_folder
        from oneof.lab.tables import as_text

        if self.protocol == "list":
            width = max(map(len, PROTOCOLS)) + 2
            for known in PROTOCOLS.values():
                print(f"{known.name:<{width}}{known.title}")
            return 0
        told = sys.argv[1:] if given is None else ["bench", *given]
        chosen = override(protocol(self.protocol), self)
        folder = self.out or Path("runs") / "bench" / chosen.name
        try:
            outcome = run_lab(
                chosen,
                folder,
                self._runner(),
                command=shlex.join(["oneof", *recorded(told)]),
                reuse=self.reuse,
                retry_failed=self.retry_failed,
                strict=bool(self.data),
                minutes=self.minutes,
            )
        except KeyboardInterrupt:
            print(f"stopped; the same command continues from {folder}", file=sys.stderr)
            return 130
        results = [r for r in read_folder(folder) if r.protocol.name == chosen.name]
        print("\n\n".join(as_text(result) for result in results))
        if outcome.failed:
            print(f"\n{len(outcome.failed)} jobs failed:", file=sys.stderr)
            for record in outcome.failed[:10]:
                print(f"  {describe(record)}", file=sys.stderr)
        print(f"\n{outcome.ran} jobs run; `oneof report {folder}` writes tables and figures")
        return 0 if outcome.plan.complete else 1

    def _runner(self) -> Runner:
        if self.runner == "ray":
            from oneof.lab.runners.ray import RayRunner

            return RayRunner(self.address, self.device, self.speed)
        from oneof.lab.runners.local import LocalRunner
        from oneof.training.recipe import choose_device

        try:  # now: else every job would fail, and its failure be recorded
            device = str(choose_device(self.device))
        except ValueError as error:
            raise LabError(str(error)) from None
        return LocalRunner(self.workers, device, self.speed)


def recorded(arguments: list[str]) -> list[str]:
    """What of a command line makes the table, whenever its trainings run and wherever they were found."""
    kept, values = [], 0
    for argument in arguments:
        if argument.startswith("--"):
            name, equals, _ = argument.replace("_", "-").partition("=")
            values = 0 if equals else UNRECORDED.get(name, 0)
            if name not in UNRECORDED:
                kept.append(argument)
        elif values:
            values -= 1
        else:
            kept.append(argument)
    return kept
