"""Your own aggregator, in which models walk from client to client.

No model is averaged: the server keeps a table with a model per client and sends
out its rows in turn, and the aggregator writes the returned rows into it. After
N rounds every model was at every client once.
"""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tff_pers
from tff_pers import aggregators

NUM_CLIENTS, DIM = 4, 3
MODEL = tff.TensorType(np.float32, [DIM])
TABLE = tff.TensorType(np.float32, [NUM_CLIENTS, DIM])
ROW = tff.to_type(collections.OrderedDict(
    key=tff.TensorType(np.int32, [1]),
    model=tff.TensorType(np.float32, [1, DIM]),
))


class TableFactory(tff.aggregators.UnweightedAggregationFactory):
  """Its state and result are the table with the rows that clients send."""

  def create(self, value_type):
    collect = aggregators.RowCollectionFactory(NUM_CLIENTS).create(value_type)

    @tff.tensorflow.computation
    def first_table():
      return tf.zeros([NUM_CLIENTS, DIM])

    @tff.federated_computation
    def initialize():
      return tff.federated_eval(first_table, tff.SERVER)

    @tff.tensorflow.computation(
        TABLE, collect.next.type_signature.result['result'].member
    )
    def write(table, rows):
      return aggregators.scatter(table, rows['key'], rows['model'])

    @tff.federated_computation(
        tff.FederatedType(TABLE, tff.SERVER),
        tff.FederatedType(value_type, tff.CLIENTS),
    )
    def next_fn(table, value):
      collected = collect.next(collect.initialize(), value)
      table = tff.federated_map(write, (table, collected.result))
      return tff.templates.MeasuredProcessOutput(
          table, table, collected.measurements
      )

    return tff.templates.AggregationProcess(initialize, next_fn)


table_process = TableFactory().create(ROW)
fetch = aggregators.build_fetch(
    TABLE, lambda table, key: table[key], NUM_CLIENTS
)


@tff.tensorflow.computation(np.int32, np.float32, MODEL)
def visit(key, gift, model):
  """Returns the row of a client, which adds its gift to the hosted model."""
  return collections.OrderedDict(key=key[None], model=(model + gift)[None])


@tff.federated_computation(
    tff.FederatedType(TABLE, tff.SERVER),
    tff.FederatedType(np.int32, tff.CLIENTS),
    tff.FederatedType(np.float32, tff.CLIENTS),
)
def one_round(table, keys, gifts):
  """Runs a round, in which client c hosts the model number `keys[c]`."""
  hosted = fetch(table, keys)
  return table_process.next(
      table, tff.federated_map(visit, (keys, gifts, hosted))
  )


tff_pers.runtime.use('fused')
gifts = [1.0, 10.0, 100.0, 1000.0]
table = table_process.initialize()
for round_num in range(NUM_CLIENTS):
  keys = [(client + round_num) % NUM_CLIENTS for client in range(NUM_CLIENTS)]
  table = one_round(table, keys, gifts).state
  print(table[:, 0])
np.testing.assert_array_equal(table, np.full([NUM_CLIENTS, DIM], sum(gifts)))
