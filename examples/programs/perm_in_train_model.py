"""PERM in TFF's training program: saved by file managers, resumed, evaluated.

Labels of the second half of the clients mean the opposite.
"""

import asyncio
import tempfile

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tff_pers
from tff_pers.simulation import data_source
from tff_pers.simulation import learning_process

NUM_CLIENTS, NUM_ROUNDS = 4, 20
rng = np.random.default_rng(0)
tf.keras.utils.set_random_seed(0)  # Of the first weights.


def examples(client, number):
  x = rng.normal(size=(number, 4)).astype(np.float32)
  y = (x[:, 0] > 0) ^ (client >= NUM_CLIENTS // 2)
  return tff_pers.dense(client, x, y.astype(np.int32))


train = [examples(i, 40) for i in range(NUM_CLIENTS)]
test = [examples(i, 100) for i in range(NUM_CLIENTS)]
keras_model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(4,))])
perm = tff_pers.build_perm(
    tff_pers.from_keras(
        keras_model,
        tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    ), NUM_CLIENTS, tff_pers.PermHyperparameters(learning_rate=0.5),
)
process = learning_process.from_personalized(perm, NUM_CLIENTS)
tff_pers.runtime.use('fused', asynchronous=True)


class States(tff.program.FileProgramStateManager):
  """Saves the states of the program, and hands out the latest."""

  async def save(self, program_state, version):
    self.latest = program_state
    await super().save(program_state, version)


class Metrics(tff.program.ReleaseManager):
  """Keeps the metrics of each round. TFF 0.87's CSV manager loses rows here."""

  def __init__(self):
    self.of_round = {}

  async def release(self, value, key):
    self.of_round[key] = await tff.program.materialize_value(value)


def train_until(folder, last_round, metrics):
  """Runs the program, which resumes from the files in the folder."""
  # All are kept: TFF 0.87 can trip over itself when it removes old ones.
  states = States(f'{folder}/state', keep_total=0)
  context = tff.program.NativeFederatedContext(
      tff.framework.get_context_stack().current
  )
  with tff.framework.get_context_stack().install(context):
    asyncio.run(tff.learning.programs.train_model(
        train_process=process,
        train_data_source=data_source.ClientDataSource(train),
        train_per_round_clients=NUM_CLIENTS,
        train_total_rounds=last_round,
        program_state_manager=states,
        model_output_manager=tff.program.LoggingReleaseManager(),
        train_metrics_manager=metrics,
        evaluation_manager=None,
        evaluation_periodicity=last_round,
    ))
  return states.latest


with tempfile.TemporaryDirectory() as folder:
  train_until(folder, NUM_ROUNDS // 2, Metrics())
  metrics = Metrics()
  latest = train_until(folder, NUM_ROUNDS, metrics)
assert latest.round_number == NUM_ROUNDS
# Only the rounds that the first call had not run were run by the second.
assert sorted(metrics.of_round) == list(
    range(NUM_ROUNDS // 2 + 1, NUM_ROUNDS + 1)
)

# An element is what a client adapts to, the next one what it is tested on.
evaluate = learning_process.build_evaluation(perm, NUM_CLIENTS)
data = [
    data_source.client_dataset(a).concatenate(data_source.client_dataset(b))
    for a, b in zip(train, test)
]
tff_pers.runtime.use('fused')
mean = evaluate(latest.state, data)
each = [float(evaluate(latest.state, [own])['accuracy']) for own in data]
print('accuracy of each client:', np.round(each, 2))
assert min(each) > 0.85  # One model for all is right half of the time.
np.testing.assert_allclose(mean['accuracy'], np.mean(each), rtol=1e-5)
