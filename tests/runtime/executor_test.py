"""Values that lie in TFF's executor are arguments of the fused runtime."""

import asyncio

import numpy as np
import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.executors import ingestable_base

from tff_pers.runtime import fused

COHORT = tff.FederatedType(np.float32, tff.CLIENTS)


@tff.federated_computation(
    COHORT, tff.FederatedType(np.float32, tff.SERVER)
)
def shifted(values, shift):
  return tff.federated_sum(values), shift


class _Prefetched(ingestable_base.Ingestable):
  """A cohort that was put into the executor beforehand."""

  def __init__(self, values):
    self._values = values

  @property
  def type_signature(self):
    return COHORT

  async def ingest(self, executor):
    return await executor.create_value(self._values, COHORT)


def test_prefetched_values():
  with fused.use(asynchronous=True):
    total, shift = asyncio.run(
        shifted(_Prefetched([np.float32(1.0), np.float32(2.0)]), 0.5)
    )
  assert (total, shift) == (3.0, 0.5)
