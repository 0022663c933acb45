"""One file per paper: its mathematics and nothing else. Importing this package registers all methods."""

from importlib import import_module
from pkgutil import iter_modules

from oneof.methods.base import Method, MethodInfo, list_methods, make_method

# every module here is either a method or a piece of one: a new file needs no further registration
for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["Method", "MethodInfo", "list_methods", "make_method"]
