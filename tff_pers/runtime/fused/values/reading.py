"""Reads an argument's sequences before the computation runs, if possible."""

import math
from typing import Any, Optional, Sequence

import numpy as np
import tensorflow as tf

from tff_pers.runtime.fused.values import cache
from tff_pers.runtime.fused.values import contents
from tff_pers.runtime.fused.values import datasets
from tff_pers.runtime.fused.values import lines
from tff_pers.runtime.fused.values import packing
from tff_pers.runtime.fused.values import pipelines
from tff_pers.runtime.fused.values import sequences
from tff_pers import tff

# Larger data sets are only read when the computation asks for their elements.
_MOST_ELEMENTS = 2**24


class _TooLargeError(Exception):
  """A cohort has more data than the reader may hold."""


class Reader:
  """Reads sequences, as far as possible before a computation runs.

  Segments of a data set are cached as long as the caller holds the data set, if
  reading takes time and the pipeline still has the same contents.
  """

  def __init__(self, max_bytes: int):
    """Initializes it; `max_bytes` limits the cache and a cohort's data."""
    self._cache, self._max_bytes = cache.Cache(max_bytes), max_bytes

  def read(
      self, values: Sequence[Any], element_type: tff.Type, passes: float
  ) -> tuple[Optional[list], Optional[list]]:
    """Reads the sequences of a cohort.

    They are a `tf.data.Dataset`, or a list of elements, for each client.
    `passes` is the number of passes over them, see `graphs.graph`.

    Returns:
      Either (segments, None): for each client a list of segments, each a list
      of arrays [elements, ...] in the order of `tf.data`; all elements of a
      segment have one shape. Or (None, graphs): for each client the graph of a
      data set, which the computation has to read itself.

    Raises:
      TypeError: If the elements are not of that type.
      sequences.Unsupported: If neither is possible.
    """
    found = [
        self._unchanged(value, element_type) if passes < math.inf else None
        for value in values
    ]
    sources = [
        None if segments else _source(value, element_type)
        for value, segments in zip(values, found)
    ]
    if all(source is None or source.is_readable(passes) for source in sources):
      try:
        return self._segments(sources, found, element_type), None
      except _TooLargeError:
        pass
    return None, [
        (source or _source(value, element_type)).written()
        for value, source in zip(values, sources)
    ]

  def _segments(self, sources, found, element_type) -> list:
    """Returns the segments of all clients, some of which are known already."""
    types = sequences.flat_types(element_type)
    all_lines = [source and source.line() for source in sources]
    read, room = lines.segments(all_lines), self._max_bytes
    for k, source in enumerate(sources):
      if source is None:
        read[k] = found[k]
      elif read[k] is None:
        read[k] = self._elements(source, types, room)
      else:
        read[k] = datasets.padded(read[k], types)
        self._remember(source, element_type, all_lines[k], read[k])
      room -= _size(read[k])
      if room < 0:
        raise _TooLargeError()
    return read

  def _unchanged(self, value, element_type):
    """Returns the cached segments if the rows are unchanged, else None."""
    if not isinstance(value, tf.data.Dataset):
      return None
    known = self._cache.get(element_type, [value])
    if known is None:
      return None
    tensors, rows, segments = known
    # A tensor may be a view of the caller's memory (DLPack), which may change.
    now = [np.asarray(tensor) for tensor in tensors]
    return segments if contents.equal(now, rows) else None

  def _remember(self, source, element_type, line, segments) -> None:
    """Caches the segments of rows whose order is the same in every pass."""
    tensors = source.tensors()
    if tensors is None or line.has_functions or not source.is_fixed:
      return
    kept = tensors, line.source, segments
    self._cache.put(element_type, [source.value], kept, _size(segments))

  def _elements(self, source, types, room) -> list:
    """Returns the segments of one client, read element by element."""
    use = (tuple(types), source.digest())
    kept = use[1] and self._cache.get(use, [source.value])
    if kept:
      return kept
    elements = []
    for element in source.elements():
      elements.append(element)
      room -= _size([element])
      if room < 0:
        raise _TooLargeError()
    segments = datasets.segments(elements, types)
    if use[1]:
      self._cache.put(use, [source.value], segments, _size(segments))
    return segments


def _source(value, element_type):
  """Returns a value as a source of elements."""
  if isinstance(value, tf.data.Dataset):
    return _DataSet(value, element_type)
  if isinstance(value, list):
    return _List(value, element_type)
  raise TypeError(
      'A sequence must be a `tf.data.Dataset` or a list of elements, found'
      f' {type(value)}.'
  )


class _List:
  """A list of elements."""

  def __init__(self, value, element_type):
    self._arrays = datasets.listed(value, element_type)
    self._type = element_type

  def is_readable(self, passes) -> bool:
    del passes  # The elements are in memory.
    return True

  def line(self):
    return None

  def digest(self):
    return None

  def elements(self):
    return self._arrays

  def written(self) -> bytes:
    segments = datasets.segments(
        self._arrays, sequences.flat_types(self._type)
    )
    rows = [
        tuple(packing.Rows(tf.convert_to_tensor(array)) for array in segment)
        for segment in segments
    ]
    whole = sequences.Sequence(rows, self._type)
    return pipelines.Pipeline(whole.dataset).written()


class _DataSet:
  """A `tf.data.Dataset`."""

  def __init__(self, value, element_type):
    datasets.check_elements(value.element_spec, element_type)
    self.value = value
    self._pipeline: Optional[pipelines.Pipeline] = None
    try:
      self._pipeline = pipelines.Pipeline(value)
    except tf.errors.OpError as error:
      self._why = error

  def is_readable(self, passes) -> bool:
    """Whether it is finite, and every pass over it gives the same elements."""
    count = int(self.value.cardinality())
    if count == tf.data.INFINITE_CARDINALITY or count > _MOST_ELEMENTS:
      return False
    if self._pipeline is None:
      return True  # There is no other way to read it.
    return passes <= 1 or passes < math.inf and self.is_fixed

  def line(self):
    return self._pipeline and self._pipeline.line()

  @property
  def is_fixed(self) -> bool:
    """Whether its content determines its elements."""
    return self._pipeline is not None and self._pipeline.is_fixed

  def digest(self):
    """Returns a digest of the content, or None if elements may vary."""
    if self._pipeline is None or not self._pipeline.is_fixed:
      return None
    return self._pipeline.digest()

  def tensors(self):
    """Returns the tensors whose slices are its elements, if there are any."""
    root = self.value
    while root._inputs():  # pylint: disable=protected-access
      root = root._inputs()[0]  # pylint: disable=protected-access
    return getattr(root, '_tensors', None)

  def elements(self):
    """Yields the elements, lists of arrays."""
    data = self._pipeline.private(self.value) if self._pipeline else self.value
    for element in data.as_numpy_iterator():
      yield [np.asarray(leaf) for leaf in tf.nest.flatten(element)]

  def written(self) -> bytes:
    if self._pipeline is None:
      raise sequences.Unsupported(
          f'TensorFlow cannot serialize a data set: {self._why}'
      )
    return self._pipeline.written()


def _size(segments) -> int:
  return sum(array.nbytes for segment in segments for array in segment)
