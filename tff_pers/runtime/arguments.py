"""Python arguments to tensors, and tensors to Python results."""

import collections
from typing import Any
import weakref

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.runtime import datasets
from tff_pers.runtime import layout
from tff_pers.runtime import sequences

# Smaller arrays are not worth a place in the memory of known tensors.
_LEAST_BYTES = 1024


class Converter:
  """Converts arguments and results, and remembers large tensors.

  A result that comes back as an argument (the state of the next round) costs
  nothing, and neither does a cohort of arrays that cannot change. Everything
  that is remembered stays on the device.
  """

  def __init__(self, max_bytes: int):
    """`max_bytes` bounds what is kept of arguments, in bytes."""
    self._reader = datasets.Reader(max_bytes)
    self._results = {}
    self._stacks = collections.OrderedDict()
    self._bytes, self._max_bytes = 0, max_bytes

  def ingest(self, value: Any, type_signature: tff.Type):
    """Returns the layout of an argument and its tensors.

    Raises:
      TypeError: If the argument does not match the type.
    """
    tensors = []
    return self._ingest(value, type_signature, tensors), tensors

  def _ingest(self, value, part, tensors):
    if isinstance(part, tff.FederatedType):
      if part.placement is tff.CLIENTS and not part.all_equal:
        return self._clients(_as_list(value), part.member, tensors)
      return self._ingest(value, part.member, tensors)
    if isinstance(part, tff.StructType):
      items = zip(datasets.fields(value, part), part.children())
      return layout.Parts(
          tuple(self._ingest(item, t, tensors) for item, t in items)
      )
    if isinstance(part, tff.SequenceType):
      segments = self._reader.segments(value, part.element)
      types = sequences.flat_types(part.element)
      parts = []
      for segment in segments:
        for array, tensor_type in zip(segment, types):
          tensors.append(self._tensor(array))
          parts.append(
              layout.Single((None, *_shape(tensor_type)), tensors[-1].dtype)
          )
      return layout.Parts(
          tuple(parts), part.element, (len(types),) * len(segments)
      )
    if isinstance(part, tff.TensorType):
      tensors.append(self._server_tensor(value, part))
      return layout.Single(_shape(part), tensors[-1].dtype)
    raise TypeError(f'Arguments of type {part} are not supported.')

  def _server_tensor(self, value, part):
    known = self._results.get(id(value))
    if known is not None and known[0]() is value and _is_a(known[1], part):
      return known[1]
    return self._tensor(datasets.as_array(value, part))

  def _tensor(self, array):
    return tf.convert_to_tensor(array)

  def _clients(self, values, part, tensors):
    """Returns the layout of the values of all clients."""
    if isinstance(part, tff.StructType):
      rows = [datasets.fields(value, part) for value in values]
      return layout.Parts(tuple(
          self._clients([row[j] for row in rows], t, tensors)
          for j, t in enumerate(part.children())
      ))
    if isinstance(part, tff.TensorType):
      return self._client_tensors(values, part, tensors)
    if isinstance(part, tff.SequenceType):
      return self._client_sequences(values, part, tensors)
    raise TypeError(f'Clients\' values of type {part} are not supported.')

  def _client_tensors(self, values, part, tensors):
    key = (part, *map(id, values))
    kept = self._stacks.get(key)
    if kept is None:
      arrays = [datasets.as_array(value, part) for value in values]
      kept = self._stack(arrays, part)
      if values and all(_is_constant(value) for value in values):
        self._keep(key, values, *kept)
    else:
      self._stacks.move_to_end(key)
    tensors.extend(kept[1])
    return kept[0]

  def _client_sequences(self, values, part, tensors):
    types = sequences.flat_types(part.element)
    read = [self._reader.segments(value, part.element) for value in values]
    count = max((len(segments) for segments in read), default=1)
    parts = []
    for s in range(count):
      for j, tensor_type in enumerate(types):
        arrays = [
            segments[s][j]
            if s < len(segments)
            else datasets.empty_segment(types)[j]
            for segments in read
        ]
        element = tff.TensorType(
            tensor_type.dtype, (None, *_shape(tensor_type))
        )
        parts.append(self._client_tensors(arrays, element, tensors))
    return layout.Parts(tuple(parts), part.element, (len(types),) * count)

  def _stack(self, arrays, part):
    """Returns the layout and the tensors of arrays of all clients."""
    dtype = tf.as_dtype(part.dtype)
    shape = _shape(part)
    if not arrays:
      empty = datasets.empty_segment([part])[0]
      return layout.Stacked(shape, dtype), [self._tensor(empty)]
    if len({array.shape for array in arrays}) == 1:
      return layout.Stacked(shape, dtype), [self._tensor(np.stack(arrays))]
    entries = np.concatenate([array.reshape([-1]) for array in arrays])
    shapes = np.asarray([array.shape for array in arrays], np.int64)
    return layout.Packed(shape, dtype), [
        self._tensor(entries), self._tensor(shapes)
    ]

  def _keep(self, key, values, kind, tensors) -> None:
    size = sum(t.shape.num_elements() * t.dtype.size for t in tensors)
    if not _LEAST_BYTES <= size <= self._max_bytes:
      return
    # The values are kept too: their ids are in the key.
    self._stacks[key] = (kind, tensors, values, size)
    self._bytes += size
    while self._bytes > self._max_bytes:
      _, (_, _, _, freed) = self._stacks.popitem(last=False)
      self._bytes -= freed

  def export(self, tensors, value, type_signature: tff.Type, num_clients: int):
    """Returns the Python result.

    Args:
      tensors: Iterator over the tensors of the result.
      value: The result as it was traced: nested tuples, `layout.Rows`, ...
      type_signature: TFF type of the result.
      num_clients: Size of the cohort.
    """
    return tff_container(
        self._export(tensors, value, type_signature, num_clients),
        type_signature,
    )

  def _export(self, tensors, value, part, num_clients):
    if isinstance(part, tff.FederatedType):
      if part.placement is tff.CLIENTS and not num_clients:
        raise ValueError(
            'A cohort must not be empty if a result is placed at clients.'
        )
      if part.placement is tff.CLIENTS and not part.all_equal:
        return self._export_clients(tensors, value, part.member, num_clients)
      return self._export(tensors, value, part.member, num_clients)
    if isinstance(part, tff.StructType):
      return tff.structure.Struct([
          (name, self._export(tensors, v, t, num_clients))
          for (name, t), v in zip(tff.structure.to_elements(part), value)
      ])
    if isinstance(part, tff.SequenceType):
      return _export_sequence(next(tensors), part)
    return self._array(next(tensors))

  def _array(self, tensor):
    """Returns a tensor as a NumPy value, without a copy where possible."""
    if tensor.dtype == tf.string or not tensor.shape.rank:
      return tensor.numpy()
    array = np.asarray(tensor)
    if array.nbytes >= _LEAST_BYTES:
      key = id(array)
      forget = lambda _, key=key, known=self._results: known.pop(key, None)
      self._results[key] = (weakref.ref(array, forget), tensor)
    return array

  def _export_clients(self, tensors, value, part, num_clients):
    """Returns the list of the clients' values."""
    if isinstance(part, tff.StructType):
      columns = [
          self._export_clients(tensors, v, t, num_clients)
          for v, t in zip(value, part.children())
      ]
      names = [name for name, _ in tff.structure.to_elements(part)]
      return [
          tff.structure.Struct([
              (name, column[k]) for name, column in zip(names, columns)
          ])
          for k in range(num_clients)
      ]
    if isinstance(value, layout.Rows):
      return list(next(tensors).numpy())
    entries, shapes = next(tensors).numpy(), next(tensors).numpy()
    stops = np.cumsum(np.prod(shapes, axis=1, dtype=np.int64))
    pieces = np.split(entries, stops[:-1]) if len(stops) else []
    return [p.reshape(shape) for p, shape in zip(pieces, shapes)]


def flat_result(value, part) -> list:
  """Returns the tensors of a traced result, as `Converter.export` takes them.
  """
  if isinstance(part, tff.FederatedType):
    return flat_result(value, part.member)
  if isinstance(part, tff.StructType):
    return [
        tensor
        for v, t in zip(value, part.children())
        for tensor in flat_result(v, t)
    ]
  if isinstance(value, sequences.Sequence):
    return [value.variant]
  if isinstance(value, layout.Rows):
    return [value.tensor]
  if isinstance(value, layout.Pieces):
    return [value.entries, value.shapes]
  return [value]


def tff_container(value, type_signature):
  """Returns `value` in the Python containers that the type names."""
  from tensorflow_federated.python.core.impl.types import type_conversions  # pylint: disable=g-import-not-at-top
  return type_conversions.type_to_py_container(value, type_signature)


def _export_sequence(variant, part):
  """Returns a sequence as a data set, as TFF's own executor does."""
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


def _as_list(value) -> list:
  if not isinstance(value, list):
    raise TypeError(
        f'The values of clients must be in a list, found a {type(value)}.'
    )
  return value


def _is_a(tensor, part) -> bool:
  return tensor.dtype == tf.as_dtype(part.dtype) and tf.TensorShape(
      part.shape
  ).is_compatible_with(tensor.shape)


def _shape(tensor_type) -> tuple:
  return tuple(tensor_type.shape)


def _is_constant(value) -> bool:
  if isinstance(value, np.ndarray):
    return not value.flags.writeable
  return isinstance(value, tf.Tensor)
