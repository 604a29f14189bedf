"""Which TensorFlow operations have a state that outlives a call, and whose."""

from typing import Iterable

import tensorflow as tf
# Not exported by TensorFlow: what it knows of its operations.
from tensorflow.python.framework import op_def_registry

# TensorFlow calls these stateful, but a call of them leaves nothing behind.
_HARMLESS = frozenset({
    '_Arg', '_Retval', 'Assert', 'Case', 'CheckNumerics',
    'DatasetToSingleElement', 'If', 'RangeDataset', 'ReduceDataset',
    'StatefulPartitionedCall', 'TensorDataset', 'TensorSliceDataset', 'While',
})
_VARIABLES = ('VarHandleOp', 'DestroyResourceOp', 'VarIsInitializedOp')
# Tables that never change, and files.
_CONSTANTS = frozenset({
    'AnonymousHashTable', 'FixedLengthRecordDatasetV2', 'HashTableV2',
    'InitializeTableV2', 'InitializeTableFromTextFileV2', 'LookupTableFindV2',
    'LookupTableImportV2', 'LookupTableSizeV2', 'TFRecordDataset',
    'TFRecordDatasetV2', 'TextLineDataset',
})
# Data sets that differ from one pass to the next, stateful by name or not.
_VARYING = (
    'Cache', 'Generator', 'Multinomial', 'PyFunc', 'Random', 'Sample',
    'Shuffle', 'Snapshot',
)


# Data sets and tables: a GPU has no kernels of these.
_OF_THE_HOST = (
    'Dataset', 'HashTable', 'InitializeTable', 'Iterator', 'LookupTable',
)


def is_of_the_host(node: tf.compat.v1.NodeDef) -> bool:
  """Whether a node handles strings, tables or data sets, as only a CPU can."""
  if any(part in node.op for part in _OF_THE_HOST):
    return True
  definition = op_def_registry.get(node.op)
  if definition is None:
    return False
  # Calls of functions, whose arguments are lists, have work for a GPU inside.
  return tf.string.as_datatype_enum in [
      node.attr[argument.type_attr].type if argument.type_attr else argument.type
      for argument in (*definition.input_arg, *definition.output_arg)
  ]


def stateful(operations: Iterable[str]) -> frozenset:
  """Returns those that keep a state, draw at random, or act on the outside."""
  return frozenset(
      op for op in operations if op not in _HARMLESS and _is_stateful(op)
  )


def only_variables(operations: Iterable[str]) -> bool:
  """Whether all of them create, read, change or destroy variables."""
  return all(
      op in _VARIABLES or op.endswith('VariableOp') or op.startswith('Resource')
      for op in operations
  )


def repeat(operations: Iterable[str]) -> bool:
  """Whether a data set made of them has the same elements in every pass."""
  operations = frozenset(operations)
  return stateful(operations) <= _CONSTANTS and not any(
      part in op for op in operations for part in _VARYING
  )


def _is_stateful(op: str) -> bool:
  definition = op_def_registry.get(op)
  return definition is not None and definition.is_stateful
