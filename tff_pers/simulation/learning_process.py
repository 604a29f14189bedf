"""A personalized process for programs that handle only server state.

`tff.program`, and the program logic of `tff.learning.programs`, pass a process
its own server state and clients' data sets, and expect a server state and
metrics. Nothing may be placed at the clients between two calls, so here the
server state has a table of all client states: right for a simulation, where
both are in one place, and wrong for a deployment, where they must not move.

    process = learning_process.from_personalized(process, num_clients=100)
    source = data_source.ClientDataSource(data)
"""

import collections

import numpy as np
import tensorflow as tf

from tff_pers.aggregators import shuffling
from tff_pers.core import process as process_lib
from tff_pers.core import structures
from tff_pers import tff


def from_personalized(
    process: process_lib.PersonalizedProcess,
    num_clients: int,
    *,
    seed: int = 0,
) -> tff.learning.templates.LearningProcess:
  """Returns a process over server state and data sets, with equal rounds.

  `next`: (<server=S, is_known=bool[N], client_states=C[N, ...]>@SERVER,
  {<index, x, y>*}@CLIENTS) -> <state,
  metrics=<client_work=<train=M>>>@SERVER. A client's state is
  that of `process.initialize_client` until its first round.
  `get_model_weights` is the server state S of `process`.

  Args:
    process: The method.
    num_clients: N; clients' indices are 0..N-1.
    seed: The run's seed.

  Raises:
    ValueError: If a client's state has a tensor whose shape is not static.
  """
  tables = _Tables(process, num_clients)

  @tff.tensorflow.computation
  def run_seed():
    return tf.constant(seed, tf.int64)

  @tff.federated_computation
  def initialize():
    server = process.initialize_seeded(tff.federated_eval(run_seed, tff.SERVER))
    return tff.federated_zip(collections.OrderedDict(
        server=server,
        is_known=tff.federated_eval(tables.nobody, tff.SERVER),
        client_states=tff.federated_eval(tables.empty, tff.SERVER),
    ))

  collection = shuffling.RowCollectionFactory(num_clients).create(
      tables.rows_type
  )

  @tff.federated_computation(
      initialize.type_signature.result,
      tff.FederatedType(_sequence_type(process), tff.CLIENTS),
  )
  def next_fn(state, dataset):
    data = tff.federated_map(_build_first(process), dataset)
    own = tables.fetch(state, data)
    output = process.next(state.server, own, data)
    rows = collection.next(
        collection.initialize(),
        tff.federated_map(tables.as_row, (data.index, output.client_states)),
    ).result
    changed = tff.federated_map(
        tables.store, (state.is_known, state.client_states, rows)
    )
    return tff.learning.templates.LearningProcessOutput(
        tff.federated_zip(collections.OrderedDict(
            server=output.state, is_known=changed[0], client_states=changed[1]
        )),
        # Where TFF's own programs look for the metrics of a round.
        tff.federated_zip(collections.OrderedDict(
            client_work=collections.OrderedDict(train=output.metrics)
        )),
    )

  state_type = initialize.type_signature.result.member

  @tff.federated_computation(state_type)
  def get_model_weights(state):
    return state.server

  @tff.federated_computation(state_type, process.server_state_type)
  def set_model_weights(state, weights):
    return collections.OrderedDict(
        server=weights, is_known=state.is_known,
        client_states=state.client_states,
    )

  return tff.learning.templates.LearningProcess(
      initialize, next_fn, get_model_weights, set_model_weights
  )


def build_evaluation(
    process: process_lib.PersonalizedProcess, num_clients: int
) -> tff.Computation:
  """Returns (state, {<index, x, y>*}@CLIENTS -> means of metrics @SERVER).

  The data set of a client has two elements: what it adapts to, and what it is
  tested on. `state` is that of `from_personalized`. Clients have equal weights,
  except those without test examples, which have none.

  Args:
    process: The method.
    num_clients: N.
  """
  tables = _Tables(process, num_clients)
  state_type = tff.to_type(collections.OrderedDict(
      server=process.server_state_type,
      is_known=tff.TensorType(np.bool_, [num_clients]),
      client_states=tables.table_type,
  ))
  first, second = _build_first(process), _build_first(process, skip=1)

  @tff.federated_computation(
      tff.FederatedType(state_type, tff.SERVER),
      tff.FederatedType(_sequence_type(process), tff.CLIENTS),
  )
  def evaluate(state, dataset):
    data = tff.federated_map(first, dataset)
    metrics = process.evaluate(
        state.server, tables.fetch(state, data),
        tff.federated_zip(collections.OrderedDict(
            adapt=data, test=tff.federated_map(second, dataset)
        )),
    )
    counted = tff.federated_map(_counted(metrics), metrics)
    return tff.federated_mean(counted.values, counted.weight)

  return evaluate


class _Tables:
  """The states of all clients, [N, ...], and which clients have one already."""

  def __init__(self, process, num_clients):
    self._process = process
    row_type = process.client_state_type
    if any(None in t.shape for t in tff.structure.flatten(row_type)):
      raise ValueError(
          'A client state must have static shapes to fit into a table, found'
          f' {row_type.compact_representation()}.'
      )
    self.table_type = _with_rows(row_type, num_clients)
    self.rows_type = tff.to_type(collections.OrderedDict(
        key=tff.TensorType(np.int32, [1]), row=_with_rows(row_type, 1)
    ))
    rows_type = tff.to_type(collections.OrderedDict(
        key=tff.TensorType(np.int32, [None]), row=_with_rows(row_type, None)
    ))
    known_type = tff.TensorType(np.bool_, [num_clients])

    @tff.tensorflow.computation
    def nobody():
      return tf.zeros([num_clients], tf.bool)

    @tff.tensorflow.computation
    def empty():
      return tff.types.structure_from_tensor_type_tree(
          lambda t: tf.zeros(t.shape, t.dtype), self.table_type
      )

    @tff.tensorflow.computation(np.int32, row_type)
    def as_row(index, row):
      return collections.OrderedDict(
          key=index[tf.newaxis],
          row=tf.nest.map_structure(lambda t: t[tf.newaxis], row),
      )

    @tff.tensorflow.computation(known_type, self.table_type, rows_type)
    def store(is_known, table, rows):
      return shuffling.scatter(
          (is_known, table), rows['key'],
          (tf.ones_like(rows['key'], tf.bool), rows['row']),
      )

    @tff.tensorflow.computation(
        known_type, self.table_type, row_type, np.int32
    )
    def pick(is_known, table, initial, index):
      return tf.nest.map_structure(
          lambda rows, new: tf.where(is_known[index], rows[index], new), table,
          initial,
      )

    self.nobody, self.empty = nobody, empty
    self.as_row, self.store, self._pick = as_row, store, pick

  def fetch(self, state, data):
    """Returns the states of the clients of `data`, initial if they are new."""
    initial = tff.federated_map(
        self._process.initialize_client,
        (tff.federated_broadcast(state.server), data.index),
    )
    return tff.federated_map(self._pick, (
        tff.federated_broadcast(state.is_known),
        tff.federated_broadcast(state.client_states), initial, data.index,
    ))


def _with_rows(row_type, num_rows):
  return tff.to_type(tff.types.structure_from_tensor_type_tree(
      lambda t: tff.TensorType(t.dtype, [num_rows, *t.shape]), row_type
  ))


def _sequence_type(process) -> tff.SequenceType:
  examples = process.data_type.examples
  return tff.SequenceType(collections.OrderedDict(
      index=tff.TensorType(np.int32, [None]), x=examples.x, y=examples.y
  ))


def _build_first(process, skip: int = 0) -> tff.Computation:
  """Returns element `skip` of a client's data set, as D."""

  @tff.tensorflow.computation(_sequence_type(process))
  def first(dataset):
    found = dataset.skip(skip).take(1).get_single_element()
    return collections.OrderedDict(
        # 0 without examples, as test data may be, whose index is not used.
        index=tf.reduce_sum(found['index'][:1]),
        num_examples=structures.num_rows(found['x']),
        examples=collections.OrderedDict(x=found['x'], y=found['y']),
    )

  return first


def _counted(metrics) -> tff.Computation:
  """Returns (metrics of a client -> <values, weight>), floats; weight 0 or 1.
  """

  @tff.tensorflow.computation(metrics.type_signature.member)
  def counted(found):
    counts = found['num_examples'] > 0
    return collections.OrderedDict(
        # Means over no examples are NaN, and so is 0 times NaN.
        values=tf.nest.map_structure(
            lambda v: tf.where(counts, tf.cast(v, tf.float32), 0.0), found
        ),
        weight=tf.cast(counts, tf.float32),
    )

  return counted
