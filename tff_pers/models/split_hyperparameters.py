"""Hyperparameters of methods that split the model."""

import dataclasses
from typing import Any

from tff_pers.config import hyperparameters as hp
from tff_pers.models import adaptors
from tff_pers.models import functional
from tff_pers.models import layers
from tff_pers.models import partition

# Needs of methods whose output layer is private by default.
NEEDS = dict(hidden_layers=lambda values: values.split == 'output_layer')


@dataclasses.dataclass(frozen=True)
class SplitHyperparameters(hp.Aggregation, hp.LocalTraining, hp.NewClients):
  """The private weights; the hyperparameters of methods extend it."""

  final_epochs = 0  # Not a field: only some methods let users choose.
  split: str = hp.field(
      'output_layer',
      'The private weights: input_layer, output_layer, norm, bias, adapter'
      ' (low-rank adaptors, which are added to a model that has no adapters of'
      ' its own), or a pattern of'
      ' names such as dense_2/*; several with colons, e.g. adapter:bias.',
  )
  adaptor_rank: int = hp.field(
      0,
      'Rank of the private adaptors with split=adapter; 0: their size is 1 % of'
      ' each kernel.',
      minimum=0,
  )

  @property
  def private_rate(self) -> float:
    """Step size of the private weights; methods may override it."""
    return self.learning_rate

  def partition(
      self, model: functional.FunctionalModel
  ) -> partition.Partition:
    """Returns the partition of `model`, with adaptors if they are private.

    Raises:
      ValueError: If `split` does not fit the model, see
        `partition.from_scheme`; if `adaptor_rank` is given without adaptors.
    """
    if 'adapter' in partition.items(self.split) and not any(
        w.kind == 'adaptor' for w in layers.describe(model)
    ):
      rank = self.adaptor_rank or None
      # A single adaptor needs no router: its weight in the mixture is 1.
      model = adaptors.floral(model, 1, rank=rank).mixed([1.0])
    elif self.adaptor_rank:
      raise ValueError(
          '`adaptor_rank` must be 0 with a `split` without adapter, and for a'
          f' model that has adapters, found {self.adaptor_rank}.'
      )
    return partition.from_scheme(model, self.split)

  def describe(self, task: Any) -> str:
    """Returns the split: every weight, its side, and the counts."""
    return self.partition(task.model).summary()
