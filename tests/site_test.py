"""The site: what its pages are made of. `make site` builds it whole."""

import json
import pathlib
import re

import pytest

from docs.site import advice
from docs.site import docstrings
from docs.site import links
from docs.site import pages
from tff_pers.config import methods

DOCS = pathlib.Path(__file__).resolve().parents[1] / 'docs'


def test_every_method_has_advice_of_both_kinds():
  families = advice.families(methods.names())
  assert sum(map(len, families.values())) == len(methods.names())
  for name in methods.names():
    when, when_not = advice.of(name)
    assert when.endswith('.') and when_not.endswith('.'), name


def test_a_method_without_advice_is_named():
  with pytest.raises(ValueError, match='a difference in my_prox.'):
    advice.families([*methods.names(), 'my_prox'])


@pytest.mark.parametrize('name', methods.names())
def test_a_page_has_algorithm_flags_and_command(name):
  page = '\n'.join(pages.method(name))
  algorithm = page[:page.index('## When to use it')]
  assert '## Algorithm' in algorithm and 'client' in algorithm
  assert '| `--' in page or name in ('oracle_groups', 'uniform_shuffling')
  assert f'--algo={name} --task=digits' in page
  # Fences come in pairs, or the rest of the page would be code.
  assert page.count('```') % 2 == 0


def test_docstrings_become_restructured_text():
  made = docstrings.convert([
      'Takes `a * b` and x_ of *all*, `K`s, {V}@CLIENTS.', '', '  w <- w - eta * g', '',
      '  state <- w', '', 'Args:', '  a: The `size`.', '    Of `one', '    two`, 3.',
  ])
  assert made == [
      r'Takes ``a * b``\  and x\_ of \*all\*, ``K``\ s, {V}\@CLIENTS.', '', '',
      '::', '',
      '      w <- w - eta * g', '', '      state <- w', '', '', 'Args:',
      r'  a: The ``size``\ .', '    Of ``one``', r'    ``two``\ , 3.',
  ]


def test_links_that_leave_the_site_are_names():
  text = (
      '[a](perm.md) [b](../README.md) [c](../binaries/benchmark.py)'
      ' ![d](images/e.png) [f](https://g.h)'
  )
  assert links.convert(text, DOCS) == (
      '[a](perm.md) [b](index.md) `binaries/benchmark.py` ![d](images/e.png)'
      ' [f](https://g.h)'
  )


def test_every_page_is_in_the_table_of_contents():
  index = (DOCS / 'index.md').read_text()
  entries = re.findall(r'^[\w/]+$', index, re.MULTILINE)
  pages = [
      *DOCS.glob('*.md'), *DOCS.glob('tutorials/*.md'),
      *DOCS.glob('tutorials/*.ipynb'),
  ]
  own = {str(path.relative_to(DOCS).with_suffix('')) for path in pages}
  generated = {entry for entry in entries if entry.startswith('generated/')}
  assert sorted(entries) == sorted(own - {'index'} | generated)


@pytest.mark.parametrize('path', DOCS.glob('tutorials/*.ipynb'), ids=str)
def test_notebooks_are_stored_without_results(path):
  for cell in json.loads(path.read_text())['cells']:
    assert not cell.get('outputs') and not cell.get('execution_count')
    # Lines fit a page of the site.
    assert max(map(len, ''.join(cell['source']).split('\n'))) <= 130
