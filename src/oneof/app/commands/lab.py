"""`oneof bench`, `oneof report` and `oneof theory`: experiments, what came out, and the theory checked."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from oneof.lab.bench import BenchOptions
from oneof.tables.files import write_text

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


@dataclass
class Bench(BenchOptions):
    __doc__ = BenchOptions.__doc__

    protocol: Annotated[Positional[str], arg(metavar="PROTOCOL")] = BenchOptions.protocol
    out: Annotated[Path | None, arg(aliases=("--to",), metavar="FOLDER")] = None
    json: bool = False
    """With `list`: print it as JSON."""

    def run(self, given: list[str] | None = None) -> int:
        if self.protocol == "list":
            return list_protocols(self.json)
        return super().run(given)


def list_protocols(as_json: bool) -> int:
    from oneof.app.commands.show import show_table
    from oneof.lab.protocols import PROTOCOLS

    facts = [facts_of(protocol) for protocol in PROTOCOLS.values()]
    if as_json:
        print(json.dumps(facts, indent=1))
        return 0
    rows = []
    for f in facts:
        data = [name if there else f"({name})" for name, there in f["data"].items()]
        rows.append((f["name"], f["trainings"], time_of(f), ", ".join(data), f["title"]))
    headings = ("name", "trainings", "takes about", "data", "what it shows")
    show_table("protocols", headings, rows, right=("trainings",), whole=("name", "takes about"))
    print(NOTES)
    return 0


def facts_of(protocol: Protocol) -> dict[str, Any]:
    """What a protocol needs; seconds of data sets that nobody has measured are left out."""
    from oneof.datasets.registry import data_folder, entry

    trainings = {data: len(protocol.nets) * trainings_of(protocol) for data in protocol.data}
    longer = protocol.recipe["epochs"] / SHORT_EPOCHS
    return {
        "name": protocol.name,
        "title": protocol.title,
        "trainings": sum(trainings.values()),
        "core_seconds": sum(n * SECONDS.get(data, 0) for data, n in trainings.items()),
        "gpu_seconds": round(sum(n * longer * GPU_SECONDS.get(data, 0) for data, n in trainings.items())),
        "not_measured": [data for data in protocol.data if data not in SECONDS | GPU_SECONDS],
        "data": {data: bool(entry(data).present(data_folder())) for data in protocol.data},
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


def time_of(facts: dict[str, Any]) -> str:
    seconds = facts["core_seconds"] + facts["gpu_seconds"]
    if not seconds:
        return "not measured"
    where = "GPU" if facts["gpu_seconds"] else "core"
    amount = f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"
    return f"{amount}, {where}{' *' if facts['not_measured'] else ''}"


@dataclass
class Report:
    """Print the tables of a folder of records; write Markdown, LaTeX, one HTML page and the figures."""

    folder: Positional[Path]
    """Folder that `oneof bench` wrote to."""
    figures: bool = True
    """Draw the figures (extra `report`)."""
    pack: bool = False
    """Compress the records for publication; the folder can still be read and continued."""

    def run(self) -> int:
        from oneof.lab.records import pack
        from oneof.lab.report import write_report
        from oneof.lab.tables import as_text

        if self.pack:
            print(f"packed: {pack(self.folder)}")
        results, written = write_report(self.folder, self.figures)
        print("\n\n".join(as_text(result) for result in results))
        print("\nwritten: " + ", ".join(str(path) for path in written))
        return 0


@dataclass
class Theory:
    """Check the theory of RPLG where the true posterior is known: tables, figure, verdicts.

    Errors of chosen size first (Definition 1, Theorems 1 and 2, compared with reference values), then
    trained models. Returns 1 if a statement that must hold does not. About a minute on one core.
    """

    out: Path = Path("theory")
    """Folder for theory.md (the tables), summary.json and theory.png."""
    rows: int = 200_000
    """Posteriors drawn per distribution."""
    draws: int = 5
    """Data sets on which models are trained, per distribution; 0 leaves the trainings out."""
    seed: int = 0
    """Seed of all draws; with 0 and 200,000 rows the posteriors are those of the reference values."""
    delta: float = 0.05
    """Theorem 2 is checked where eta* − eta^b is at least this, so that its constant is finite."""
    figures: Annotated[bool, arg(aliases=("--plots",))] = True
    """Draw the figure (extra `report`)."""

    def run(self) -> int:
        from oneof.lab.panels import require_matplotlib
        from oneof.lab.theory.figure import save_figure
        from oneof.lab.theory.posteriors import POSTERIORS
        from oneof.lab.theory.prior import check_prior
        from oneof.lab.theory.report import Findings, as_markdown, as_values, verdicts
        from oneof.lab.theory.theorems import check_theorems
        from oneof.lab.theory.trained import check_trained, settings

        self._check()
        if self.figures:
            require_matplotlib()
        began = time.perf_counter()
        theorems: dict[str, list[Any]] = {}
        for name, posterior in POSTERIORS.items():
            _say(f"{name}: {self.rows:,} posteriors, errors of chosen size")
            drawn = posterior, self.rows, self.seed
            checks = (check_theorems(*drawn, excluded=k, delta=self.delta) for k in (1, 2))
            theorems[name] = [check for some in checks for check in some]
        prior = {
            name: [check_prior(posterior, size, self.rows // 10, self.seed) for size in (2, 3, 4, 6)]
            for name, posterior in POSTERIORS.items()
        }
        trained = {s.name: check_trained(s, self.draws, self.seed, _say) for s in settings() if self.draws}
        seconds = time.perf_counter() - began
        found = Findings(self._command(), seconds, theorems, trained, self.delta, self.seed, prior)
        text, values = as_markdown(found), as_values(found)
        print(text)
        write_text(self.out / "theory.md", text)
        write_text(self.out / "summary.json", json.dumps(values, indent=1) + "\n")
        written = ["theory.md", "summary.json"]
        if self.figures:
            written.append(save_figure(values, self.out / "theory.png").name)
        _say(f"written to {self.out}: {', '.join(written)}")
        failed = [verdict.statement for verdict in verdicts(found) if not verdict.holds]
        for statement in failed:
            _say(f"does not hold: {statement}")
        return 1 if failed else 0

    def _check(self) -> None:
        if self.rows < 5000:
            raise ValueError(f"--rows {self.rows}: at least 5000 are needed to fit C and lambda.")
        if self.draws < 0 or self.seed < 0:
            raise ValueError(f"--draws {self.draws} --seed {self.seed}: neither can be negative.")
        if not 0 < self.delta < 1:
            raise ValueError(f"--delta {self.delta}: give a gap between 0 and 1, such as 0.05.")

    def _command(self) -> str:
        """The command line that gives these figures again."""
        names = ("out", "rows", "draws", "seed", "delta")
        changed = [name for name in names if getattr(self, name) != getattr(Theory(), name)]
        given = [f"--{name} {getattr(self, name)}" for name in changed]
        return " ".join(["oneof theory", *given, *([] if self.figures else ["--no-figures"])])


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
