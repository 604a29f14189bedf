"""Makes the numbers of a graph that are inputs (`number_inputs`) variables.

In a graph an input is a constant with a name that says which one it is, so that
any other runtime computes with its value. Here the constant becomes a read of a
variable in the host's memory, which all graphs that are traced for a method
share: assigning to it changes what they compute, and nothing is traced again.
Unlike an argument, a variable can be read within loops and functions.
"""

import re
from typing import Any, Iterator, Mapping, Optional, Sequence

import tensorflow as tf

from tff_pers import number_inputs
from tff_pers.runtime.fused import operations
from tff_pers import tff

_MARK = 'number_input.'
_NAME = re.compile(rf'(?:^|/){re.escape(_MARK)}(\d+)(?:_\d+)?$')
_VARIABLE = re.compile(rf'{re.escape(_MARK)}(\d+)\.(\w+)')
# TensorFlow names results of functions after nodes, without dots.
_MARK_AND_KEY = re.compile(rf'({_MARK[:-1]}[._])(\d+)'.encode())


def _converted(value, dtype=None, name=None, as_ref=False):
  """Returns an input as a constant; by default of a Python float's dtype."""
  del name, as_ref
  if tf.executing_eagerly():
    value.fix()  # Not in a graph: only its value can be passed on.
  # Names of one length, see `numbered`.
  return tf.constant(
      value.value, dtype or tf.float32, name=f'{_MARK}{value.key:06}'
  )


tf.register_tensor_conversion_function(number_inputs.NumberInput, _converted)


def of_node(node: Any) -> Optional[number_inputs.NumberInput]:
  """Returns the input whose constant this node is, or None."""
  match = _NAME.search(node.name) if node.op == 'Const' else None
  # Inputs of other processes are not known here and stay constants.
  return match and number_inputs.known.get(int(match[1]))


def fix_all(computation: tff.Computation) -> None:
  """Fixes the inputs of a computation that runs with their constants.

  Raises:
    RuntimeError: If a constant may hold an earlier number.
  """
  proto = tff.framework.serialize_computation(computation)
  for number in numbered(proto.SerializeToString())[1]:
    number.fix()
    if not number.is_first:
      raise RuntimeError(
          'A computation that does not run on the fused runtime was traced with'
          ' another run\'s numbers. Run the program again; it resumes.'
      )


def numbered(
    content: bytes
) -> tuple[bytes, list[number_inputs.NumberInput]]:
  """Returns a serialized computation that names its inputs by their place.

  The inputs come next, in the order in which the computation names them.
  """
  found: dict[int, number_inputs.NumberInput] = {}

  def by_place(match):
    number = number_inputs.known.get(int(match[2]))
    if number is None:
      return match[0]
    found.setdefault(number.key, number)
    return match[1] + b'place %d' % list(found).index(number.key)

  return re.sub(_MARK_AND_KEY, by_place, content), list(found.values())


def keys(content: bytes) -> set[int]:
  """Returns the keys of all inputs that a serialized computation names."""
  return {int(key) for _, key in re.findall(_MARK_AND_KEY, content)}


def renumbered(
    content: bytes, numbers: Mapping[int, number_inputs.NumberInput]
) -> bytes:
  """Returns a serialized computation with other inputs, by earlier keys."""
  return re.sub(
      _MARK_AND_KEY,
      lambda match: match[1] + b'%06d' % numbers[int(match[2])].key, content,
  )


def name_by_place(
    nodes: Any, numbers: Sequence[number_inputs.NumberInput]
) -> None:
  """Renames the variables of inputs to their places among the inputs."""
  places = {number.key: place for place, number in enumerate(numbers)}
  for node, key, dtype in _of_variables(nodes):
    node.attr['shared_name'].s = f'{_MARK}{places[key]}.{dtype}'.encode()


def name_by_key(
    nodes: Any, numbers: Sequence[number_inputs.NumberInput]
) -> None:
  """Undoes `name_by_place` with the inputs of this process."""
  for node, place, dtype in _of_variables(nodes):
    name = _variable(numbers[place], tf.as_dtype(dtype))
    node.attr['shared_name'].s = name.encode()


def _of_variables(nodes: Any) -> Iterator[tuple[Any, int, str]]:
  """Yields nodes of inputs' variables, the numbers in their names, dtypes."""
  for node in nodes:
    if node.op == 'VarHandleOp':
      match = _VARIABLE.fullmatch(node.attr['shared_name'].s.decode())
      if match:
        yield node, int(match[1]), match[2]


def read_inputs(nodes: Any, output: str) -> None:
  """Replaces constants that are inputs by reads of variables, in place.

  The nodes are those of a graph or of a function, and name the only output of a
  read by its name and `output`: '' in a graph, `:value:0` in a function.
  """
  reads: dict[str, str] = {}  # Every use of an input shares one read.
  for node in list(nodes):
    number = of_node(node)
    if number is None:
      continue
    dtype = tf.as_dtype(node.attr['dtype'].type)
    name = _variable(number, dtype)
    if node.input:  # It waits for something, e.g. for a branch.
      source = _add_read(nodes, node, name, dtype, output)
    else:
      if name not in reads:
        reads[name] = _add_read(nodes, node, name, dtype, output)
      source = reads[name]
    # An output of the same name as the constant's.
    node.op = 'Identity'
    node.ClearField('input')
    node.ClearField('attr')
    node.attr['T'].type = dtype.as_datatype_enum
    node.input.append(source)


def _add_read(nodes, constant, name, dtype, output) -> str:
  """Adds a read of a variable where a constant was; returns its output."""
  handle = nodes.add(
      name=f'{constant.name}/handle', op='VarHandleOp',
      device=operations.HOST,
  )
  handle.attr['dtype'].type = dtype.as_datatype_enum
  handle.attr['shape'].shape.SetInParent()
  handle.attr['shared_name'].s = name.encode()
  read = nodes.add(
      name=f'{constant.name}/read', op='ReadVariableOp',
      device=operations.HOST,
      input=[handle.name + (output and ':resource:0'), *constant.input],
  )
  read.attr['dtype'].type = dtype.as_datatype_enum
  return read.name + output


def _variable(number: number_inputs.NumberInput, dtype: tf.DType) -> str:
  """Returns the name of the variable that holds the number in this dtype."""
  name = f'{_MARK}{number.key}.{dtype.name}'

  def assign(value):
    with tf.init_scope(), tf.device(operations.HOST):
      tf.raw_ops.AssignVariableOp(
          resource=tf.raw_ops.VarHandleOp(
              dtype=dtype, shape=[], shared_name=name
          ),
          value=tf.constant(value, dtype),
      )

  if name not in number.readers:
    number.readers[name] = assign
    assign(number.value)
  return name
