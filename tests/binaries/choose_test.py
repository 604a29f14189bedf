"""`choose`: what it recommends, by what, within which budget; training is told.
"""

import math

import numpy as np
import pytest

from binaries import choose
from tests.binaries import fake_training
from tff_pers.evaluation import decision_page
from tff_pers.evaluation import trials
from tff_pers.experiments import choice_page

_table = fake_training.table
_SPREAD = np.linspace(-0.05, 0.05, fake_training.CLIENTS)
_SIGNS = np.array([1, -1, 1, -1, 1, -1])


def _choose(folder, *argv):
  return choose.main([
      'choose', *fake_training.FLAGS, '--algos=local_only,fedavg,ditto',
      '--budget=60s', f'--output_dir={folder}', *argv,
  ])


def _of(rows, algo):
  row, = [row for row in rows if row['algo'] == algo]
  return row


def _curve(levels, test=None):
  """Returns a curve: defaults and worse rates are below the methods' levels.

  Levels are those of local_only, fedavg and ditto.
  """
  def curve(of):
    method = ('local_only', 'fedavg', 'ditto').index(of.algo)
    lost = 0.02 * abs(np.log10(of.values['learning_rate']))
    early = 0.01 * (4 - of.number)
    value = levels[method] + _SPREAD - lost - early
    return fake_training.Curve(value, (test or levels)[method] + _SPREAD)
  return curve


def test_a_clear_winner(tmp_path, monkeypatch, capsys):
  fake_training.Training(monkeypatch, _curve((0.5, 0.6, 0.8)))
  assert _choose(tmp_path, '--seeds=0,1') == 0
  rows = _table(tmp_path, 'choice.csv')
  assert list(rows[0]) == list(decision_page.COLUMNS)
  assert [row['algo'] for row in rows] == ['ditto', 'fedavg', 'local_only']
  assert [row['recommended'] for row in rows] == ['1', '0', '0']
  first = {
      name: float(v) for name, v in rows[0].items()
      if name not in ('algo', 'metric')
  }
  assert first['accuracy_test'] == pytest.approx(0.8)
  # Student's t of five degrees of freedom.
  half = 2.570581836 * _SPREAD.std(ddof=1) / math.sqrt(6)
  assert first['low'] == pytest.approx(0.8 - half)
  assert first['high'] == pytest.approx(0.8 + half)
  assert first['accuracy_worst_decile'] == pytest.approx(0.75)
  assert first['share_hurt_vs_local_only'] == 0
  assert _of(rows, 'local_only')['share_hurt_vs_fedavg'] == '1.0'
  shown = capsys.readouterr().out
  assert '**ditto** is recommended' in shown and 'more than noise' in shown


def test_says_where_defaults_are_below_plain_methods(tmp_path, monkeypatch):
  """The first trial of each method has its defaults."""
  levels = dict(local_only=0.5, fedavg=0.6, ditto=0.7)
  first = dict(local_only=0.5, fedavg=0.58, ditto=0.55)
  rates = {}

  def curve(of):
    rate = of.values['learning_rate']
    is_default = rates.setdefault(of.algo, rate) == rate
    clients = (first if is_default else levels)[of.algo] + _SPREAD
    return fake_training.Curve(clients, clients)

  fake_training.Training(monkeypatch, curve)
  assert _choose(tmp_path, '--seeds=0') == 0
  text = (tmp_path / 'choice.md').read_text()
  assert '0.015 below fedavg (0.58): ditto 0.55.' in text
  assert '**ditto** is recommended' in text


@pytest.mark.parametrize('metric,fedavg,ditto,is_named', [
    ('loss', 0.5, 0.52, True), ('loss', 0.5, 0.51, False),
    ('accuracy', 0.5, 0.48, True), ('accuracy', math.nan, 0.48, False),
])
def test_defaults_are_poor_by_a_metric(metric, fedavg, ditto, is_named):
  """By 3 % of a loss; without a plain method there is nothing to say."""
  found = choice_page.poor_defaults({
      algo: [
          trials.Trial(2, 'complete', 4, 0.5, 1.0, {}),  # Not the defaults.
          trials.Trial(1, 'stopped', 3, value, 1.0, {}),
      ] for algo, value in dict(fedavg=fedavg, ditto=ditto).items()
  }, metric)
  assert (f'fedavg (0.5): ditto {ditto}.' in found) == is_named
  assert bool(found) == is_named


def test_differences_are_paired_at_clients(tmp_path, monkeypatch):
  fake_training.Training(
      monkeypatch, _curve((0.5, 0.7 + 0.03 * _SIGNS, 0.72))
  )
  assert _choose(tmp_path, '--seeds=0') == 0
  rows = _table(tmp_path, 'differences.csv')
  row = _of(rows, 'fedavg')
  half = 2.570581836 * 0.03 * math.sqrt(6 / 5) / math.sqrt(6)
  assert float(row['difference']) == pytest.approx(-0.02)
  assert float(row['difference_low']) == pytest.approx(-0.02 - half)
  assert float(row['difference_high']) == pytest.approx(-0.02 + half)
  assert float(row['share_better']) + float(row['share_worse']) == 1
  # Their standard error is 0.03 / sqrt(5), t is 1.49.
  assert float(row['p_value']) == pytest.approx(0.196, abs=0.001)
  assert _of(rows, 'ditto')['difference'] == ''
  assert float(row['bytes_per_client']) == 4 * 2 * fake_training.BYTES


def test_splits_are_seeds_whose_noise_counts(tmp_path, monkeypatch):
  """Of the differences of two methods, .1 and more or less by the seed."""
  noise = {0: 0.03, 1: -0.03, 2: 0.0}
  def curve(of):
    value = 0.5 + _SPREAD + (of.algo == 'ditto') * (0.1 + noise[of.seed])
    return fake_training.Curve(value - 0.01 * (4 - of.number), value)
  fake_training.Training(monkeypatch, curve)
  halves = []
  for argv in (['--seeds=0,1,2'], ['--seeds=0', '--splits=3']):
    folder = tmp_path / str(len(halves))
    assert _choose(folder, '--algos=local_only,ditto', *argv) == 0
    row = _of(_table(folder, 'differences.csv'), 'local_only')
    assert float(row['difference']) == pytest.approx(-0.1)
    halves.append(float(row['difference_high']) + 0.1)
  # All clients differ alike; over the seeds the deviation is .03.
  assert halves == pytest.approx(
      [0.0, 2.570581836 * 0.03 / math.sqrt(3)], abs=1e-9
  )
  assert 'the noise of splitting' in (folder / 'choice.md').read_text()


def test_within_noise_the_simpler_is_recommended(tmp_path, monkeypatch):
  """A tenth at half of the clients up, at the others down, is noise."""
  fake_training.Training(
      monkeypatch, _curve((0.5, 0.7, 0.701 + 0.1 * _SIGNS))
  )
  assert _choose(tmp_path, '--seeds=0') == 0
  rows = _table(tmp_path, 'choice.csv')
  assert rows[0]['algo'] in ('ditto', 'fedavg')
  assert _of(rows, 'fedavg')['recommended'] == '1'
  text = (tmp_path / 'recommendation.txt').read_text()
  assert 'within noise' in text and text.startswith('fedavg is recommended')


def test_test_data_decide_nothing(tmp_path, monkeypatch):
  fake_training.Training(
      monkeypatch, _curve((0.5, 0.6, 0.7), test=(0.95, 0.9, 0.1))
  )
  assert _choose(tmp_path, '--seeds=0') == 0
  rows = _table(tmp_path, 'choice.csv')
  assert [row['algo'] for row in rows] == ['ditto', 'fedavg', 'local_only']
  assert rows[0]['recommended'] == '1'
  text = (tmp_path / 'recommendation.txt').read_text()
  assert 'The best method there is local_only' in text
  assert 'clients): more than noise.' in text


def test_the_page_is_one_file_with_everything(tmp_path, monkeypatch):
  fake_training.Training(monkeypatch)
  assert _choose(tmp_path, '--seeds=0,1') == 0
  page = (tmp_path / 'choice.html').read_text()
  sentence = (tmp_path / 'recommendation.txt').read_text().partition('\n')[0]
  for words in (
      sentence, 'Compared with the recommended method', 'Trials', 'fedavg: ',
      'python -m binaries.train --', 'not corrected',
  ):
    assert words in page
  text = (tmp_path / 'choice.md').read_text()
  assert text.startswith('# Which method for digits?')
  assert '--export=saved_model' in text and 'validation_f' not in text
  assert 'all training data, including those for validation' in text


def test_models_to_export_train_as_the_chosen_runs_did(tmp_path, monkeypatch):
  """Validation data that end the training are held out there, too."""
  fake_training.Training(monkeypatch)
  assert _choose(
      tmp_path, '--seeds=0', '--rounds=auto', '--max_rounds=4',
      '--validation_fraction=0.3',
  ) == 0
  text = (tmp_path / 'choice.md').read_text()
  assert '--rounds=auto' in text and '--validation_fraction=0.3' in text
  assert 'all training data except the validation part, which' in text


def test_every_method_has_as_much_time_and_the_budget_is_kept(
    tmp_path, monkeypatch
):
  """A round takes 5 s, a run 20 s; final runs of two more seeds 120 s."""
  training = fake_training.Training(monkeypatch, seconds=5.0)
  assert _choose(tmp_path, '--budget=10m') == 0
  assert 520 <= training.now <= 600
  spent = {}
  for row in _table(tmp_path, 'trials.csv'):
    spent[row['algo']] = spent.get(row['algo'], 0) + float(row['seconds'])
  # None is started that could not finish; one was pruned or not.
  assert max(spent.values()) - min(spent.values()) < 20
  assert 'stopped' not in {
      row['state'] for row in _table(tmp_path, 'trials.csv')
  }
  seeds = {(name.partition('[')[0], seed) for name, seed in training.runs()}
  assert len(seeds) == 9


def test_every_method_has_as_many_trials_however_long_they_take(
    tmp_path, monkeypatch
):
  fake_training.Training(monkeypatch, seconds=1000.0)
  assert choose.main([
      'choose', *fake_training.FLAGS, '--algos=local_only,fedavg',
      '--trials=3', '--seeds=0,1', f'--output_dir={tmp_path}',
  ]) == 0
  trials = _table(tmp_path, 'trials.csv')
  assert [row['algo'] for row in trials] == ['local_only'] * 3 + ['fedavg'] * 3
  text = (tmp_path / 'choice.md').read_text()
  assert 'then seeds 0, 1, in' in text and 'budget' not in text


@pytest.mark.parametrize('budget, seeds, algos', [
    # A run takes 20 s: three defaults, then final runs of 72 s for each seed in
    # half of what is left; the first 40 % are for beginning the defaults.
    ('8m', [0, 1, 2], 3), ('4m', [0, 1], 3), ('2m', [0], 3), ('45s', [0], 1),
])
def test_a_short_budget_has_fewer_seeds_then_fewer_methods(
    budget, seeds, algos, tmp_path, monkeypatch, capsys
):
  training = fake_training.Training(monkeypatch, seconds=5.0)
  assert _choose(tmp_path, f'--budget={budget}') == 0
  assert sorted({seed for _, seed in training.runs()}) == seeds
  assert len(_table(tmp_path, 'choice.csv')) == algos
  text = (tmp_path / 'choice.md').read_text()
  assert ('the budget was too short)' in text) == (len(seeds) < 3)
  reason = 'Left out: fedavg (the budget was too short to begin it)'
  assert (reason in text) == (algos < 3)
  assert ('left out' in capsys.readouterr().out) == (algos < 3)


@pytest.mark.parametrize('is_finite, seeds, left_out', [
    (lambda of: of.algo != 'ditto', '0', 'ditto (diverged in all trials).'),
    # The budget is too short for a search that would find other values.
    (lambda of: of.algo != 'ditto' or of.seed == 0, '0,1,2',
     'ditto (diverged with another seed).'),
    # Defaults alone do not end a method.
    (lambda of: of.values['learning_rate'] != 0.3, '0', ''),
])
def test_a_method_that_diverges_is_left_out(
    is_finite, seeds, left_out, tmp_path, monkeypatch
):
  fake_training.Training(monkeypatch, fake_training.finite_where(is_finite))
  assert _choose(tmp_path, f'--seeds={seeds}') == 0
  assert len(_table(tmp_path, 'choice.csv')) == (2 if left_out else 3)
  text = (tmp_path / 'choice.md').read_text()
  assert (f'Left out: {left_out}' in text) == bool(left_out)


def test_values_with_which_another_seed_diverges_are_exchanged(
    tmp_path, monkeypatch
):
  """For the next best ones; all seeds are of the same values then."""
  fake_training.Training(monkeypatch, fake_training.finite_where(
      lambda of: of.algo != 'ditto' or of.seed != 1
      or of.values['learning_rate'] <= 0.25
  ))
  assert _choose(tmp_path, '--budget=150s') == 0
  row = _of(_table(tmp_path, 'differences.csv'), 'ditto')
  rate = float(row['variant'].partition('learning_rate=')[2].partition(',')[0])
  assert rate <= 0.25
  assert len(_table(tmp_path, 'choice.csv')) == 3


def test_without_any_method_there_is_no_page(tmp_path, monkeypatch, capsys):
  fake_training.Training(
      monkeypatch, fake_training.finite_where(lambda of: False)
  )
  assert _choose(tmp_path, '--budget=1m') == 1
  error = capsys.readouterr().err
  assert 'No method finished a run' in error and error.count('\n') == 1
  assert not (tmp_path / 'choice.md').exists()


def test_a_larger_budget_continues_the_choice(tmp_path, monkeypatch, capsys):
  """No round is trained twice, also of the run that had no time to end."""
  training = fake_training.Training(monkeypatch, seconds=5.0)
  assert _choose(tmp_path, '--budget=15s') == 1
  assert 'which continues these runs' in capsys.readouterr().err
  assert [row['state'] for row in _table(tmp_path, 'trials.csv')] == ['stopped']
  assert _choose(tmp_path, '--budget=4m') == 0
  assert len(set(training.trained)) == len(training.trained)
  assert 180 <= training.now <= 240
  rows = _table(tmp_path, 'trials.csv')
  first = [row for row in rows if row['trial'] == '1']
  assert [row['state'] for row in first] == ['complete'] * 3
  assert len(_table(tmp_path, 'choice.csv')) == 3
  # Once more: nothing is left to do, and no time passes.
  clock, trained = (tmp_path / 'clock.json').read_text(), len(training.trained)
  assert _choose(tmp_path, '--budget=4m') == 0
  assert (tmp_path / 'clock.json').read_text() == clock
  assert len(training.trained) == trained
  assert _choose(tmp_path, '--budget=3m') == 2
  assert "must be '4m'" in capsys.readouterr().err
