"""Models that are trained on scaled targets and predict in original units."""

import dataclasses

import tensorflow as tf

from tff_pers.models import functional


def in_units(
    model: functional.FunctionalModel, mean: float, scale: float,
    x_scale: float = 1.0,
) -> functional.FunctionalModel:
  """Returns a model whose outputs are mean + scale times those of `model`.

  Its loss is that of `model` on scaled targets, (y - mean) / scale, so that
  step sizes and initial weights work whatever the units of y are. Its weights
  are those of `model`, which sees x / x_scale.
  """
  slim = model.slim

  def predict(weights, x, training, seed):
    scaled = model.predict(weights, x / x_scale, training, seed)
    return tf.constant(mean, scaled.dtype) + scale * scaled

  def example_loss(y, predictions):
    return model.example_loss(
        (tf.cast(y, predictions.dtype) - mean) / scale,
        (predictions - mean) / scale,
    )

  return dataclasses.replace(
      model, predict=predict, example_loss=example_loss,
      slim=slim and (
          lambda *args, **kw: in_units(slim(*args, **kw), mean, scale, x_scale)
      ),
  )
