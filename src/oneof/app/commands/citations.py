"""How to cite a method: BibTeX from the line of its module that names the paper."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

from oneof import __version__
from oneof.methods import make_method

if TYPE_CHECKING:
    from oneof.methods import MethodInfo

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
SOFTWARE = f"""@software{{oneof,
  title = {{oneof: learning from candidate labels}},
  author = {{{{the oneof contributors}}}},
  version = {{{__version__}}},
  year = {{2026}}
}}"""


def bibtex(info: MethodInfo) -> str:
    """The paper of a method; of a change that is ours, this library and the paper it changes."""
    ours = [] if info.venue in VENUES else [SOFTWARE]
    return "\n\n".join([*ours, *papers(info.cls)[:1]])


def papers(cls: type) -> list[str]:
    """Entries of the papers that a method's module names, of the method it changes, of its base classes."""
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
