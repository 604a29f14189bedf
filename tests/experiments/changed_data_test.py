"""A run is not continued, tested or compared on rows that have changed."""

import numpy as np
import pandas as pd
import pytest

from tff_pers.evaluation import results
from tff_pers.experiments import experiment
from tff_pers.experiments import flags
from tff_pers.experiments import runner

_TABLE = flags.all_flags(flags.own_flag('algo', '', ''))


def _rows():
  rng = np.random.default_rng(0)
  return pd.DataFrame(dict(
      client=np.repeat(['a', 'b', 'c'], 10), x=rng.normal(size=30),
      y=np.tile([0, 1], 15), time=1.7e9 + 60 * rng.permutation(30),
      split=np.tile(['train'] * 4 + ['test'], 6),
  ))


def _prepared(folder, rows):
  rows.to_csv(folder / 'own.csv', index=False)
  given = dict(algo='fedavg', task='csv', data_dir=str(folder / 'own.csv'))
  # As `compare` prepares each run, also a finished one.
  return runner.prepare(
      given, _TABLE, str(folder / 'run'), resume=True, same_flags=True
  )


def _with_another_value(rows):
  return rows.assign(x=rows['x'].where(rows.index != 4, 7.0))


def _with_another_label(rows):
  return rows.assign(y=rows['y'].where(rows.index != 4, 1))


def _at_another_client(rows):
  return rows.assign(client=rows['client'].where(rows.index != 4, 'b'))


def _with_another_row(rows):
  return pd.concat([rows, rows.iloc[:1]])


def _with_other_test_rows(rows):
  return rows.assign(split=np.roll(rows['split'], 1))


@pytest.mark.parametrize('change', [
    _with_another_value, _with_another_label, _at_another_client,
    _with_another_row, _with_other_test_rows,
])
def test_changed_rows_are_refused(change, tmp_path):
  first = _prepared(tmp_path, _rows())
  results.write_config(str(tmp_path / 'run'), first.config)
  with pytest.raises(flags.UsageError, match='^`--data_dir` must hold the clients'):
    _prepared(tmp_path, change(_rows()))


def test_the_order_of_rows_and_older_runs_are_fine(tmp_path):
  first = _prepared(tmp_path, _rows())
  results.write_config(str(tmp_path / 'run'), first.config)
  shuffled = _rows().sample(frac=1, random_state=1)
  assert _prepared(tmp_path, shuffled).config['rows'] == first.config['rows']
  # A run of before this was recorded.
  older = {k: v for k, v in first.config.items() if k != 'rows'}
  experiment.check_same(older, first.config)
