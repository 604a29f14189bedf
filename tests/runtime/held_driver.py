"""A driver to kill: a round with much data that ends when it is let go.

    python -m tests.runtime.held_driver FOLDER MEGABYTES WORKER...
"""

import sys

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tests.runtime import workers
from tff_pers.runtime import native
from tff_pers.runtime import remote

NUM_CLIENTS = 2  # One of each worker: both can be caught at work.
_CLIENT = tff.to_type([('number', np.int32), ('values', (np.float32, [None]))])


@tff.tensorflow.computation(np.str_, _CLIENT)
def _work(folder, client):
  total = tf.reduce_sum(client['values'])
  return total + tf.cast(
      workers.say_and_wait(folder, client['number']), tf.float32
  )


@tff.federated_computation(
    tff.FederatedType(np.str_, tff.SERVER),
    tff.FederatedType(_CLIENT, tff.CLIENTS),
)
def _round(folder, clients):
  return tff.federated_sum(
      tff.federated_map(_work, (tff.federated_broadcast(folder), clients))
  )


def main(folder: str, megabytes: str, *addresses: str) -> None:
  native.drop_default_context()
  values = np.ones(int(megabytes) * 250_000 // NUM_CLIENTS, np.float32)
  clients = [dict(number=i, values=values) for i in range(NUM_CLIENTS)]
  with remote.use(list(addresses)):
    print(_round(folder, clients), flush=True)


if __name__ == '__main__':
  main(*sys.argv[1:])
