"""Which TensorFlow operations have a state that outlives a call, and whose.

Natively every call of a client's graph starts without any state. Fused, all
clients and rounds run the same kernels in one process, so an operation that
keeps something there (a queue, a barrier, a variable of TensorFlow 1) would
carry it from one client to the next. Stateful operations are therefore fused
from lists of safe ones, and everything else runs natively.
"""

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
_USES_OF_VARIABLES = (
    'ResourceApply', 'ResourceCountUpTo', 'ResourceGather', 'ResourceScatter',
    'ResourceSparseApply', 'ResourceStridedSliceAssign',
)
# Random numbers: each client draws others, as natively.
_DRAWS = frozenset({
    'AllCandidateSampler', 'CudnnRNN', 'CudnnRNNBackprop',
    'CudnnRNNBackpropV2', 'CudnnRNNBackpropV3', 'CudnnRNNV2', 'CudnnRNNV3',
    'FixedUnigramCandidateSampler', 'LogUniformCandidateSampler',
    'Multinomial', 'NonDeterministicInts', 'ParameterizedTruncatedNormal',
    'RandomDataset', 'RandomDatasetV2', 'RandomGamma', 'RandomPoisson',
    'RandomPoissonV2', 'RandomShuffle', 'RandomStandardNormal',
    'RandomUniform', 'RandomUniformInt', 'RngReadAndSkip', 'RngSkip',
    'SampleDistortedBoundingBox', 'SampleDistortedBoundingBoxV2',
    'StatefulRandomBinomial', 'StatefulStandardNormal',
    'StatefulStandardNormalV2', 'StatefulTruncatedNormal', 'StatefulUniform',
    'StatefulUniformFullInt', 'StatefulUniformInt', 'StatelessRandomGetAlg',
    'TruncatedNormal', 'UniformCandidateSampler',
})
# What an execution of the graph makes for itself, and what is done with it.
_OWN = frozenset({
    'AnonymousHashTable', 'AnonymousIterator', 'AnonymousIteratorV2',
    'AnonymousIteratorV3', 'AnonymousMemoryCache',
    'AnonymousMutableDenseHashTable', 'AnonymousMutableHashTable',
    'AnonymousMutableHashTableOfTensors', 'AnonymousRandomSeedGenerator',
    'AnonymousSeedGenerator', 'CacheDatasetV2', 'DeleteIterator',
    'DeleteMemoryCache', 'DeleteRandomSeedGenerator', 'DeleteSeedGenerator',
    'DummyIterationCounter', 'DummyMemoryCache', 'DummySeedGenerator',
    'GroupByReducerDataset', 'InitializeTableFromDataset',
    'InitializeTableFromTextFileV2', 'InitializeTableV2', 'IteratorGetNext',
    'IteratorGetNextAsOptional', 'IteratorGetNextSync', 'LookupTableExportV2',
    'LookupTableFindV2', 'LookupTableImportV2', 'LookupTableInsertV2',
    'LookupTableRemoveV2', 'LookupTableSizeV2', 'MakeIterator',
    'ShuffleAndRepeatDatasetV2', 'ShuffleDatasetV2', 'ShuffleDatasetV3',
    'SparseTensorSliceDataset', 'StackCloseV2', 'StackPopV2', 'StackPushV2',
    'StackV2', 'TensorArrayCloseV3', 'TensorArrayConcatV3',
    'TensorArrayGatherV3', 'TensorArrayGradV3', 'TensorArrayGradWithShape',
    'TensorArrayReadV3', 'TensorArrayScatterV3', 'TensorArraySizeV3',
    'TensorArraySplitV3', 'TensorArrayV3', 'TensorArrayWriteV3',
    'VariableShape',
})
# What only looks at the outside, or writes where nothing reads it.
_OUTSIDE = frozenset({
    'CSVDataset', 'CSVDatasetV2', 'CheckNumericsV2', 'DeviceIndex',
    'FixedLengthRecordDataset', 'FixedLengthRecordDatasetV2', 'GuaranteeConst',
    'LMDBDataset', 'LoadDataset', 'MatchingFilesDataset', 'Print', 'PrintV2',
    'RestoreV2', 'SqlDataset', 'TFRecordDataset', 'TFRecordDatasetV2',
    'TextLineDataset', 'Timestamp',
})
_SAFE = _DRAWS | _OWN | _OUTSIDE
# TensorFlow does not call these stateful. Python is not in TFF's worker.
_SHARED_ALL_THE_SAME = frozenset({
    'Batch', 'BatchFunction', 'PyFuncStateless', 'Unbatch', 'UnbatchGrad',
})
# Tables that never change, with what they hold.
_CONSTANTS = frozenset({
    'AnonymousHashTable', 'HashTableV2', 'InitializeTableV2',
    'LookupTableFindV2', 'LookupTableImportV2', 'LookupTableSizeV2',
})
# To TensorFlow these have no state, though files change.
_FILES = frozenset({'MatchingFiles', 'ReadFile'})
# Data sets that differ from one pass to the next, stateful by name or not.
_VARYING = (
    'Cache', 'Generator', 'Multinomial', 'PyFunc', 'Random', 'Sample',
    'Shuffle', 'Snapshot',
)


# Data sets and tables: a GPU has no kernels of these.
_OF_THE_HOST = (
    'Dataset', 'HashTable', 'InitializeTable', 'Iterator', 'LookupTable',
)
# What makes keys of random numbers, int64[2], of seeds and numbers of rounds
# and clients. A GPU's kernels take seeds from the host, so a key that is folded
# there would go to and fro in every step.
_OF_KEYS = dict(
    StatelessRandomGetKeyCounter='Tseed', StatelessRandomUniformFullIntV2='dtype',
    Pack='T', Cast='DstT',
)


def is_of_the_host(node: tf.compat.v1.NodeDef) -> bool:
  """Whether a node is for the CPU: strings, tables, data sets, keys."""
  if any(part in node.op for part in _OF_THE_HOST):
    return True
  if node.op in _OF_KEYS:
    types = [node.attr[_OF_KEYS[node.op]].type]
    if node.op == 'Cast':
      types.append(node.attr['SrcT'].type)
    if set(types) <= {tf.int32.as_datatype_enum, tf.int64.as_datatype_enum}:
      return tf.int64.as_datatype_enum in types[:1]
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
      op in _VARIABLES or op.endswith('VariableOp')
      or op.startswith(_USES_OF_VARIABLES)
      for op in operations
  )


def shared(operations: Iterable[str]) -> list:
  """Returns those that clients or rounds may notice each other by, sorted.

  Variables and tables are not among them as long as they are anonymous.
  """
  operations = frozenset(operations)
  return sorted(
      op for op in stateful(operations) - _SAFE | operations & _SHARED_ALL_THE_SAME
      if not only_variables([op])
  )


def race(operations: Iterable[str]) -> bool:
  """Whether two calls of one kernel at the same time may give wrong numbers.

  Batch normalization of oneDNN keeps the means, variances and the depth of its
  call in the kernel, which all iterations of a loop share. Layers that
  normalize otherwise may use it too, as Keras' `LayerNormalization` does.
  """
  return any(op.startswith('FusedBatchNorm') for op in operations)


def repeat(operations: Iterable[str]) -> bool:
  """Whether a data set made of them has the same elements in every pass."""
  operations = frozenset(operations)
  if not stateful(operations) <= _CONSTANTS or reads_files(operations):
    return False
  return not any(part in op for op in operations for part in _VARYING)


def reads_files(operations: Iterable[str]) -> bool:
  """Whether one reads a file that TensorFlow takes for a constant."""
  return not _FILES.isdisjoint(operations)


def _is_stateful(op: str) -> bool:
  definition = op_def_registry.get(op)
  return definition is not None and definition.is_stateful
