"""The ledger of the five papers: complete, and its commands are commands.

Commands of programs stand on docs/ledger.md, so that docs_test reads them with
those of all pages.
"""

import ast
import collections
import re
import shlex

import pytest

from tests import ledger_page

pytestmark = pytest.mark.text

# Rows by paper and kind. It is edited where a row is added; none is taken away.
COUNTS = dict(
    perm=dict(algorithm=4, figure=8, theorem=3, lemma=5, claim=6),
    floral=dict(
        algorithm=4, table=25, figure=14, theorem=4, lemma=3, remark=1, claim=15
    ),
    ffgg=dict(
        algorithm=5, table=6, figure=4, theorem=8, proposition=1, example=3,
        remark=1, claim=10,
    ),
    fedhm=dict(
        algorithm=2, table=101, figure=15, theorem=3, lemma=1, claim=10
    ),
    local_updates=dict(
        algorithm=3, table=14, figure=27, theorem=6, corollary=2, lemma=12,
        claim=13,
    ),
)
ITEMS = ledger_page.read()
PAGES = ledger_page.PAGE.parent


def test_rows_of_every_paper_are_there():
  found = collections.defaultdict(collections.Counter)
  for item in ITEMS:
    kind = re.match(r'[a-z]+', item.id.split('.')[1])[0]
    found[item.paper][kind] += 1
  assert found == COUNTS


def test_rows_are_told_apart():
  for names in (
      [item.id for item in ITEMS], [(item.paper, item.item) for item in ITEMS],
  ):
    assert [n for n, times in collections.Counter(names).items() if times > 1] == []


def test_a_verdict_has_its_reason():
  for item in ITEMS:
    measured = item.verdict not in ('open', 'out of reach')
    assert item.says and item.verdict in ledger_page.VERDICTS, item
    assert bool(item.command) == measured, item
    assert bool(item.result) == (item.verdict != 'open'), item
    # No place or machine of a number without the number.
    rest = item.page, item.commit, item.cpu, item.cores
    assert measured or not any(rest), item


@pytest.mark.parametrize(
    'command', sorted({item.command for item in ITEMS if item.command})
)
def test_a_command_is_one(command):
  words = shlex.split(command)
  if words[0] != 'pytest':
    assert words[:2] == ['python', '-m']  # docs_test reads the rest.
    assert f'`{command}`' in ledger_page.PAGE.read_text('utf-8')
    return
  path, name = words[1].split('::')
  code = (ledger_page.ROOT / path).read_text('utf-8')
  assert len(words) == 2 and name in {
      node.name for node in ast.parse(code).body
      if isinstance(node, ast.FunctionDef)
  }


@pytest.mark.parametrize(
    'link', sorted({item.page for item in ITEMS if item.page})
)
def test_a_number_stands_where_the_row_says(link):
  path, _, anchor = link.partition('#')
  headings = re.findall(r'^#+ (.*)', (PAGES / path).read_text('utf-8'), re.MULTILINE)
  # As GitHub and Sphinx make anchors of headings.
  anchors = [
      re.sub(r'[^\w -]', '', heading.lower()).replace(' ', '-')
      for heading in headings
  ]
  assert not anchor or anchor in anchors


def test_the_pages_are_those_of_the_file():
  """`python -m tests.ledger_page` writes both."""
  assert ledger_page.PAGE.read_text('utf-8') == ledger_page.page(ITEMS)
  text = ledger_page.SUMMARY.read_text('utf-8')
  assert ledger_page.sentence(ITEMS) in text


def test_the_sentence_is_renewed_and_nothing_else():
  text = 'Before.\n\nThe [ledger](ledger.md) has\n9 rows.\n\nThe [ledger] too.\n\n'
  changed = ledger_page.summed_up(text, ITEMS)
  assert changed == text.replace(
      'The [ledger](ledger.md) has\n9 rows.', ledger_page.sentence(ITEMS)
  )
