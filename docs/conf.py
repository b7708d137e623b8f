"""Sphinx settings. The documentation builds offline, with warnings as errors."""

import isorep

project = "isorep"
author = "The isorep developers"
copyright = "2026, the isorep developers"
release = version = isorep.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx-mathjax-offline",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["dollarmath", "amsmath"]
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "subsection_order": [f"../examples/{group}" for group in ("compare", "factors", "biology", "stores", "theory")],
    "download_all_examples": False,
    "show_memory": False,
    "abort_on_example_error": True,
}
exclude_patterns = ["_build", "gallery/**.ipynb", "gallery/**.py", "gallery/**.md5"]
suppress_warnings = ["config.cache"]

html_theme = "furo"
html_title = f"isorep {release}"
