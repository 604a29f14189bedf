"""Random clients, and PERM as in most rounds of a run."""

from typing import Any

import numpy as np

from tff_pers.algorithms.perm import perm
from tff_pers.data import client_data

CLASSES = 10


def clients(number: int, num_examples: int, num_features: int) -> list[Any]:
  """Returns the dense data of clients of one size."""
  rng = np.random.default_rng(0)
  return [
      client_data.dense(
          client, rng.random((num_examples, num_features), np.float32),
          rng.integers(0, CLASSES, num_examples).astype(np.int32),
      )
      for client in range(number)
  ]


def perm_hyperparameters(
    variant: str, **values: Any
) -> perm.PermHyperparameters:
  """Returns those with visits from the first round on, and a fixed lambda.

  The variant is `two_stage` or `single_loop`; the values are other
  hyperparameters.
  """
  first = 'stage1_rounds' if variant == 'two_stage' else 'warmup_rounds'
  values.update({first: 0})
  return perm.PermHyperparameters(variant=variant, lambda_scale=10.0, **values)
