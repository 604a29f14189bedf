"""The program that shows result folders as one page."""

import json
import os
import re

import pytest

from binaries import report
from tests.evaluation import made_runs


def _run(*flags):
  return report.main(['report', *flags])


def _data(path):
  """Returns what a page shows."""
  (found,) = re.findall(
      r'<script type="application/json" id="data">(.*?)</script>',
      path.read_text(encoding='utf-8'), re.S,
  )
  return json.loads(found)


def _compared(top):
  for variant in ('fedavg', 'local_only'):
    for seed in (0, 1):
      made_runs.write(str(top / variant / f'seed{seed}'), variant, seed)


def test_a_page_is_written_into_the_first_folder(tmp_path, capsys):
  _compared(tmp_path / 'compared')
  made_runs.write(str(tmp_path / 'other' / 'seed0'), 'ditto', 0)
  folders = [str(tmp_path / name) for name in ('compared', 'other')]
  # A folder that is named twice is read once.
  inside = f'{folders[0]}/fedavg'
  assert _run(f'--runs={",".join([*folders, inside])}') == 0
  path = tmp_path / 'compared' / 'report.html'
  assert capsys.readouterr().out == f'{path}\n'
  data = _data(path)
  assert data['title'] == 'compared, other, fedavg'
  (group,) = data['groups']
  assert [curve['label'] for curve in group['curves']] == [
      'fedavg', 'local_only', 'ditto'
  ]
  assert group['runs']['rows'][0][-1] == 'compared/fedavg/seed0'
  assert not os.path.exists(f'{path}_temp')


def test_the_file_may_be_named(tmp_path, monkeypatch):
  _compared(tmp_path)
  monkeypatch.setenv('BUILD_WORKING_DIRECTORY', str(tmp_path))
  assert _run('--runs=.', '--output=page.html') == 0
  assert _data(tmp_path / 'page.html')['title'] == tmp_path.name


def test_a_folder_of_tables_alone_is_a_page(tmp_path):
  (tmp_path / 'trials.csv').write_text('algo,value\nperm,0.5\n')
  assert _run(f'--runs={tmp_path}') == 0
  data = _data(tmp_path / 'report.html')
  assert data['groups'] == [] and data['tables'][0]['kind'] == 'trials'


@pytest.mark.parametrize('damage, words', [
    (lambda run: (run / 'config.json').write_text(
        '{"variant": "perm", "flags": {}}'
    ), 'config.json must be that of a run, found no algo, task'),

    (lambda run: (run / 'metrics.csv').write_text('round,seconds\n1,2\n'),
     'metrics.csv must be that of a run, found no accuracy_mean'),
    (lambda run: (run / 'best.json').write_text('{'), 'best.json` must be a'),
])
def test_what_is_no_run_is_one_sentence(damage, words, tmp_path, capsys):
  folder = tmp_path / 'run'
  made_runs.write(str(folder))
  damage(folder)
  before = sorted(os.listdir(folder))
  assert _run(f'--runs={tmp_path}') == 2
  lines = capsys.readouterr().err.strip().splitlines()
  assert len(lines) == 1 and words in lines[0]
  assert sorted(os.listdir(folder)) == before
  assert os.listdir(tmp_path) == ['run']


def test_a_place_that_cannot_be_written_is_named(tmp_path, capsys):
  _compared(tmp_path)
  for output in (tmp_path, tmp_path / 'no' / 'page.html'):
    assert _run(f'--runs={tmp_path}', f'--output={output}') == 2
    error = capsys.readouterr().err
    assert error.startswith('report: `--output` must be a file that can')
    assert len(error.strip().splitlines()) == 1
  assert not [n for n in os.listdir(tmp_path.parent) if n.endswith('_temp')]
  assert sorted(os.listdir(tmp_path)) == ['fedavg', 'local_only']
