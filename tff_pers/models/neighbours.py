"""Nearest neighbours in a store of features, mixed with a model.

    p(y | x) = lambda p_kNN(y | x) + (1 - lambda) p_model(y | x)
    p_kNN(y | x) ~ sum over the k nearest j of
                   exp(-||phi(x) - phi_j|| / s) [y_j = y]

phi is the input of the model's last layer, and s the median of the distances
within the store. For regression, the prediction is mixed with the mean of the
neighbours' y_j with the same weights.

Personalized Federated Learning through Local Memorization (kNN-Per)
    Marfoq, Neglia, Kameni, Vidal. ICML 2022.
"""

import collections
import dataclasses
from typing import Any, Mapping

import tensorflow as tf

from tff_pers.models import functional
from tff_pers.models import last_layer
from tff_pers.models import mixtures
from tff_pers.numerics import distances

# A label that no neighbour has is still possible: its loss must be finite.
_SMALLEST = 1e-9


@dataclasses.dataclass(frozen=True)
class Neighbours:
  """Nearest neighbours in the features of a model.

  Attributes:
    layer: The model's last layer.
    k: Maximum number of neighbours that count.
    capacity: Maximum number of examples in a store.
  """

  layer: last_layer.LastLayer
  k: int
  capacity: int

  def store(
      self, features: tf.Tensor, y: tf.Tensor, size: tf.Tensor
  ) -> Mapping[str, tf.Tensor]:
    """Returns the store `<features [M, d], labels [M, ...], scale, size>`.

    All members are floats. Of phi_j, [n, d], and y_j, [n] or [n, targets], n <=
    M, only the first `size` rows, int32, count; the other features are zeros.
    """
    dtype, counts = features.dtype, tf.range(tf.shape(y)[0]) < size
    apart = tf.sqrt(distances.gram_distances(
        distances.center(features, counts)
    ))
    is_pair = counts[:, None] & counts & ~tf.eye(tf.shape(y)[0], dtype=tf.bool)
    rest = self.capacity - tf.shape(y)[0]
    pad = lambda rows: tf.pad(
        rows, [[0, rest], *[[0, 0]] * (rows.shape.rank - 1)]
    )
    held = collections.OrderedDict(
        features=pad(features),
        labels=pad(tf.where(
            tf.reshape(counts, [-1, *[1] * (y.shape.rank - 1)]),
            tf.cast(y, dtype), tf.zeros([], dtype),
        )),
        scale=_median(tf.boolean_mask(apart, is_pair)),
        size=tf.cast(size, dtype),
    )
    for name in ('features', 'labels'):
      held[name] = tf.ensure_shape(
          held[name], [self.capacity, *held[name].shape[1:]]
      )
    return held

  def predict(
      self, store: Mapping[str, tf.Tensor], features: tf.Tensor,
      num_outputs: int,
  ) -> tf.Tensor:
    """Returns the neighbours' prediction, in the form of the model's.

    With an empty store it is meaningless. The features are phi(x), [n, d], and
    `num_outputs` those of the model: its classes (two for one) or targets.
    """
    # The features' common mean is subtracted, to avoid cancellation in float32.
    mean = tf.math.divide_no_nan(
        tf.reduce_sum(store['features'], axis=0), store['size']
    )
    apart = tf.sqrt(distances.to_points(
        features - mean, store['features'] - mean
    ))
    places = tf.cast(tf.range(self.capacity), features.dtype)
    is_held = places < tf.maximum(store['size'], 1)
    closeness = tf.where(is_held, -apart / store['scale'], -float('inf'))
    nearest = tf.math.top_k(closeness, min(self.k, self.capacity))
    shares = tf.nn.softmax(nearest.values)
    y = tf.gather(store['labels'], nearest.indices)
    is_label = self.layer.model.y_spec.dtype.is_integer
    values = tf.reshape(y, [tf.shape(y)[0], y.shape[1], -1])
    if is_label:
      values = tf.one_hot(
          tf.cast(y, tf.int32), max(num_outputs, 2), dtype=y.dtype
      )
    said = tf.einsum('nk,nko->no', shares, values)
    if not is_label:
      return said
    log_p = tf.math.log(said + _SMALLEST)
    return log_p[:, 1:] - log_p[:, :1] if num_outputs == 1 else log_p

  def mixed(
      self, mixing: tf.Tensor, predictions: tf.Tensor, said: tf.Tensor
  ) -> tf.Tensor:
    """Returns predictions of the model mixed with those of the neighbours.

    `mixing` is lambda, and both predictions are [n, outputs].
    """
    return mixtures.mix_outputs(
        self.layer.model, 'probabilities', tf.stack([1 - mixing, mixing]),
        [predictions, said],
    )

  def deployed(self) -> functional.FunctionalModel:
    """Returns the model over `<mixing, store, weights>`; lambda starts at 0."""
    model = self.layer.model

    def predict(weights, x, training, seed):
      del training  # There is no training.
      predictions, features = self.layer.predict(weights['weights'], x, seed)
      said = self.predict(weights['store'], features, predictions.shape[-1])
      return self.mixed(weights['mixing'], predictions, said)

    return dataclasses.replace(
        model, init=lambda seed: self.without_store(model.init(seed)),
        predict=predict, layers=None, units=None, slim=None, frozen=None,
        takes_factors=False, penalty=model.penalty_by(
            lambda weights: model.penalty(weights['weights'])
        ), name=f'{model.name} and neighbours',
        holds=(
            'features and labels of up to'
            f' {self.capacity} training examples of its client'
        ),
    )

  def without_store(self, weights: Any) -> Any:
    """Returns what a client without examples deploys."""
    dtype = self.layer.model.dtype
    return collections.OrderedDict(
        mixing=tf.zeros([], dtype),
        store=self.store(
            tf.zeros([0, self.layer.num_features], dtype),
            tf.zeros([0, *self.layer.model.y_spec.shape[1:]], dtype),
            tf.constant(0),
        ),
        weights=weights,
    )


def _median(values: tf.Tensor) -> tf.Tensor:
  """Returns the median; 1 if it is 0, or if there are no values."""
  ordered, number = tf.sort(values), tf.size(values)
  middle = tf.stack([(number - 1) // 2, number // 2])
  # Two zeros at the end, so that a middle exists without values.
  found = tf.reduce_mean(
      tf.gather(tf.pad(ordered, [[0, 2]]), tf.maximum(middle, 0))
  )
  return tf.where(found > 0, found, tf.ones_like(found))
