"""Predicting tables that need not fit into memory: read, predict and written batch by batch."""

from oneof.streaming.predict import Summary, Wishes, predict_file
from oneof.streaming.readers import table_batches

__all__ = ["Summary", "Wishes", "predict_file", "table_batches"]
