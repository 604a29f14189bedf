"""Sequences (`tf.data` datasets, selected slices) as tensors.

Consecutive elements of equal shapes are stacked to a segment: a data set of
batches is one segment of full batches and one with the ragged last batch.
Elements whose shapes keep changing are packed to one segment. The tensors of an
element are in the order of `tf.data`: named fields sorted.
"""

import contextlib
import itertools
from typing import Any, Callable, Iterable, Iterator, Optional

import tensorflow as tf

from tff_pers.runtime.fused.values import packing
from tff_pers import tff


class Unsupported(NotImplementedError):
  """A computation needs a feature that the fused runtime lacks."""


@contextlib.contextmanager
def unsupported_if_it_fails() -> Iterator[None]:
  """Turns errors while a computation is compiled into `Unsupported`.

  The native runtime has no such step: if the computation itself is wrong, its
  call on the native runtime says so.

  Raises:
    Unsupported: With the reason.
  """
  try:
    yield
  except (Unsupported, MemoryError, tf.errors.ResourceExhaustedError):
    raise
  except Exception as error:  # pylint: disable=broad-except  TF has many.
    lines = str(error).strip().splitlines() or ['']
    raise Unsupported(
        f'It cannot be traced: {type(error).__name__}: {lines[0]}'
    ) from error


class Sequence:
  """A sequence within a graph that is being traced.

  Attributes:
    segments: Tuple of segments, each a tuple with `packing.Rows` or `packing.Pieces`
      for every tensor of an element; None if only the data set is known.
    element_type: TFF type of an element.
  """

  def __init__(
      self, segments: Any, element_type: tff.Type,
      variant: Optional[Any] = None,
  ):
    self.segments = segments
    self.element_type = element_type
    self._variant = variant

  @property
  def variant(self) -> Any:
    """The variant tensor of the sequence as a `tf.data.Dataset`."""
    if self._variant is None:
      parts = [_dataset(segment) for segment in self.segments]
      dataset = parts[0]
      for part in parts[1:]:
        dataset = dataset.concatenate(part)
      self._variant = tf.data.experimental.to_variant(dataset)
    return self._variant

  @property
  def dataset(self) -> tf.data.Dataset:
    """The sequence as a data set of flat tuples."""
    spec = tuple(
        tf.TensorSpec(t.shape, t.dtype) for t in flat_types(self.element_type)
    )
    return tf.data.experimental.from_variant(self.variant, spec)

  def reduce(self, zero: Any, step: Any, shapes: Any) -> Any:
    """Returns `step(... step(zero, first element) ..., last element)`.

    State and elements are flat lists of tensors; the shapes are those that all
    states have.
    """
    zero = tuple(tf.convert_to_tensor(t) for t in zero)
    if self.segments is None:
      return self.dataset.reduce(
          zero, lambda state, element: tuple(step(state, _as_tuple(element)))
      )
    for segment in self.segments:
      zero = _fold(step, segment, zero, shapes)
    return zero


class Made(Sequence):
  """A sequence that a graph creates.

  On TFF's runtime, every use of it creates a data set of its own, which starts
  at the first pass; so the graph creates it again for all uses but the first.
  """

  def __init__(
      self, element_type: tff.Type, variant: Any, again: Callable[[], Any]
  ):
    super().__init__(None, element_type, variant)
    self._again, self._is_used = again, False

  @property
  def variant(self) -> Any:
    """The data set as a variant tensor; a new one for each use."""
    if self._is_used:
      return self._again()
    self._is_used = True
    return self._variant


def flat(segments: Any) -> list:
  """Returns the tensors that segments consist of."""
  return [t for segment in segments for part in segment for t in part.tensors]


def of_tensors(segments: Any, tensors: Iterable[tf.Tensor]) -> list:
  """Returns segments like these that consist of `tensors`."""
  tensors = iter(tensors)
  return [
      tuple(
          part.of_tensors(list(itertools.islice(tensors, len(part.tensors))))
          for part in segment
      )
      for segment in segments
  ]


def reduction(
    step: Any, segments: Any, shapes: Any
) -> Any:
  """Returns a function that folds `step` over the segments of a sequence.

  `step` is a concrete function `(state..., element..., others...) -> state...`,
  and the result one `(segments..., state..., others...) -> state...`, where
  segments are the tensors that `flat` returns. The tensors of the state have
  the shapes that the reduction of the data set declares. The result of `step`
  may have less specific ones, because it was loaded without the shapes of
  variables that it reads.
  """
  specs = [tf.TensorSpec(t.shape, t.dtype) for t in flat(segments)]
  num_given, num_state = len(specs), len(shapes)
  states = step.inputs[:num_state]
  others = step.inputs[num_state + len(segments[0]):]
  specs = [
      *specs,
      *(tf.TensorSpec(s, t.dtype) for s, t in zip(shapes, states)),
      *(tf.TensorSpec(t.shape, t.dtype) for t in others),
  ]

  def fold(*tensors):
    state = tensors[num_given:num_given + num_state]
    others = tensors[num_given + num_state:]
    for segment in of_tensors(segments, tensors[:num_given]):
      state = _fold(
          lambda state, element: tf.raw_ops.StatefulPartitionedCall(
              args=[*state, *element, *others],
              Tout=[t.dtype for t in step.outputs],
              f=step,
          ),
          segment, state, shapes,
      )
    return state

  return tf.function(fold, autograph=False).get_concrete_function(*specs)


def only_element(segment: Any) -> Any:
  """Returns a concrete function `(segment...) -> element...` for one element.

  The segment is `packing.Rows`, each of one tensor.
  """
  specs = [tf.TensorSpec(t.shape, t.dtype) for t in flat([segment])]
  first = lambda *segment: [tf.squeeze(t, 0) for t in segment]
  return tf.function(first, autograph=False).get_concrete_function(*specs)


def _dataset(segment) -> tf.data.Dataset:
  """Returns the elements of a segment as a data set of flat tuples."""
  if all(isinstance(part, packing.Rows) for part in segment):
    return tf.data.Dataset.from_tensor_slices(tuple(p.tensor for p in segment))
  count = tf.cast(segment[0].count, tf.int64)
  return tf.data.Dataset.range(count).map(
      lambda i: tuple(part.at(i) for part in segment)
  )


def _fold(step, segment, state, shapes):
  """Returns the state after the elements of one segment."""
  count = segment[0].count

  def body(i, state):
    state = step(state, [part.at(i) for part in segment])
    return i + 1, _shaped(state, shapes)

  return tf.while_loop(
      lambda i, _: i < count, body, (tf.constant(0), _shaped(state, shapes)),
      shape_invariants=(tf.TensorShape([]), tuple(shapes)),
      parallel_iterations=1,
  )[1]


def _shaped(tensors, shapes) -> tuple:
  """Returns the tensors with all dimensions that `shapes` specifies."""
  return tuple(
      t if t.shape.is_subtype_of(s) else tf.ensure_shape(t, s)
      for t, s in zip(tensors, shapes)
  )


def _as_tuple(value) -> tuple:
  return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def flat_types(element_type: tff.Type) -> list:
  """Returns the tensor types of an element in the order of `tf.data`."""
  if not isinstance(element_type, tff.StructType):
    return [element_type]
  return [
      leaf for i in _order(element_type) for leaf in flat_types(element_type[i])
  ]


def flatten(value: Any, element_type: tff.Type) -> list:
  """Returns the leaves of nested tuples `value` in the order of `tf.data`."""
  if not isinstance(element_type, tff.StructType):
    return [value]
  return [
      leaf for i in _order(element_type)
      for leaf in flatten(value[i], element_type[i])
  ]


def unflatten(leaves: Iterable[Any], element_type: tff.Type) -> Any:
  """Returns nested tuples of `leaves`, which are in the order of `tf.data`."""
  leaves = iter(leaves)

  def build(part):
    if not isinstance(part, tff.StructType):
      return next(leaves)
    items = {i: build(part[i]) for i in _order(part)}
    return tuple(items[i] for i in range(len(items)))

  return build(element_type)


def _order(struct: tff.StructType) -> list:
  """Returns the positions of the fields in the order of `tf.data`."""
  names = [name for name, _ in tff.structure.to_elements(struct)]
  positions = list(range(len(names)))
  container = getattr(struct, 'python_container', dict)
  if all(names) and (container is None or issubclass(container, dict)):
    return sorted(positions, key=lambda i: names[i])
  return positions
