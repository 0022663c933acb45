"""How good a classifier is: scorers for candidate masks, prediction sets, risk against coverage."""

from oneof.classifier.scoring.abstention import RiskCoverage, risk_coverage
from oneof.classifier.scoring.scorers import accuracy, approximated_accuracy, covering_rate

__all__ = ["RiskCoverage", "accuracy", "approximated_accuracy", "covering_rate", "risk_coverage"]
