"""Sphinx settings. The documentation builds offline, with warnings as errors."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import reference_pages

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
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 3
autosummary_generate = True
autosummary_context = {"undocumented_elsewhere": reference_pages.undocumented_elsewhere}
autodoc_typehints = "none"
numpydoc_show_class_members = False
templates_path = ["_templates"]
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "subsection_order": [f"../examples/{group}" for group in ("compare", "factors", "biology", "stores", "theory")],
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "abort_on_example_error": True,
}
exclude_patterns = ["_build", "gallery/**/*.ipynb", "gallery/**/*.py", "gallery/**/*.md5"]
smartquotes_action = "qe"  # options keep their two dashes
suppress_warnings = ["config.cache"]

if "ISOREP_INTERSPHINX" in os.environ:  # links into other projects' docs; they need the network
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
    }

html_theme = "furo"
html_title = f"isorep {release}"
html_static_path = ["_static"]
html_css_files = ["isorep.css"]


def setup(app):
    app.connect("builder-inited", lambda app: reference_pages.write(Path(app.srcdir) / "reference" / "generated"))
