"""Predicting tables that need not fit into memory: read, predict and written batch by batch."""

from oneof.app.streaming.predict import Summary, Wishes, predict_file
from oneof.tables.batches import table_batches

__all__ = ["Summary", "Wishes", "predict_file", "table_batches"]
