"""Traits of a task that methods may require, known before data are read."""

import dataclasses
from typing import Optional

# Models of the zoo with a single layer: they cannot have both a shared and a
# private layer.
ONE_LAYER = ('linear_regression', 'logistic_regression', 'logistic_tags')

# Models without a kernel of a dense layer or a convolution.
NO_KERNEL = ('least_squares',)

# Models of several labels per example.
SEVERAL_LABELS = ('logistic_tags',)

# Models with batch normalization.
BATCH_NORM = ('cnn_bn', 'mlp_bn', 'resnet18_bn', 'resnet34_bn')

# Models of sequences, whose hidden layers cannot be made narrower.
SEQUENCES = (
    'char_lstm', 'char_lstm_small', 'lstm_670', 'lstm_small', 'transformer',
    'transformer_adapters', 'transformer_small', 'transformer_small_adapters',
)


@dataclasses.dataclass(frozen=True)
class Traits:
  """The traits of a task; None: that depends on the data.

  Attributes:
    groups: Whether the true group of every client is known.
    full_participation: Whether all clients take part in every round.
    classification: Whether y are labels; else it is regression.
    model: The name of the model that clients train.
    rows_are_examples: Whether some rows of a client can be held out; if not,
      they are mixtures of examples.
  """

  groups: Optional[bool]
  full_participation: Optional[bool]
  classification: Optional[bool]
  model: Optional[str]
  rows_are_examples: bool = True

  @property
  def several_layers(self) -> Optional[bool]:
    """Whether the model has more than one layer."""
    return None if self.model is None else self.model not in ONE_LAYER

  @property
  def has_kernel(self) -> Optional[bool]:
    """Whether the model has a kernel, which can be factorised."""
    return None if self.model is None else self.model not in NO_KERNEL

  @property
  def has_features(self) -> Optional[bool]:
    """Whether the model ends in a dense layer with one label per example."""
    if self.model is None:
      return None
    return self.model not in (*NO_KERNEL, *SEQUENCES, *SEVERAL_LABELS)

  @property
  def has_widths(self) -> Optional[bool]:
    """Whether the model has hidden layers, which can be made narrower."""
    if self.model is None:
      return None
    return self.model not in (*ONE_LAYER, *NO_KERNEL, *SEQUENCES)

  @property
  def has_batch_norm(self) -> Optional[bool]:
    """Whether the model has batch normalization with its own parameters."""
    return None if self.model is None else self.model in BATCH_NORM
