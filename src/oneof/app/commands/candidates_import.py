"""`oneof candidates import`: from the files of annotation tools, crowds and models to candidate sets."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from oneof.tables.importers.options import ImportOptions


@dataclass
class CandidatesImport:
    """Turn answers of annotators, scores of a model or coarse labels into candidate sets.

    Writes one file with the sets, the names of the rows and who said what; `oneof fit` takes it. Which
    options belong to which format: docs/importers.md. Others are refused.
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
    json: bool = False
    """Print the facts as JSON."""
    import_: Annotated[ImportOptions, arg(name="import")] = field(default_factory=ImportOptions)

    def run(self) -> int:
        from oneof.candidates import NoInformationWarning
        from oneof.candidates.describe import describe
        from oneof.tables.candidate_files import save_annotations
        from oneof.tables.errors import DataError
        from oneof.tables.importers.files import import_file

        if self.out.suffix not in (".npz", ".parquet"):  # noticed before an hour of reading
            raise DataError(f"--out {self.out}: the name must end in .npz or .parquet.")
        if self.out.resolve() == self.file.resolve():
            raise DataError(f"--out {self.out} would replace the file that is read; give another name.")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoInformationWarning)  # counted in what is printed
            made = import_file(self.file, "records" if self.format == "jsonl" else self.format, self.import_)
        save_annotations(made, self.out)
        if self.json:
            c = made.candidates
            facts = {"provenance": dict(c.provenance), "truth_may_be_outside": c.truth_may_be_outside}
            print(json.dumps({**facts, **describe(c), "out": str(self.out)}, indent=1))
        else:
            print(made.describe())
            print(f"written to {self.out}")
            print(f"next:   oneof fit FEATURES --candidates {self.out}")
        return 0
