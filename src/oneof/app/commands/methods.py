"""`oneof methods`: what there is to choose from, and how to cite it."""

from __future__ import annotations

import dataclasses
import inspect
import re
from dataclasses import dataclass
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from oneof import __version__
from oneof.app.commands.show import show_table

if TYPE_CHECKING:
    from oneof.methods import Method, MethodInfo

PAPER = re.compile(
    r'^(?P<authors>[\w-]+(?:,\s[\w-]+)*), "(?P<title>[^"]+)",\s(?P<venue>\w+)\s(?P<year>\d{4})', re.MULTILINE
)
OURS = re.compile(r"^Not a published method: oneof's \w+ of (\w+)", re.MULTILINE)
VENUES = {
    "AAAI": "AAAI Conference on Artificial Intelligence",
    "ICCV": "International Conference on Computer Vision",
    "ICLR": "International Conference on Learning Representations",
    "ICML": "International Conference on Machine Learning",
    "IJCAI": "International Joint Conference on Artificial Intelligence",
    "NeurIPS": "Advances in Neural Information Processing Systems",
}
NOTES = """per row: numbers kept for a training row, c classes; cost: forward and backward passes per step,
both on tables. `oneof methods NAME` shows one method and how to cite it."""
SOFTWARE = f"""@software{{oneof,
  title = {{oneof: learning from candidate labels}},
  author = {{{{the oneof contributors}}}},
  version = {{{__version__}}},
  year = {{2026}}
}}"""


@dataclass
class Methods:
    """List the methods; of one its paper, how to cite it (BibTeX) and its hyper-parameters."""

    name: Annotated[Positional[str | None], arg(metavar="NAME")] = None
    """Show this method: its paper, BibTeX, its hyper-parameters with default, search range and meaning."""
    json: bool = False
    """Print it as JSON."""

    def run(self) -> int:
        from oneof.methods import list_methods, make_method

        chosen = list_methods() if self.name is None else [make_method(self.name).info]
        if self.json:
            facts = [_facts(info) for info in chosen]
            print(dumps(facts if self.name is None else facts[0], indent=1))
            return 0
        return self._all(chosen) if self.name is None else self._one(chosen[0])

    def _all(self, methods: list[MethodInfo]) -> int:
        rows = []
        for info in methods:
            paper = (info.name, info.year or "", info.venue)
            views, cost = ", ".join(info.cls().views), f"{info.forwards:g}F {info.backwards:g}B"
            idea = info.summary + (f" ({info.note})" if info.note else "")
            rows.append((*paper, views, state_per_row(info.cls()), cost, _needs(info), idea))
        headings = ("name", "year", "venue", "views", "per row", "cost", "needs", "idea")
        show_table("methods", headings, rows, whole=("name", "venue"))
        print(NOTES)
        return 0

    def _one(self, info: MethodInfo) -> int:
        print(f"{info.name} ({info.venue} {info.year or ''})".replace(" )", ")"))
        print(f"{info.summary}\n\n{(inspect.getmodule(info.cls).__doc__ or '').strip()}\n")
        rows = [(h["name"], h["default"], searched(h), h["meaning"]) for h in hyper_parameters(info.cls())]
        show_table("hyper-parameters", ("name", "default", "search range", "meaning"), rows)
        print(f"\nTo cite it:\n\n{bibtex(info)}")
        return 0


def _facts(info: MethodInfo) -> dict[str, Any]:
    """What is known of a method, for a program."""
    method = info.cls()
    return {
        "name": info.name,
        "year": info.year or None,
        "venue": info.venue,
        "idea": info.summary,
        "note": info.note,
        "needs": _needs(info),
        "views": list(method.views),
        "forwards": info.forwards,
        "backwards": info.backwards,
        "hyper_parameters": hyper_parameters(method),
        "bibtex": bibtex(info),
    }


def hyper_parameters(method: Method) -> list[dict[str, Any]]:
    """Name, default, range and meaning of what can be set."""
    return [
        {
            "name": field.name,
            "default": getattr(method, field.name),
            **{key: field.metadata.get(key) for key in ("choices", "low", "high", "log")},
            "meaning": field.metadata.get("text", ""),
        }
        for field in dataclasses.fields(method)  # type: ignore[arg-type]
    ]


def searched(hyper: dict[str, Any]) -> str:
    """The search range of a hyper-parameter, in words."""
    if hyper["choices"]:
        return ", ".join(map(str, hyper["choices"]))
    if hyper["low"] is None:
        return ""
    return f"{hyper['low']:g} to {hyper['high']:g}{' (log)' if hyper['log'] else ''}"


def _needs(info: MethodInfo) -> str:
    if info.cls().clean_rows(1):
        return "clean rows" if info.name == "clean-only" else "clean rows, if any"
    if info.name == "oracle":
        return "true labels"
    return "augmentation" if info.note.startswith("adapted") else ""


def state_per_row(method: Any) -> str:
    """The numbers a method keeps of a training row, by the number of classes c."""
    some, twice = method.row_numbers(100), method.row_numbers(200)
    tables, others = (twice - some) / 100, 2 * some - twice
    parts = [f"{'' if tables == 1 else f'{tables:g}'}c" if tables else "", str(others) if others else ""]
    return " + ".join(part for part in parts if part) or "nothing"


# ---- BibTeX, from the line of a method's module that names the paper --------------------------


def bibtex(info: MethodInfo) -> str:
    """The paper of a method; of a change that is ours, this library and the paper it changes."""
    module = info.cls.__module__
    ours = [SOFTWARE] if info.venue not in VENUES and module.startswith("oneof.") else []
    nothing = (
        f'% the module {module} names no paper; a line of its docstring can: Authors, "Title", Venue 2026'
    )
    return "\n\n".join([*ours, *papers(info.cls)[:1]]) or nothing


def papers(cls: type) -> list[str]:
    """Entries of the papers that a method's module names, of the method it changes, of its base classes."""
    from oneof.methods import make_method

    found = []
    for base in cls.__mro__[:-1]:
        text = inspect.getmodule(base).__doc__ or ""
        found += [entry(paper) for paper in PAPER.finditer(text)]
        for changed in OURS.finditer(text):
            found += papers(type(make_method(changed[1].lower())))
    return found


def entry(paper: re.Match[str]) -> str:
    authors, title = (" ".join(paper[part].split()) for part in ("authors", "title"))
    fields = {
        "title": f"{{{title}}}",  # in two pairs of braces capitals stay
        "author": authors.replace(", ", " and "),
        "booktitle": VENUES.get(paper["venue"], paper["venue"]),
        "year": paper["year"],
    }
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    return f"@inproceedings{{{authors.partition(',')[0].lower()}{paper['year']},\n{lines}\n}}"
