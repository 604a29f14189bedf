"""Applies functions of single elements (`Dataset.map`) to stacked ones."""

import collections
import functools
import hashlib
from typing import Any, Callable, Sequence

import numpy as np
import tensorflow as tf
# TensorFlow does not export how it loads function libraries.
from tensorflow.python.saved_model import function_deserialization

# Number of functions kept. Programs that create their data sets again also
# trace their functions again: the same functions under other names.
_MAX_FUNCTIONS = 64
_loaded = collections.OrderedDict()


def load(
    library: Any, name: str, captured: Sequence[np.ndarray]
) -> Callable[[Sequence[np.ndarray]], list]:
  """Returns function `name` of `library`, a `FunctionDefLibrary`.

  It is from stacked elements to their stacked results, and raises a
  `tf.errors.InvalidArgumentError` if these differ in shape.
  """
  functions = {f.signature.name: f for f in library.function}
  key = _fingerprint(name, functions)
  if key not in _loaded:
    copied = type(library)()
    copied.CopyFrom(library)  # Loading gives the functions new names.
    concrete = function_deserialization.load_function_def_library(
        copied, load_shared_name_suffix=''
    )[name]
    _loaded[key] = tf.function(
        functools.partial(_over_rows, concrete), autograph=False,
        reduce_retracing=True,
    )
    if len(_loaded) > _MAX_FUNCTIONS:
      _loaded.popitem(last=False)
  _loaded.move_to_end(key)
  return functools.partial(_applied, _loaded[key], captured)


def _applied(function, captured, stacked) -> list:
  with tf.device('/CPU:0'):
    return [
        result.numpy() for result in function(
            [tf.convert_to_tensor(array) for array in stacked],
            [tf.convert_to_tensor(value) for value in captured],
        )
    ]


def _over_rows(function, stacked, captured):
  """Returns the stacked results of all rows."""
  call = lambda element: tuple(tf.raw_ops.StatefulPartitionedCall(
      args=[*element, *captured],
      Tout=[t.dtype for t in function.outputs], f=function,
  ))
  return list(tf.map_fn(
      call, tuple(stacked), fn_output_signature=tuple(
          tf.TensorSpec(t.shape, t.dtype) for t in function.outputs
      ),
  ))


def _fingerprint(name: str, functions) -> bytes:
  """Returns a fingerprint of a function and its callees, ignoring names."""
  body = type(functions[name])()
  body.CopyFrom(functions[name])
  body.signature.name = ''
  for node in body.node_def:
    node.ClearField('experimental_debug_info')
    if node.op in functions:
      node.op = _fingerprint(node.op, functions).hex()
    for value in node.attr.values():
      field = value.WhichOneof('value')
      called = [value.func] if field == 'func' else value.list.func
      for function in called if field in ('func', 'list') else ():
        function.name = _fingerprint(function.name, functions).hex()
  return hashlib.sha256(body.SerializeToString(deterministic=True)).digest()
