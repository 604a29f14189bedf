"""Local updates of `tff_pers` in TFF's composition and training program.

The server's optimizer is TFF's Adam; `train_model` saves its state each round.
"""

import asyncio
import collections
import tempfile

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tff_pers
from tff_pers import client_works
from tff_pers.client_works import local_update

NUM_CLIENTS, NUM_ROUNDS, DIM = 4, 25, 3
rng = np.random.default_rng(0)
x = rng.normal(size=(NUM_CLIENTS, 8, DIM)).astype(np.float32)
datasets = [
    tf.data.Dataset.from_tensor_slices(
        collections.OrderedDict(x=own, y=own.sum(axis=1))
    ).batch(4)
    for own in x
]


class Batches(tff.program.FederatedDataSource):
  """The batches of all clients, in every round."""

  federated_type = tff.FederatedType(tff.SequenceType(
      tff.types.tensorflow_to_type(datasets[0].element_spec)
  ), tff.CLIENTS)

  def iterator(self):
    return BatchesIterator()


class BatchesIterator(tff.program.FederatedDataSourceIterator):
  """Has no position, so that nothing of it has to be saved."""

  federated_type = Batches.federated_type

  def select(self, k=None):
    return datasets[:k]

  def to_bytes(self):
    return b''

  @classmethod
  def from_bytes(cls, buffer):
    return cls()


class Losses(tff.program.ReleaseManager):
  """Keeps the training loss of each round."""

  def __init__(self):
    self.of_round = {}

  async def release(self, value, key):
    metrics = await tff.program.materialize_value(value)
    self.of_round[key] = float(metrics['model_metrics']['loss'])


model = tff_pers.from_keras(
    tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(DIM,))]),
    'mean_squared_error', y_spec=tf.TensorSpec([None], tf.float32),
)
work = client_works.as_client_work_process(
    local_update.build_local_update(
        model, gamma=0.05, theta=(0.5, 0.5), batch_size=4
    ), model,
)
weights_type = tff.to_type(
    tff.learning.models.ModelWeights(model.weights_type, ())
)


@tff.tensorflow.computation
def initial_weights():
  return tff.learning.models.ModelWeights(model.initial_weights(0), ())


process = tff.learning.templates.compose_learning_process(
    initial_weights,
    tff.learning.templates.build_broadcast_process(weights_type),
    work,
    tff.aggregators.MeanFactory().create(
        model.weights_type, tff.TensorType(np.float32)
    ),
    tff.learning.templates.build_apply_optimizer_finalizer(
        tff.learning.optimizers.build_adam(0.1), weights_type
    ),
)
tff_pers.runtime.use('fused', asynchronous=True)
losses = Losses()
with tempfile.TemporaryDirectory() as folder:
  # All are kept: TFF 0.87 can trip over itself when it removes old ones.
  states = tff.program.FileProgramStateManager(folder, keep_total=0)
  context = tff.program.NativeFederatedContext(
      tff.framework.get_context_stack().current
  )
  with tff.framework.get_context_stack().install(context):
    asyncio.run(tff.learning.programs.train_model(
        train_process=process,
        train_data_source=Batches(),
        train_per_round_clients=NUM_CLIENTS,
        train_total_rounds=NUM_ROUNDS,
        program_state_manager=states,
        model_output_manager=tff.program.LoggingReleaseManager(),
        train_metrics_manager=losses,
        evaluation_manager=None,
        evaluation_periodicity=NUM_ROUNDS,
    ))
print(f'loss {losses.of_round[1]:.3f} -> {losses.of_round[NUM_ROUNDS]:.5f}')
assert sorted(losses.of_round) == list(range(1, NUM_ROUNDS + 1))
assert losses.of_round[NUM_ROUNDS] < 0.01 * losses.of_round[1]
