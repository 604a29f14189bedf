"""The error of a computation that fails, the same on all runtimes."""

import contextlib
import re
from typing import Any, Iterator, Optional

import grpc
import tensorflow as tf

from tff_pers import tff

_MAX_TYPE_CHARACTERS = 200


class ComputationError(grpc.RpcError, RuntimeError):
  """An operation of a computation failed, at a client or at the server.

  All runtimes raise it: where an assertion of the computation does not hold, an
  index is out of bounds, memory runs out, a data set cannot be read. Its
  `__cause__` is the error of TensorFlow (`fused`) or of gRPC (`native`,
  `remote`). It is a `grpc.RpcError`, which is what TFF's own context raises, so
  that programs written for that catch it too. An argument that does not fit the
  type of the computation is a `TypeError` or a `ValueError`, as TFF has it.
  """


class LocatedError(Exception):
  """Says in which part of a computation its `__cause__` was raised."""


@contextlib.contextmanager
def named(computation: tff.Computation) -> Iterator[None]:
  """Raises as a `ComputationError` what fails while `computation` runs."""
  try:
    yield
  except ComputationError:
    raise  # Of a runtime that this one has asked; it is one of gRPC's, too.
  except (tf.errors.OpError, grpc.RpcError, LocatedError) as error:
    cause = error.__cause__ if isinstance(error, LocatedError) else error
    raise ComputationError(
        f'{_description(computation)} failed: {cause_text(error)}'
    ) from cause


def cause_text(error: BaseException) -> str:
  """Returns on one line what an error says, without TensorFlow's frames."""
  text = str(error)
  if isinstance(error, tf.errors.OpError):
    text = error.message or ''
  elif isinstance(error, grpc.Call):
    text = error.details() or ''
  text = re.sub(
      r'^.*(<stack traces unavailable>|Node: [^\n]*)\n', '', text,
      flags=re.DOTALL,
  )
  text = re.sub(r'\[\[.*?\]\]|\[Op:\S*\]', '', text)
  return ' '.join(text.split()) or type(error).__name__


def _description(computation: tff.Computation) -> str:
  type_text = computation.type_signature.compact_representation()
  if len(type_text) > _MAX_TYPE_CHARACTERS:
    type_text = type_text[:_MAX_TYPE_CHARACTERS] + '...'
  name = _name(computation)
  return f'The computation{f" `{name}`" if name else ""} of type {type_text}'


def _name(computation: tff.Computation) -> Optional[str]:
  """Returns the name of the Python function that it was made of, if known."""
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
  """TFF's own context, with our error where a computation fails."""

  def invoke(self, comp: tff.Computation, arg: Any) -> Any:
    """Runs a computation; TFF calls this.

    Args:
      comp: The `tff.Computation`.
      arg: Its argument, or None.

    Returns:
      Its result.

    Raises:
      ComputationError: If an operation of it fails.
    """
    with named(comp):
      return super().invoke(comp, arg)
