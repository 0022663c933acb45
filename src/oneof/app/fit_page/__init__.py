"""The page after a fit: what the model learned, how far it can be trusted, and which rows to look at."""

from oneof.app.fit_page.facts import Checked, FitFacts
from oneof.app.fit_page.page import write_model_report

__all__ = ["Checked", "FitFacts", "write_model_report"]
