"""Computations as bytes, which another process makes computations of again.

TFF serializes neither the Python containers of types, such as a named tuple of
results, nor which constants are inputs (`number_inputs`).
"""

import sys
from typing import Any, Iterator, Mapping, Optional

# Not exported by TFF: the message of a computation.
from tensorflow_federated.proto.v0 import computation_pb2

from tff_pers import number_inputs
from tff_pers.runtime.fused.graphs import number_variables
from tff_pers import tff

_PACKAGES = (
    'baselines', 'builtins', 'collections', 'tensorflow_federated', 'tff_pers'
)


def written(
    computation: tff.Computation,
    inputs: Mapping[str, number_inputs.NumberInput],
) -> tuple[dict[str, Any], bytes]:
  """Returns a description, a value of JSON, and bytes.

  Args:
    computation: The computation.
    inputs: The inputs by name. Others are products of them.

  Raises:
    ValueError: If an input is none of these, or `read` would fail.
  """
  content = tff.framework.serialize_computation(
      computation
  ).SerializeToString()
  names = {number.key: name for name, number in inputs.items()}
  numbers = {}
  for key in number_variables.keys(content):
    if key not in number_inputs.known:
      raise ValueError('An input is known no longer.')
    numbers[key] = _expression(number_inputs.known[key], names)
  return dict(
      containers=list(_containers(computation.type_signature)),
      numbers=numbers,
  ), content


def read(
    description: Mapping[str, Any], content: bytes,
    inputs: Mapping[str, number_inputs.NumberInput],
) -> tff.Computation:
  """Returns the computation of `written`, with the inputs of this process.

  Raises:
    ValueError: If a container or an input is not known here.
  """
  numbers = {
      int(key): _number(expression, inputs)
      for key, expression in description['numbers'].items()
  }
  proto = computation_pb2.Computation.FromString(
      number_variables.renumbered(content, numbers)
  )
  computation = tff.framework.deserialize_computation(proto)
  containers = iter(description['containers'])
  return type(computation).with_type(
      computation, _contained(computation.type_signature, containers)
  )


def _expression(number: Any, names: Mapping[int, str]) -> Any:
  """Returns an input's name, or a list of the factors of a product."""
  if not isinstance(number, number_inputs.NumberInput):
    return float(number)
  if number.key in names:
    return names[number.key]
  if not number.factors:
    raise ValueError(f'The input {number!r} must have a name.')
  return [_expression(factor, names) for factor in number.factors]


def _number(
    expression: Any, inputs: Mapping[str, number_inputs.NumberInput]
) -> Any:
  """Returns the input or number of an `_expression`."""
  if isinstance(expression, list):
    one, other = (_number(factor, inputs) for factor in expression)
    return one * other
  return inputs[expression] if isinstance(expression, str) else expression


def _containers(signature: Optional[tff.Type]) -> Iterator[Optional[str]]:
  """Yields the class of every struct of a type, None if it has none."""
  if isinstance(signature, tff.StructType):
    kind = getattr(signature, 'python_container', None)
    name = kind and f'{kind.__module__}:{kind.__qualname__}'
    if name and _class(name) is not kind:
      raise ValueError(f'The class {name} has no name of its own.')
    yield name
  for _, part in _parts(signature):
    yield from _containers(part)


def _contained(signature: Any, containers: Iterator[Optional[str]]) -> Any:
  """Returns a type with the classes that `_containers` yields."""
  kind = next(containers) if isinstance(signature, tff.StructType) else None
  parts = [
      (name, _contained(part, containers)) for name, part in _parts(signature)
  ]
  if isinstance(signature, tff.StructType):
    if kind is None:
      return tff.StructType(parts)
    return tff.types.StructWithPythonType(parts, _class(kind))
  if isinstance(signature, tff.FunctionType):
    return tff.FunctionType(*(part for _, part in parts))
  if isinstance(signature, tff.FederatedType):
    return tff.FederatedType(
        parts[0][1], signature.placement, signature.all_equal
    )
  if isinstance(signature, tff.SequenceType):
    return tff.SequenceType(parts[0][1])
  return signature


def _parts(signature: Any) -> list[tuple[Optional[str], Any]]:
  """Returns the names and types that a type consists of."""
  if isinstance(signature, tff.StructType):
    return tff.structure.to_elements(signature)
  if isinstance(signature, tff.FunctionType):
    return [(None, signature.parameter), (None, signature.result)]
  if isinstance(signature, tff.FederatedType):
    return [(None, signature.member)]
  if isinstance(signature, tff.SequenceType):
    return [(None, signature.element)]
  return []


def _class(name: str) -> Any:
  """Returns a class of Python, TFF or ours that this process has imported.

  Raises:
    ValueError: If there is none of this name.
  """
  module, _, path = name.partition(':')
  found = getattr(sys.modules.get(module), path, None)
  if not isinstance(found, type) or module.partition('.')[0] not in _PACKAGES:
    raise ValueError(f'The class {name} is not known.')
  return found
