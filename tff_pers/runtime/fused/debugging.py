"""The strategy `debug`: slow, but errors name the place where they occur.

Stages, clients and TensorFlow graphs are executed one after another, and their
results are tensors with values. An error names the stage, the client and the
step of the computation; a debugger that stops there, or at a breakpoint in this
file, shows all earlier values.
"""

import contextlib
import functools
from typing import Any, Iterator, NamedTuple, Optional, cast

import tensorflow as tf

from tff_pers.runtime import errors
from tff_pers.runtime.fused import client_loop
from tff_pers.runtime.fused import evaluation
from tff_pers.runtime.fused.graphs import graph as graph_lib
from tff_pers.runtime.fused import mapping
from tff_pers.runtime.fused import stages
from tff_pers.runtime.fused.values import arguments
from tff_pers.runtime.fused.values import packing
from tff_pers.runtime.fused.values import results
from tff_pers.runtime.fused.values import sequences
from tff_pers.runtime.fused.values import structure
from tff_pers.runtime import line as line_lib
from tff_pers import tff


class Debugged:
  """A computation whose steps are executed one at a time."""

  def __init__(
      self,
      computation: tff.Computation,
      device: str,
      converter: arguments.Converter,
      result_tensors: results.ResultTensors,
  ):
    """Prepares the computation.

    Raises:
      sequences.Unsupported: If it cannot be fused.
    """
    self._type = computation.type_signature
    self._device = device
    self._converter = converter
    self._result_tensors = result_tensors
    line = line_lib.from_computation(computation)
    self._program = stages.Program(line, _Evaluator)
    self._evaluator = cast(_Evaluator, self._program.evaluator)
    self._evaluator.locate(self._program)

  def __call__(self, argument: Any) -> Any:
    """Returns the result as Python values."""
    with tf.device(self._device):
      argument_layout, tensors, num_clients = self._converter.ingest(
          argument, self._type.parameter, self._program.passes
      )
      result = self._program.trace(
          argument_layout and argument_layout.read(iter(tensors)),
          num_clients or 0, self._one_by_one,
      )
    return results.export(
        iter(results.flat(result, self._type.result)),
        results.skeleton(result), self._type.result, num_clients,
        self._result_tensors,
    )

  def _one_by_one(
      self, number: int, loop: client_loop.ClientLoop, num_clients: int
  ) -> dict:
    """Returns the values of a stage's bindings by name, see `mapping`."""
    if not num_clients:
      return mapping.empty(loop)
    contributions = []
    folded = [aggregate.zero for aggregate in loop.folds]
    for i in range(num_clients):
      place = f'the client at position {i} (of 0 to {num_clients - 1})'
      with self._evaluator.at(number, place):
        demanded, messages, singles = loop.client(tf.constant(i))
        contributions.append((demanded, singles))
        folded = [
            aggregate.accumulate((state, message))
            for aggregate, state, message in zip(loop.folds, folded, messages)
        ]
    with self._evaluator.at(number, 'the server'):
      return loop.results(
          [
              _collected([own[k] for own, _ in contributions], member)
              for k, member in enumerate(loop.demands.values())
          ],
          folded,
          [
              _merged(aggregate, [own[k] for _, own in contributions])
              for k, aggregate in enumerate(loop.grows)
          ],
      )


def _collected(values, member) -> Any:
  """Returns the clients' values in the form that later stages take."""
  columns = zip(*(structure.flatten(value, member) for value in values))
  return structure.unflatten(member, [
      _stacked(column, part)
      for column, part in zip(columns, structure.leaves(member))
  ])


def _stacked(tensors, tensor_type):
  if None not in tensor_type.shape:
    return packing.Rows(tf.stack(tensors))
  return packing.Pieces.pack(
      tf.concat([tf.reshape(t, [-1]) for t in tensors], 0),
      tf.stack([tf.shape(t, tf.int64) for t in tensors]),
      tuple(tensor_type.shape),
  )


def _merged(aggregate, singles) -> Any:
  states = [structure.unflatten(aggregate.type, single) for single in singles]
  return functools.reduce(lambda *pair: aggregate.merge(pair), states)


class _Evaluator(evaluation.Evaluator):
  """Executes graphs one by one, and names the step that an error is from."""

  is_traced = False

  def __init__(self, blocks):
    super().__init__(blocks)
    self.graphs = {
        key: _Executed(graph) for key, graph in self.graphs.items()
    }
    self._steps = {}
    self._place = 'the server'

  def locate(self, program: stages.Program) -> None:
    """Records the stage and the step of each block."""
    numbers = {
        binding.name: number
        for number, stage in enumerate(program.stages)
        for binding in (*stage.server, *stage.clients, *stage.aggregates)
    }
    for k, binding in enumerate(program.line.bindings):
      operation = getattr(binding.call.function, 'uri', 'TensorFlow')
      self._steps[id(binding.call)] = (
          numbers[binding.name], f'step {k + 1} (`{operation}`)'
      )

  @contextlib.contextmanager
  def at(self, stage: int, place: str) -> Iterator[None]:
    """Names the place of what is evaluated in the block."""
    before, self._place = self._place, place
    try:
      with self._located(stage, 'an aggregation'):
        yield
    finally:
      self._place = before

  def evaluate(self, block, env):
    if id(block) not in self._steps:
      return super().evaluate(block, env)
    with self._located(*self._steps[id(block)]):
      return super().evaluate(block, env)

  @contextlib.contextmanager
  def _located(self, stage, step):
    """Adds the place to an error; the innermost place counts."""
    try:
      yield
    except (errors.LocatedError, sequences.Unsupported):
      raise
    except Exception as error:
      raise errors.LocatedError(
          f'stage {stage + 1}, {self._place}, {step}:'
          f' {errors.cause_text(error)}'
      ) from error


class _Executed:
  """A graph that is executed when it is called.

  Attributes:
    is_private: See `graph.Graph`.
    passes: See `graph.Graph`.
  """

  def __init__(self, graph: graph_lib.Graph):
    self.is_private, self.passes = graph.is_private, graph.passes
    self._graph = graph
    self._functions: dict[Any, _Function] = {}  # By form of the argument.

  def __call__(self, argument: Any = None) -> Any:
    tensors: list[tf.Tensor] = []
    form = () if argument is None else _form(argument, tensors)
    if form not in self._functions:
      self._functions[form] = _Function(self._graph, form)
    return self._functions[form](tensors)


class _Function:
  """A graph as a function of the tensors of its argument."""

  def __init__(self, graph, form):
    self._result = None  # Form of the result.

    def run(*tensors):
      found: list[tf.Tensor] = []
      self._result = _form(graph(_value(form, iter(tensors))), found)
      return found

    self._run = tf.function(run, autograph=False)

  def __call__(self, tensors):
    with sequences.unsupported_if_it_fails():
      traced = self._run.get_concrete_function(*tensors)
    return _value(self._result, iter(traced(*tensors)))


class _SequenceForm(NamedTuple):
  """The form of a sequence.

  Attributes:
    element_type: TFF type of an element.
    segments: Its segments without tensors; None: it is a data set's tensor.
  """

  element_type: Any
  segments: Optional[tuple]


def _form(value, tensors) -> Any:
  """Returns the form of nested tuples; appends their tensors to `tensors`."""
  if isinstance(value, tuple):
    return tuple(_form(part, tensors) for part in value)
  if not isinstance(value, sequences.Sequence):
    tensors.append(value)
    return None
  if value.segments is None:
    tensors.append(value.variant)
    return _SequenceForm(value.element_type, None)
  found = sequences.flat(value.segments)
  tensors.extend(found)
  return _SequenceForm(value.element_type, tuple(
      sequences.of_tensors(value.segments, [None] * len(found))
  ))


def _value(form, tensors) -> Any:
  """Returns a value of that form with those tensors."""
  if isinstance(form, _SequenceForm):
    if form.segments is None:
      return sequences.Sequence(None, form.element_type, next(tensors))
    return sequences.Sequence(
        tuple(sequences.of_tensors(form.segments, tensors)), form.element_type
    )
  if isinstance(form, tuple):
    return tuple(_value(part, tensors) for part in form)
  return next(tensors)
