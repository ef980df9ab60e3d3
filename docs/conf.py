"""Settings of the book; what a registry determines is written by ``bookmaker`` before Sphinx reads anything."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import bookmaker

import flexdome

project = "flexdome"
author = "The flexdome developers"
copyright = "2026, The flexdome developers"
release = flexdome.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
]
autosummary_generate = True
autodoc_typehints = "none"  # shapes and ranges are in the text
autodoc_member_order = "bysource"
add_module_names = False
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
exclude_patterns = ["_build"]

html_theme = "pydata_sphinx_theme"
html_title = "flexdome"
templates_path = ["_templates"]
html_static_path = ["_static"]
html_sidebars = {"**": ["chapters"]}
html_css_files = ["book.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "navbar_center": [],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}


def setup(app):
    app.connect("builder-inited", lambda app: bookmaker.make(Path(app.srcdir)))
