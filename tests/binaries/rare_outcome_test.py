"""A table with a rare outcome: what is chosen by, and what is said."""

import dataclasses
import json

import numpy as np
import pytest

from binaries import choose
from binaries import train
from examples import rare_outcome
from tests import csv_rows
from tff_pers.data.tasks import assembly
from tff_pers.evaluation import results
from tff_pers.evaluation.report import page

_rows = csv_rows.read


@pytest.fixture(scope='module', name='data')
def _data(tmp_path_factory):
  path = tmp_path_factory.mktemp('rare') / 'rare.csv'
  rare_outcome.write(path)
  return path


def test_rounds_end_by_auc(data, tmp_path, capsys):
  assert train.main([
      'train', '--algo=fedavg', '--task=csv', f'--data_dir={data}',
      '--rounds=auto', '--patience=2', '--max_rounds=30',
      f'--output_dir={tmp_path}',
  ]) == 0
  output = capsys.readouterr().out
  assert '2 classes (no: 1160, yes: 40 rows)' in output
  assert 'Validation metric: auc (--metric). F1 is of yes.' in output
  assert 'validation auc' in output and '| balanced_accuracy |' in output
  # One or two of ten are found by then.
  assert 'hardly above that of always predicting no' in output
  assert 'of 10 of yes.' in output
  clients = results.read_clients(str(tmp_path))
  np.testing.assert_allclose(clients['majority'].mean(), 0.967, atol=0.01)
  # What accuracy says of all of them alike.
  assert np.nanmean(clients['auc']) > 0.9 > clients['balanced_accuracy'].mean()
  table, names = results.read_confusion(str(tmp_path))
  assert names == ['no', 'yes'] and table.sum(axis=1).tolist() == [230, 10]
  # The two classes head the columns of the clients' data, too.
  assert {'no', 'yes'} <= set(_rows(tmp_path / 'data.csv')[0])
  config = json.loads((tmp_path / 'config.json').read_text())
  assert config['metric'] == 'auc' and 'yes: 40' in config['about']
  row = _rows(tmp_path / 'metrics.csv')[-1]
  validation = results.read_run(str(tmp_path)).validation
  assert float(row['auc_validation']) == pytest.approx(
      np.nanmean(validation['auc'])
  )


def test_a_metric_that_is_asked_for(data, tmp_path, capsys):
  argv = [
      'train', '--algo=local_only', '--task=csv', f'--data_dir={data}',
      '--rounds=1', f'--output_dir={tmp_path}',
  ]
  assert train.main([*argv, '--metric=rmse']) == 2
  assert (
      '`--metric` must be one of auto, accuracy, loss, balanced_accuracy, auc,'
      ' f1 on this task'
  ) in capsys.readouterr().err
  assert train.main([*argv, '--metric=f1']) == 0
  assert results.read_config(str(tmp_path))['metric'] == 'f1'


def test_a_metric_of_a_task_of_one_s_own(data, tmp_path, monkeypatch):
  """Of probabilities, by which validation data choose, and in all tables."""
  assemble = assembly.assemble
  monkeypatch.setattr(assembly, 'assemble', lambda *args, **options: (
      dataclasses.replace(assemble(*args, **options), metrics=dict(
          sureness=lambda y, outputs: float(outputs.max(axis=1).mean())
      ))
  ))
  assert train.main([
      'train', '--algo=fedavg', '--task=csv', f'--data_dir={data}',
      '--rounds=2', '--eval_every=2', '--metric=sureness',
      '--validation_fraction=0.2', f'--output_dir={tmp_path}',
  ]) == 0
  run = results.read_run(str(tmp_path))
  assert run.config['metric'] == 'sureness'
  test, held = run.clients['sureness'], run.validation['sureness']
  assert 0.5 < test.mean() < 1 and test.mean() != held.mean()
  [row] = _rows(tmp_path / 'metrics.csv')
  assert float(row['sureness_mean']) == pytest.approx(test.mean())
  assert float(row['sureness_validation']) == pytest.approx(held.mean())
  [group] = page.collect([run], str(tmp_path), 'own')['groups']
  assert group['final']['metric'] == 'sureness'
  titles = [column['title'] for column in group['results']['columns']]
  assert {'sureness', 'AUC'} <= set(titles)


def test_choose_ranks_by_auc(data, tmp_path, capsys):
  assert choose.main([
      'choose', '--algos=local_only,fedavg', '--task=csv', '--trials=1',
      f'--data_dir={data}', '--seeds=0', '--jobs=1', '--rounds=20',
      '--eval_every=20', f'--output_dir={tmp_path}',
  ]) == 0
  text = (tmp_path / 'choice.md').read_text()
  assert 'Correctly predicted rows: 23' in text and 'auc_validation' in text
  rows = _rows(tmp_path / 'choice.csv')
  assert {row['metric'] for row in rows} == {'auc'}
  assert all(not row['accuracy_test'] for row in rows)
  values = [float(row['value_validation']) for row in rows]
  assert values == sorted(values, reverse=True) and min(values) > 0.6
  assert 'auc' in capsys.readouterr().out
  _check_page(str(tmp_path), rows)


def _check_page(folder, rows):
  """What the choice is by is what the page draws, sorts and has tables of."""
  runs = [results.read_run(path) for path in results.find_runs(folder)]
  [group] = page.collect(runs, folder, 'rare')['groups']
  final, clients = group['final'], group['clients']
  assert {final['metric'], clients['metric']} == {'auc'}
  assert final['isHigherBetter'] and clients['isHigherBetter']
  # The accuracy of always answering no, which figures of accuracy draw.
  assert final['baseline'] == pytest.approx(230 / 240)
  assert clients['baseline'] is None
  columns = [column['title'] for column in group['results']['columns']]
  means = {row[0]: dict(zip(columns, row)) for row in group['results']['rows']}
  for row in rows:
    value = float(row['value_test'])
    found = {one['label']: one['value'] for one in final['rows']}
    assert found[row['algo']] == pytest.approx(value, rel=1e-3)
    assert means[row['algo']]['AUC'] == pytest.approx(value, rel=1e-3)
  assert {'Balanced accuracy', 'F1', 'Calibration error'} <= set(columns)
  curve = group['curves'][0]['columns']
  assert {'auc_mean', 'auc_validation'} <= set(curve)
  table = group['confusion'][0]['table']
  assert [column['title'] for column in table['columns']] == [
      'Class', 'predicted no', 'predicted yes'
  ]
  assert [sum(row[1:]) for row in table['rows']] == [230, 10]
