"""`benchmark_defaults`: each claim can fail, and it makes tables of its own."""

import csv

import pytest

from binaries import benchmark_defaults
from tff_pers.evaluation import comparison
from tff_pers.evaluation import results
from tff_pers.experiments import benchmarks
from tff_pers.experiments import default_claims
from tff_pers.experiments import sweep

_METRICS = ('round', 'lambda', 'visits_idle', 'cluster_accuracy')
# Of them the first is a round of the warm-up.
_ROUNDS = ((1, 0.0, 1.0, 0.2), (2, 5.0, 0.5, 0.9), (3, 5.0, 0.9, 0.96))


def _write(
    folder, algo, accuracy, seeds=(3,), rounds=_ROUNDS, new=None, loss=0.1
):
  """Writes runs as `compare` does; `new` is the accuracy of new clients."""
  folder.mkdir(exist_ok=True)
  for seed in seeds:
    run = folder / algo / f'seed{seed}'
    results.write_config(str(run), dict(variant=algo, flags={}))
    results.write_csv(
        str(run / 'metrics.csv'), _METRICS,
        [dict(zip(_METRICS, row)) for row in rounds],
    )
    (run / 'train.log').write_text('round 1 of financial data\n')
    results.write_clients(str(run), [
        dict(client=k, seen=seen, num_train=1, num_test=1, accuracy=value,
             loss=0.0)
        for k, (seen, value) in enumerate([(1, accuracy), (0, new or 0.0)])
    ])
  with open(folder / 'runs.csv', 'a', newline='', encoding='utf-8') as file:
    writer = csv.writer(file)
    if not file.tell():
      writer.writerow(comparison.RUN_COLUMNS)
    writer.writerows(
        [algo, seed, accuracy, accuracy, loss, loss] for seed in seeds
    )


def _held(name, folder):
  """Returns whether each claim holds, in order."""
  return [row['holds'] == 'yes' for row in _rows(name, folder)]


def _rows(name, folder):
  return default_claims.check(default_claims.SETTINGS[name], str(folder))


_ALGOS = ('perm', 'floral', 'local_only', 'fedavg', 'fedavg_finetuned')


# Accuracies of `_ALGOS`, and which claims do not hold.
@pytest.mark.parametrize('name, accuracies, broken', [
    ('rotated', (0.79, 0.79, 0.80, 0.80, 0.80), []),
    ('rotated', (0.78, 0.90, 0.80, 0.70, 0.70), ['local_only-0.015<=perm']),
    ('dirichlet_raw', (0.78, 0.90, 0.70, 0.80, 0.70), []),
    ('dirichlet_raw', (0.76, 0.90, 0.70, 0.80, 0.70), ['fedavg-0.03<=perm']),
    ('label_shift', (0.89, 0.90, 0.80, 0.2, 0.2), ['local_only+0.1<=perm']),
    ('label_shift', (0.91, 0.90, 0.80, 0.2, 0.2), []),
    ('label_shift_raw', (0.87, 0.90, 0.80, 0.2, 0.2), []),
    ('label_shift_raw', (0.85, 0.9, 0.80, 0.2, 0.2), ['local_only+0.06<=perm']),
    ('synthetic_groups', (0.81, 0.9, 0.8, 0.2, 0.2), ['local_only+0.02<=perm']),
    ('synthetic_groups', (0.83, 0.90, 0.80, 0.2, 0.2), []),
    *((name, (0.79, 0.79, 0.80, 0.81, 0.82), [
        'fedavg-0.015<=perm', 'fedavg_finetuned-0.015<=perm',
        'fedavg-0.015<=floral', 'fedavg_finetuned-0.015<=floral',
    ]) for name in (
        'rotated_raw', 'shards', 'shards_raw', 'dirichlet', 'iid', 'iid_raw',
        'tumours', 'tumours_by_size', 'wines', 'unequal', 'loners', 'sizes',
        'femnist', 'femnist_40',
    )),
])
def test_accuracies(tmp_path, name, accuracies, broken):
  for algo, value in zip(_ALGOS, accuracies):
    _write(tmp_path, algo, value)
  rows = _rows(name, tmp_path)
  assert [row['claim'] for row in rows if row['holds'] == 'no'] == broken
  assert len(rows) > len(broken) + 2


@pytest.mark.parametrize('name', ['school', 'diabetes'])
@pytest.mark.parametrize('floral, holds', [(1.02, True), (1.04, False)])
def test_losses(tmp_path, name, floral, holds):
  for algo, loss in zip(_ALGOS, (1.0, floral, 1.0, 1.3, 1.3)):
    _write(tmp_path, algo, 0.0, loss=loss)
  broken = [row['claim'] for row in _rows(name, tmp_path)
            if row['holds'] == 'no']
  assert broken == ([] if holds else ['floral<=1.03*local_only'])


@pytest.mark.parametrize('rounds, log, holds', [
    (_ROUNDS, '', (True, True)),
    (((1, 0.0, 1.0, 'nan'), *_ROUNDS[1:]), '', (False, True)),
    (_ROUNDS, 'round 1  loss nan\n', (False, True)),
    # Idle in a later round, and in the first that has visits.
    ((*_ROUNDS, (4, 5.0, 1.0, 0.9)), '', (True, False)),
    ((_ROUNDS[0], (2, 5.0, 1.0, 0.9), _ROUNDS[2]), '', (True, False)),
    ((_ROUNDS[0],), '', (True, False)),  # No visits at all.
    ((*_ROUNDS, (5, 5.0, 0.5, 0.9)), '', (True, False)),  # Not every round.
    ((), '', (True, False)),
])
def test_rounds(tmp_path, rounds, log, holds):
  _write(tmp_path, 'perm', 0.9, seeds=(3, 4), rounds=_ROUNDS)
  for algo in _ALGOS[1:]:
    _write(tmp_path, algo, 0.5)
  _write(tmp_path, 'perm', 0.9, seeds=(5,), rounds=rounds)
  with open(tmp_path / 'perm' / 'seed5' / 'train.log', 'a') as file:
    file.write(log)
  assert _held('iid', tmp_path)[3:] == [True, True, True, *holds]


@pytest.mark.parametrize('new, holds', [(0.871, True), (0.869, False)])
def test_new_clients(tmp_path, new, holds):
  """The mean over seeds is within .03, though one seed is not."""
  _write(tmp_path, 'perm', 0.9, seeds=(1, 2), new=new + 0.02)
  _write(tmp_path, 'perm', 0.9, seeds=(3,), new=new - 0.04)
  row = _rows('new_clients', tmp_path)[-1]
  assert row['holds'] == ('yes' if holds else 'no')
  assert row['seeds'] == '2 of 3'


@pytest.mark.parametrize('cluster, oracle, holds', [
    (0.96, 0.92, (True, True)), (0.94, 0.92, (True, False)),
    (0.96, 0.93, (False, True)),
])
def test_many_clients(tmp_path, cluster, oracle, holds):
  _write(
      tmp_path, 'perm', 0.905, rounds=(*_ROUNDS, (4, 0.9, 0.0, cluster))
  )
  _write(tmp_path, 'oracle_groups', oracle)
  assert _held('many_clients', tmp_path) == list(holds)


def test_new_clients_of_a_run_that_diverged(tmp_path):
  _write(tmp_path, 'perm', 0.9, seeds=(1, 2), new=0.9)
  (tmp_path / 'perm' / 'seed2' / 'clients.csv').unlink()
  row = _rows('new_clients', tmp_path)[-1]
  assert row['holds'] == 'no' and row['seeds'] == '1 of 2'


@pytest.mark.parametrize('name, floral, adaptor, holds', [
    ('floral_mnist', 0.76, 0.60, (True, True)),
    ('floral_mnist', 0.74, 0.60, (True, False)),
    ('floral_mnist', 0.59, 0.30, (False, True)),
    ('floral_cifar10', 0.25, 0.25, (False,)),
    ('floral_cifar10', 0.26, 0.25, (True,)),
])
def test_floral_is_above_the_local_adaptor(
    tmp_path, name, floral, adaptor, holds
):
  _write(tmp_path, 'floral', floral)
  _write(tmp_path, 'local_adaptor', adaptor)
  assert _held(name, tmp_path) == list(holds)


def test_settings_are_run_on_seeds_that_nothing_was_tuned_to():
  """A round without a visit shows only if every round is evaluated."""
  for name, setting in default_claims.SETTINGS.items():
    assert not {'0', '1', '2'} & set(setting.flags['seeds'].split(',')), name
    assert len(setting.flags['seeds'].split(',')) >= 3, name
    assert not setting.visits or setting.flags['eval_every'] == '1', name


@pytest.mark.parametrize('worst, holds', [(0.81, True), (0.75, False)])
def test_every_seed_counts_for_floral(tmp_path, worst, holds):
  """The mean does not make up for a seed in which a cluster is missed."""
  _write(tmp_path, 'floral', 0.95, seeds=range(10, 19))
  _write(tmp_path, 'floral', worst, seeds=(19,))
  assert _held('floral_label_shift', tmp_path) == [holds]


def test_runs_a_setting_and_says_what_holds(tmp_path, monkeypatch, capsys):
  """On a table that it makes, and again: finished runs are not repeated."""
  tumours = default_claims.SETTINGS['tumours']
  monkeypatch.setitem(
      default_claims.SETTINGS, 'tumours', tumours._replace(
          flags=dict(tumours.flags, seeds='0', rounds=1, algos='fedavg'),
          claims=(benchmarks.Claim('fedavg<=1'),),
      ),
  )
  argv = ['', '--settings=tumours', f'--output_dir={tmp_path}']
  assert benchmark_defaults.main(argv) == 1  # PERM had no visit.
  page = (tmp_path / 'defaults.md').read_text()
  assert 'fedavg<=1' in page and '0 of 0' in page
  capsys.readouterr()
  monkeypatch.setitem(
      default_claims.SETTINGS, 'tumours',
      default_claims.SETTINGS['tumours']._replace(visits=False),
  )
  assert benchmark_defaults.main(argv) == 0
  assert 'finished' in capsys.readouterr().out


def test_a_claim_of_each_seed_is_of_those_that_are_given(
    tmp_path, monkeypatch
):
  """The setting asks for ten."""
  monkeypatch.setattr(default_claims, '_summary', lambda folder: '')
  monkeypatch.setattr(sweep, 'main', lambda argv: _write(
      tmp_path / 'floral_label_shift', 'floral', 0.95, seeds=(1, 2)
  ) or 0)
  argv = ['', '--settings=floral_label_shift', f'--output_dir={tmp_path}']
  assert benchmark_defaults.main([*argv, '--seeds=1,2']) == 0
  assert benchmark_defaults.main(argv) == 1


def test_no_table_is_taken_for_that_of_a_command_that_failed(
    tmp_path, monkeypatch
):
  _write(tmp_path / 'iid', 'perm', 0.9)
  monkeypatch.setattr(sweep, 'main', lambda argv: 1)
  assert benchmark_defaults.main(
      ['', '--settings=iid', f'--output_dir={tmp_path}']
  ) == 1
  assert not (tmp_path / 'defaults.md').exists()


def test_embedded_are_those_that_need_no_files(tmp_path, monkeypatch):
  ran = []
  monkeypatch.setattr(sweep, 'main', lambda argv: ran.append(argv) or 130)
  argv = ['', '--settings=embedded,iid', f'--output_dir={tmp_path}']
  assert benchmark_defaults.main(argv) == 130  # Stopped: nothing goes on.
  assert len(ran) == 1 and f'--output_dir={tmp_path}/label_shift' in ran[0]
  assert benchmark_defaults.main([*argv, '--seeds=3001,3002']) == 130
  assert '--seeds=2001,2002,2003' in ran[0]
  assert '--seeds=3001,3002' in ran[1]
