"""One file per paper: its mathematics and nothing else. Importing this package registers all methods."""

import os
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules

from oneof.methods.base import Method, MethodInfo, list_methods, make_method

# every module here is either a method or a piece of one: a new file needs no further registration
for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

# methods of others: installed packages announce theirs (entry points `oneof.methods`), a module of one's own
# is named in the environment, where processes that train for the lab find it, too
for _point in entry_points(group="oneof.methods"):
    _point.load()
for _name in filter(None, os.environ.get("ONEOF_PLUGINS", "").split(",")):
    import_module(_name)

__all__ = ["Method", "MethodInfo", "list_methods", "make_method"]
