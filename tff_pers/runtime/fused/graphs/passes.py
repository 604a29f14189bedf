"""How the graph of a computation goes over the data sets that it is given."""

import math
from typing import Any, Iterable

_PASSES = ('DatasetToSingleElement', 'ReduceDataset')


def count(graph_def: Any, variants: Iterable[str], results: Any) -> float:
  """Returns the most passes over one data set, from start to end.

  Args:
    graph_def: A `GraphDef`, calls on data sets inlined.
    variants: Names of the placeholders of data sets.
    results: TFF's binding of the results.

  Returns:
    Infinity if something else is done with one: a part of it is taken, it is
    mapped, returned, or passed over in a branch.
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
