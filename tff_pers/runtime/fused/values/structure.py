"""The order of the tensors in structures of TFF types.

The tensors of an element of a sequence have a different order, that of
`tf.data`: see `sequences`.
"""

from typing import Any, Iterable

from tff_pers.runtime.fused.values import sequences
from tff_pers import tff


def leaves(type_signature: tff.Type) -> list:
  """Returns the tensor types of a structure in order.

  Raises:
    Unsupported: If it contains a sequence.
  """
  if isinstance(type_signature, tff.StructType):
    return [t for part in type_signature.children() for t in leaves(part)]
  if isinstance(type_signature, tff.SequenceType):
    raise sequences.Unsupported('Sequences cannot be collected from clients.')
  return [type_signature]


def has_sequence(type_signature: tff.Type) -> bool:
  """Whether a type contains a sequence."""
  return tff.types.contains(
      type_signature, lambda part: isinstance(part, tff.SequenceType)
  )


def flatten(value: Any, type_signature: tff.Type) -> list:
  """Returns the tensors, rows or pieces of nested tuples in order."""
  if not isinstance(type_signature, tff.StructType):
    return [value]
  return [
      leaf
      for v, t in zip(value, type_signature.children())
      for leaf in flatten(v, t)
  ]


def unflatten(type_signature: tff.Type, values: Iterable[Any]) -> Any:
  """Returns nested tuples of `values`, as `flatten` orders them."""
  values = iter(values)  # The recursion continues the same iterator.
  if isinstance(type_signature, tff.StructType):
    return tuple(unflatten(t, values) for t in type_signature.children())
  return next(values)
