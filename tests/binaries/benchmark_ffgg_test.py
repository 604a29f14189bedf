"""Figure 1 from start to end, small, against the formulas in NumPy."""


import numpy as np
import pytest

from baselines import l2gd
from binaries import benchmark_ffgg
from binaries.ffgg_benchmark import running
from tests.algorithms import least_squares
from tests import built
from tests import csv_rows
from tff_pers.config import hyperparameters as hp
from tff_pers.experiments import resume_flags

_ROUNDS, _TAU = 4, 3
_FLAGS = (
    '--scale=tiny', '--taus=3', '--cg_taus=4', '--rounds=4', '--every=3',
    '--strategy=loop', '--device=cpu', '--tasks=overpersonalized_control',
)


def _main(folder, *more):
  return benchmark_ffgg.main(
      ['benchmark_ffgg', f'--output_dir={folder}', *_FLAGS, *more]
  )


def _norms(folder):
  """Returns {curve: {round: (norm, root mean square)}}."""
  rows = csv_rows.read(folder / 'figure1.csv')
  assert {row['task'] for row in rows} == {'overpersonalized_control'}
  found = {}
  for row in rows:
    found.setdefault(row['curve'], {})[int(row['round'])] = (
        float(row['norm']), float(row['root_mean_square'])
    )
  return found


@pytest.fixture(name='folder', scope='module')
def _folder(tmp_path_factory):
  folder = tmp_path_factory.mktemp('figure1')
  assert _main(folder) == 0
  return folder


def _task(name):
  return built.task(name, options=dict(scale='tiny'))


@pytest.fixture(name='oracle', scope='module')
def _oracle():
  return least_squares.LeastSquares(_task('overpersonalized_control'))


def _expected(oracle, theta):
  each = oracle.operators(theta)
  return (
      np.linalg.norm(each.mean(axis=0)),
      np.sqrt(np.square(each).sum(axis=1).mean()),
  )


def _ffgg(oracle, best_response):
  """Algorithm 1 with step 1 / L."""
  theta = np.zeros(10)
  for _ in range(_ROUNDS):
    gradient = oracle.gradient(theta, best_response(theta))[0]
    theta = theta - gradient.mean(axis=0) / oracle.smoothness
  return theta


def _tuned(oracle, theta):
  """Algorithm 2 with step 1 / lambda_max(B^T B), from 0."""
  w = np.zeros([20, 4])
  for _ in range(_TAU):
    w = w - oracle.gradient(theta, w)[1] / oracle.private_smoothness
  return w


def _gradients(oracle, x):
  """Returns the gradients of f_m at x_m, [N, d_theta + d_w]."""
  joint = np.concatenate([oracle.c, oracle.d], axis=2)
  residual = np.einsum('mij,mj->mi', joint, x) - oracle.y
  return np.einsum('mij,mi->mj', joint, residual)


def _local_gd(oracle, rate):
  x = np.zeros(14)
  for _ in range(_ROUNDS):
    y = np.tile(x, (20, 1))
    for _ in range(_TAU):
      y = y - rate * _gradients(oracle, y)
    x = y.mean(axis=0)
  return x[:10]


def _scaffold(oracle, rate):
  """Option 1, outer step 1/2."""
  x, c, own = np.zeros(14), np.zeros(14), np.zeros([20, 14])
  for _ in range(_ROUNDS):
    start = np.tile(x, (20, 1))
    y = start
    for _ in range(_TAU):
      y = y - rate * (_gradients(oracle, y) - own + c)
    new = _gradients(oracle, start)
    x, c, own = x + 0.5 * (y - x).mean(0), c + (new - own).mean(0), new
  return x[:10]


@pytest.mark.slow
def test_curves_follow_the_algorithms_of_the_paper(folder, oracle):
  """Round by round in NumPy, from other formulas than the program's."""
  joint = oracle.joint_smoothness
  expected = {
      'FFGG, CG, tau = 4': _ffgg(oracle, oracle.best_response),
      'FFGG, GD': _ffgg(oracle, lambda theta: _tuned(oracle, theta)),
      'Local GD, 1/(L_f tau)': _local_gd(oracle, 1 / (joint * _TAU)),
      'Local GD, 1/L_f': _local_gd(oracle, 1 / joint),
      'Scaffold': _scaffold(oracle, 1 / (joint * _TAU)),
  }
  found = _norms(folder)
  for label, theta in expected.items():
    assert list(found[label]) == [0, 1, 3, 4]
    np.testing.assert_allclose(
        found[label][4], _expected(oracle, theta), rtol=1e-7, err_msg=label
    )
    np.testing.assert_allclose(
        found[label][0], _expected(oracle, np.zeros(10)), rtol=1e-9
    )


@pytest.mark.slow
def test_l2gd_has_both_step_sizes(folder):
  """(M/2)/max is M^2 = 400 times (2M)^-1/max, and moves as much further."""
  found = _norms(folder)
  start = found['L2GD, (M/2)/max'][0][0]
  large, small = (
      abs(start - found[f'L2GD, {name}'][1][0])
      for name in ('(M/2)/max', '(2M)^-1/max')
  )
  assert start == found['L2GD, (2M)^-1/max'][0][0]
  # Not 400, because a long way bends: the large steps go half of it at once.
  assert 100 < large / small < 400


def test_step_sizes_of_l2gd_are_those_of_the_sheet():
  """alpha in the middle of section 4, through the chain of the method."""
  operator = running.Operator(_task('overpersonalized'))
  made = {curve.label: curve for curve in running.comparison(operator, 100)}
  p, m = 0.01, 20
  for label, alpha in [
      ('L2GD, (M/2)/max', m / 2 / max(operator.joint / (1 - p), 0.1 / p)),
      ('L2GD, (2M)^-1/max', 1 / (2 * m) / max(operator.joint / (1 - p), 0.1 / p)),
  ]:
    steps = hp.replace(
        l2gd.L2gdHyperparameters(), **made[label].values
    ).steps()
    np.testing.assert_allclose(
        steps, (p, alpha / (m * (1 - p)), alpha * 0.1 / (m * p)), rtol=1e-12
    )


def test_constants_are_the_oracles(oracle):
  operator = running.Operator(_task('overpersonalized_control'))
  np.testing.assert_allclose(
      [operator.smoothness, operator.private, operator.joint],
      [oracle.smoothness, oracle.private_smoothness, oracle.joint_smoothness],
      rtol=1e-10,
  )
  assert operator.num_clients == 20


def test_figure_and_table_are_made(folder, capsys):
  assert _main(folder) == 0
  for suffix in ('.png', '.svg'):
    assert (folder / f'overpersonalized_control{suffix}').stat().st_size > 5000
  text = capsys.readouterr().out
  assert '| overpersonalized_control, tau = 3: Scaffold' in text
  assert len(csv_rows.read(folder / 'figure1_rounds.csv')) == text.count('\n| over')


def test_calibrated_numbers_stand_beside_those_of_the_papers_scale():
  curve = running.error_plots.Curve(
      np.array([10, 100]), np.array([[1.5, 0.8]])
  )
  given = dict(rounds=100, scale='paper')
  made = lambda task, **changes: running._table(  # pylint: disable=protected-access
      task, 'tau = 100', {'FFGG, GD': curve}, {**given, **changes}
  )
  row = {'round 10': '1.5', 'round 100': '0.8'}
  assert made('overpersonalized') == [{
      'curve': 'overpersonalized, tau = 100: FFGG, GD',
      'round 10': '1.5 (1.5)', 'round 100': '0.8 (0.83)',
  }]
  assert made('overpersonalized', scale='tiny')[0].items() >= row.items()
  assert made('overpersonalized_control')[0].items() >= row.items()


def test_other_rounds_are_a_sentence(tmp_path, capsys):
  resume_flags.write(
      f'{tmp_path}/benchmark_ffgg.json',
      dict(rounds=4, every=3, scale='tiny', seed=0),
  )
  assert _main(tmp_path, '--rounds=5') == 2
  assert '`--rounds` must be 4 as in benchmark_ffgg' in capsys.readouterr().err
