"""Makes docs/ledger.md from results/ledger_items.yaml.

    python -m tests.ledger_page

It also writes the sentence with which docs/results.md sums the page up.
"""

import collections
import pathlib
import re
import textwrap
from typing import NamedTuple, Sequence

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
ITEMS = ROOT / 'results' / 'ledger_items.yaml'
PAGE = ROOT / 'docs' / 'ledger.md'
SUMMARY = ROOT / 'docs' / 'results.md'
PAPERS = dict(
    perm='PERM', floral='FLoRAL', ffgg='FFGG', fedhm='FedHM',
    local_updates='Local update methods',
)
VERDICTS = ('reproduced', 'not at this scale', 'refuted', 'out of reach', 'open')
_SENTENCE = re.compile(r'^The \[ledger\].*?(?=\n\n)', re.DOTALL | re.MULTILINE)
_INTRODUCTION = """\
# Ledger: the five papers, item by item

Made by `make docs` from [results/ledger_items.yaml](../results/ledger_items.yaml); not to be edited. *Not at this scale*:
measured on other or fewer data, a smaller model or fewer rounds, whatever came out. *Out of reach*: what is missing, and its
cost. Commit and CPU are given where they are known. Numbers of a test are those that it asserts."""


class Item(NamedTuple):
  """A row of the ledger; its fields are those of the file."""

  id: str
  item: str
  says: str
  verdict: str
  command: str = ''
  result: str = ''
  page: str = ''
  commit: str = ''
  cpu: str = ''
  cores: int = 0

  @property
  def paper(self) -> str:
    """The paper, a key of `PAPERS`."""
    return self.id.partition('.')[0]

  def made_by(self) -> str:
    """Returns the cell of the command, the page and the machine."""
    parts = [
        self.command and f'`{self.command}`',
        self.page and f'[{self.page.partition(".")[0]}]({self.page})',
        self.commit, self.cpu, f'{self.cores} cores' * bool(self.cores),
    ]
    return ', '.join(part for part in parts if part)


def read() -> list[Item]:
  """Returns all rows, in the order of the file."""
  return [Item(**row) for row in yaml.safe_load(ITEMS.read_text('utf-8'))]


def sentence(items: Sequence[Item]) -> str:
  """Returns how many rows have which verdict, for another page."""
  counts = collections.Counter(item.verdict for item in items)
  return textwrap.fill(
      f'The [ledger](ledger.md) has {len(items)} rows, one for each algorithm,'
      ' table, figure, theorem and claim of the five papers: '
      + ', '.join(f'{counts[name]} {name}' for name in VERDICTS) + '.',
      126, break_long_words=False, break_on_hyphens=False,
  )


def page(items: Sequence[Item]) -> str:
  """Returns docs/ledger.md."""
  counts = collections.Counter((item.paper, item.verdict) for item in items)
  parts = [_INTRODUCTION, _table(('paper', *VERDICTS), [
      [f'[{title}]({paper}.md)', *(counts[paper, name] for name in VERDICTS)]
      for paper, title in PAPERS.items()
  ])]
  for paper, title in PAPERS.items():
    own = [item for item in items if item.paper == paper]
    parts += [
        f'## {title}',
        _table(('item', 'the paper', 'here', 'verdict', 'made by'), [
            (_text(i.item), _text(i.says), _text(i.result), i.verdict, i.made_by())
            for i in own if i.verdict != 'open'
        ]),
        f'### Open: {title}',
        _table(('item', 'the paper'), [
            (_text(i.item), _text(i.says)) for i in own if i.verdict == 'open'
        ]),
    ]
  return '\n\n'.join(parts) + '\n'


def summed_up(text: str, items: Sequence[Item]) -> str:
  """Returns docs/results.md with the sentence of today."""
  return _SENTENCE.sub(lambda _: sentence(items), text, count=1)


def _text(text: str) -> str:
  """Returns Markdown that says the text as it is, within a table."""
  return re.sub(r'([|*<])', r'\\\1', text)


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
  lines = [columns, ['---'] * len(columns), *rows]
  return '\n'.join(f'| {" | ".join(map(str, cells))} |' for cells in lines)


if __name__ == '__main__':
  found = read()
  PAGE.write_text(page(found), 'utf-8')
  SUMMARY.write_text(summed_up(SUMMARY.read_text('utf-8'), found), 'utf-8')
