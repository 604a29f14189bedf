"""Classifies TensorFlow operations by the state that outlives a call.

TFF's own runtime starts every call of a client's graph without any state.
Fused, all clients and rounds run the same kernels in one process, so an
operation with state in a kernel (a queue, a barrier, a variable of TensorFlow
1) would carry that state from one client to the next. Stateful operations are
therefore fused only if a list says that they are safe; everything else runs
natively.
"""

from typing import Iterable

import tensorflow as tf
# TensorFlow does not export its registry of operations.
from tensorflow.python.framework import op_def_registry

# TensorFlow calls these stateful, but a call of them leaves no state behind.
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
# Random numbers: each client draws different ones, as on TFF's runtime.
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
# Objects that an execution of the graph creates for itself, and their uses.
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
# These only read the outside, or write where nothing reads.
_OUTSIDE = frozenset({
    'CSVDataset', 'CSVDatasetV2', 'CheckNumericsV2', 'DeviceIndex',
    'FixedLengthRecordDataset', 'FixedLengthRecordDatasetV2', 'GuaranteeConst',
    'LMDBDataset', 'LoadDataset', 'MatchingFilesDataset', 'Print', 'PrintV2',
    'RestoreV2', 'SqlDataset', 'TFRecordDataset', 'TFRecordDatasetV2',
    'TextLineDataset', 'Timestamp',
})
_SAFE = _DRAWS | _OWN | _OUTSIDE
# TensorFlow does not call these stateful. TFF's worker has no Python.
_SHARED_ALL_THE_SAME = frozenset({
    'Batch', 'BatchFunction', 'PyFuncStateless', 'Unbatch', 'UnbatchGrad',
})
# Tables that never change, and their contents.
_CONSTANTS = frozenset({
    'AnonymousHashTable', 'HashTableV2', 'InitializeTableV2',
    'LookupTableFindV2', 'LookupTableImportV2', 'LookupTableSizeV2',
})
# TensorFlow calls these stateless, though files change.
_FILES = frozenset({'MatchingFiles', 'ReadFile'})
# Data sets that differ from one pass to the next, stateful by name or not.
_VARYING = (
    'Cache', 'Generator', 'Multinomial', 'PyFunc', 'Random', 'Sample',
    'Shuffle', 'Snapshot',
)


# A GPU has no kernels for data sets and tables.
_OF_THE_HOST = (
    'Dataset', 'HashTable', 'InitializeTable', 'Iterator', 'LookupTable',
)
# Operations that make keys of random numbers, int64[2], from seeds and numbers
# of rounds and clients. A GPU's kernels take seeds from the host, so that a key
# folded on the GPU would be copied to the host in every step.
_OF_KEYS = dict(
    StatelessRandomGetKeyCounter='Tseed', StatelessRandomUniformFullIntV2='dtype',
    Pack='T', Cast='DstT',
)

# The device of what a GPU cannot hold, as nodes of a graph name it.
HOST = '/device:CPU:0'


def is_of_the_host(node: tf.compat.v1.NodeDef) -> bool:
  """Whether a node belongs on the CPU: strings, tables, data sets, keys."""
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
  # A call of a function has arguments in lists, and may have work for a GPU.
  return tf.string.as_datatype_enum in [
      node.attr[argument.type_attr].type if argument.type_attr else argument.type
      for argument in (*definition.input_arg, *definition.output_arg)
  ]


def stateful(operations: Iterable[str]) -> frozenset:
  """Returns those that keep a state, draw at random, or act on the outside."""
  known = {op: op_def_registry.get(op) for op in operations}
  return frozenset(
      op for op, definition in known.items()
      if op not in _HARMLESS and definition and definition.is_stateful
  )


def only_variables(operations: Iterable[str]) -> bool:
  """Whether all of them create, read, change or destroy variables."""
  return all(
      op in _VARIABLES or op.endswith('VariableOp')
      or op.startswith(_USES_OF_VARIABLES)
      for op in operations
  )


def shared(operations: Iterable[str]) -> list:
  """Returns the operations by which clients or rounds may interact, sorted.

  Variables and tables are not among them if they are anonymous.
  """
  operations = frozenset(operations)
  return sorted(
      op for op in stateful(operations) - _SAFE | operations & _SHARED_ALL_THE_SAME
      if not only_variables([op])
  )


def race(operations: Iterable[str]) -> bool:
  """Whether two calls of one kernel at the same time may give wrong numbers.

  oneDNN's batch normalization keeps the means, variances and depth of a call in
  the kernel, which all iterations of a loop share. Other normalization layers
  may use it too, e.g. Keras' `LayerNormalization`.
  """
  return any(op.startswith('FusedBatchNorm') for op in operations)


def repeat(operations: Iterable[str]) -> bool:
  """Whether a data set made of them has the same elements in every pass."""
  operations = frozenset(operations)
  if not stateful(operations) <= _CONSTANTS or reads_files(operations):
    return False
  return not any(part in op for op in operations for part in _VARYING)


def reads_files(operations: Iterable[str]) -> bool:
  """Whether one reads a file, which TensorFlow assumes to be constant."""
  return not _FILES.isdisjoint(operations)
