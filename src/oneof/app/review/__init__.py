"""Rows worth a second look: which they are, and a page on which a person decides about them."""

from oneof.app.review.folder import ReviewData, ReviewError
from oneof.app.review.ranking import Doubt, rank_rows

__all__ = ["Doubt", "ReviewData", "ReviewError", "rank_rows"]
