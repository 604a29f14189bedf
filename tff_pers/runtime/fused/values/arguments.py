"""Converts Python arguments to tensors on the device."""

import collections
from typing import Any, Callable, NamedTuple, Optional

import numpy as np
import tensorflow as tf
# Not exported by TFF: its errors.
from tensorflow_federated.python.core.impl.executors import cardinalities_utils

from tff_pers.runtime.fused.values import cache
from tff_pers.runtime.fused.values import contents
from tff_pers.runtime.fused.values import datasets
from tff_pers.runtime.fused.values import layout
from tff_pers.runtime.fused.values import python_values
from tff_pers.runtime.fused.values import reading
from tff_pers.runtime.fused.values import results
from tff_pers.runtime.fused.values import sequences
from tff_pers.runtime.fused.values import serialized
from tff_pers import tff

# Number of recent cohorts that are recognized when they come again.
_MAX_SEEN = 100


class Converter:
  """Converts arguments, and caches large tensors.

  A result that comes back as an argument (the state of the next round) costs
  nothing. A cohort of arrays that comes back with unchanged contents is not
  stacked and copied to the device again. Cached tensors stay on the device as
  long as the caller holds the objects they were made from.
  """

  def __init__(self, max_bytes: int, device: str, result_tensors: results.ResultTensors):
    """Initializes the converter, which caches at most `max_bytes`."""
    self._reader = reading.Reader(max_bytes)
    self._device = device
    self._result_tensors = result_tensors
    self._stacks = cache.Cache(max_bytes)
    self._rows = cache.Cache(max_bytes)
    self._seen: collections.OrderedDict[tuple, bool] = collections.OrderedDict()
    self._on_host = False

  def ingest(
      self, value: Any, type_signature: Optional[tff.Type], passes: float
  ) -> tuple[Any, list[tf.Tensor], Optional[int]]:
    """Returns the layout of an argument, its tensors, and its cohort's size.

    Without a type there is no argument; see also `cohort_size`. `passes` is the
    number of passes over a data set, see `graphs.graph`.

    Raises:
      TypeError: If the argument does not match the type.
    """
    tensors: list[tf.Tensor] = []
    if type_signature is None:
      return None, tensors, None
    value = python_values.unpacked(value, type_signature)
    num_clients = cohort_size(value, type_signature)
    self._passes = passes
    try:
      found = self._ingest(value, type_signature, tensors)
      return found, tensors, num_clients
    except _Refused as refused:
      raise type(refused.error)(
          f'{refused.error} Field: {".".join(refused.path)}.'
      ) from refused.error

  def forget(self) -> None:
    """Frees the cached data of cohorts and clients."""
    self._stacks.clear()
    self._rows.clear()
    self._result_tensors.forget_rows()

  def start_anew(self) -> None:
    """Frees all caches and returns to the initial state, for another run."""
    self.forget()
    self._seen.clear()
    self._on_host = False

  def hold_on_host(self) -> bool:
    """Keeps the data of cohorts in host memory from now on.

    Returns:
      False if they already were there.
    """
    self.forget()
    was_on_device, self._on_host = not self._on_host, True
    return was_on_device

  def _ingest(self, value, part, tensors):
    if isinstance(part, tff.FederatedType):
      if part.placement is tff.CLIENTS and not part.all_equal:
        return self._clients(_as_list(value), part.member, tensors)
      return self._ingest(value, part.member, tensors)
    if isinstance(part, tff.StructType):
      items = python_values.fields(value, part)
      return layout.Parts(_of_fields(
          part, lambda j, t: self._ingest(items[j], t, tensors)
      ))
    if isinstance(part, tff.SequenceType):
      read, graphs = self._reader.read([value], part.element, self._passes)
      if read is None:
        assert graphs is not None  # One of the two.
        tensors.append(self._tensor(np.array(graphs[0], object)))
        return serialized.Serialized(part.element, is_at_clients=False)
      [segments] = read
      types = sequences.flat_types(part.element)
      if _vary(types, [segments]):
        tensors.extend(self._packed_elements(segments, types, False))
        return layout.Varying(part.element)
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
    found = self._result_tensors.tensor(value)
    if found is not None and found.dtype == tf.as_dtype(part.dtype) and (
        tf.TensorShape(part.shape).is_compatible_with(found.shape)
    ):
      return found
    return self._tensor(python_values.as_array(value, part))

  def _tensor(self, array, on_host=False):
    # Only a CPU can hold strings.
    on_host = on_host or array.dtype == object
    with tf.device('/CPU:0' if on_host else self._device):
      return tf.convert_to_tensor(array)

  def _clients(self, values, part, tensors):
    """Returns the layout of the values of all clients."""
    if isinstance(part, tff.StructType):
      rows = [python_values.fields(value, part) for value in values]
      return layout.Parts(_of_fields(
          part, lambda j, t: self._clients([row[j] for row in rows], t, tensors)
      ))
    if isinstance(part, tff.TensorType):
      return self._client_tensors(values, part, tensors)
    if isinstance(part, tff.SequenceType):
      return self._client_sequences(values, part, tensors)
    raise TypeError(f'Clients\' values of type {part} are not supported.')

  def _client_tensors(self, values, part, tensors):
    arrays = [python_values.as_array(value, part) for value in values]
    return self._remembered(
        part, values, arrays, lambda: self._stack(values, arrays, part),
        tensors,
        # On a CPU this is a view of the tensor itself.
        lambda stack: contents.split(np.asarray(stack[1][0]), arrays),
    )

  def _remembered(self, use, values, arrays, make, tensors, copies):
    """Appends the tensors of clients' values; returns their layout.

    `use` is the purpose of the tensors, part of the cache's key, and `arrays`
    are the contents of the objects `values`. `make` makes (the layout, the
    tensors), of which `copies` returns arrays like `arrays` that the caller
    cannot change.
    """
    kept = self._stacks.get(use, values)
    if kept is not None and kept.shows(arrays):
      stack = kept.stack
    else:
      stack = make()
      self._keep(use, values, arrays, stack, copies)
    tensors.extend(stack[1])
    return stack[0]

  def _client_sequences(self, values, part, tensors):
    types = sequences.flat_types(part.element)
    read, graphs = self._reader.read(values, part.element, self._passes)
    if read is None:
      tensors.append(self._tensor(np.array(graphs, object)))
      return serialized.Serialized(part.element, is_at_clients=True)
    if _vary(types, read):
      return self._varying_sequences(read, part.element, types, tensors)
    count = max((len(segments) for segments in read), default=1)
    nothing = datasets.empty_segment(types)
    parts = []
    for s in range(count):
      for j, tensor_type in enumerate(types):
        arrays = [
            segments[s][j] if s < len(segments) else nothing[j]
            for segments in read
        ]
        element = tff.TensorType(
            tensor_type.dtype, (None, *_shape(tensor_type))
        )
        parts.append(self._client_tensors(arrays, element, tensors))
    return layout.Parts(tuple(parts), part.element, (len(types),) * count)

  def _varying_sequences(self, read, element_type, types, tensors):
    """Returns the layout of sequences whose elements differ in shape."""
    segments = [segment for client in read for segment in client]
    counts = np.asarray(
        [sum(len(segment[0]) for segment in client) for client in read],
        np.int64,
    )
    on_host = self._on_host

    def packed():
      made = self._packed_elements(segments, types, on_host)
      return (
          layout.Varying(element_type, True, on_host),
          [self._tensor(counts, on_host), *made],
      )

    arrays = [array for segment in segments for array in segment]
    use = (element_type, counts.tobytes())
    return self._remembered(
        use, arrays, arrays, packed, tensors,
        lambda _: arrays,  # They belong to the reader.
    )

  def _packed_elements(self, segments, types, on_host):
    """Returns the entries and shapes of each tensor of all elements."""
    segments = segments or [datasets.empty_segment(types)]
    counts = [len(segment[0]) for segment in segments]
    tensors = []
    for arrays in zip(*segments):
      entries = np.concatenate([array.reshape([-1]) for array in arrays])
      shapes = np.asarray([array.shape[1:] for array in arrays], np.int64)
      tensors += [
          self._tensor(entries, on_host),
          self._tensor(np.repeat(shapes, counts, axis=0), on_host),
      ]
    return tensors

  def _stack(self, values, arrays, part):
    """Returns the layout and the tensors of arrays of all clients.

    These are the contents of the objects `values`, each of the type `part`.
    """
    dtype = tf.as_dtype(part.dtype)
    shape, on_host = _shape(part), self._on_host
    if not arrays:
      empty = datasets.empty_segment([part])[0]
      return layout.Stacked(shape, dtype), [self._tensor(empty)]
    rows = self._rows_on_device(values, arrays)
    if len({array.shape for array in arrays}) == 1:
      if rows:
        with tf.device(self._device):
          return layout.Stacked(shape, dtype), [tf.stack(rows)]
      return layout.Stacked(shape, dtype, on_host), [
          self._tensor(np.stack(arrays), on_host)
      ]
    shapes = np.asarray([array.shape for array in arrays], np.int64)
    if rows:
      with tf.device(self._device):
        entries = tf.concat([tf.reshape(row, [-1]) for row in rows], 0)
    else:
      flat = np.concatenate([array.reshape([-1]) for array in arrays])
      entries = self._tensor(flat, on_host)
    return layout.Packed(shape, dtype, on_host), [
        entries, self._tensor(shapes, on_host)
    ]

  def _rows_on_device(self, values, arrays) -> list:
    """Returns the arrays as tensors on the device, if it has some already.

    So a cohort of clients who were never together only copies new ones.

    Returns:
      An empty list if the device has none of them.
    """
    if self._device.endswith('CPU:0') or self._on_host:
      return []
    found = [self._row(value, array) for value, array in zip(values, arrays)]
    for value, array, row in zip(values, arrays, found):
      if row is None and _is_for_device(value, array):
        # Is cached when it comes again.
        self._rows.put(array.dtype, [value], _Kept([], None, False), 0)
    if all(row is None for row in found):
      return []
    return [
        self._tensor(array) if row is None else row
        for row, array in zip(found, arrays)
    ]

  def _row(self, value, array):
    """Returns an array as a tensor on the device; None the first time."""
    if not _is_for_device(value, array):
      return None
    row = self._result_tensors.row(value)
    if row is not None and row.dtype == array.dtype:
      return row
    kept = self._rows.get(array.dtype, [value])
    if kept is None:
      return None
    if kept.stack is None or not kept.shows([array]):
      kept = _Kept(
          [array.copy()], self._tensor(array), contents.is_constant(value)
      )
      self._rows.put(array.dtype, [value], kept, array.nbytes)
    return kept.stack

  def _keep(self, use, values, arrays, stack, copies) -> None:
    size = sum(array.nbytes for array in arrays)
    if size < results.LEAST_BYTES or not all(map(_is_worth_keeping, values)):
      return
    cohort = cache.identity(use, values)
    if cohort in self._seen:
      kept = _Kept(
          copies(stack), stack, all(map(contents.is_constant, values))
      )
      self._stacks.put(use, values, kept, size)
    self._seen[cohort] = True  # A cohort that comes once is not worth caching.
    if len(self._seen) > _MAX_SEEN:
      self._seen.popitem(last=False)


class _Kept(NamedTuple):
  """The cached result of stacking arrays.

  Comparing takes half the time of stacking, and less than copying to a GPU.
  Constant arrays are compared by identity alone.

  Attributes:
    arrays: Copies of the arrays that were stacked.
    stack: The layout and the tensors of the stack; for one client its tensor.
    is_constant: Whether nobody can change the arrays.
  """

  arrays: list
  stack: Any
  is_constant: bool

  def shows(self, arrays: list) -> bool:
    """Whether the arrays still have the same contents."""
    return self.is_constant or contents.equal(self.arrays, arrays)


class _Refused(Exception):
  """Carries an error, and the path of the field that caused it."""

  def __init__(self, error: Exception, path: tuple[str, ...]):
    super().__init__(error)
    self.error, self.path = error, path


def _of_fields(struct: tff.StructType, ingest: Callable[[int, tff.Type], Any]):
  """Returns `ingest(number, type)` of each field of a structure, as a tuple.

  Raises:
    _Refused: If a field does not match its type.
  """
  found = []
  for number, (name, t) in enumerate(tff.structure.iter_elements(struct)):
    try:
      found.append(ingest(number, t))
    except _Refused as refused:
      path = (name or str(number), *refused.path)
      raise _Refused(refused.error, path) from None
    except (NotImplementedError, TypeError, ValueError) as error:
      if type(error) not in (NotImplementedError, TypeError, ValueError):
        raise  # Its constructor takes more than a message.
      raise _Refused(error, (name or str(number),)) from None
  return tuple(found)


def _is_worth_keeping(value) -> bool:
  return isinstance(value, tf.Tensor) or (
      isinstance(value, np.ndarray) and value.dtype != object
  )


def _is_for_device(value, array) -> bool:
  # A GPU's kernels take int32 from the host.
  return _is_worth_keeping(value) and array.dtype != np.int32 and (
      array.nbytes >= results.LEAST_BYTES
  )


def _vary(types, read) -> bool:
  """Returns whether the elements of sequences need a table of their shapes.

  Batches of equally shaped examples do not, even if the last one is shorter;
  padded batches always do, so that all cohorts have the same layout. `types`
  are those of the tensors of an element, `read` the segments of each sequence.
  """
  return any(None in _shape(t)[1:] for t in types) or any(
      len(segments) > 2 for segments in read
  )


def cohort_size(value: Any, part: tff.Type) -> Optional[int]:
  """Returns the number of clients in an argument, None if it has no cohort.

  Raises:
    TypeError: If clients' values are not in a list.
    IndexError: If a structure of arguments has too few fields.
    ValueError: If two lists of clients differ in length.
  """
  sizes: dict[int, Any] = {}
  _add_sizes(value, part, sizes)
  if len(sizes) > 1:
    raise ValueError(
        f'All values of clients must be of one cohort, found {sorted(sizes)}'
        ' clients.'
    )
  return next(iter(sizes), None)


def _add_sizes(value, part, sizes) -> None:
  if isinstance(part, tff.FederatedType):
    if part.placement is tff.CLIENTS and not part.all_equal:
      sizes[len(_as_list(value))] = True
  elif isinstance(part, tff.StructType):
    items = python_values.items(value)
    for item, t in zip(items, part.children()):
      _add_sizes(item, t, sizes)
    if len(items) < len(part):  # The class of error of TFF's own runtimes.
      raise IndexError(
          f'A structure of type {part} was expected, found one of'
          f' {len(items)} fields.'
      )


def _as_list(value) -> list:
  if isinstance(value, list):
    return value
  if isinstance(value, tuple):
    raise TypeError('The values of clients must be in a list, found a tuple.')
  # The class of error of TFF's own runtimes.
  raise cardinalities_utils.InvalidNonAllEqualValueError(
      value, tff.FederatedType(np.float32, tff.CLIENTS)
  )


def _shape(tensor_type) -> tuple:
  if tensor_type.shape is None:
    raise sequences.Unsupported('A tensor of unknown rank is an argument.')
  return tuple(tensor_type.shape)
