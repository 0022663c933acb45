"""`oneof candidates`: import candidate sets, make them from true labels, look at them."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg, subcommand

from oneof.app.commands.show import CommandGroup
from oneof.candidates import NoInformationWarning
from oneof.candidates.cells import CellError
from oneof.tables.errors import DataError
from oneof.tables.importers.options import ImportOptions

if TYPE_CHECKING:
    import numpy as np

    from oneof.candidates import Candidates
    from oneof.datasets import DataSet
    from oneof.datasets.ready_made import GeneratorBeliefs

TOLD_IN_THE_FACTS: Any = {"action": "ignore", "category": NoInformationWarning}
"""Rows without information are counted in what the commands print; no warning besides."""


@dataclass
class CandidatesGenerate:
    """Make candidate sets for a data set with known labels.

    The instance rule needs a network trained on the true labels. It is trained once, kept in the data
    folder and used again; ready-made matrices there are used where rate and seed agree.
    """

    dataset: Positional[str]
    """Name of a data set (`oneof data list`) or path of a .mat file."""
    rule: Literal["instance", "uniform", "flips", "class"] = "instance"
    """instance: by a network's doubts (VALEN); uniform: every set equally likely (USS); flips: every wrong
    label with the same probability (FPS); class: by a matrix."""
    rate: float | None = None
    """For flips the probability of a flip; for instance and similarity r of min(1, r K q), default 4/K."""
    seed: int = 0
    """Seed of the draw."""
    matrix: Path | None = None
    """For the class rule: file (.npy or .csv) of the K x K flip probabilities."""
    similarity: Path | None = None
    """For the class rule, instead of the matrix: file of the K x K class similarities."""
    forbid_singletons: bool = False
    """At least two candidates in every row."""
    forbid_full_sets: bool = False
    """At least one class outside every set (always so for the uniform rule)."""
    out: Path | None = None
    """Write the sets to this .npz file."""
    json: bool = False
    """Print the facts as JSON."""
    epochs: int | None = None
    """Epochs of the generator network, where it has to be trained; default: the data set's recipe."""
    device: str = "auto"
    """Device of the generator network."""

    def run(self) -> int:
        from oneof.candidates.describe import as_text, describe
        from oneof.datasets import load
        from oneof.tables.candidate_files import save_candidates

        data = load(self.dataset)
        with warnings.catch_warnings(**TOLD_IN_THE_FACTS):
            candidates, beliefs = self._made(data)
        facts: dict[str, Any] = {"data_set": data.name, "provenance": dict(candidates.provenance)}
        generator = {} if beliefs is None else beliefs.facts.get("generator", {})
        facts |= {"generator": generator} if generator else {}
        facts |= describe(candidates, None if beliefs is None else beliefs.q)
        if self.json:
            print(json.dumps(facts, indent=1))
        else:
            known, shown = candidates.provenance, ("rate", "seed", "file", "hash")
            origin = ", ".join(f"{key} {known[key]}" for key in shown if key in known)
            print(f"{data.name}, rule {self.rule}, {origin}")
            if generator:
                reached = {part: generator.get(f"{part}_accuracy") for part in ("train", "test")}
                told = [
                    f"{part} accuracy {value:.2%}" for part, value in reached.items() if value is not None
                ]
                print(", ".join([f"generator {generator.get('network', 'unknown')}", *told]))
            print(as_text(facts))
        if self.out is not None:
            save_candidates(candidates, self.out)
            if not self.json:
                print(f"written to {self.out}")
        return 0

    def _made(self, data: DataSet) -> tuple[Candidates, GeneratorBeliefs | None]:
        """The sets, and the generator's beliefs, where there is a generator."""
        from oneof.candidates import generate
        from oneof.datasets.ready_made import ready_made_q, ready_made_sets

        self._check()
        y, k, seed = data.y_train, len(data.classes), self.seed
        no_full_sets = self.forbid_full_sets or self.rule == "uniform"
        bounds = {"forbid_singletons": self.forbid_singletons, "forbid_full_sets": no_full_sets}
        more: dict[str, Any] = {"classes": data.classes, **bounds}
        rate = 4 / k if self.rate is None else self.rate
        if self.rule == "uniform":
            return generate.uniform_sets(y, k, seed, **more), None
        if self.rule == "flips":
            return generate.flip_sets(y, k, rate, seed, **more), None
        if self.rule == "class":
            return generate.class_sets(y, self._flips(rate), seed, **more), None
        if not any(bounds.values()):
            ready = ready_made_sets(data.name, rate, seed, y, data.classes)
            if ready is not None:
                return ready, ready_made_q(data.name, len(y), k)
        from oneof.lab.generator import beliefs
        from oneof.training import default_progress

        made = beliefs(data, epochs=self.epochs, device=self.device, progress=default_progress())
        return generate.instance_sets(y, rate, seed, q=made.q, **more), made

    def _flips(self, rate: float) -> np.ndarray:
        """The flip probabilities of the class rule."""
        from oneof.candidates.generate import similarity_flips
        from oneof.tables.importers.files import read_matrix
        from oneof.tables.text import TextForm

        file = self.matrix or self.similarity
        assert file is not None
        try:
            matrix = read_matrix(file, form=TextForm(header=False))[0]
        except (DataError, CellError) as error:
            advice = "A matrix is a .npy file, or a .csv file of numbers without a header."
            raise DataError(f"{error}\n  {advice}") from None
        return matrix if self.matrix else similarity_flips(matrix, rate)

    def _check(self) -> None:
        if self.rule == "flips" and self.rate is None:
            raise DataError("--rule flips needs --rate, the probability with which a wrong label is added.")
        if self.rule == "class" and (self.matrix is None) == (self.similarity is None):
            raise DataError(
                "--rule class needs either --matrix or --similarity, a K x K file (.npy or .csv)."
            )
        if self.rule != "class" and (self.matrix or self.similarity):
            raise DataError(f"--matrix and --similarity belong to --rule class, not to --rule {self.rule}.")
        if self.rate is not None and (self.rule == "uniform" or self.matrix is not None):
            raise DataError(
                "--rate has no meaning for --rule uniform and for a given --matrix; leave it out."
            )


@dataclass
class CandidatesDescribe:
    """Show sizes, confused classes and rows without information; draw them as PNG."""

    source: Annotated[Positional[str], arg(metavar="NAME|FILE")]
    """Name of a data set that has candidate sets, a .mat file, or a file of candidates (.npz, .parquet)."""
    out: Annotated[Path, arg(aliases=("--to",), metavar="FOLDER")] = Path()
    """Folder for the two pictures, NAME-sizes.png and NAME-together.png."""
    figures: Annotated[bool, arg(aliases=("--plots",))] = True
    """Draw the pictures (extra `report`)."""
    json: bool = False
    """Print the facts as JSON."""

    def run(self) -> int:
        from oneof.candidates.describe import as_text, describe
        from oneof.datasets.ready_made import candidates_of

        with warnings.catch_warnings(**TOLD_IN_THE_FACTS):
            candidates = candidates_of(self.source)
        facts = describe(candidates)
        print(json.dumps(facts, indent=1) if self.json else as_text(facts))
        if self.figures:
            from oneof.lab.candidate_pictures import save_heat_map, save_size_chart

            name = Path(self.source).stem
            sizes = save_size_chart(candidates, self.out / f"{name}-sizes.png")
            heat = save_heat_map(candidates, self.out / f"{name}-together.png")
            if not self.json:
                print(f"pictures: {sizes}, {heat}")
        return 0


@dataclass
class CandidatesImport:
    """Turn answers of annotators, scores of a model or coarse labels into candidate sets.

    Writes one file with the sets, the names of the rows and who said what; `oneof fit` takes it. An option
    that does not belong to the format is refused.
    """

    file: Annotated[Positional[Path], arg(metavar="FILE")]
    """What to read."""
    format: Literal[
        "crowd",
        "wide",
        "label-studio",
        "records",
        "jsonl",
        "scores",
        "counts",
        "sets",
        "complementary",
        "taxonomy",
        "mat",
    ]
    """crowd: long table task, worker, label; wide: a column per annotator; label-studio: JSON export; records
    (jsonl): one line per row with its labels; scores: model scores per class; counts: votes per class;
    sets: prediction sets; complementary: what a row is not; taxonomy: coarse labels; mat: partial-label
    .mat file."""
    out: Annotated[Path, arg(metavar="FILE")] = Path("candidates.npz")
    """Where to write, .npz or .parquet (needs polars)."""
    annotator_table: Annotated[Path | None, arg(metavar="FILE")] = None
    """Where to write what can be said about each annotator (.csv): answers, agreement, accuracy with an
    interval, confusions."""
    json: bool = False
    """Print the facts as JSON."""
    import_: Annotated[ImportOptions, arg(name="import")] = field(default_factory=ImportOptions)

    def run(self) -> int:
        from oneof.candidates.annotators import annotator_table
        from oneof.candidates.describe import describe
        from oneof.tables.candidate_files import save_annotations
        from oneof.tables.importers.files import import_file
        from oneof.tables.writers import write_lines

        if self.out.suffix not in (".npz", ".parquet"):  # noticed before an hour of reading
            raise DataError(f"--out {self.out}: the name must end in .npz or .parquet.")
        for option, file in (("--out", self.out), ("--annotator-table", self.annotator_table)):
            if file is not None and file.resolve() == self.file.resolve():
                raise DataError(f"{option} {file} would replace the file that is read; give another name.")
        with warnings.catch_warnings(**TOLD_IN_THE_FACTS):
            made = import_file(self.file, "records" if self.format == "jsonl" else self.format, self.import_)
        save_annotations(made, self.out)
        if self.annotator_table is not None:
            write_lines(self.annotator_table, [line.columns() for line in annotator_table(made)])
        if self.json:
            c = made.candidates
            facts = {"provenance": dict(c.provenance), "truth_may_be_outside": c.truth_may_be_outside}
            print(json.dumps({**facts, **describe(c), "out": str(self.out)}, indent=1))
        else:
            print(made.describe())
            print(f"written to {self.out}")
            named = "" if made.ids is None else ", with their ids in a column"
            print(f"next:   oneof fit FEATURES --candidates {self.out}")
            print(f"        FEATURES: your table or array of these rows{named}")
        return 0


@dataclass
class CandidateSets(CommandGroup):
    """Candidate sets: import them, make them from true labels, or look at those you have."""

    command: (
        Annotated[CandidatesImport, subcommand("import")]
        | Annotated[CandidatesGenerate, subcommand("generate")]
        | Annotated[CandidatesDescribe, subcommand("describe")]
    )
