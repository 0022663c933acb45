"""Pages nobody writes: one per method, from the registry, and the pages of `results/`."""

from __future__ import annotations

import shutil
from pathlib import Path

from method_pages import method_page, overview

from oneof.methods import list_methods


def write_pages(folder: Path, results: Path) -> None:
    """Bring the folder up to date; files that are still right are not touched: they need no new build."""
    made = {Path("methods") / f"{info.name}.md": method_page(info) for info in list_methods()}
    made[Path("methods") / "overview.md"] = overview(list_methods())
    for path in sorted(results.rglob("*.md")):
        made[Path("results") / path.relative_to(results)] = result_page(path)
    for path, text in made.items():
        target = folder / path
        if not target.is_file() or target.read_text(encoding="utf-8") != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    for path in results.rglob("*.png"):
        target = folder / "results" / path.relative_to(results)
        if not target.is_file() or target.read_bytes() != path.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    for path in folder.rglob("*.md"):
        if path.relative_to(folder) not in made:
            path.unlink()


def result_page(path: Path) -> str:
    """A page of `results/`, reached by links only."""
    return f"---\norphan: true\n---\n\n{path.read_text(encoding='utf-8')}"
