"""Tests of the tasks `overpersonalized` and `overpersonalized_control`."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms import least_squares as oracle_lib
from tests import built
from tff_pers.config import settings
from tff_pers.data import client_data
from tff_pers.data.tasks import overpersonalized
from tff_pers.models import partition as partition_lib

_NAMES = ('overpersonalized', 'overpersonalized_control')


def _build(name='overpersonalized', options=None, **request):
  return built.task(name, options=options, **request)


@functools.lru_cache(maxsize=None)
def _paper(name):
  """The task at the paper's scale, which takes seconds to build."""
  return _build(name, dict(scale='paper'))


def _resize(monkeypatch, **sizes):
  """Gives both scales systems of other sizes."""
  for name, scale in overpersonalized.SCALES.items():
    monkeypatch.setitem(overpersonalized.SCALES, name, dataclasses.replace(
        scale, generator=dataclasses.replace(scale.generator, **sizes)
    ))


def _random_weights(task):
  rng = np.random.default_rng(0)
  theta_dim, w_dim = (weight.shape[0] for weight in task.model.layers)
  return (
      rng.standard_normal(theta_dim),
      rng.standard_normal([task.num_clients, w_dim]),
  )


def _batch(data):
  x, y = data['examples']['x'], data['examples']['y']
  return client_data.Batch(x, y, np.ones(len(y), bool), np.zeros(2, np.int64))


def _losses_and_gradients(task, theta, w):
  """Returns loss [N], gradients in theta and w, as the model has them."""
  found = []
  for data, own in zip(task.train, w):
    weights = (tf.constant(theta), tf.constant(own))
    loss, gradient = task.model.loss_and_gradient(weights, _batch(data))
    found.append([loss.numpy(), *(part.numpy() for part in gradient)])
  return [np.stack(part) for part in zip(*found)]


@pytest.mark.slow
@pytest.mark.parametrize('name', _NAMES)
def test_paper_scale_has_the_sheets_constants(name):
  """Section 5.1: the constants of this generator, any seed, to 2 %."""
  oracle = oracle_lib.LeastSquares(_paper(name))
  assert oracle.c.shape[0] == 32 and oracle.c.shape[2] == 100
  assert oracle.d.shape[2] == 50
  mean = np.linalg.eigvalsh(oracle.g.mean(axis=0))
  found = [
      oracle.smoothness, oracle.convexity, oracle.private_smoothness,
      oracle.private_convexity, oracle.joint_smoothness, mean[0], mean[-2],
      mean[-1],
  ]
  expected = [25.4, 0.143, 50.5, 0.287, 85.7, 0.1625, 0.170, 25.3]
  np.testing.assert_allclose(found, expected, rtol=0.03)


@pytest.mark.parametrize('name', _NAMES)
def test_tiny_scale_has_the_sheets_constants(name):
  """Section 8: ranges of 5 seeds, for the median over 15, widened by 3 %."""
  found = []
  for seed in range(15):
    oracle = oracle_lib.LeastSquares(_build(name, seed=seed))
    assert oracle.c.shape[0] == 20 and oracle.c.shape[2] == 10
    assert oracle.d.shape[2] == 4
    found.append([
        oracle.smoothness, oracle.convexity, oracle.private_smoothness,
        oracle.private_convexity,
    ])
  typical = np.median(found, axis=0)
  assert (typical > 0.97 * np.array([3.57, 0.62, 1.7, 0.41])).all()
  assert (typical < 1.03 * np.array([3.82, 0.79, 2.0, 0.47])).all()


def test_entries_of_the_papers_scale_are_uniform(monkeypatch):
  _resize(monkeypatch, examples=40, theta_dim=10, w_dim=4)
  task = _build(options=dict(scale='paper', rows='all'), num_clients=20)
  x = task.train[0]['examples']['x']
  assert 0 <= x.min() and x[:, :10].max() <= 0.1 and x[:, 10:].max() <= 0.25
  assert x[:, :10].max() > 0.09 and x[40:, 10:].max() > 0.2


@pytest.mark.parametrize('name', _NAMES)
@pytest.mark.parametrize('rows', ['all', 'fewest'])
def test_loss_and_gradients_are_those_of_the_formula(name, rows):
  """f_m is a sum over rows, though the model takes means over examples."""
  task = _build(name, dict(rows=rows))
  oracle = oracle_lib.LeastSquares(task)
  theta, w = _random_weights(task)
  loss, *gradient = _losses_and_gradients(task, theta, w)
  np.testing.assert_allclose(loss, oracle.loss(theta, w), rtol=1e-10)
  for found, expected in zip(gradient, oracle.gradient(theta, w)):
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_all_rows_are_the_two_terms_of_the_paper():
  """1/2 ||H theta - b||^2 + 1/2 ||A theta + B w - y||^2, b and y as drawn."""
  task = _build(options=dict(rows='all'))
  theta_o = task.optimum[0][0]
  for data in task.train:
    x, y = data['examples']['x'], data['examples']['y']
    assert x.shape == (80, 14) and x.dtype == y.dtype == np.float64
    assert not x[:40, 10:].any() and x[40:, 10:].all()
    np.testing.assert_allclose(x[:40, :10] @ theta_o, y[:40], atol=1e-12)
    own = np.linalg.lstsq(x[40:, 10:], y[40:] - x[40:, :10] @ theta_o, None)[0]
    np.testing.assert_allclose(x @ np.concatenate([theta_o, own]), y, atol=1e-12)
    # y is not more than A theta_o without a personal w.
    assert np.linalg.norm(own) > 0.3


@pytest.mark.parametrize('name', _NAMES)
def test_reduced_rows_have_the_loss_and_gradients_of_all_rows(name):
  whole, few = (_build(name, dict(rows=rows)) for rows in ('all', 'fewest'))
  assert {int(d['num_examples']) for d in whole.train} == {80}
  assert {int(d['num_examples']) for d in few.train} == {15}
  theta, w = _random_weights(whole)
  for a, b in zip(
      _losses_and_gradients(whole, theta, w),
      _losses_and_gradients(few, theta, w),
  ):
    np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-12)
  np.testing.assert_allclose(few.optimum[0], whole.optimum[0], rtol=1e-10)


def test_rows_are_examples_unless_they_are_mixed(monkeypatch):
  _resize(monkeypatch, examples=80)
  for options, rows in (
      ({}, 160), (dict(rows='fewest'), 15), (dict(rows='all'), 160),
      (dict(scale='paper'), 151), (dict(scale='paper', rows='all'), 160),
  ):
    task = _build(options=options, num_clients=2)
    assert int(task.train[1]['num_examples']) == rows
    assert task.traits.rows_are_examples == (rows == 160)


def test_few_rows_are_not_reduced(monkeypatch):
  """7 rows of either term, 14 in all, do not exceed the 15 columns of (x, y)."""
  _resize(monkeypatch, examples=7)
  a, b = (_build(options=dict(rows=rows)) for rows in ('all', 'fewest'))
  np.testing.assert_array_equal(
      a.train[3]['examples']['x'], b.train[3]['examples']['x']
  )


def test_one_theta_is_the_root_of_every_operator():
  """Assumption 2 holds, and fails in the control."""
  oracle = oracle_lib.LeastSquares(_build())
  theta = _build().optimum[0][0]
  assert np.abs(oracle.operators(theta)).max() < 1e-10
  assert oracle.value(theta).max() < 1e-20
  control = _build('overpersonalized_control')
  oracle = oracle_lib.LeastSquares(control)
  norms = np.linalg.norm(oracle.operators(control.optimum[0][0]), axis=1)
  assert norms.min() > 0.5


@pytest.mark.parametrize('name', _NAMES)
@pytest.mark.parametrize(
    'scale', ['tiny', pytest.param('paper', marks=pytest.mark.slow)]
)
def test_optimum_is_the_root_of_the_mean_operator(name, scale):
  task = _build(name) if scale == 'tiny' else _paper(name)
  oracle = oracle_lib.LeastSquares(task)
  theta, w = task.optimum
  assert w is None
  assert theta.shape == (task.num_clients, oracle.c.shape[2])
  assert (theta == theta[0]).all()
  # Of systems of condition 25.3 / 0.16.
  np.testing.assert_allclose(theta[0], oracle.root, rtol=1e-8, atol=1e-9)
  assert np.linalg.norm(oracle.operator(theta[0])) < 1e-9


def test_tiny_control_shifts_theta_and_that_of_the_paper_draws_new_ones(
    monkeypatch,
):
  """Section 8: theta_o + N(0, I), both terms alike. 5.1: of each term, N(0, I).

  The shared part shows in the mean over 400 clients; sizes are to 5 standard
  errors, 5 * sqrt(1 / 4000) for means and 5 * sqrt(2 / 4000) for squares.
  """
  _resize(monkeypatch, examples=10, theta_dim=10, w_dim=2)
  shared = _build(options=dict(rows='all'), num_clients=400).optimum[0][0]
  truths = {}
  for scale in ('tiny', 'paper'):
    task = _build(
        'overpersonalized_control', dict(scale=scale, rows='all'),
        num_clients=400,
    )
    truths[scale] = np.stack([
        np.linalg.solve(x[:10, :10], y[:10])
        for x, y in ((d['examples']['x'], d['examples']['y'])
                     for d in task.train)
    ])
    # What remains of the other term's targets beyond its own w.
    residual = oracle_lib.LeastSquares(task).value(truths[scale][0])[0]
    assert (residual < 1e-9) == (scale == 'tiny')
  for scale, mean in (('tiny', shared), ('paper', 0.0)):
    apart = truths[scale] - mean
    assert abs(apart.mean()) < 5 * np.sqrt(1 / 4000)
    assert abs(np.square(apart).mean() - 1) < 5 * np.sqrt(2 / 4000)


def test_control_differs_in_the_targets_alone():
  a, b = (_build(name, dict(rows='all')) for name in _NAMES)
  for data, other in zip(a.train, b.train):
    np.testing.assert_array_equal(
        data['examples']['x'], other['examples']['x']
    )
    assert np.abs(data['examples']['y'] - other['examples']['y']).max() > 0.1


@pytest.mark.parametrize('split, private', [
    ('output_layer', (False, True)), ('input_layer', (True, False)),
    ('w/*', (False, True)),
])
def test_splits_make_one_of_the_vectors_private(split, private):
  model = _build().model
  assert partition_lib.from_scheme(model, split).is_private == private


@pytest.mark.parametrize('name', _NAMES)
def test_task_is_as_the_sheet_says(name):
  task = _build(name)
  assert task.full_participation and task.client_weighting == 'uniform'
  assert task.groups is None and task.num_classes == 0
  assert task.test == task.train  # The paper has no test set.
  theta, w = task.model.initial_weights(seed=3)
  assert theta.dtype == w.dtype == tf.float64
  assert not theta.numpy().any() and not w.numpy().any()


@pytest.mark.parametrize('scale', ['tiny', 'paper'])
@pytest.mark.parametrize('name', _NAMES)
def test_settings_are_full_batches_and_steps_that_do_not_diverge(name, scale):
  task = _build(name) if scale == 'tiny' else _paper(name)
  made = settings.of(
      name, 'fedavg', ['batch_size', 'learning_rate'], task.regimes
  )
  assert made['batch_size'] == 0
  joint = oracle_lib.LeastSquares(task).joint_smoothness
  assert 0.5 / joint < made['learning_rate'] < 1 / joint


@pytest.mark.parametrize('request_', [
    dict(model='mlp'), dict(validation_fraction=0.5),
])
def test_raises_on_foreign_request(request_):
  field = next(iter(request_))
  with pytest.raises(ValueError, match=f'`{field}` must not be given'):
    _build(**request_)


def test_raises_on_another_scale():
  with pytest.raises(ValueError, match='`scale` must be one of tiny, paper'):
    _build(options=dict(scale='small'))
