"""`oneof export`: a saved model as one ONNX file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg


@dataclass
class Export:
    """Write a saved model as an ONNX file, which runs without Python, torch and oneof.

    The scaling of the features is part of the graph. The file is run once and compared with the model; it
    is kept only if they agree to 1e-5.
    """

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    """Folder of the model."""
    out: Annotated[Path, arg(metavar="FILE")] = Path("model.onnx")
    """The file to write."""
    logits: bool = False
    """Give logits instead of probabilities."""

    def run(self) -> int:
        from oneof.classifier.export import export_onnx
        from oneof.classifier.persist import load

        model = load(self.model)
        difference = export_onnx(model, self.out, probabilities=not self.logits)
        what = "logits" if self.logits else "probabilities"
        print(f"{self.out}: {model.n_features_in_} features in, {what} of {len(model.classes_)} classes out")
        print(f"compared with torch: largest difference {difference:.1e}")
        encoder = getattr(model, "encoder_", None)
        if encoder is not None:
            print(
                "note: the graph takes encoded features, not the columns of a table; how they are made "
                'from the columns is in the metadata of the file, under "encoder".'
            )
        return 0
