"""Counts the passes of a computation's graph over its data sets."""

import math
from typing import Any, Iterable

_PASSES = ('DatasetToSingleElement', 'ReduceDataset')


def count(
    graph_def: Any, variants: Iterable[str], results: Iterable[str]
) -> float:
  """Returns the largest number of full passes over one data set.

  It is infinity if a data set is used in any other way: a part is taken, or it
  is mapped, returned, or read in a branch. Calls on data sets are inlined in
  the graph; `variants` are the nodes of their placeholders, and `results` those
  of data sets that are results.
  """
  found: dict[str, float] = {name: 0 for name in variants}
  for node in graph_def.node:
    for position, source in enumerate(node.input):
      name = source.split(':')[0]
      if name in found:
        is_pass = position == 0 and node.op in _PASSES
        found[name] += 1 if is_pass else math.inf
  found.update((name, math.inf) for name in results if name in found)
  return max(found.values(), default=0)
