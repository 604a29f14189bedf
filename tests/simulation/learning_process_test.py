"""Personalized processes in `tff.program`."""

import asyncio
import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import slow
from tff_pers.testing import tiny
from tff_pers import runtime
from tff_pers.runtime import fused
from tff_pers.simulation import data_source
from tff_pers.simulation import learning_process

NUM_CLIENTS = len(tiny.SIZES)


@pytest.fixture(name='task', scope='module')
def fixture_task():
  return tiny.task()


def _assert_same(found, expected):
  tf.nest.assert_same_structure(found, expected)
  for a, b in zip(tf.nest.flatten(found), tf.nest.flatten(expected)):
    np.testing.assert_array_equal(a, b)


# Without client state, with weights as one, with a router as one.
@pytest.mark.parametrize('algo', [
    'fedavg', pytest.param('ditto', marks=pytest.mark.slow), 'floral',
])
@pytest.mark.parametrize('name', slow.beyond(1, ['fused', 'native']))
def test_rounds_are_those_of_the_process(algo, name, task):
  process = tiny.build(algo, task)
  wrapped = learning_process.from_personalized(process, NUM_CLIENTS, seed=3)
  with runtime.use(name):
    state, table = process.initialize_seeded(3), {}
    other = wrapped.initialize()
    for cohort in ([2, 0], [1, 2], [3, 1, 0]):
      own = [
          table[i] if i in table else process.initialize_client(state, i)
          for i in cohort
      ]
      output = process.next(state, own, [task.train[i] for i in cohort])
      state = output['state']
      table.update(zip(cohort, output['client_states']))
      found = wrapped.next(other, [
          data_source.client_dataset(task.train[i]) for i in cohort
      ])
      other = found.state
      _assert_same(found.metrics['client_work']['train'], output['metrics'])
    assert other['is_known'].all()
    _assert_same(wrapped.get_model_weights(other), state)
    for i, own in table.items():
      _assert_same(
          tf.nest.map_structure(lambda t, i=i: t[i], other['client_states']),
          own,
      )


def test_evaluation_is_the_mean_over_clients(task):
  process = tiny.build('ditto', task)
  wrapped = learning_process.from_personalized(process, NUM_CLIENTS)
  evaluate = learning_process.build_evaluation(process, NUM_CLIENTS)
  with fused.use():
    state = wrapped.initialize()
    trained = wrapped.next(state, [
        data_source.client_dataset(data) for data in task.train[:2]
    ]).state
    elements = [
        data_source.client_dataset(train).concatenate(
            data_source.client_dataset(test)
        )
        for train, test in zip(task.train, task.test)
    ]
    metrics = evaluate(trained, elements)
    without = evaluate(trained, elements[1:])
    # The first one has nothing to be tested on.
    untested = evaluate(trained, [
        data_source.client_dataset(task.train[0]).concatenate(
            data_source.client_dataset(task.test[0]).map(
                lambda part: tf.nest.map_structure(lambda t: t[:0], part)
            )
        ), *elements[1:],
    ])
    server = wrapped.get_model_weights(trained)
    own = [
        tf.nest.map_structure(lambda t, i=i: t[i], trained['client_states'])
        if i < 2 else process.initialize_client(server, i)
        for i in range(NUM_CLIENTS)
    ]
    each = process.evaluate(server, own, [
        collections.OrderedDict(adapt=train, test=test)
        for train, test in zip(task.train, task.test)
    ])
  for name in ('accuracy', 'loss'):
    assert metrics[name] == pytest.approx(
        np.mean([float(m[name]) for m in each]), rel=1e-6
    )
    assert untested[name] == pytest.approx(without[name], rel=1e-6)


def _train(process, data, folder, rounds):
  """Runs TFF's own training program; returns the metrics by round."""
  found = {}

  class Metrics(tff.program.ReleaseManager):

    async def release(self, value, key):
      found[key] = await tff.program.materialize_value(value)

  context = tff.program.NativeFederatedContext(
      tff.framework.get_context_stack().current
  )
  with tff.framework.get_context_stack().install(context):
    asyncio.run(tff.learning.programs.train_model(
        train_process=process,
        train_data_source=data_source.ClientDataSource(data),
        train_per_round_clients=2,
        train_total_rounds=rounds,
        program_state_manager=tff.program.FileProgramStateManager(folder),
        model_output_manager=tff.program.LoggingReleaseManager(),
        train_metrics_manager=Metrics(),
        evaluation_manager=None,
        evaluation_periodicity=1,
    ))
  return found


def test_a_training_program_of_tff_runs_and_is_resumed(task, tmp_path):
  process = learning_process.from_personalized(
      tiny.build('ditto', task), NUM_CLIENTS
  )
  with fused.use(asynchronous=True):
    first = _train(process, task.train, str(tmp_path), 2)
    more = _train(process, task.train, str(tmp_path), 3)
  assert sorted(first) == [1, 2] and sorted(more) == [3]
  assert np.isfinite(more[3]['model_metrics']['train_loss'])
