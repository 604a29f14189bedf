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
    ValueError: If there is no such rule, it needs the number of Byzantine
      clients and was not given it, or the loss is masked: a row is then a mean
      over those who have its class, and a rule would see the others' zeros.
  """
  text = hyperparameters.aggregator
  if text == 'mean':
    return None
  if getattr(hyperparameters, 'masked_loss', False):
    raise ValueError(
        '`masked_loss` must be false with another aggregator than the mean,'
        f' found true and {text}.'
    )
  return RULES.get(re.split(r'\W', text.strip())[0])(text)
