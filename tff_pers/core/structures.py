"""Helpers for rows of examples whose x or y are several tensors.

They come in a dict or a tuple; a single tensor is such a structure, too. Lists
are not: they are rows of numbers.
"""

import collections
from typing import Any, Callable, Mapping

import tensorflow as tf


def num_rows(structure: Any) -> tf.Tensor:
  """Returns how many rows the tensors of a structure have, int32."""
  return tf.shape(tf.nest.flatten(structure)[0])[0]


def take(structure: Any, rows: tf.Tensor) -> Any:
  """Returns these rows of every tensor of a structure."""
  return tf.nest.map_structure(lambda leaf: tf.gather(leaf, rows), structure)


def plain(path: str) -> str:
  """Returns a path as a name valid in a signature: `x[a]` as `x_a`.

  Args:
    path: As `mapped` gives it.
  """
  return path.replace('[', '_').replace(']', '')


def mapped(
    function: Callable[..., Any], structure: Any, path: str = '',
    **options: Any,
) -> Any:
  """Returns the structure of `function(leaf, path)`, dicts sorted by key.

  Unlike `tf.nest.map_structure` it takes lists, and everything else, as leaves.

  Args:
    function: `(leaf, path, **options) -> leaf`.
    structure: Dicts and tuples of leaves.
    path: Where the structure is, for messages: `x`; its members are `x[name]`.
    **options: Further arguments of `function`.
  """
  if isinstance(structure, Mapping):
    return collections.OrderedDict(
        (name, mapped(function, structure[name], f'{path}[{name}]', **options))
        for name in sorted(structure)
    )
  if isinstance(structure, tuple):
    return tuple(
        mapped(function, part, f'{path}[{i}]', **options)
        for i, part in enumerate(structure)
    )
  return function(structure, path, **options)
