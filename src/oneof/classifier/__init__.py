"""The scikit-learn estimator: its inputs, prediction, scores, saved models."""
