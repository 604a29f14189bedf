"""Contract of every registered task.

Tests with the argument `task_name`, for pytest; see `contracts`. They build a
task with its default flags and without files.
"""

import numpy as np
import pytest
import tensorflow as tf

from baselines import fedavg
from tff_pers.config import methods
from tff_pers.core import inputs
from tff_pers.data import client_data
from tff_pers.data import on_demand
from tff_pers.data import tasks
from tff_pers.experiments import experiment
from tff_pers.experiments import flags
from tff_pers.experiments import processes
from tff_pers.runtime import native


def _build(name, **request):
  family = tasks.get(name)
  return family.build(tasks.TaskRequest(**request), family.options())


def _equal(clients, others) -> bool:
  """Whether two parts of the data are bit-identical."""
  leaves = [tf.nest.flatten(list(part)) for part in (clients, others)]
  return len(leaves[0]) == len(leaves[1]) and all(
      np.array_equal(a, b) for a, b in zip(*leaves)
  )


def test_task_is_what_it_declares(task_name: str) -> None:
  """The declaration, printed without building the task, is true."""
  declares, task = tasks.get(task_name).declares, _build(task_name)
  assert task.name == task_name
  assert task.traits == declares.traits
  assert declares.num_clients in (0, task.num_clients)
  assert task.clients_per_round == declares.clients_per_round
  assert task.partition == declares.partition


def test_clients_are_dense_data_of_the_model(task_name: str) -> None:
  """With its types, so that nothing is cast in every round."""
  task = _build(task_name)
  data_type = client_data.client_data_type(task.model.x_spec, task.model.y_spec)
  assert len(task.train) == len(task.test) == task.num_clients
  for part in (task.train, task.test):
    for position, client in enumerate(list(part)):
      assert inputs.fitted(client, data_type, position) is client
      assert client['index'] == position
      x, y = client['examples']['x'], client['examples']['y']
      for rows in tf.nest.flatten((x, y)):
        assert client['num_examples'] == len(rows)
        assert np.all(np.isfinite(np.asarray(rows, np.float64)))
      if task.num_classes:
        assert np.all((0 <= y) & (y < task.num_classes))
  assert all(np.asarray(task.sizes) > 0)


def test_what_is_known_of_clients_is_one_row_each(task_name: str) -> None:
  """Groups, counts of classes, and Byzantine clients."""
  task = _build(task_name)
  for known in (task.groups, task.class_counts, task.byzantine):
    assert known is None or len(known) == task.num_clients
  if task.num_classes and task.class_counts is not None:
    assert task.class_counts.shape == (task.num_clients, task.num_classes)


def test_data_follow_from_the_seed(task_name: str) -> None:
  """Bit-identical for the same seed, different for another."""
  one, again = (_build(task_name, seed=1) for _ in range(2))
  assert _equal(one.train, again.train) and _equal(one.test, again.test)
  assert not _equal(one.train, _build(task_name, seed=2).train)


def test_validation_examples_come_from_the_training_ones(
    task_name: str
) -> None:
  """Test data do not depend on what is held out."""
  whole, cut = _build(task_name), _build(task_name, validation_fraction=0.2)
  assert _equal(whole.test, cut.test) and whole.validation is None
  sizes = [
      np.asarray(on_demand.sizes(part))
      for part in (whole.train, cut.train, cut.validation)
  ]
  np.testing.assert_array_equal(sizes[0], sizes[1] + sizes[2])
  assert np.any(sizes[2] > 0)


def test_fedavg_trains_on_it(task_name: str) -> None:
  """One round and an evaluation are finite."""
  task = _build(task_name)
  process = fedavg.build_fedavg(
      task.model,
      fedavg.FedAvgHyperparameters(
          learning_rate=1e-4, local_steps=1, batch_size=4
      ),
      client_weighting=task.client_weighting,
  )
  some = range(min(3, task.num_clients))
  data, test = ([part[i] for i in some] for part in (task.train, task.test))
  # Two computations run once, for which fusing does not pay.
  with native.use():
    output = process.next(process.initialize(), [()] * len(data), data)
    evaluated = process.evaluate(
        output['state'], [()] * len(data),
        [dict(adapt=a, test=t) for a, t in zip(data, test)],
    )
  assert np.isfinite(output['metrics']['train_loss'])
  assert output['metrics']['non_finite'].size == 0
  for metrics in evaluated:
    assert np.isfinite(metrics['loss'])
    assert ('accuracy' in metrics) == (task.num_classes > 0)


def test_method_is_built_on_the_task_or_refused(
    task_name: str, method_name: str
) -> None:
  """As both declare, and in one sentence."""
  table = flags.all_flags(flags.own_flag('algo', 'perm', 'The method.'))
  method, declares = methods.get(method_name), tasks.get(task_name).declares
  fit = methods.fit(method, declares.traits, declares.alternatives())
  given = dict(algo=method_name, task=task_name)
  if fit == 'yes':
    processes.build(experiment.build(given, table))
    return
  with pytest.raises(flags.UsageError) as error:
    processes.build(experiment.build(given, table))
  missing = methods.missing_needs(method, declares.traits)
  assert missing[0].sentence in str(error.value)
