"""Sweeps from Python: points, what is refused, what is written."""

import sys

import numpy as np
import pytest

from tff_pers.config import methods
from tff_pers.evaluation import results
from tff_pers.experiments import flags
from tff_pers.experiments import sweep

_SMALL = dict(
    task='digits', num_clients=4, rounds=2, train_fraction=0.1, eval_clients=1
)
_GOOD, _BAD = 'fedavg[learning_rate=0.1]', 'fedavg[learning_rate=1e38]'


def test_a_diverged_point_is_none_and_a_finished_one_is_not_run_again(
    tmp_path, capsys
):
  points, folder = [(_GOOD, 3), (_BAD, 3)], str(tmp_path / 'runs')
  runs = sweep.run(points, folder, **_SMALL)
  assert list(runs) == points
  assert runs[_BAD, 3] is None
  assert runs[_GOOD, 3].config['flags']['seed'] == 3
  rows = results.read_rows(folder, 'summary.csv')
  assert [row['algo'] for row in rows] == [_GOOD, _BAD]
  assert float(rows[0]['accuracy_mean']) == (
      runs[_GOOD, 3].final_clients['accuracy'].mean()
  )
  assert f'[1/2] {_GOOD}, seed 3\n' in capsys.readouterr().out
  again = sweep.run([points[0], (_GOOD, 4)], folder, **_SMALL)
  np.testing.assert_equal(again[points[0]].metrics, runs[points[0]].metrics)
  # What is finished is neither run nor announced.
  out = capsys.readouterr().out
  assert out.count('round 1/2') == 1 and out.count('[1/1] ') == out.count('/1]')
  assert f'[1/1] {_GOOD}, seed 4\n' in out


@pytest.mark.parametrize('number, jobs, left', [
    # Two runs in 30 seconds: four others take a minute.
    (3, 1, ', about 1:00 to go'), (4, 2, ', about 1:00 to go'), (1, 1, ''),
    (2, 2, ''),
])
def test_a_run_says_where_it_stands(number, jobs, left, monkeypatch):
  monkeypatch.setattr(sweep.budgets, 'now', lambda: 130.0)
  place = sweep.Place(number, 6, 100.0, jobs)
  assert place.headline('perm', 2) == f'\n[{number}/6] perm, seed 2{left}'
  assert place._replace(since=None).headline('a', 0) == f'\n[{number}/6] a, seed 0'


@pytest.mark.parametrize('points, values, sentence', [
    ([], {}, '`points` must be distinct, at least one, found'),
    ([(_GOOD, 0)] * 2, {}, '`points` must be distinct'),
    ([('nobody', 0)], {}, '`--algo` must be one of'),
    ([(_GOOD, 0)], dict(round=1), '`--round` is not a flag. Tip: --rounds'),
    ([(_GOOD, 0)], dict(rounds=-1), '`--rounds` must be an integer >= 1'),
    ([(_GOOD, 0)], dict(perm_rank=1), '`--perm_rank` is not a flag'),
    # Two spellings of one variant would be two runs in one folder.
    ([(_GOOD, 0), ('fedavg [learning_rate=0.1]', 0)], {}, 'must be distinct'),
    (_GOOD, {}, '`points` must be pairs of a variant and a seed'),
    (5, {}, '`points` must be pairs .*, found 5.'),
    ([[_GOOD, [0]]], {}, '`points` must be pairs'),
    ([(_GOOD, '0')], {}, '`points` must be pairs'),
    ([(_GOOD, True)], {}, '`points` must be pairs'),
    ([(_GOOD, -1)], {}, '`points` must be pairs'),
    ([(_GOOD, 2**64)], {}, '`points` must be pairs'),
    ([(_GOOD, 0)], dict(seed=1), '`--seed` must be left out because `points`'),
    ([(_GOOD, 0)], dict(output_dir='a'), '`--output_dir` must be left out'),
    ([(_GOOD, 0)], dict(data_dir=None), '`--data_dir` must be a text, a number'),
    ([(_GOOD, 0)], dict(finetune_steps=[0, 1]), 'Tip: write lists as texts such'),
    ([(_GOOD, 0)], dict(processes=-1), '`processes` must be an integer >= 0'),
    ([(_GOOD, 0)], {'import': 'nobody'}, '`--import`: .*nobody'),
])
def test_raises_before_anything_is_written(tmp_path, points, values, sentence):
  with pytest.raises(flags.UsageError, match=sentence):
    sweep.run(points, str(tmp_path / 'runs'), **values)
  assert not list(tmp_path.iterdir())


def test_a_plug_in_brings_its_flags_and_quiet_ends_with_the_sweep(
    tmp_path, monkeypatch
):
  name = 'sweep_test_method'
  (tmp_path / f'{name}.py').write_text(
      'import baselines\n'
      'from tff_pers.config import methods\n'
      f'methods.register("{name}", baselines.FedAvgHyperparameters)(\n'
      '    baselines.build_fedavg\n'
      ')\n'
  )
  monkeypatch.syspath_prepend(tmp_path)
  monkeypatch.setattr(sweep.Sweep, 'run_all', lambda *a, **k: {})
  monkeypatch.setattr(sweep, 'write', lambda *a, **k: '')
  before = sys.stdout
  try:
    assert not sweep.run(
        [(name, np.int64(0))], str(tmp_path / 'runs'), quiet=True,
        **{'import': name, f'{name}_learning_rate': 0.2}, **_SMALL,
    )
  finally:
    methods._METHODS._entries.pop(name, None)  # pylint: disable=protected-access
  assert sys.stdout is before


def test_nobody_else_writes_there(tmp_path):
  folder = str(tmp_path / 'runs')
  with sweep.Sweep('test', {}, folder):
    with pytest.raises(flags.UsageError, match='no other process writes to'):
      sweep.run([(_GOOD, 0)], folder, **_SMALL)
