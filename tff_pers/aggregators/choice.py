"""The aggregator that hyperparameters name, in the place of a weighted mean."""

from typing import Optional

import tensorflow_federated as tff

from tff_pers import hyperparameters as hp
from tff_pers.aggregators import robust


def chosen(
    hyperparameters: hp.Aggregation,
) -> Optional[tff.aggregators.WeightedAggregationFactory]:
  """Returns the rule named by `aggregator`, or None: the weighted mean.

  A client of weight 0 is absent; other weights are ignored by robust rules,
  because a Byzantine client could claim any (see `aggregators.robust`).

  Args:
    hyperparameters: Those of a method.

  Raises:
    ValueError: If there is no such rule, or it needs to be told the number of
      Byzantine clients.
  """
  if hyperparameters.aggregator == 'mean':
    return None
  return robust.build_factory(hyperparameters.aggregator)
