"""Checks of the theory of RPLG (Definition 1, Theorems 1 and 2) where the true posterior is known.

`theorems` adds errors of a chosen size to known posteriors; `trained` replaces them by the errors of
trained models. `oneof theory` runs both; docs/theory.md says what is shown and what is not.
"""
