"""Tests of `augmented`: what a model sees of an image."""

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.models import augmented
from tff_pers.models import functional
from tff_pers.models import loss_functions
from tff_pers.models import zoo

_SPEC = tf.TensorSpec([None, 6, 8, 2], tf.float32)
_FILL = (-1.0, -2.0)


def _identity(x_spec=_SPEC):
  """Returns a model that predicts the image it sees."""
  return functional.FunctionalModel(
      init=lambda seed: (tf.zeros([1]),),
      predict=lambda weights, x, training, seed: x,
      example_loss=loss_functions.squared_error,
      x_spec=x_spec, y_spec=tf.TensorSpec([None], tf.float32),
      slim=lambda width, rounding='round': _identity(x_spec),
  )


def _images(number: int) -> np.ndarray:
  """Returns images in which every number occurs once."""
  shape = [number, *_SPEC.shape[1:]]
  return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def _seen(model, x, training=True, seed=(0, 0)):
  weights = model.init([0, 0])
  return model.predict(
      weights, tf.constant(x), training, tf.constant(seed, tf.int64)
  ).numpy()


def _candidates(image, padding):
  """Returns all windows that may be seen, by (flipped, row, column)."""
  height, width = image.shape[:2]
  found = {}
  for flipped in (False, True):
    framed = np.tile(
        np.float32(_FILL), [height + 2 * padding, width + 2 * padding, 1]
    )
    framed[padding:-padding, padding:-padding] = (
        image[:, ::-1] if flipped else image
    )
    for row in range(2 * padding + 1):
      for column in range(2 * padding + 1):
        found[flipped, row, column] = framed[
            row:row + height, column:column + width
        ]
  return found


def _places(x, seen, padding):
  """Returns which window of its own image each example is."""
  places = []
  for image, window in zip(x, seen):
    place, = [
        place for place, found in _candidates(image, padding).items()
        if np.array_equal(found, window)
    ]
    places.append(place)
  return places


def test_every_example_is_a_window_of_its_own_image():
  x = _images(400)
  model = augmented.flip_and_crop(_identity(), _FILL, padding=2)
  places = _places(x, _seen(model, x), padding=2)
  flipped, rows, columns = (np.array(part) for part in zip(*places))
  # Fair coins and dice: four standard deviations.
  assert abs(flipped.mean() - 0.5) < 0.1
  for draws in (rows, columns):
    assert abs(np.bincount(draws, minlength=5) / 400 - 0.2).max() < 0.08
  # Draws of an example do not follow from each other.
  assert abs(np.corrcoef([flipped, rows, columns]) - np.eye(3)).max() < 0.2


def test_draws_follow_from_the_seed_alone():
  x = _images(50)
  model = augmented.flip_and_crop(_identity(), _FILL)
  first = _seen(model, x)
  np.testing.assert_array_equal(first, _seen(model, x))
  assert (first != _seen(model, x, seed=(0, 1))).any()


def test_nothing_is_changed_outside_of_training():
  x = _images(5)
  model = augmented.flip_and_crop(_identity(), _FILL)
  np.testing.assert_array_equal(_seen(model, x, training=False), x)


def _crop(x_spec=_SPEC):
  return augmented.crop(_identity, x_spec, 4)


def _standardized(window):
  return (window - window.mean()) / window.std()


def test_windows_are_standardized_and_in_the_middle_in_tests():
  x = np.random.default_rng(0).normal(3.0, 2.0, [5, 6, 8, 2])
  x = x.astype(np.float32)
  for image, window in zip(x, _seen(_crop(), x, training=False)):
    np.testing.assert_allclose(
        window, _standardized(image[1:5, 2:6]), atol=1e-5
    )


def test_windows_of_training_are_anywhere():
  x = np.random.default_rng(0).normal(size=[200, 6, 8, 2]).astype(np.float32)
  found = set()
  for image, window in zip(x, _seen(_crop(), x)):
    places = [
        (flipped, row, column)
        for flipped in (False, True) for row in range(3) for column in range(5)
        if np.allclose(window, _standardized(
            (image[:, ::-1] if flipped else image)[row:row + 4,
                                                   column:column + 4]
        ), atol=1e-5)
    ]
    assert len(places) == 1
    found |= set(places)
  assert len(found) == 2 * 3 * 5


def test_an_image_of_one_colour_is_no_nan():
  assert np.isfinite(_seen(_crop(), np.ones([2, 6, 8, 2], np.float32))).all()


@pytest.mark.parametrize('wrap', [
    lambda spec: augmented.flip_and_crop(
        zoo.build('mlp_small', spec, 3), _FILL
    ),
    lambda spec: augmented.crop(
        lambda windows: zoo.build('mlp_small', windows, 3), spec, 4
    ),
])
def test_gradients_and_narrower_models_see_it_too(wrap):
  model = wrap(_SPEC)
  x = _images(10)
  for one in (model, model.slim(0.5)):
    assert one.x_spec == _SPEC
    weights = one.initial_weights(0)
    seen = [
        one.predict(weights, x, training, [0, 0]).numpy()
        for training in (False, True)
    ]
    assert (seen[0] != seen[1]).any()
  assert model.slim(0.5).layers[0].shape[1] == 32
