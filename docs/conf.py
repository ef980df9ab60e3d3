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
numpydoc_show_class_members = False
myst_enable_extensions = ["dollarmath"]
html_theme = "pydata_sphinx_theme"
exclude_patterns = ["_build"]
