"""Defaults, search ranges and abilities of every method: records depend on them, so a change must be meant.

python -m tests.golden.test_options        # stores what they are now
"""

import dataclasses
import json
from pathlib import Path

import pytest

from oneof.methods import list_methods, make_method

FILE = Path(__file__).with_name("options.json")
STORED = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


ABILITIES = ("views", "capturable", "shardable", "watched")


def options(name):
    method = make_method(name)
    abilities = {ability: getattr(method, ability) for ability in ABILITIES}
    return abilities | {
        field.name: {
            "default": getattr(method, field.name),
            **{k: v for k, v in field.metadata.items() if k != "text" and v is not None},
        }
        for field in dataclasses.fields(method)
    }


def test_every_method_is_stored():
    assert sorted(STORED) == sorted(info.name for info in list_methods())


@pytest.mark.parametrize("name", STORED)
def test_defaults_and_ranges(name):
    assert json.loads(json.dumps(options(name))) == STORED[name]


if __name__ == "__main__":
    found = {info.name: options(info.name) for info in list_methods()}
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
