"""Checks and casts the clients' data that callers pass to a process.

A runtime knows only types: its error about an array of the wrong type names
neither the client nor the remedy. So the computations of a process that take
clients' data check them first, whatever the runtime. Inside another computation
the arguments are not arrays yet, and nothing is checked.
"""

import collections
import dataclasses
from typing import Any, Callable, Mapping, Optional, Sequence

import numpy as np
import tensorflow as tf

from tff_pers.core import arrays
from tff_pers import tff

_FORM = 'as `client_data.dense(index, x, y)` makes them'


@dataclasses.dataclass(frozen=True)
class Cohort:
  """The clients that may take part in a round.

  Attributes:
    num_clients: N; indices must be in 0..N-1. None: any index is allowed.
    is_whole: Whether all N clients must take part.
  """

  num_clients: Optional[int] = None
  is_whole: bool = False

  def check(self, indices: Sequence[int]) -> None:
    """Raises if the method was not built for this cohort.

    Raises:
      ValueError: If an index is not in 0..N-1 or occurs twice, or a client of a
        whole cohort is missing.
    """
    if self.num_clients is None:
      return
    for index in indices:
      if not 0 <= index < self.num_clients:
        raise ValueError(
            f'The index of a client must be in 0..{self.num_clients - 1},'
            f' because the process was built for {self.num_clients} clients,'
            f' found {index}. Tip: number the clients from 0, without gaps.'
        )
    twice = [i for i, n in collections.Counter(indices).items() if n > 1]
    if twice:
      raise ValueError(
          '`data` must hold every client of the round once, found client'
          f' {twice[0]} {indices.count(twice[0])} times. Tip: give each client'
          ' an index of its own.'
      )
    if self.is_whole and len(indices) < self.num_clients:
      raise ValueError(
          f'`data` must hold all {self.num_clients} clients in every round,'
          f' found {len(indices)} clients. Tip: build the process with'
          ' full_participation=False.'
      )


class CheckedComputation(tff.framework.ConcreteComputation):
  """A computation whose last argument is clients' data, checked when called."""

  def __init__(
      self, *, check: Optional[Callable[..., Any]] = None, **arguments: Any
  ):
    """Initializes the computation.

    Args:
      check: `(arguments) -> arguments`, both lists; None: no check.
      **arguments: Arguments of the base class.
    """
    super().__init__(**arguments)
    self._check = check

  def __call__(self, *args, **kwargs):
    expected = self.type_signature.parameter
    # TFF would take keyword arguments apart without a check. A call with a
    # single structure, as in some of TFF's programs, is not checked.
    if kwargs and not args:
      names = tff.structure.name_list(expected)
      if sorted(kwargs) == sorted(names):
        args, kwargs = tuple(kwargs[name] for name in names), {}
    # In a computation that is being traced, arguments are not Python lists.
    if self._check and len(args) == len(expected) and not kwargs:
      args = self._check(list(args))
    return super().__call__(*args, **kwargs)


def checked(
    computation: tff.Computation, check: Callable[..., Any]
) -> tff.Computation:
  """Returns the computation, which calls `check` on its arguments first."""
  if not isinstance(computation, tff.framework.ConcreteComputation):
    return computation  # Of a kind that cannot be rebuilt from its proto.
  return CheckedComputation(
      computation_proto=tff.framework.ConcreteComputation.get_proto(
          computation
      ),
      context_stack=tff.framework.get_context_stack(),
      annotated_type=computation.type_signature, check=check,
  )


def checked_arguments(
    arguments: Sequence[Any], data_type: tff.Type,
    cohort: Callable[[], Cohort] = lambda: Cohort(), labels: Any = None,
) -> Sequence[Any]:
  """Returns [state, client states, data], the data cast to their types.

  Args:
    arguments: [S, list of C, list of D or of <adapt=D, test=D>].
    data_type: The TFF type of D.
    cohort: Returns the `Cohort` that may take part.
    labels: The `labels.Labels` that y holds, see `fitted`.

  Raises:
    TypeError: If the data are not dense client data, see `fitted`.
    ValueError: If the numbers of states and data differ, or `Cohort.check` or
      `fitted` refuses the clients.
  """
  state, client_states, data = arguments
  if not isinstance(data, (list, tuple)):
    return arguments
  if isinstance(client_states, (list, tuple)):
    if len(client_states) != len(data):
      raise ValueError(
          '`client_states` must hold one state for each client of `data`, found'
          f' {len(client_states)} for {len(data)} clients. Tip: that of a new'
          ' client is `initialize_client(state, index)`, of a stateless one ().'
      )
  fit = [
      _fitted_all(one, data_type, where, labels)
      for where, one in enumerate(data)
  ]
  cohort().check([int(one['index']) for one in fit if 'index' in one])
  return [state, client_states, fit]


def _fitted_all(client, data_type, *others):
  """Returns the fitted data of a client, or its fitted adapt and test data."""
  if isinstance(client, Mapping) and set(client) == {'adapt', 'test'}:
    return collections.OrderedDict(
        (name, fitted(client[name], data_type, *others)) for name in client
    )
  return fitted(client, data_type, *others)


def fitted(
    client: Any, data_type: tff.StructType, position: int = 0,
    labels: Any = None,
) -> Any:
  """Returns the dense data of a client, cast to the expected type.

  int64 labels become int32 if none changes by it; float64 or integer features
  become float32, which rounds them. Arrays that already fit are returned
  themselves, not copied, so that a runtime recognizes them.

  Args:
    client: Dense data.
    data_type: Their TFF type, see `client_data.client_data_type`.
    position: The place of the client among those given, for messages.
    labels: The `labels.Labels` that y must hold; None: any numbers.

  Raises:
    TypeError: If they are not dense data of arrays of numbers.
    ValueError: If a shape differs, a number cannot be cast, or the model does
      not have a label.
  """
  names = tff.structure.name_list(data_type)
  if not isinstance(client, Mapping) or set(client) != set(names):
    tip = ''
    if isinstance(client, tf.data.Dataset):
      tip = (
          ' Tip: give all examples of a client as arrays, not in batches; the'
          ' process makes the batches.'
      )
    found = f'a {type(client).__name__}'
    if isinstance(client, Mapping):
      found = f'one with {", ".join(map(str, client)) or "nothing"}'
    raise TypeError(
        f'`data` must hold dense data of clients, {_FORM}, found {found} at'
        f' position {position}.{tip}'
    )
  index = arrays.client_index(
      client['index'], f'The index at position {position}'
  )
  examples, expected = client['examples'], data_type['examples']
  if not isinstance(examples, Mapping) or set(examples) != {'x', 'y'}:
    raise TypeError(
        f'The examples of client {index} must be x and y, {_FORM}, found'
        f' {type(examples).__name__}.'
    )
  fit = collections.OrderedDict(
      (name, _fitted(examples[name], expected[name], name, index))
      for name in ('x', 'y')
  )
  if labels is not None:
    outputs = [fit['y']]
    if isinstance(labels, list):
      outputs = tf.nest.flatten(fit['y'])
    else:
      labels = [labels]
    for y, own in zip(outputs, labels):
      if own is not None:
        _check_labels(y, int(client['num_examples']), own, index)
  before, after = tf.nest.flatten(examples), tf.nest.flatten(fit)
  if all(old is new for old, new in zip(before, after)):
    return client
  return collections.OrderedDict(client, examples=fit)


def _fitted(value, expected: tff.Type, path: str, index: int):
  """Returns one array or several, in the structure of the type."""
  if isinstance(expected, tff.TensorType):
    return arrays.fitted(value, expected, f'`{path}` of client {index}')
  names = tff.structure.name_list_with_nones(expected)
  is_dict = None not in names
  found = list(value) if isinstance(value, (Mapping, tuple, list)) else None
  if found is None or isinstance(value, Mapping) != is_dict or (
      set(found) != set(names) if is_dict else len(found) != len(names)
  ):
    wanted = f'a dict with {", ".join(names)}'
    if not is_dict:
      wanted = f'a tuple of {len(names)} arrays'
    shown = f'a {type(value).__name__}'
    if isinstance(value, Mapping):
      shown = f'one with {", ".join(map(str, value))}'
    elif isinstance(value, (tuple, list)):
      shown += f' of {len(value)}'
    raise TypeError(
        f'`{path}` of client {index} must be {wanted}, as the model takes it,'
        f' found {shown}.'
    )
  if is_dict:
    return collections.OrderedDict(
        (name, _fitted(value[name], expected[name], f'{path}[{name}]', index))
        for name in names
    )
  return tuple(
      _fitted(part, expected[i], f'{path}[{i}]', index)
      for i, part in enumerate(value)
  )


def _check_labels(y, num_examples: int, labels, index: int) -> None:
  """Raises on labels that the model does not have; padding may hold any."""
  wrong = labels.first_wrong(np.asarray(y)[:num_examples])
  if wrong is not None:
    label, row = wrong
    raise ValueError(
        f'`y` of client {index} must be labels in 0..{labels.num_classes - 1},'
        f' as the model has them, found {label} in row {row}. Tip: number the'
        ' classes from 0, and leave out examples without a class.'
    )
