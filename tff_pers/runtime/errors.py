"""The error of a failing computation, the same on all runtimes."""

import contextlib
import re
from typing import Any, Iterator, Optional

import grpc
import tensorflow as tf

from tff_pers import tff

_MAX_TYPE_CHARACTERS = 200


class ComputationError(grpc.RpcError, RuntimeError):
  """An operation of a computation failed, at a client or at the server.

  All runtimes raise it, e.g. if an assertion of the computation fails, an index
  is out of bounds, memory runs out, or a data set cannot be read. Its
  `__cause__` is the error of TensorFlow (`fused`) or gRPC (`native`, `remote`).
  It is a `grpc.RpcError`, which TFF's own context raises, so that programs
  written for that context catch it too. For an argument that does not fit the
  computation's type, TFF raises a `TypeError` or a `ValueError`.
  """


class LocatedError(Exception):
  """Says in which part of a computation its `__cause__` occurred."""


@contextlib.contextmanager
def named(computation: tff.Computation) -> Iterator[None]:
  """Raises errors of the running `computation` as `ComputationError`s."""
  try:
    yield
  except ComputationError:
    raise  # Already converted by another runtime, which this one has called.
  except (tf.errors.OpError, grpc.RpcError, LocatedError) as error:
    cause = error.__cause__ if isinstance(error, LocatedError) else error
    raise ComputationError(
        f'{_description(computation)} failed: {cause_text(error)}'
    ) from cause


def cause_text(error: BaseException) -> str:
  """Returns an error's message on one line, without TensorFlow's frames."""
  text = str(error)
  if isinstance(error, tf.errors.OpError):
    text = error.message or ''
  elif isinstance(error, grpc.Call):
    text = error.details() or ''
  text = re.sub(
      r'^.*(<stack traces unavailable>|Node: [^\n]*)\n', '', text,
      flags=re.DOTALL,
  )
  text = re.sub(
      r'\[\[.*?\]\]|\[Op:\S*\]|\{\{function_node \S*\}\}', '', text
  )
  return ' '.join(text.split()) or type(error).__name__


def _description(computation: tff.Computation) -> str:
  type_text = computation.type_signature.compact_representation()
  if len(type_text) > _MAX_TYPE_CHARACTERS:
    type_text = type_text[:_MAX_TYPE_CHARACTERS] + '...'
  name = _name(computation)
  return f'The computation{f" `{name}`" if name else ""} of type {type_text}'


def _name(computation: tff.Computation) -> Optional[str]:
  """Returns the name of the computation's Python function, if known."""
  block = computation.to_building_block()
  names = []
  if isinstance(block, tff.framework.Lambda):
    if block.parameter_name:
      names.append(block.parameter_name.removesuffix('_arg'))
    block = block.result
  if isinstance(block, tff.framework.Block):
    names += re.findall(r'^fc_(.+)_symbol_\d+$', block.locals[0][0])
  return next((name for name in names if name.isidentifier()), None)


class ExecutionContext(tff.framework.SyncExecutionContext):
  """TFF's own context, which raises our error where a computation fails."""

  def invoke(self, comp: tff.Computation, arg: Any) -> Any:
    """Returns the result of a computation; TFF calls this.

    Raises:
      ComputationError: If one of its operations fails.
    """
    with named(comp):
      return super().invoke(comp, arg)
