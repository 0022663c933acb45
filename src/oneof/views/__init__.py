"""Views: what a method sees of a row. On tables every role is the row itself."""

from oneof.views.base import RowItself, Views
from oneof.views.images import ImageViews

__all__ = ["ImageViews", "RowItself", "Views"]
