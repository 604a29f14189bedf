"""The zoo's models of token sequences: the next character or word.

Character model: Adaptive Federated Optimization, and Convergence and Accuracy
Trade-Offs in Federated Learning and Meta-Learning (sizes:
papers/local_update_methods.md 4.2).
Transformer: see `transformer` (papers/partial_personalization.md 5.2).

Loss and metrics are means over tokens, see `tokens`. The `accuracy` of a model
of characters is over all tokens except padding; of a model of words over the
words of the vocabulary, without special tokens.
"""

import functools
from typing import Callable, NamedTuple

import tensorflow as tf

from tff_pers.models import functional
from tff_pers.models import labels
from tff_pers.models import recurrent
from tff_pers.models import tokens
from tff_pers.models import transformer
from tff_pers.models import zoo_layers as zl


class Architecture(NamedTuple):
  """A model of sequences.

  Attributes:
    make_layers: `(number of tokens, length) -> layers`.
    initial_weight: See `zoo_layers.functions`.
    of_words: Whether tokens are words; else they are characters.
  """

  make_layers: Callable[[int, int], list[zl.MakeLayer]]
  initial_weight: Callable
  of_words: bool


def names(of_words: bool) -> list[str]:
  """Returns the names of the models of words, or of characters, sorted."""
  return sorted(
      name for name, own in MODELS.items() if own.of_words == of_words
  )


def build(
    name: str, x_spec: tf.TensorSpec, num_tokens: int, dtype: tf.DType,
    l2: float,
) -> functional.FunctionalModel:
  """Returns the model `name`, see `zoo.build`.

  x is int32[batch, length] tokens, of which there are `num_tokens`, including
  special ones (`tokens`); y is the token that follows each of x.

  Raises:
    ValueError: If x is not a sequence of tokens, or there are too few tokens.
  """
  if x_spec.shape.rank != 2 or not x_spec.dtype.is_integer:
    raise ValueError(
        f'`x` must be tokens, int32[None, length], for {name}, found'
        f' {x_spec.dtype.name} of shape {x_spec.shape}. Tip: --model=mlp takes'
        ' numbers.'
    )
  vocabulary = num_tokens - tokens.NUM_SPECIAL
  if vocabulary < 1:
    raise ValueError(
        f'`num_classes` must be > {tokens.NUM_SPECIAL} for {name}, which has'
        f' that many special tokens, found {num_tokens}.'
    )
  own = MODELS[name]
  layers = zl.stack(
      own.make_layers(num_tokens, x_spec.shape[1]), tuple(x_spec.shape[1:])
  )
  words = dict(vocabulary=vocabulary if own.of_words else None)
  return functional.FunctionalModel(
      **zl.functions(layers, own.initial_weight, dtype, l2, of_tokens=True),
      example_loss=tokens.crossentropy,
      metrics=dict(accuracy=functools.partial(tokens.accuracy, **words)),
      weights_of=dict(
          loss=tokens.num_real,
          accuracy=functools.partial(tokens.num_real, **words),
      ),
      x_spec=x_spec, y_spec=tf.TensorSpec([None, x_spec.shape[1]], tf.int32),
      name=name, takes_factors=True, labels=labels.Labels(num_tokens),
  )


def _lstm(of_words: bool, *sizes) -> Architecture:
  return Architecture(
      lambda num_tokens, length: recurrent.layers(num_tokens, length, *sizes),
      recurrent.initial_weight, of_words,
  )


def _transformer(**sizes) -> Architecture:
  return Architecture(
      lambda num_tokens, length: [
          transformer.network(transformer.Sizes(**sizes), num_tokens)
      ],
      transformer.initial_weight, of_words=True,
  )


# BERT-mini; the small one is for tests and CPUs.
_MINI = dict(blocks=4, heads=4, width=256, hidden=1024)
_SMALL = dict(blocks=2, heads=2, width=32, hidden=64)

# LSTMs: dimension of the embedding, units of the layers, linear projection.
MODELS = {
    'char_lstm': _lstm(False, 8, (256, 256)),
    'char_lstm_small': _lstm(False, 8, (32,)),
    'lstm_670': _lstm(True, 96, (670,), 96),
    'lstm_small': _lstm(True, 16, (32,), 16),
    'transformer': _transformer(**_MINI),
    'transformer_adapters': _transformer(**_MINI, adapter=16),
    'transformer_small': _transformer(**_SMALL),
    'transformer_small_adapters': _transformer(**_SMALL, adapter=4),
}
