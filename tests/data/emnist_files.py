"""Writes small Federated EMNIST files in the form that the task reads."""

import numpy as np

NAMES = ('f0_a', 'f1_b', 'f2_c')
# Training and test images of each writer in the file of complete writers.
SIZES = ((30, 6), (20, 5), (4, 2))
# Images of each writer in the other file.
PARTIAL_SIZES = (25, 8)


def full(sizes=SIZES):
  """Returns the arrays of `femnist_writers.npz`."""
  writer = np.repeat(np.arange(len(sizes)), [sum(pair) for pair in sizes])
  split = np.concatenate([np.repeat([0, 1], pair) for pair in sizes])
  return dict(
      _images(len(writer), seed=0), writer=writer.astype(np.int16),
      writer_names=np.array([f'f{i}_{"abc"[i % 3]}' for i in range(len(sizes))]),
      split=split.astype(np.uint8), duplicate=np.zeros([len(writer)], np.uint8),
  )


def partial():
  """Returns the arrays of `femnist_partial_writers.npz`."""
  writer = np.repeat(np.arange(len(PARTIAL_SIZES)), PARTIAL_SIZES)
  return dict(
      _images(len(writer), seed=1), writer=writer.astype(np.int16),
      writer_names=np.array(['f8_x', 'f9_y']),
  )


def write(folder, **changes):
  """Writes both files; `changes` are arrays of the first, None leaves one out.
  """
  folder.mkdir(parents=True, exist_ok=True)
  arrays = {**full(), **changes}
  np.savez(
      folder / 'femnist_writers.npz',
      **{name: a for name, a in arrays.items() if a is not None},
  )
  np.savez(folder / 'femnist_partial_writers.npz', **partial())
  return folder


def _images(count: int, seed: int):
  rng = np.random.default_rng(seed)
  x = rng.integers(0, 256, [count, 28, 28]).astype(np.uint8)
  x[:, 0, 0] = 255  # A pixel without ink in all images.
  return dict(x=x, y=rng.integers(0, 62, count).astype(np.uint8))
