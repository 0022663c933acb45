"""How these pages are built: `make docs`. Needs the extra `docs`, and no network."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "extensions"), str(HERE.parent)]  # the latter for benchmarks/growth.py

from generated_pages import write_pages  # noqa: E402

import oneof  # noqa: E402

project = "oneof"
author = "the oneof contributors"
copyright = "the oneof contributors, BSD-3-Clause"
version = release = oneof.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    # ours, in extensions/
    "records",
    "tutorial_outputs",
    "result_links",
    "plain_docstrings",
]
exclude_patterns = ["extensions", "tutorials/outputs"]

# one page per method and per folder of results; the folder is not under version control
write_pages(HERE / "generated", HERE.parent / "results")

myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3
myst_links_external_new_tab = True

default_role = "literal"  # docstrings write `name` as Markdown does
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 200

html_theme = "furo"
html_title = "oneof"
html_static_path = ["static"]
html_css_files = ["oneof.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6e69", "color-brand-content": "#0b6e69"},
    "dark_css_variables": {"color-brand-primary": "#4fc3bb", "color-brand-content": "#4fc3bb"},
    "navigation_with_keys": True,
}
pygments_style = "friendly"
pygments_dark_style = "native"
