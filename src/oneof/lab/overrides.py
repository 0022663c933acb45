"""Changes to a declared protocol from the command line. They are recorded with the plan."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from oneof.datasets.registry import entry as data_entry
from oneof.lab import LabError
from oneof.lab.bench import BenchOptions
from oneof.lab.prepared import is_file, is_table
from oneof.lab.protocol import Protocol, Row
from oneof.lab.protocols import NETS
from oneof.lab.search import SCALINGS_OF_TABLES, Search
from oneof.methods import list_methods, make_method
from oneof.training import Recipe
from oneof.views.images import POLICIES

WORDS = {"policy": tuple(POLICIES), "scaling": SCALINGS_OF_TABLES}
"""What some settings must be one of."""


def override(protocol: Protocol, given: BenchOptions) -> Protocol:
    """The protocol with what was given in place of its own values."""
    changes: dict[str, Any] = {}
    for name in ("splits", "epochs", "configurations", "workers"):
        number = getattr(given, name)
        if number is not None and number < 1:
            raise LabError(f"--{name} {number}: give a number of at least 1.")
    if given.methods:
        changes["entries"] = _chosen(protocol, given.methods)
    if given.data:
        changes["data"] = tuple(name if is_file(name) else data_entry(name).name for name in given.data)
        if any(map(is_table, given.data)):
            files = ", ".join(Path(name).stem for name in given.data)
            changes["title"] = f"The methods of {protocol.name} on {files}"
            accept = " ".join(given.accept)
            changes["columns"] = {"column": given.candidates, "truth": given.truth, "accept": accept}
    for name in () if "columns" in changes else ("candidates", "truth", "accept"):
        if getattr(given, name) != getattr(BenchOptions, name):
            raise LabError(f"--{name} is for a table of your own: name its file, --data FILE.csv.")
    if given.nets:
        unknown = [name for name in given.nets if name not in NETS]
        if unknown:
            raise LabError(f"there is no net {unknown[0]!r}; there are {', '.join(NETS)}.")
        changes["nets"] = tuple(dict.fromkeys(given.nets))  # one that is named twice is still one
    if given.splits is not None:
        changes["seeds"] = tuple(range(protocol.seeds[0], protocol.seeds[0] + given.splits))
    if given.epochs is not None:
        changes["recipe"] = {**protocol.recipe, "epochs": given.epochs}
    if given.configurations is not None:
        changes["search"] = _search_of(protocol, given.configurations)
    if given.select_by is not None:
        changes["criterion"] = given.select_by
    if given.curves is not None:
        changes["curves"] = given.curves
    made = replace(protocol, **changes)
    for setting in given.set:
        key, value = read_setting(setting, "rplg.alpha=0.3")
        try:  # now: else every job would fail, and its failure be recorded
            made = _with_value(made, key, value, protocol)
            shared = {"lr": made.lr, "weight_decay": made.weight_decay}
            Recipe(**{**made.recipe, **made.report_recipe, **shared})
        except (TypeError, ValueError) as error:
            raise LabError(f"--set {setting}: {error}") from None
    search = made.search
    if search is not None and not search.grids and (both := set(search.seeds) & set(made.seeds)):
        raise LabError(f"split {min(both)} would be searched on and reported: give other search.seeds.")
    return made


def _search_of(protocol: Protocol, configurations: int) -> Search | None:
    """The search with another number of draws; one alone leaves nothing to choose."""
    if configurations == 1:
        return None
    if protocol.search is not None and protocol.search.grids:
        raise LabError(
            f"--configurations {configurations}: {protocol.name} tries a declared grid, not a number of "
            "draws;\n  --configurations 1 leaves the search out, --set METHOD.NAME=VALUE fixes one value."
        )
    return replace(protocol.search or Search(), configurations=configurations)


def _chosen(protocol: Protocol, methods: Sequence[str]) -> tuple[Row, ...]:
    """Entries by label or method; others are added as they are, parents of tuned entries are kept."""
    found: dict[str, Row] = {}
    for name in methods:
        matching = [e for e in protocol.entries if name in (e.label, e.method)] or [Row(name, name)]
        known = [info.name for info in list_methods()]
        if matching[0].method not in known:
            raise LabError(
                f"there is no method {name!r}; there are {', '.join(known)}. "
                "Methods of your own: --plugin FILE.py."
            )
        found |= {e.label: e for e in matching}
    for entry in list(found.values()):
        if entry.tuned_as and entry.tuned_as not in found:
            parent = protocol.entry(entry.tuned_as)
            found = {parent.label: replace(parent, reported=False), **found}
    return tuple(found.values())


def _varied(declared: Protocol, row: Row, name: str) -> bool:
    """Whether the rows of a method differ in an option: one named "alpha 0.9" then has no other alpha."""
    values = [e.params.get(name, "its default") for e in declared.entries if e.method == row.method]
    return any(value != values[0] for value in values)


def _with_value(protocol: Protocol, key: str, value: Any, declared: Protocol) -> Protocol:
    """With `recipe.epochs`, `search.seed`, `lr` or `rplg.alpha` (a method's hyper-parameter) set."""
    owner, dot, name = key.rpartition(".")
    search = protocol.search
    if not dot:
        if key not in ("lr", "weight_decay", "scaling", "policy"):
            raise LabError(f"{protocol.name} has no {key!r} that can be set.")
        if key in WORDS and value not in WORDS[key]:
            raise LabError(f"there is no such {key}; there are {', '.join(WORDS[key])}.")
        return replace(protocol, **{key: value})
    if owner == "recipe":
        known = {f.name for f in fields(Recipe)} - {"seed", "device", "lr", "weight_decay"}
        if name not in known:
            raise LabError(f"the recipe has no {name!r} that can be set; it has {', '.join(sorted(known))}.")
        in_loss = "loss" in (protocol.information, *(e.information for e in protocol.entries))
        if name in ("clean_weight", "clean_batch") and not in_loss:
            raise LabError(f"{protocol.name} has no clean rows in any loss; equal-information has.")
        of_report = {key: given for key, given in protocol.report_recipe.items() if key != name}
        return replace(protocol, recipe={**protocol.recipe, name: value}, report_recipe=of_report)
    if owner == "search":
        known = {f.name for f in fields(Search)} - {"grids"}
        if search is not None and search.grids:
            known = {"seeds"}  # all else belongs to random draws
        if search is None or name not in known:
            raise LabError(f"the search of {protocol.name} has no {name!r} that can be set.")
        if isinstance(getattr(search, name), tuple) and not isinstance(value, list):
            raise LabError(f"write a list, such as search.{name}=[{value}].")
        change: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value}
        return replace(protocol, search=replace(search, **change))
    named = [e for e in protocol.entries if owner in (e.label, e.method)]
    if not named:
        raise LabError(f"{protocol.name} has no method {owner!r}.")
    make_method(named[0].method, {name: value})
    entries = [e for e in named if e.label == owner or name not in e.params or not _varied(declared, e, name)]
    if not entries:
        raise LabError(
            f"the rows with {owner} differ in {name} and keep theirs: {', '.join(e.label for e in named)}.\n"
            f"  Write a row's label in place of {owner} to change that row."
        )
    if search is not None and search.grids:  # a value that is given is not searched
        methods = {e.method for e in entries}
        grids = {
            method: {n: values for n, values in grid.items() if n != name or method not in methods}
            for method, grid in search.grids.items()
        }
        protocol = replace(protocol, search=replace(search, grids=grids))
    given = {e.label: replace(e, params={**e.params, name: value}) for e in entries}
    return replace(protocol, entries=tuple(given.get(e.label, e) for e in protocol.entries))


def read_setting(setting: str, example: str) -> tuple[str, Any]:
    """Name and value of `name=value` on a command line: JSON, Python's None, True and False, or a text."""
    name, equals, text = setting.partition("=")
    if not equals:
        raise ValueError(f"--set {setting}: write it as name=value, such as {example}.")
    try:
        return name, json.loads(text)
    except ValueError:
        return name, {"None": None, "True": True, "False": False}.get(text, text)
