"""Converts tensors of a traced function to Python results."""

import collections
from typing import Any, Iterator, Optional
import weakref

import numpy as np
import tensorflow as tf
# Not exported by TFF: the containers that its types name.
from tensorflow_federated.python.core.impl.types import type_conversions

from tff_pers.runtime.fused.values import cache
from tff_pers.runtime.fused.values import packing
from tff_pers.runtime.fused.values import sequences
from tff_pers import tff

# Smaller arrays are not worth remembering their tensors.
LEAST_BYTES = 1024


class ResultTensors:
  """Remembers the tensors of results while the caller holds their arrays."""

  def __init__(self, max_bytes: int = 0):
    """Initializes the memory; `max_bytes` is for clients, who may be many."""
    self._tensors: dict[int, Any] = {}
    self._rows = cache.Cache(max_bytes)

  def row(self, array: Any) -> Optional[tf.Tensor]:
    """Returns the tensor on the device of a client's result, or None."""
    tensor, form = self._rows.get('row', [array]) or (None, None)
    # See `tensor`.
    return tensor if form and form == array.__array_interface__ else None

  def rows(self, tensor: tf.Tensor) -> list:
    """Returns the rows of a tensor, results of clients, as NumPy values."""
    # A GPU's kernels take int32 from the host.
    is_elsewhere = not tensor.device.endswith('CPU:0') and (
        tensor.dtype not in (tf.int32, tf.string)
    )
    if not is_elsewhere or tensor.shape.rank < 2 or (
        tensor.dtype.size * np.prod(tensor.shape[1:]) < LEAST_BYTES
    ):
      return list(tensor.numpy())
    stack = tensor.numpy()
    stack.flags.writeable = False  # A change would not reach the tensors.
    arrays = list(stack)
    with tf.device(tensor.device):
      # Separate tensors, so that a client that is gone frees its memory.
      rows = tf.unstack(tensor)
    for array, row in zip(arrays, rows):
      self._rows.put(
          'row', [array], (row, array.__array_interface__), array.nbytes
      )
    return arrays

  def forget_rows(self) -> None:
    """Frees the tensors of clients' results."""
    self._rows.clear()

  def tensor(self, array: Any) -> Optional[tf.Tensor]:
    """Returns the tensor that `array` is a view or copy of, or None."""
    reference, tensor, form = self._tensors.get(id(array), (None,) * 3)
    if reference is None or reference() is not array:
      return None
    # Entries cannot change, but shape and dtype can.
    return tensor if form == array.__array_interface__ else None

  def array(self, tensor: tf.Tensor) -> Any:
    """Returns a tensor as a NumPy value, without a copy where possible."""
    if tensor.dtype == tf.string or not tensor.shape.rank:
      return tensor.numpy()
    array = np.asarray(tensor)
    if array.nbytes < LEAST_BYTES:
      return array
    if 'GPU' in tensor.device:
      array.flags.writeable = False  # A change would not reach the tensor.
    key = id(array)
    forget = lambda _, key=key, tensors=self._tensors: tensors.pop(key, None)
    self._tensors[key] = (
        weakref.ref(array, forget), tensor, array.__array_interface__
    )
    return array


def flat(value: Any, part: tff.Type) -> list:
  """Returns the tensors of a traced result, in the order of `export`."""
  if isinstance(part, tff.FederatedType):
    return flat(value, part.member)
  if isinstance(part, tff.StructType):
    return [
        tensor
        for v, t in zip(value, part.children())
        for tensor in flat(v, t)
    ]
  if isinstance(value, sequences.Sequence):
    return [value.variant]
  if isinstance(value, packing.Rows):
    return [value.tensor]
  if isinstance(value, packing.Pieces):
    return [value.entries, value.shapes]
  return [value]


def skeleton(value: Any) -> Any:
  """Returns a traced result without its tensors."""
  if isinstance(value, (packing.Rows, packing.Pieces)):
    return type(value)._make(None for _ in value)
  if isinstance(value, tuple):
    return tuple(skeleton(v) for v in value)
  return None


def export(
    tensors: Iterator[tf.Tensor], value: Any, part: tff.Type,
    num_clients: Optional[int], result_tensors: ResultTensors,
) -> Any:
  """Returns the Python result, in the containers that its type specifies.

  `value` is the structure of the tensors, see `skeleton`, and `num_clients` the
  size of the cohort, None if the computation takes none.

  Raises:
    ValueError: If a result is placed at clients and there are none. A value
      that all clients share is known without a cohort, but not with an empty
      one.
  """
  if isinstance(part, tff.FederatedType):
    is_known = part.all_equal and num_clients is None
    if part.placement is tff.CLIENTS and not num_clients and not is_known:
      raise ValueError(
          'A cohort must not be empty if a result is placed at clients.'
      )
    if part.placement is tff.CLIENTS and not part.all_equal:
      return _export_clients(
          tensors, value, part.member, num_clients, result_tensors
      )
    return export(tensors, value, part.member, num_clients, result_tensors)
  if isinstance(part, tff.StructType):
    return _container(part, [
        export(tensors, v, t, num_clients, result_tensors)
        for v, t in zip(value, part.children())
    ])
  if isinstance(part, tff.SequenceType):
    return _export_sequence(next(tensors), part)
  return result_tensors.array(next(tensors))


def _export_clients(
    tensors, value, part, num_clients, result_tensors
) -> list:
  """Returns the list of the clients' values."""
  if isinstance(part, tff.StructType):
    columns = [
        _export_clients(tensors, v, t, num_clients, result_tensors)
        for v, t in zip(value, part.children())
    ]
    return [
        _container(part, [column[k] for column in columns])
        for k in range(num_clients)
    ]
  if isinstance(value, packing.Rows):
    return result_tensors.rows(next(tensors))
  entries, shapes = next(tensors).numpy(), next(tensors).numpy()
  stops = np.cumsum(np.prod(shapes, axis=1, dtype=np.int64))
  pieces = np.split(entries, stops[:-1]) if len(stops) else []
  return [p.reshape(shape) for p, shape in zip(pieces, shapes)]


def _container(part: tff.StructType, items: list) -> Any:
  """Returns the Python container of a struct."""
  container = getattr(part, 'python_container', None)
  names = [name for name, _ in tff.structure.to_elements(part)]
  if container in (dict, collections.OrderedDict):
    return container(zip(names, items))
  if container in (list, tuple):
    return container(items)
  return type_conversions.type_to_py_container(
      tff.structure.Struct(list(zip(names, items))), part
  )


def _export_sequence(variant, part):
  """Returns a sequence as a data set, like TFF's own executor."""
  spec = tuple(
      tf.TensorSpec(t.shape, t.dtype) for t in sequences.flat_types(part.element)
  )
  return tf.data.experimental.from_variant(variant, spec).map(
      lambda *leaves: _element(
          sequences.unflatten(leaves, part.element), part.element
      )
  )


def _element(value, part):
  """Returns nested tuples `value` with named structs as dictionaries."""
  if not isinstance(part, tff.StructType):
    return value
  items = [_element(v, t) for v, t in zip(value, part.children())]
  names = tff.structure.name_list(part)
  return collections.OrderedDict(zip(names, items)) if names else tuple(items)
