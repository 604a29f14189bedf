"""Sphinx configuration of the site: `make site`."""

import os
import pathlib
import sys

# TensorFlow reads this when it is imported, here and in notebooks.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
_ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(_ROOT))
# Kernels of notebooks are processes of their own.
os.environ['PYTHONPATH'] = os.pathsep.join(
    filter(None, [str(_ROOT), os.environ.get('PYTHONPATH')])
)

# pylint: disable=g-import-not-at-top
from docs.site import docstrings
from docs.site import links
from docs.site import pages
from tff_pers.runtime import native

project = 'tff_pers'
author = 'The tff_pers authors'
copyright = author  # pylint: disable=redefined-builtin
extensions = ['myst_nb', 'sphinx.ext.autodoc', 'sphinx.ext.napoleon']
html_theme = 'furo'
html_title = 'tff_pers'
exclude_patterns = ['site', '**/.ipynb_checkpoints']

# Tutorials are executed when the site is made; one that fails, fails it.
# (`-D nb_execution_mode=off` makes it without, in a few seconds.)
nb_execution_mode = 'force'
nb_execution_timeout = 600
nb_execution_raise_on_error = True
# Warnings and progress bars of TensorFlow are of no interest to readers.
nb_output_stderr = 'remove'
# Tables that a notebook shows are tables, as in Jupyter.
nb_render_markdown_format = 'myst'

myst_enable_extensions = ['colon_fence', 'dollarmath']
myst_heading_anchors = 3
autodoc_member_order = 'bysource'
# Fields of named tuples are members already.
napoleon_use_ivar = True
autodoc_typehints = 'signature'
# Names of arrays and of TFF types are no links.
nitpicky = False
# Headings of pages that are also read on their own begin at level 1 or 2.
suppress_warnings = ['myst.header', 'mystnb.unknown_mime_type']


def setup(app):
  """Makes pages from the code, and readable text from its docstrings."""
  native.drop_default_context()  # Its finalizer would end in an error.
  folder = pathlib.Path(app.srcdir) / 'generated'
  app.connect('builder-inited', lambda _: pages.write(folder))
  # Before napoleon, which has the default priority, 500.
  app.connect('autodoc-process-docstring', docstrings.process, priority=100)
  app.connect('source-read', links.process)
