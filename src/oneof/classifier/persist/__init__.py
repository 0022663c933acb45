"""Saving and loading models: safetensors for numbers, JSON for the rest, never code.

A saved model is a folder:

- `manifest.json`: size and SHA-256 of every file below. Nothing that is not listed there is read.
- `model.json`: what the model is. `model.safetensors`: its weights.
- `encoder.json`: how a table becomes features, where it was trained on a table with other than numbers.
- `calibration.safetensors`: what prediction sets go by, where the model is calibrated.
- `training.safetensors`: the disambiguated training rows; may be deleted.
- `README.md`: the model card, for people. It is never read, so it may be edited.

The digests find damage and mixtures, not forgery: a model from somebody else can predict what it likes,
but loading it runs none of its code and takes no more memory than its files.
"""

from oneof.classifier.persist.folder import ModelError
from oneof.classifier.persist.model import load, save

__all__ = ["ModelError", "load", "save"]
