"""The aggregator that hyperparameters name instead of a weighted mean."""

import re
from typing import Callable, Optional

from tff_pers.config import hyperparameters as hp
from tff_pers.config import registry
from tff_pers import tff

# `text -> factory` by the first word of the text; filled by modules that
# `aggregators` imports.
RULES: registry.Registry[
    Callable[[str], tff.aggregators.WeightedAggregationFactory]
] = registry.Registry('aggregator')


def chosen(
    hyperparameters: hp.Aggregation,
) -> Optional[tff.aggregators.WeightedAggregationFactory]:
  """Returns the rule named by `aggregator`, or None for the weighted mean.

  A client of weight 0 is absent; other weights are ignored by robust rules,
  because a Byzantine client could claim any (see `aggregators.robust`).

  Args:
    hyperparameters: Hyperparameters of a method.

  Raises:
    ValueError: If there is no such rule, or it needs the number of Byzantine
      clients and was not given it.
  """
  if hyperparameters.aggregator == 'mean':
    return None
  text = hyperparameters.aggregator
  return RULES.get(re.split(r'\W', text.strip())[0])(text)
