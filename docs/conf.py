"""The documentation site: `make docs` builds it into out/site, without a network and with warnings as errors."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
# Notebooks run the command `airpool` of this environment, activated or not.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

from pygments.lexers.special import TextLexer
from sphinx.highlighting import lexers

from airpool import __version__

lexers["csv"] = TextLexer()  # Pygments has none

project = "airpool"
author = "The airpool authors"
copyright = "2026, the airpool authors"
version = release = __version__

extensions = ["myst_nb", "mathml", "reference"]
exclude_patterns = ["_build", "_ext", "**/README.md"]
default_role = "code"
nitpicky = False
python_maximum_signature_line_length = 88

# Pages: Markdown and notebooks. Notebooks are executed at build time and their results are kept in out/notebooks.
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence", "attrs_inline"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_cache_path = str(Path(__file__).parents[1] / "out" / "notebooks")
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True

html_theme = "furo"
html_theme_options = {"light_css_variables": {"color-brand-primary": "#0072B2", "color-brand-content": "#0067a3"}}
html_title = f"airpool {version}"
html_static_path = ["_static"]
html_css_files = ["airpool.css"]
html_logo = html_favicon = "_static/airpool.svg"
html_copy_source = False
html_show_sphinx = False
html_math_renderer = "mathml"
