"""Where a hyperparameter comes from: the method, the task, the flags."""

import numpy as np
import pytest

from tff_pers.algorithms.floral import floral_hyperparameters
from tff_pers.data import sources
from tff_pers.experiments import experiment
from tff_pers.experiments import flags

TABLE = flags.all_flags(flags.own_flag('algo', 'perm', 'The method.'))


def _build(**given):
  return experiment.build(dict(algo='floral', **given), TABLE).hyperparameters


@pytest.fixture(autouse=True)
def _no_files(monkeypatch):
  def from_tfds(name, split):
    del name, split  # Any.
    return np.zeros([400, 28, 28], np.uint8), np.arange(400) % 10
  monkeypatch.setattr(sources, 'from_tfds', from_tfds)


def test_the_task_comes_before_the_method_and_flags_before_both():
  default = floral_hyperparameters.FloralHyperparameters()
  assert default.learning_rate != 0.3 and default.batch_size != 10
  made = _build(task='digits', floral_batch_size=7)
  assert (made.learning_rate, made.batch_size) == (0.3, 7)
  assert made.rank == default.rank


def test_the_recipe_of_a_paper_gives_way_to_what_is_asked_for():
  made = experiment.build(dict(
      algo='perm[recipe=paper,solver=water_filling]', perm_own_rounds=2,
      task='digits', num_clients=4,
  ), TABLE)
  flags_ = made.config['flags']
  assert made.task.client_weighting == 'uniform'
  assert {
      name: flags_[f'perm_{name}'] for name in (
          'schedule', 'step_scale', 'warmup', 'lambda_scale', 'solver',
          'own_rounds',
      )
  } == dict(
      schedule='permutation', step_scale='one', warmup='gradient',
      lambda_scale=10.0, solver='water_filling', own_rounds=2,
  )
  # What of it has no effect in a variant is left out.
  _, values = experiment.of_variant(
      'perm[recipe=paper,variant=two_stage]', {}, TABLE
  )
  assert (values.step_scale, values.warmup) == ('one', 'fedavg')
  with pytest.raises(flags.UsageError, match='recipe of perm must be paper'):
    _build_of('perm[recipe=book]')
  shown = flags.help_text('', TABLE, ['--algo=perm'])
  assert 'perm[recipe=paper]\n      schedule=permutation' in shown
  with pytest.raises(flags.UsageError, match='must be left out because there is none'):
    _build_of('fedavg[recipe=paper]')


def _build_of(algo):
  return experiment.build(dict(algo=algo, task='digits'), TABLE)


def _weighting(algo, *, brackets_win=False, **given):
  given = dict(given, algo=algo, task='digits', num_clients=4)
  return experiment.build(
      given, TABLE, brackets_win=brackets_win
  ).task.client_weighting


def test_weights_of_clients_are_refused_where_they_have_no_use():
  sentence = '`--client_weighting` must be uniform or left out with scaffold'
  asked = 'scaffold[client_weighting=batches]'
  for algo, options in (
      ('scaffold', dict(client_weighting='batches')), (asked, {}),
      (asked, dict(brackets_win=True)),
  ):
    with pytest.raises(flags.UsageError, match=sentence):
      _weighting(algo, **options)
  # A flag of a comparison is for those that weigh their clients.
  shared = dict(client_weighting='batches', brackets_win=True)
  assert _weighting('scaffold', **shared) == 'examples'
  assert _weighting('fedavg', **shared) == 'batches'
  assert _weighting('scaffold', client_weighting='uniform') == 'uniform'


@pytest.mark.parametrize('algo, other', [
    ('fedrecon', 'fedrecon[halves=false]'), ('perm', 'perm[lambda_scale=1]'),
    ('fedavg_finetuned[select=validation]', 'fedavg_finetuned'),
])
def test_mixtures_of_rows_are_not_held_out(algo, other):
  """Every other row of a QR factor says little of the rest."""
  given = dict(
      task='overpersonalized', num_clients=2, overpersonalized_rows='fewest'
  )
  with pytest.raises(flags.UsageError, match='--overpersonalized_rows=all'):
    experiment.build(dict(given, algo=algo), TABLE)
  experiment.build(dict(given, algo=other), TABLE)
  experiment.build(dict(given, algo=algo, overpersonalized_rows='all'), TABLE)


@pytest.mark.parametrize(
    'fraction, router_rate', [(1.0, 0.1), (0.5, 0.3)]
)
def test_the_regime_of_the_data_counts(fraction, router_rate):
  made = _build(
      task='mnist', partition='label_shift_clusters', num_clients=8,
      train_fraction=fraction,
  )
  assert made.router_learning_rate == router_rate
  assert (made.batch_size, made.local_epochs) == (32, 1)
