"""`oneof data`: list, describe, fetch and check the data sets."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, subcommand

from oneof.app.commands.show import CommandGroup, bars, show_table
from oneof.tables.errors import DataError


@dataclass
class DataList:
    """Show all data sets: sizes, task and whether they are in the data folder."""

    def run(self) -> int:
        from oneof.datasets.registry import data_folder, entry, names

        folder = data_folder()
        table = []
        for name in names():
            known = entry(name)
            rows = f"{known.train:,}" + (f" + {known.test:,}" if known.test else "")
            mean = "" if known.mean_candidates is None else f"{known.mean_candidates:.2f}"
            there = "yes" if known.present(folder) else "no"
            shape = " x ".join(map(str, known.shape))
            table.append((name, known.task, rows, shape, known.n_classes, mean, there))
        headings = ("name", "task", "rows", "features", "classes", "candidates", "there")
        show_table(f"data sets (folder {folder})", headings, table, right=("rows", "classes", "candidates"))
        print("Any other .mat file of the family of Lost is used by its path.")
        return 0


@dataclass
class DataInfo:
    """Show what is known about one data set: licence, citation, source, files."""

    name: Positional[str]
    """Name of the data set; `oneof data list` shows all."""

    def run(self) -> int:
        from oneof.datasets.registry import data_folder, entry

        known, folder = entry(self.name), data_folder()
        mean = known.mean_candidates
        rows = f"{known.train:,} for training" + (f", {known.test:,} for testing" if known.test else "")
        lines = {
            "task": known.task,
            "rows": rows,
            "features": " x ".join(map(str, known.shape)),
            "classes": str(known.n_classes),
            "candidates": "none of its own" if mean is None else f"{mean} per row",
            "licence": known.licence,
            "citation": known.citation,
            "source": known.source,
        }
        print(f"{known.name}: {known.title}")
        for what, text in lines.items():
            print(f"  {what:<11}{text}")
        for number, form in enumerate(known.forms):
            print("  files" if number == 0 else "  or")
            for file, checksum in form.files.items():
                state = "there  " if (folder / file).exists() else "missing"
                print(f"    {state}  {folder / file}{'' if checksum is None else f'  {checksum[:24]}…'}")
        return 0


@dataclass
class DataFetch:
    """Download data sets from their official source (extra data)."""

    names: Positional[tuple[str, ...]]
    """Names of the data sets."""

    def run(self) -> int:
        from rich.progress import DownloadColumn, TransferSpeedColumn

        from oneof.datasets.download import fetch

        if not self.names:
            raise DataError("name the data sets to fetch; `oneof data list` shows all.")
        failed = 0
        for name in self.names:
            try:
                with bars(DownloadColumn(), TransferSpeedColumn()) as update:
                    lines = fetch(name, progress=update)
                print("\n".join(lines))
            except DataError as error:
                print(f"oneof: {error}", file=sys.stderr)
                failed = 1
        return failed


@dataclass
class DataCheck:
    """Load data sets and compare them with the registry: checksums, shapes, classes, candidates."""

    names: Positional[tuple[str, ...]] = ()
    """Names of the data sets."""
    all: bool = False
    """Check every data set that is there; missing ones are listed and are no failure."""

    def run(self) -> int:
        from oneof.datasets.registry import check, data_folder, names

        if bool(self.names) == self.all:
            raise DataError("name the data sets to check, or give --all (and not both).")
        print(f"data folder {data_folder()}")
        checks = [check(name) for name in (names() if self.all else self.names)]
        for result in checks:
            seconds = f"{result.seconds:6.2f} s" if result.state == "ok" else " " * 8
            text = result.text.partition(";")[0] if self.all else result.text
            print(f"  {result.state:<8}{result.name:<15}{seconds}  {text}")
            for problem in result.problems:
                print(f"          {problem}")
        wrong = [c for c in checks if c.state == "wrong" or (c.state == "missing" and not self.all)]
        ok = sum(c.state == "ok" for c in checks)
        print(f"{ok} ok, {sum(c.state == 'missing' for c in checks)} missing, "
              f"{sum(c.state == 'wrong' for c in checks)} wrong")  # fmt: skip
        return 1 if wrong else 0


@dataclass
class Data(CommandGroup):
    """Data sets by name: list, describe, fetch and check them."""

    command: (
        Annotated[DataList, subcommand("list")]
        | Annotated[DataInfo, subcommand("info")]
        | Annotated[DataFetch, subcommand("fetch")]
        | Annotated[DataCheck, subcommand("check")]
    )
