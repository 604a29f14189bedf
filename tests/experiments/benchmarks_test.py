"""Files of benchmarks: what they mean, and what is wrong with one."""

import configparser
import pathlib

import pytest

from tff_pers.experiments import benchmarks

ROOT = pathlib.Path(__file__).resolve().parents[2]
_FOLDER = ROOT / 'binaries' / 'benchmarks'
_FILE = """\
help: |-
  First line.
    More.
title: A title
page: page.md
note: >-
  A note of
  two lines.
shared:
  - &task
    task: digits
    seeds: 0
scales:
  cpu:
    <<: *task
    method_options:
      - methods: [perm, fedavg]
        learning_rate_rounds: 100:150
        weight_decay: 1e-4
      - methods: fedavg
        momentum: no
  paper: *task
parts:
  one:
    title: First
    embedded: true
    flags:
      rounds: 3
      algos:
        - perm
        - fedavg[local_steps=1,momentum=0]
      grid:
        - learning_rate:1,2
        - perm.lambda:0,1
    scales:
      cpu:
        seeds: 0,1
    published:
      source: A paper
      setting: large
      differs:
        cpu: small
        paper: ''
      values:
        fedavg[momentum=0]: 0.5
      measure: examples
      pipeline: local_steps,pretrain_rounds
"""


def _read(folder, text):
  path = folder / 'some.yaml'
  path.write_text(text, encoding='utf-8')
  return benchmarks.read(str(path))


def test_texts_are_kept_as_they_are_typed(tmp_path):
  benchmark = _read(tmp_path, _FILE)
  assert benchmark.help == 'First line.\n  More.'
  assert benchmark.note == 'A note of two lines.'
  assert benchmark.flags('cpu', 'one') == {
      'task': 'digits', 'seeds': '0,1', 'rounds': '3',
      'perm_learning_rate_rounds': '100:150', 'perm_weight_decay': '1e-4',
      'fedavg_learning_rate_rounds': '100:150', 'fedavg_weight_decay': '1e-4',
      'fedavg_momentum': 'no',
      'algos': 'perm,fedavg[local_steps=1,momentum=0]',
      'grid': 'learning_rate:1,2;perm.lambda:0,1',
  }
  assert benchmark.flags('paper', 'one')['seeds'] == '0'
  part = benchmark.parts['one']
  assert part.embedded
  assert part.published.of('fedavg[local_steps=1,momentum=0]') == 0.5
  assert part.published.of('fedavg') is None


@pytest.mark.parametrize('old, new, message', [
    ('page: page.md', 'file: page.md',
     'some.yaml must have keys among help, title, .*, parts, found'
     " 'file'"),
    ('page: page.md\n', '', 'some.yaml must have the key page, found none'),
    ('    embedded: true', '    data_dir: none',
     "some.yaml, parts, one must have keys among title, .* found 'data_dir'"),
    ('embedded: true', 'embedded: yes',
     "some.yaml, parts, one, embedded must be one of true, false, found 'yes'"),
    ('title: A title', 'title: {A: b}',
     'some.yaml, title must be a text or a list, found'),
    ('      rounds: 3', '      rounds: {A: b}',
     'some.yaml, parts, one, flags, rounds must be a text or a list'),
    ('momentum=0]: 0.5', 'momentum=0]: 50 %',
     r"values, fedavg\[momentum=0\] must be a number, found '50 %'"),
    ('measure: examples', 'measure: writers',
     "measure must be one of clients, examples, new_clients, largest, half_loss, found 'writers'"),
    ('- methods: fedavg', '- algos: fedavg',
     'method_options must have the key methods, found none'),
    ('title: A title', 'title: *no_anchor', 'some.yaml must be YAML, found:.*'
     "undefined alias 'no_anchor' .*line 4"),
    ('      rounds: 3', '      rounds: 3\n      rounds: 4',
     'some.yaml must be YAML, found: the key rounds occurs twice .*line 29'),
    (_FILE, '- a list', 'some.yaml must be a mapping, found'),
])
def test_what_is_wrong_is_one_sentence(tmp_path, old, new, message):
  assert _FILE.count(old) == 1
  with pytest.raises(ValueError, match=message):
    _read(tmp_path, _FILE.replace(old, new))


def test_settings_have_flags_and_claims(tmp_path):
  path = tmp_path / 'some.yaml'
  text = (
      'help: h\nnote: n\nsettings:\n  one:\n    flags:\n      seeds: 3,4\n    files: true\n'
      '    claims:\n      - expect: a<b\n        in_seeds: 2\n'
      '    new_clients: 0.03\n'
  )
  path.write_text(text)
  assert benchmarks.read_settings(str(path)).settings == {'one': benchmarks.Setting(
      dict(seeds='3,4'), files=True, new_clients=0.03,
      claims=(benchmarks.Claim('a<b', in_seeds=2),),
  )}
  path.write_text(text.replace('in_seeds: 2', 'in_seeds: two'))
  with pytest.raises(ValueError, match="in_seeds must be a number, found 'two'"):
    benchmarks.read_settings(str(path))


def test_an_installed_package_has_all_benchmarks():
  config = configparser.ConfigParser()
  config.read(ROOT / 'setup.cfg')
  pattern = config['options.package_data']['binaries']
  files = {path for path in _FOLDER.rglob('*') if path.is_file()}
  assert len(files) > 10 and files == set((ROOT / 'binaries').glob(pattern))
