"""Pages nobody writes: one per method, from the registry, and the pages of `results/` with their figures."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from benchmarks import growth
from gallery import gallery
from method_pages import method_page, overview
from paper_tables import paper_tables

from oneof import lab
from oneof.lab.report import drawn_report
from oneof.lab.theory.figure import save_figure
from oneof.methods import list_methods


def write_pages(folder: Path, results: Path) -> None:
    """Bring the folder up to date; files that are still right are not touched: they need no new build."""
    made = {Path("methods") / f"{info.name}.md": method_page(info) for info in list_methods()}
    made[Path("methods") / "overview.md"] = overview(list_methods())
    for path in sorted(results.rglob("*.md")):
        made[Path("results") / path.relative_to(results)] = result_page(path.read_text(encoding="utf-8"))
    for report in sorted({plan.with_name("report.md") for plan in results.rglob("plan-*.json")}):
        page = Path("results") / report.relative_to(results)
        made[page] = report_with_figures(report.parent, folder / page)
    theory, figure = results / "theory" / "summary.json", folder / "results" / "theory" / "theory.png"
    if theory.exists() and out_of_date(figure, [theory]):
        save_figure(json.loads(theory.read_text(encoding="utf-8")), figure)
    scale, figure = results / "scale" / "summary.json", folder / "results" / "scale" / "growth.png"
    if scale.exists() and out_of_date(figure, [scale, Path(growth.__file__)]):
        growth.draw(json.loads(scale.read_text(encoding="utf-8"))["growth"], figure)
    made[Path("paper-tables.md")] = paper_tables()
    made[Path("gallery.md")] = gallery(folder / "results")
    for path, text in made.items():
        target = folder / path
        if not target.is_file() or target.read_text(encoding="utf-8") != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    for path in folder.rglob("*.md"):
        if path.relative_to(folder) not in made:
            path.unlink()


def result_page(text: str) -> str:
    """A page of `results/`, reached by links only."""
    return f"---\norphan: true\n---\n\n{text}"


def report_with_figures(records: Path, page: Path) -> str:
    """The report of a folder of records; its figures are drawn beside the page when something has changed."""
    sources = [*records.glob("plan-*.json"), *records.glob("records.jsonl*")]
    if out_of_date(page, sources):
        return result_page(drawn_report(records, page.parent / "figures"))
    return page.read_text(encoding="utf-8")


def out_of_date(made: Path, sources: list[Path]) -> bool:
    """Whether a file was made from other records or by another lab; notes what it is to be made from now."""
    code = Path(lab.__file__).parent
    digest = hashlib.sha256()
    for source in (*sorted(sources), *sorted(code.rglob("*.py")), *sorted(code.rglob("templates/*"))):
        digest.update(source.read_bytes())
    stamp = made.with_name(f".{made.name}.made-from")
    if made.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == digest.hexdigest():
        return False
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(digest.hexdigest(), encoding="utf-8")
    return True
