"""What a task knows reaches `metrics.csv`: validation, Byzantine, optimum.

Quadratic clients (tests/problems.py), whose rounds NumPy repeats in one line.
"""

import dataclasses
import io

import numpy as np
import pytest

import baselines
from tests import csv_rows
from tests import problems
from tff_pers.config import methods
from tff_pers.simulation import cohort
from tff_pers.simulation import optimum_distance
from tff_pers.simulation import program
from tff_pers.simulation import progress
from tff_pers.simulation import release
from tff_pers.simulation import store

del baselines  # Registers.

RATE = 0.2


def _process(algo, task, **hyperparameters):
  method = methods.get(algo)
  return method.build(task, method.hyperparameters(
      learning_rate=RATE, local_steps=1, batch_size=64, **hyperparameters
  ))


def _rows(folder, process, task, validation=None):
  """Trains all clients for some rounds; returns (trainer, rows, metrics)."""
  folder.mkdir(exist_ok=True)
  trainer = program.TrainingProgram(
      process, program.Data(task.train, task.test, validation),
      store.ClientStateStore(), byzantine=task.byzantine, optimum=task.optimum,
  )
  with release.Releases(
      str(folder), trainer.columns, 0
  ) as releases, progress.Progress(3, 0, io.StringIO()) as shown:
    metrics = trainer.run(
        cohort.uniform(task.num_clients, 0), rounds=3, eval_every=1,
        releases=releases, progress=shown,
    )
  return trainer, csv_rows.read(folder / 'metrics.csv'), metrics


def _column(rows, name):
  return [float(row[name]) for row in rows]


def test_distance_of_a_shared_model_is_that_of_gradient_descent(tmp_path):
  """FedAvg with one full step: w <- w - RATE * mean_i A_i (w - c_i)."""
  q6 = problems.q6()
  task = problems.quadratic_task(q6)
  _, rows, _ = _rows(tmp_path, _process('fedavg', task), task)
  w, expected = q6.start, []
  for _ in rows:
    gradient = np.einsum('nij,nj->i', q6.curvatures, w - q6.centers) / 6
    w = w - RATE * gradient
    expected.append(np.linalg.norm(w - q6.minimizer()))
  np.testing.assert_allclose(_column(rows, 'distance'), expected, rtol=1e-6)


def test_distance_is_the_mean_over_honest_clients(tmp_path):
  """Local training: client i approaches its own center."""
  q6 = problems.q6()
  byzantine = np.array([False, True, False, False, True, False])
  optimum = np.where(byzantine[:, None], 1e6, q6.centers)
  task = problems.quadratic_task(q6, byzantine=byzantine, optimum=(optimum,))
  trainer, rows, metrics = _rows(tmp_path, _process('local_only', task), task)
  w, expected = np.tile(q6.start, [6, 1]), []
  for _ in rows:
    w = w - RATE * np.einsum('nij,nj->ni', q6.curvatures, w - q6.centers)
    apart = np.linalg.norm(w - q6.centers, axis=1)
    expected.append(apart[~byzantine].mean())
  np.testing.assert_allclose(_column(rows, 'distance'), expected, rtol=1e-6)
  assert trainer.evaluated.tolist() == [0, 2, 3, 5]
  losses = [q6.loss(i, w[i]) for i in trainer.evaluated]
  np.testing.assert_allclose(metrics['loss'], losses, rtol=1e-6)
  np.testing.assert_allclose(
      _column(rows, 'loss_mean')[-1], np.mean(losses), rtol=1e-6
  )


def test_a_leaf_without_optimum_is_no_part_of_the_distance():
  model, clients = problems.tiny_model(), problems.tiny_clients()
  shapes = [(3, 4), (4,), (4, 2), (2,)]
  rng = np.random.default_rng(0)
  optimum = tuple(
      None if i in (0, 3) else rng.normal(size=(5, *shape))
      for i, shape in enumerate(shapes)
  )
  task = problems.quadratic_task(problems.q6())
  task = dataclasses.replace(task, model=model, train=clients, test=clients)
  process = _process('fedavg', task)
  state = process.initialize_seeded(3)
  found = optimum_distance.Distances(process, optimum)(
      state, [(), ()], [4, 1]
  )
  weights = process.client_model(state, (), 0)
  expected = [
      np.sqrt(sum(
          np.sum((np.asarray(weights[i]) - optimum[i][client]) ** 2)
          for i in (1, 2)
      ))
      for client in (4, 1)
  ]
  np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize('optimum', [
    None, (np.zeros([6, 4]),), (np.zeros([6, 5]), np.zeros([6, 5])),
])
def test_no_column_where_the_optimum_is_of_another_form(optimum):
  """Methods that deploy something else than the task's model."""
  task = problems.quadratic_task(problems.q6(), optimum=optimum)
  process = _process('fedavg', task)
  assert not optimum_distance.is_comparable(process, optimum)
  trainer = program.TrainingProgram(
      process, program.Data(task.train, task.test), store.ClientStateStore(),
      optimum=optimum,
  )
  assert 'distance' not in trainer.columns


def test_validation_is_evaluated_and_changes_nothing_else(tmp_path):
  """The loss on other data; fine-tuning sees the training data as before."""
  q6 = problems.q6()
  task = problems.quadratic_task(q6)
  other = dataclasses.replace(q6, centers=q6.centers + 1.0)
  process = _process('fedavg_finetuned', task)
  _, plain, _ = _rows(tmp_path / 'plain', process, task)
  trainer, rows, _ = _rows(
      tmp_path / 'both', process, task, validation=other.clients()
  )
  added = ['accuracy_validation', 'loss_validation']
  assert [c for c in rows[0] if c not in plain[0]] == added
  for before, after in zip(plain, rows):
    for name in before.keys() - {'seconds'}:
      assert after[name] == before[name]
    assert after['accuracy_validation'] == ''
  expected = trainer.evaluate(program.Data(task.train, other.clients()))
  np.testing.assert_allclose(
      _column(rows, 'loss_validation')[-1], np.mean(expected['loss']),
      rtol=1e-6,
  )
  assert rows[-1]['loss_validation'] != rows[-1]['loss_mean']
