"""Importers: from what annotation tools, crowds and models give to `Annotations`, arrays first.

`oneof.tables.importers.files` reads the files and calls these.
"""

from oneof.candidates.cells import CellError
from oneof.candidates.rules import (
    Rule,
    dawid_skene,
    majority,
    make_rule,
    not_named,
    share,
    union,
    vaguest,
)
from oneof.candidates.taxonomy import Taxonomy
from oneof.tables.importers.answers import (
    from_answers,
    from_complementary,
    from_records,
    from_taxonomy,
    from_wide,
)
from oneof.tables.importers.assemble import Settings
from oneof.tables.importers.label_studio import from_label_studio
from oneof.tables.importers.scores import from_counts, from_prediction_sets, from_scores

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
