"""The page is one file, complete, bounded, and takes no name for markup."""

import configparser
from html import parser
import json
import pathlib
import re

import numpy as np
import pytest

from tests.evaluation import made_runs
from tests.evaluation.report import made_pages

from tff_pers.evaluation.report import page

ROOT = pathlib.Path(__file__).resolve().parents[3]
_VOID = ('meta', 'link', 'br', 'img', 'input', 'hr')


class _Reader(parser.HTMLParser):
  """Reads elements as a browser does; fails where they do not nest."""

  def __init__(self, text):
    super().__init__()
    self.tags, self.attributes, self.texts = [], [], {}
    self._open = []
    self.feed(text)
    self.close()
    assert not self._open

  def handle_starttag(self, tag, attrs):
    self.tags.append(tag)
    self.attributes += [(tag, *pair) for pair in attrs]
    if tag not in _VOID:
      self._open.append(tag)

  def handle_endtag(self, tag):
    assert self._open.pop() == tag

  def handle_data(self, data):
    if self._open:
      self.texts.setdefault(self._open[-1], []).append(data)


@pytest.fixture(scope='module', name='data')
def _data(tmp_path_factory):
  return made_pages.collected(tmp_path_factory.mktemp('runs'))


@pytest.fixture(scope='module', name='text')
def _text(data):
  return page.render(data)


def test_elements_nest(text):
  read = _Reader(text)
  assert text.startswith('<!DOCTYPE html>')
  assert read.tags.count('script') == 2 and read.tags.count('title') == 1


def test_names_are_no_markup(text):
  read = _Reader(text)
  assert read.texts['title'] == [made_pages.EVIL]
  assert 'img' not in read.tags
  assert '<script>window.hacked' not in text


def test_the_data_come_back(text, data):
  (found,) = re.findall(
      r'<script type="application/json" id="data">(.*?)</script>', text, re.S
  )
  # JSON has lists instead of tuples.
  assert json.loads(found) == json.loads(json.dumps(data))
  assert json.loads(found)['groups'][0]['clients']['names'] == list(
      made_pages.CLIENTS
  )


def test_an_installed_package_has_all_files_of_the_page():
  config = configparser.ConfigParser()
  config.read(ROOT / 'setup.cfg')
  package = 'tff_pers.evaluation.report'
  pattern = config['options.package_data'][package]
  folder = ROOT / package.replace('.', '/')
  files = [f for f in folder.rglob('*') if f.suffix in ('.js', '.css', '.html')]
  assert len(files) > 5 and set(files) <= set(folder.glob(pattern))
  # Each is part of the page.
  scripts = {f.name for f in files if f.suffix == '.js'}
  assert scripts == set(page.SCRIPTS)


def test_nothing_is_fetched_from_elsewhere(text):
  read = _Reader(text)
  assert not [a for a in read.attributes if a[1] in ('src', 'href', 'data')]
  assert set(re.findall(r'https?://[^\s\'"<]*', text)) == {
      'http://www.w3.org/2000/svg'
  }
  for word in ('@import', 'url(', 'fetch(', 'XMLHttpRequest', 'import('):
    assert word not in text
  policy = dict(a[1:] for a in read.attributes)['content']
  policies = [a[2] for a in read.attributes if 'default-src' in (a[2] or '')]
  assert policies and policies[0].startswith("default-src 'none';"), policy


def test_the_same_runs_give_the_same_page(tmp_path):
  made = [page.render(made_pages.collected(tmp_path)) for _ in range(2)]
  assert made[0] == made[1]


def test_what_is_not_finite_is_no_broken_json(tmp_path):
  run = made_runs.read(tmp_path, loss=float('inf'))
  run.clients['loss'][0] = np.nan
  found = page.collect([run], top=str(tmp_path), title='')
  assert 'Infinity' not in page.as_json(found)
  assert found['groups'][0]['curves'][0]['columns']['loss_mean']['mean'] == [
      None, None, None
  ]


def test_runs_that_have_nothing_yet_are_a_page(tmp_path):
  run = made_runs.read(tmp_path, evaluated=(), finished=False)
  found = page.collect([run], top=str(tmp_path), title='new')
  (group,) = found['groups']
  assert group['summary'] == '1 method, 2 clients, 1 seed, 1 run.'
  assert not group['results']['rows'] and not group['clients']['runs']
  assert len(group['runs']['rows']) == 1
  _Reader(page.render(found))


def test_a_thousand_clients_in_twenty_runs_are_a_few_megabytes(tmp_path):
  generator = np.random.default_rng(0)
  number, rounds = 1000, range(1, 401)
  mixing = generator.dirichlet(np.ones(number), number)
  clients = {str(i): a for i, a in enumerate(generator.random(number))}
  columns = {f'extra{i}': generator.random(len(rounds)) for i in range(12)}
  first = made_runs.read(
      tmp_path, clients=clients, mixing=mixing, router=mixing[:, :10],
      evaluated=rounds, validation=0.5, columns=columns,
      groups=generator.integers(0, 5, number),
  )
  runs = [
      first._replace(config=dict(first.config, variant=f'method{i}'))
      for i in range(20)
  ]
  found = page.collect(runs, top=str(tmp_path), title='many')
  assert len(page.render(found)) < 5e6
  maps = found['groups'][0]['maps']
  assert {len(made['rows']['names']) for made in maps} == {200}
  assert {made['kind'] for made in maps} == {'mixing', 'router'}
