"""Tables of full models of one architecture, and mixtures of their outputs.

A table has the structure of the model's weights, with a leading axis C.
"""

import collections
import dataclasses
import math
from typing import Any, Sequence

import numpy as np
import tensorflow as tf

from tff_pers.core import random
from tff_pers.models import functional
from tff_pers.models import tags

_TABLE_USE = -2  # Folded into the run's seed.
_NOISE = -1  # Folded into a model's key.


def initial_models(
    model: functional.FunctionalModel, num_models: int, seed: tf.Tensor,
    attempt: int = 0,
) -> Any:
  """Returns C independent initial models, every leaf [C, ...].

  Model 0 of the first attempt is w^0 of the run, as in other methods. Equal
  models would always stay equal. So if a model's weights are not drawn (linear
  models start at 0), all models except model 0 of the first attempt get noise:
  see `perturb`. Each attempt, int32 >= 0, gives different models.
  """
  first = model.initial_weights(seed)
  models = []
  for c in range(num_models):
    key = random.key(seed, _TABLE_USE, attempt, c)
    drawn = _distinct(model, key)
    if c == 0:
      drawn = tf.nest.map_structure(
          lambda w, d: tf.where(tf.equal(attempt, 0), w, d), first, drawn
      )
    models.append(drawn)
  return tf.nest.map_structure(lambda *leaves: tf.stack(leaves), *models)


def _distinct(model: functional.FunctionalModel, key):
  """Returns initial weights that depend on `key`."""
  # Only a second draw shows whether the initial weights depend on the key.
  weights, others = model.init(key), model.init(random.fold_in(key, 0))
  pairs = zip(tf.nest.flatten(weights), tf.nest.flatten(others))
  same = tf.reduce_all(tf.stack(
      [tf.reduce_all(tf.equal(a, b)) for a, b in pairs]
  ))
  return tf.nest.map_structure(
      lambda noisy, w: tf.where(same, noisy, w), perturb(weights, key), weights
  )


def perturb(weights: Any, key: tf.Tensor, scale: float = 1.0) -> Any:
  """Returns weights + scale * uniform(-1, 1) / sqrt(fan_in), except biases.

  Leaves of rank 0 and 1 count as biases, unless there are no others. A usual
  initialization has scale 1.
  """
  leaves = tf.nest.flatten(weights)
  # A model that has only vectors would otherwise get no noise at all.
  rank = min(2, max(leaf.shape.rank for leaf in leaves))
  noisy = []
  for position, leaf in enumerate(leaves):
    if leaf.shape.rank >= rank:
      fan_in = math.prod(leaf.shape[:-1]) if leaf.shape.rank > 1 else 1
      noise = tf.random.stateless_uniform(
          leaf.shape, random.fold_in(key, _NOISE, position), -1, 1,
          dtype=leaf.dtype,
      )
      leaf += tf.constant(scale / math.sqrt(fan_in), leaf.dtype) * noise
    noisy.append(leaf)
  return tf.nest.pack_sequence_as(weights, noisy)


def select(models: Any, c: Any) -> Any:
  """Returns model c of a table; c is an integer or an int32 scalar."""
  return tf.nest.map_structure(lambda leaf: leaf[c], models)


def unstack(models: Any, num_models: int) -> list:
  """Returns all C models of the table.

  The gradient is one stack, whereas C selections would add up C tables.
  """
  leaves = tf.nest.flatten(models)
  columns = [tf.unstack(leaf, num_models) for leaf in leaves]
  return [tf.nest.pack_sequence_as(models, own) for own in zip(*columns)]


def mixture(
    model: functional.FunctionalModel, num_models: int, mix: str
) -> functional.FunctionalModel:
  """Returns the model over `<mixing, models>` that mixes outputs.

    logits        : output = sum_c mixing_c * output_c
    probabilities : p(y | x) = sum_c mixing_c * p_c(y | x)

  Its output is what the loss of `model` takes: for probabilities log p (whose
  softmax is p), or with one logit, or one for each of several labels, the
  log-odds of p, or p itself if `model` predicts that. For regression both are
  sum_c mixing_c * prediction_c. The penalty is sum_c mixing_c * penalty_c.

  Args:
    model: A member; its predictions are logits (one per class, or one for two
      classes), or regression targets.
    num_models: C; `mixing` is float[C] >= 0, leaves of `models` are [C, ...].
    mix: `logits` or `probabilities`.

  Raises:
    ValueError: If probabilities of several outputs would have to be mixed.
  """
  if mix == 'probabilities':
    model.require_one_output(
        'mixtures of probabilities (tip: an ensemble of logits)'
    )

  def init(seed):
    models = [model.init(random.fold_in(seed, c)) for c in range(num_models)]
    dtype = tf.nest.flatten(models)[0].dtype
    return collections.OrderedDict(
        mixing=tf.fill([num_models], tf.constant(1 / num_models, dtype)),
        models=tf.nest.map_structure(lambda *leaves: tf.stack(leaves), *models),
    )

  def predict(weights, x, training, seed):
    outputs = [
        model.predict(own, x, training, seed)
        for own in unstack(weights['models'], num_models)
    ]
    return mix_outputs(model, mix, weights['mixing'], outputs)

  def penalty(weights):
    penalties = [
        model.penalty(own) for own in unstack(weights['models'], num_models)
    ]
    mixing = tf.unstack(weights['mixing'])
    return tf.add_n([
        pi * tf.cast(value, pi.dtype) for pi, value in zip(mixing, penalties)
    ])

  return dataclasses.replace(
      model, init=init, predict=predict, penalty=penalty, layers=None,
      frozen=None, name=f'mixture of {num_models} {model.name}',
  )


def mix_outputs(
    model: functional.FunctionalModel, mix: str, mixing: tf.Tensor,
    outputs: Sequence[Any],
) -> Any:
  """Returns the mixture of C predictions in the form of `model`'s.

  See `mixture`; `mixing` is float[C] >= 0.
  """
  has_tags = model.example_loss is tags.multilabel_crossentropy
  # Predicted probabilities are mixed directly.
  by_probability = (
      mix == 'probabilities' and not model.probabilities
      and (model.y_spec.dtype.is_integer or has_tags)
  )
  if by_probability:
    is_binary = has_tags or getattr(model.labels, 'num_classes', 0) == 2
    mixing = tf.unstack(tf.cast(mixing, outputs[0].dtype))
    rank = outputs[0].shape.rank
    of_each_label = is_binary and rank == model.y_spec.shape.rank
    one_logit = of_each_label or outputs[0].shape[-1] == 1
    return _log_mixture(mixing, outputs, one_logit)

  def mixed(*outputs):
    shares = tf.unstack(tf.cast(mixing, outputs[0].dtype))
    return tf.add_n([pi * output for pi, output in zip(shares, outputs)])

  return tf.nest.map_structure(mixed, *outputs)


def _log_mixture(mixing, logits, one_logit: bool):
  """Returns log sum_c pi_c p_c per class, or the log-odds of each logit."""
  # log 0 = -inf, with gradient 0. One `where` around the logarithm would not be
  # enough: the derivative at 0 is infinite, and infinity times 0 is NaN.
  def log(pi):
    is_used = pi > 0
    finite = tf.math.log(tf.where(is_used, pi, tf.ones_like(pi)))
    return tf.where(is_used, finite, tf.constant(-np.inf, pi.dtype))

  def log_sum(log_probabilities):
    return tf.reduce_logsumexp(
        tf.stack([log(pi) + p for pi, p in zip(mixing, log_probabilities)]),
        axis=0,
    )
  if one_logit:
    # Two sums of logarithms, because log(p / (1 - p)) would be infinite where p
    # rounds to 0 or 1.
    positive = log_sum([tf.math.log_sigmoid(z) for z in logits])
    return positive - log_sum([tf.math.log_sigmoid(-z) for z in logits])
  return log_sum([tf.nn.log_softmax(z) for z in logits])
