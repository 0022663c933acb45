"""Importers: from what annotation tools, crowds and models give to `Annotations`, arrays first.

`oneof.importing` reads the files and calls these.
"""

from oneof.candidates.importers.assemble import Settings
from oneof.candidates.importers.coarse import from_complementary, from_taxonomy
from oneof.candidates.importers.coding import CellError
from oneof.candidates.importers.crowd import from_answers, from_counts, from_wide
from oneof.candidates.importers.label_studio import from_label_studio
from oneof.candidates.importers.records import from_records
from oneof.candidates.importers.rules import (
    Rule,
    dawid_skene,
    majority,
    make_rule,
    not_named,
    share,
    union,
    vaguest,
)
from oneof.candidates.importers.scores import from_prediction_sets, from_scores
from oneof.candidates.importers.taxonomy import Taxonomy

__all__ = [
    "CellError",
    "Rule",
    "Settings",
    "Taxonomy",
    "dawid_skene",
    "from_answers",
    "from_complementary",
    "from_counts",
    "from_label_studio",
    "from_prediction_sets",
    "from_records",
    "from_scores",
    "from_taxonomy",
    "from_wide",
    "majority",
    "make_rule",
    "not_named",
    "share",
    "union",
    "vaguest",
]
