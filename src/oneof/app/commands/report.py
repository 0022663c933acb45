"""`oneof report`: tables and figures from the records of a lab."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional


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
