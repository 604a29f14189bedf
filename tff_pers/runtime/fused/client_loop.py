"""The contract between a stage and the strategy that runs its clients.

A stage (`stages`) says what one client does and how messages are folded;
`mapping` decides in which order, and how many at once, clients run.
"""

from typing import Any, Mapping, Sequence

from tff_pers.runtime.fused import evaluation
from tff_pers.runtime.fused import singles as singles_lib
from tff_pers.runtime.fused.values import layout
from tff_pers.runtime.fused.values import structure
from tff_pers.runtime import line as line_lib
from tff_pers import tff


class Aggregate:
  """A `federated_aggregate` with its functions.

  Attributes:
    name: Its name in the `line`.
    type: TFF type of the accumulator.
    message: The clients' messages, a block that has not been evaluated yet.
    message_type: TFF type of one client's message.
    zero: The accumulator before the first client.
    accumulate: `(accumulator, message) -> accumulator`.
    merge: `(accumulator, accumulator) -> accumulator`.
    report: `accumulator -> result`.
    grows: Whether the shape of the accumulator depends on the clients.
    sources: For a growing accumulator: the sources of its tensors, see
      `singles`.
  """

  def __init__(
      self,
      binding: line_lib.Binding,
      evaluator: evaluation.Evaluator,
      env: Mapping[str, Any],
  ):
    self.name = binding.name
    self.message, zero, accumulate, merge, report = (
        binding.call.argument[i] for i in range(5)
    )
    self.type = accumulate.type_signature.result
    self.message_type = self.message.type_signature.member
    self.zero = evaluator.evaluate(zero, env)
    self.accumulate = evaluator.evaluate(accumulate, env)
    self.merge = evaluator.evaluate(merge, env)
    self.report = evaluator.evaluate(report, env)
    self.grows = not all(
        t.shape is not None and None not in t.shape
        for t in structure.leaves(self.type)
    )
    self.sources: list[Any] = []
    if self.grows and evaluator.is_traced:
      self.sources = singles_lib.sources(
          self.accumulate, self.zero, self.type, self.message_type
      )
    elif self.grows:
      self.sources = [None] * len(structure.leaves(self.type))

  @property
  def changes(self) -> list[bool]:
    """For each tensor of the accumulator, whether one client changes it."""
    return [source is None or source.is_message for source in self.sources]

  @property
  def changed_types(self) -> tff.StructType:
    """Types of the tensors of the accumulator that one client changes."""
    types = structure.leaves(self.type)
    return tff.StructType([
        (None, t) for t, changes in zip(types, self.changes) if changes
    ])

  def single(self, message: Any) -> tuple:
    """Returns the tensors of `changed_types` after this client alone."""
    zero = singles_lib.within(self.zero, self.type)
    state = structure.flatten(self.accumulate((zero, message)), self.type)
    if not any(self.sources):
      return tuple(state)
    sent = structure.flatten(message, self.message_type)
    return tuple(
        sent[source.leaf] if source else computed
        for source, computed in zip(self.sources, state)
        if source is None or source.is_message
    )

  def whole(self, changed: Any) -> list:
    """Returns all tensors of the accumulator, unchanged ones from `zero`.

    `changed` has a value for each tensor of `changed_types`.
    """
    rest = iter(changed)
    return [
        next(rest) if changes else start for changes, start in zip(
            self.changes, structure.flatten(self.zero, self.type)
        )
    ]


class ClientLoop:
  """The computation of a stage for each of its clients.

  Attributes:
    demands: TFF types of a client's values that later stages, or the result,
      need, by their names in the `line`.
    folds: Aggregates whose accumulators keep their shapes.
    grows: Aggregates whose accumulators grow: merged in a balanced tree.
    is_private: Whether no client can see the effects of another.
    has_races: Whether clients on a CPU must not overlap.
  """

  def __init__(
      self,
      evaluator: evaluation.Evaluator,
      lazy: Mapping[str, line_lib.Binding],
      demands: Sequence[str],
      aggregates: Sequence[line_lib.Binding],
      env: Mapping[str, Any],
  ):
    """Initializes the loop.

    `demands` are names of bindings that are collected; those in `lazy`, at
    clients, are evaluated where they are used. `env` has all other values.
    """
    self.is_private = evaluator.is_private
    self.has_races = evaluator.has_races
    self._evaluator, self._lazy, self._env = evaluator, lazy, env
    self.demands = {
        name: lazy[name].call.type_signature.member for name in demands
    }
    built = [Aggregate(binding, evaluator, env) for binding in aggregates]
    self.folds = [a for a in built if not a.grows]
    self.grows = [a for a in built if a.grows]

  @property
  def collected_type(self) -> tff.StructType:
    """Type of what is kept of a client: demands, then singles."""
    types = [*self.demands.values(), *(a.changed_types for a in self.grows)]
    return tff.StructType([(None, t) for t in types])

  def client(
      self, i: Any, is_loop: bool = False
  ) -> tuple[tuple, tuple, tuple]:
    """Returns the contribution of client `i`, an int32 scalar.

    These are the values of the demands, the messages to `folds`, and for each
    of `grows` the tensors of the accumulator of this client alone that differ
    from those before it. For `is_loop` see `packing.Rows.at`.
    """
    scope = _ClientScope(self._evaluator, self._lazy, self._env, i, is_loop)
    message = lambda a: self._evaluator.evaluate(a.message, scope)
    # In the order of the line, so that only what is needed remains.
    return (
        tuple(scope[name] for name in self.demands),
        tuple(message(a) for a in self.folds),
        tuple(a.single(message(a)) for a in self.grows),
    )

  def results(
      self, demanded: Sequence, folded: Sequence, merged: Sequence
  ) -> dict:
    """Returns all values by name, aggregates after `report`.

    Collected values are in the order of `demands`, accumulators of all clients
    in that of `folds` and of `grows`.
    """
    values = dict(zip(self.demands, demanded))
    for aggregates, states in ((self.folds, folded), (self.grows, merged)):
      for aggregate, state in zip(aggregates, states):
        values[aggregate.name] = aggregate.report(state)
    return values


class _ClientScope(dict):
  """The names that client i sees; bindings are evaluated on first use."""

  def __init__(self, evaluator, lazy, env, i, is_loop):
    super().__init__()
    self._evaluator, self._lazy, self._env = evaluator, lazy, env
    self._i, self._is_loop = i, is_loop

  def __missing__(self, name):
    if name in self._env:
      self[name] = layout.at(self._env[name], self._i, self._is_loop)
    else:
      self[name] = self._evaluator.evaluate(self._lazy[name].call, self)
    return self[name]
