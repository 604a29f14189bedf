"""Writes small CIFAR files, as their authors distribute them."""

import pickle

import numpy as np


def _images(num_examples, seed, classes):
  """Returns x uint8[n, 32, 32, 3] and y, the last label among them."""
  rng = np.random.default_rng(seed)
  x = rng.integers(0, 256, [num_examples, 32, 32, 3]).astype(np.uint8)
  return x, np.append(rng.integers(0, classes, num_examples - 1), classes - 1)


def _write_file(path, name, x, y):
  """As Python 2 wrote them: byte strings, protocol 2."""
  rows = x.transpose(0, 3, 1, 2).reshape(len(x), -1)  # Red plane first.
  key = b'labels' if name == 'cifar10' else b'fine_labels'
  content = {b'data': rows, key: y.tolist(), b'batch_label': b'part'}
  path.write_bytes(pickle.dumps(content, protocol=2))


def write(folder, name, version, num_train=50, num_test=20):
  """Writes a small set of one version; returns its training and test set."""
  folder.mkdir(parents=True, exist_ok=True)
  classes = 10 if name == 'cifar10' else 100
  train = _images(num_train, 0, classes)
  test = _images(num_test, 1, classes)
  if version == 'subset':
    arrays = {}
    for part, (x, y) in (('train', train), ('test', test)):
      red, green, blue = np.moveaxis(x, -1, 0)
      planes = np.stack([green, red - green, blue - green], 1)
      arrays[f'{part}_d'] = np.diff(planes, axis=3, prepend=np.uint8(0))
      arrays[f'{part}_y'] = y.astype(np.uint8)
    np.savez(folder / f'{name}_subset.npz', **arrays)
    return train, test
  if name == 'cifar10':
    for i, rows in enumerate(np.array_split(np.arange(num_train), 5)):
      _write_file(
          folder / f'data_batch_{i + 1}', name, train[0][rows], train[1][rows]
      )
    _write_file(folder / 'test_batch', name, *test)
  else:
    _write_file(folder / 'train', name, *train)
    _write_file(folder / 'test', name, *test)
  return train, test
