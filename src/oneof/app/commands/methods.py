"""`oneof methods`: what there is to choose from."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any

from tyro.conf import Positional, arg


@dataclass
class Methods:
    """List the methods, or show the hyper-parameters of one."""

    name: Annotated[Positional[str | None], arg(metavar="NAME")] = None
    """Show this method: its paper, its hyper-parameters with default, search range and meaning."""

    def run(self) -> int:
        return self._all() if self.name is None else self._one(self.name)

    def _all(self) -> int:
        from oneof.app.commands.show import show_table
        from oneof.methods import list_methods

        rows = [
            (
                info.name,
                info.year or "",
                info.venue,
                ", ".join(info.cls().views),
                state_per_row(info.cls()),
                f"{info.forwards:g}F {info.backwards:g}B",
                _needs(info),
                info.summary + (f" ({info.note})" if info.note else ""),
            )
            for info in list_methods()
        ]
        headings = ("name", "year", "venue", "views", "per row", "cost", "needs", "idea")
        show_table("methods", headings, rows, whole=("name", "venue"))
        print(
            "per row: numbers kept for a training row, c classes; cost: forward and backward passes per step,"
        )
        print("both on tables. `oneof methods NAME` shows one method.")
        return 0

    def _one(self, name: str) -> int:
        import inspect

        from oneof.app.commands.show import show_table
        from oneof.methods import make_method

        method = make_method(name)
        print(f"{name} ({method.info.venue} {method.info.year or ''})".replace(" )", ")"))
        print(method.info.summary)
        print()
        print((inspect.getmodule(type(method)).__doc__ or "").strip())
        rows = []
        for field in dataclasses.fields(method):  # type: ignore[arg-type]
            facts = field.metadata
            if facts.get("choices"):
                values = ", ".join(map(str, facts["choices"]))
            elif facts.get("low") is not None:
                values = f"{facts['low']:g} to {facts['high']:g}{' (log)' if facts['log'] else ''}"
            else:
                values = ""
            rows.append((field.name, getattr(method, field.name), values, facts.get("text", "")))
        print()
        show_table("hyper-parameters", ("name", "default", "search range", "meaning"), rows)
        return 0


def _needs(info: Any) -> str:
    if info.cls().clean_rows(1):
        return "clean rows"
    if info.name == "oracle":
        return "true labels"
    return "augmentation" if info.note.startswith("adapted") else ""


def state_per_row(method: Any) -> str:
    """The numbers a method keeps of a training row, by the number of classes c."""
    some, twice = method.row_numbers(100), method.row_numbers(200)
    tables, others = (twice - some) / 100, 2 * some - twice
    parts = [f"{'' if tables == 1 else f'{tables:g}'}c" if tables else "", str(others) if others else ""]
    return " + ".join(part for part in parts if part) or "nothing"
