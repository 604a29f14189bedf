"""Counts the passes of a computation's graph over its data sets."""

import math
from typing import Any, Iterable

_PASSES = ('DatasetToSingleElement', 'ReduceDataset')


def count(graph_def: Any, variants: Iterable[str], results: Any) -> float:
  """Returns the largest number of full passes over one data set.

  Args:
    graph_def: A `GraphDef`, calls on data sets inlined.
    variants: Names of the placeholders of data sets.
    results: TFF's binding of the results.

  Returns:
    Infinity if a data set is used in any other way: a part is taken, or it is
    mapped, returned, or read in a branch.
  """
  found: dict[str, float] = {name: 0 for name in variants}
  for node in graph_def.node:
    for position, source in enumerate(node.input):
      name = source.split(':')[0]
      if name in found:
        is_pass = position == 0 and node.op in _PASSES
        found[name] += 1 if is_pass else math.inf
  for name in _returned(results):
    if name in found:
      found[name] = math.inf
  return max(found.values(), default=0)


def _returned(binding) -> list:
  """Returns the names of the nodes whose data sets are results."""
  if binding.WhichOneof('binding') == 'sequence':
    return [binding.sequence.variant_tensor_name.split(':')[0]]
  return [n for part in binding.struct.element for n in _returned(part)]
