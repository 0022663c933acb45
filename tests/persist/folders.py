"""A small model in a folder, and ways to change what the folder says."""

import json

from oneof import PartialLabelClassifier
from oneof.classifier.persist.folder import LISTED, MANIFEST
from oneof.tables.files import sha256_of
from tests.test_inputs import problem

X, Y, MASK = problem()
FILES = ["README.md", "manifest.json", "model.json", "model.safetensors", "training.safetensors"]
TENSORS = FILES[3:]


def fitted(method="proden", y=MASK, x=X, clean=None, **more):
    model = PartialLabelClassifier(method, **{"hidden": (6,), "epochs": 3, "device": "cpu", **more})
    return model.fit(x, y, clean=clean)


def sign(folder):
    """Make the manifest right for the files that are there, so that what is tested is behind it."""
    files = {
        name: {"bytes": (folder / name).stat().st_size, "sha256": sha256_of(folder / name)}
        for name in LISTED
        if (folder / name).exists()
    }
    (folder / MANIFEST).write_text(json.dumps({"format": 2, "files": files}))


def rewrite(folder, change, file="model.json"):
    """Change a JSON file; for any but the manifest itself the manifest is made right again."""
    facts = json.loads((folder / file).read_text())
    change(facts)
    (folder / file).write_text(json.dumps(facts))
    if file != MANIFEST:
        sign(folder)
