"""How good a classifier is: scorers for candidate masks, prediction sets, risk against coverage."""

from oneof.scoring.abstention import RiskCoverage, risk_coverage
from oneof.scoring.scorers import accuracy, approximated_accuracy, covering_rate

__all__ = ["RiskCoverage", "accuracy", "approximated_accuracy", "covering_rate", "risk_coverage"]
