"""The whole of a computation as one traced TensorFlow function.

The bindings of a line are ordered in stages. In one stage the server computes
what it can; then one loop over the clients does all their maps and folds what
they send. The next stage starts from the aggregates.
"""

import collections
import itertools
from typing import Any, Callable, Mapping

import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.runtime import graphs
from tff_pers.runtime import layout
from tff_pers.runtime import line as line_lib
from tff_pers.runtime import sequences

_AGGREGATE = 'federated_aggregate'
_SELECT = ('federated_select', 'federated_secure_select')
# What these return is their argument: who holds it is in the types.
_PASS = (
    'federated_broadcast', 'federated_value_at_server',
    'federated_value_at_clients', 'federated_zip_at_server',
    'federated_zip_at_clients',
)
_APPLY = ('federated_map', 'federated_map_all_equal', 'federated_apply')
_EVAL = ('federated_eval_at_server', 'federated_eval_at_clients')


class Stage:
  """Bindings of one stage.

  Attributes:
    server: Bindings that the server computes first, in order.
    clients: Bindings at clients.
    aggregates: `federated_aggregate`s of what clients have then.
    demands: Names of bindings at clients whose values later stages or the
      result need.
  """

  def __init__(self):
    self.server, self.clients, self.aggregates = [], [], []
    self.demands = []


class Program:
  """A line, ready to be traced."""

  def __init__(self, line: line_lib.Line):
    """Plans the stages.

    Raises:
      sequences.Unsupported: If the computation cannot be fused.
    """
    _check_result(line.result_type)
    self.line = line
    self.graphs = {}
    for block in [b.call for b in line.bindings] + [line.result]:
      for key, compiled in graphs.collect(block).items():
        if key not in self.graphs:
          self.graphs[key] = graphs.Graph(
              compiled, lambda: f'call_{next(self._calls)}'
          )
    self.is_private = all(g.is_private for g in self.graphs.values())
    self.stages = self._plan()

  def _plan(self) -> list:
    """Returns the stages."""
    stages = collections.defaultdict(Stage)
    ready, self._lazy = {}, {}
    for binding in self.line.bindings:
      needs = line_lib.references(binding.call)
      stage = max((ready.get(name, 0) for name in needs), default=0)
      ready[binding.name] = stage
      if _uri(binding.call) == _AGGREGATE:
        stages[stage].aggregates.append(binding)
        ready[binding.name] = stage + 1
      elif not _is_at_clients(binding.call.type_signature):
        stages[stage].server.append(binding)
      else:
        stages[stage].clients.append(binding)
        self._lazy[binding.name] = binding
    for name, stage in self._used_later(ready).items():
      stages[stage].demands.append(name)
    return [stages[k] for k in range(max(stages, default=-1) + 1)]

  def _used_later(self, ready) -> dict:
    """Returns bindings at clients by the stage that must keep their values."""
    kept = {}

    def use(block, stage):
      for name in line_lib.references(block):
        if name not in self._lazy:
          continue
        binding = self._lazy[name]
        if _has_sequence(binding.call.type_signature):
          use(binding.call, stage)  # Evaluated again where it is used.
        elif stage is None or ready[name] < stage:
          kept[name] = ready[name]

    for binding in self.line.bindings:
      stage = ready[binding.name] - (_uri(binding.call) == _AGGREGATE)
      use(binding.call, stage)
    use(self.line.result, None)
    return kept

  def trace(self, argument: Any, num_clients: Any, mapper: Callable) -> Any:
    """Adds the computation to the graph being traced.

    Args:
      argument: The argument as `layout` reads it.
      num_clients: int32 scalar, size of the cohort.
      mapper: How a stage goes over the clients, see `mapping`.

    Returns:
      The result: nested tuples of tensors, `layout.Rows`, `layout.Pieces` and
      `sequences.Sequence`s.
    """
    self._calls = itertools.count()
    env = {}
    if self.line.parameter_name is not None:
      env[self.line.parameter_name] = layout.on_server(argument)
    for number, stage in enumerate(self.stages):
      for binding in stage.server:
        env[binding.name] = self.evaluate(binding.call, env)
      if stage.aggregates or stage.demands:
        env.update(mapper(number, _Loop(self, stage, env), num_clients))
    return self.evaluate(self.line.result, env)

  def evaluate(self, block, env: Mapping[str, Any]) -> Any:
    """Returns the value of `block`; functions become Python functions."""
    if isinstance(block, tff.framework.Reference):
      return env[block.name]
    if isinstance(block, tff.framework.Selection):
      return self.evaluate(block.source, env)[block.as_index()]
    if isinstance(block, tff.framework.Struct):
      return tuple(self.evaluate(block[i], env) for i in range(len(block)))
    if isinstance(block, tff.framework.Call):
      function = self.evaluate(block.function, env)
      if block.argument is None:
        return function()
      return function(self.evaluate(block.argument, env))
    if isinstance(block, tff.framework.Lambda):
      return lambda *a: self.evaluate(
          block.result,
          _Scope({block.parameter_name: a[0]} if a else {}, env),
      )
    if isinstance(block, tff.framework.Block):
      scope = _Scope({}, env)
      for name, value in block.locals:
        scope.names[name] = self.evaluate(value, scope)
      return self.evaluate(block.result, scope)
    if isinstance(block, tff.framework.CompiledComputation):
      return self.graphs[graphs.key(block)]
    if isinstance(block, tff.framework.Intrinsic):
      return _intrinsic(block)
    if isinstance(block, tff.framework.Literal):
      return tf.constant(block.value, block.type_signature.dtype)
    raise sequences.Unsupported(
        f'The fused runtime does not know {type(block).__name__}.'
    )


class _Scope:
  """Names bound inside a function or block, before those around it."""

  def __init__(self, names, outer):
    self.names, self.outer = names, outer

  def __getitem__(self, name):
    return self.names[name] if name in self.names else self.outer[name]


class _ClientScope:
  """Names as client i sees them; bindings are evaluated when first used."""

  def __init__(self, program, env, i):
    self._program, self._env, self._i = program, env, i
    self._values = {}

  def __getitem__(self, name):
    if name not in self._values:
      if name in self._env:
        self._values[name] = layout.at(self._env[name], self._i)
      else:
        self._values[name] = self._program.evaluate(
            self._program._lazy[name].call, self
        )
    return self._values[name]


class _Loop:
  """What happens in a stage's loop over the clients.

  Attributes:
    folds: Aggregates whose accumulators keep their shapes.
    grows: Aggregates whose accumulators grow: merged in a balanced tree.
    is_private: Whether no client can see what another one does.
  """

  def __init__(self, program, stage, env):
    self.is_private = program.is_private
    self._program, self._stage, self._env = program, stage, env
    self.demands = [
        (name, program._lazy[name].call.type_signature.member)
        for name in stage.demands
    ]
    aggregates = [_Aggregate(b, program, env) for b in stage.aggregates]
    self.folds = [a for a in aggregates if not a.grows]
    self.grows = [a for a in aggregates if a.grows]

  def client(self, i):
    """Returns what client i contributes.

    Returns:
      Tuple of the values of `demands`, the messages to `folds`, and the
      accumulators of `grows` after this client alone.
    """
    scope = _ClientScope(self._program, self._env, i)
    # In the order of the line, though only what is needed remains.
    kept = tuple(scope[name] for name, _ in self.demands)
    messages = tuple(
        self._program.evaluate(a.message, scope) for a in self.folds
    )
    singles = tuple(
        a.accumulate((a.zero, self._program.evaluate(a.message, scope)))
        for a in self.grows
    )
    return kept, messages, singles

  @property
  def operations(self) -> frozenset:
    """Types of the operations that clients run."""
    found = set()
    for binding in self._stage.clients:
      for key in graphs.collect(binding.call):
        found |= self._program.graphs[key].operations
    return frozenset(found)

  def results(self, kept, folded, merged) -> dict:
    """Returns the values by name, aggregates reported."""
    values = {name: value for (name, _), value in zip(self.demands, kept)}
    for aggregates, states in ((self.folds, folded), (self.grows, merged)):
      for aggregate, state in zip(aggregates, states):
        values[aggregate.name] = aggregate.report(state)
    return values


class _Aggregate:
  """A `federated_aggregate` with its functions, `message` unevaluated."""

  def __init__(self, binding, program, env):
    self.name = binding.name
    self.message, zero, accumulate, merge, report = (
        binding.call.argument[i] for i in range(5)
    )
    self.type = accumulate.type_signature.result
    self.message_type = self.message.type_signature.member
    self.zero = program.evaluate(zero, env)
    self.accumulate = program.evaluate(accumulate, env)
    self.merge = program.evaluate(merge, env)
    self.report = program.evaluate(report, env)
    self.grows = not all(
        t.shape is not None and None not in t.shape for t in leaves(self.type)
    )


def _check_result(type_signature) -> None:
  """Raises sequences.Unsupported if clients return sequences."""
  if isinstance(type_signature, tff.StructType):
    for part in type_signature.children():
      _check_result(part)
  elif _is_at_clients(type_signature) and _has_sequence(type_signature):
    raise sequences.Unsupported('Sequences cannot be returned by clients.')


def leaves(type_signature) -> list:
  """Returns the tensor types of a structure in order."""
  if isinstance(type_signature, tff.StructType):
    return [t for part in type_signature.children() for t in leaves(part)]
  if isinstance(type_signature, tff.SequenceType):
    raise sequences.Unsupported('Sequences cannot be collected from clients.')
  return [type_signature]


def flatten(value, type_signature) -> list:
  """Returns the tensors, rows or pieces of nested tuples in order."""
  if not isinstance(type_signature, tff.StructType):
    return [value]
  return [
      leaf
      for v, t in zip(value, type_signature.children())
      for leaf in flatten(v, t)
  ]


def unflatten(type_signature, values):
  """Returns nested tuples of `values`, as `flatten` orders them."""
  values = iter(values)  # An iterator stays the same one.
  if isinstance(type_signature, tff.StructType):
    return tuple(unflatten(t, values) for t in type_signature.children())
  return next(values)


def _uri(call) -> str:
  function = call.function if isinstance(call, tff.framework.Call) else None
  return getattr(function, 'uri', '')


def _is_at_clients(type_signature) -> bool:
  return (
      isinstance(type_signature, tff.FederatedType)
      and type_signature.placement is tff.CLIENTS
      and not type_signature.all_equal
  )


def _has_sequence(type_signature) -> bool:
  return '*' in str(type_signature)


def _intrinsic(block) -> Callable[[Any], Any]:
  """Returns what an intrinsic does at one place."""
  uri = block.uri
  if uri in _PASS:
    return lambda value: value
  if uri in _APPLY:
    return lambda argument: argument[0](argument[1])
  if uri in _EVAL:
    return lambda function: function()
  if uri in _SELECT:
    key_type = block.type_signature.parameter[0].member
    result = block.type_signature.result.member
    return lambda argument: _select(*argument, key_type, result.element)
  if uri in ('sequence_map', 'sequence_reduce'):
    types = block.type_signature
    return lambda argument: _SEQUENCE[uri](argument, types)
  raise sequences.Unsupported(
      f'The fused runtime does not know the intrinsic {uri}.'
  )


def _select(keys, max_key, value, function, key_type, element_type):
  """Returns the sequence of the slices at `keys`, int32[k]."""
  del max_key  # Only bounds the keys.
  if None in key_type.shape:
    raise sequences.Unsupported('The number of selected keys must be static.')
  slices = [
      sequences.flatten(function((value, keys[j])), element_type)
      for j in range(key_type.shape[0])
  ]
  segment = tuple(tf.stack(column) for column in zip(*slices))
  return sequences.Sequence((segment,), element_type)


def _sequence_map(argument, types):
  function, sequence = argument
  element = types.parameter[1].element
  out = types.result.element
  dataset = sequence.dataset.map(
      lambda *e: tuple(sequences.flatten(
          function(sequences.unflatten(e, element)), out
      ))
  )
  return sequences.Sequence(
      None, out, tf.data.experimental.to_variant(dataset)
  )


def _sequence_reduce(argument, types):
  sequence, zero, step = argument
  element, state_type = types.parameter[0].element, types.parameter[1]

  def flat_step(state, e):
    return sequences.flatten(
        step((
            sequences.unflatten(state, state_type),
            sequences.unflatten(e, element),
        )),
        state_type,
    )

  return sequences.unflatten(
      sequence.reduce(sequences.flatten(zero, state_type), flat_step),
      state_type,
  )


_SEQUENCE = {'sequence_map': _sequence_map, 'sequence_reduce': _sequence_reduce}
