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
    """How much a method keeps per training row, found out by setting it up on a tiny problem."""
    import torch

    from oneof.methods.base import CandidateRows, Task
    from oneof.nets import linear

    n, c = 8, 5
    candidates = torch.ones(n, c, dtype=torch.bool)
    candidates[:, 0] = False
    task = Task(
        net=linear(4, c),
        candidates=CandidateRows.of_mask(candidates),
        example=torch.zeros(2, 4),
        device=torch.device("cpu"),
        dtype=torch.float32,
        epochs=4,
        batch_size=4,
        steps_per_epoch=2,
        lr=0.1,
        clean_counts=torch.ones(c),
        truth=torch.ones(n, dtype=torch.int64),
    )
    rows = method.setup(task).rows
    sizes = [rows[name].numel() // n for name in rows.row_dims]
    tables, others = sum(size // c for size in sizes), sum(size % c for size in sizes)
    parts = [f"{tables if tables > 1 else ''}c" if tables else "", str(others) if others else ""]
    return " + ".join(part for part in parts if part) or "nothing"
