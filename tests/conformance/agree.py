"""The contract between runtimes: one computation, equal answers.

The reference is `native`, TFF's own executor. Where a computation has secure
sums, the reference is TFF's test context: `native.use()` puts its bodies
(`tff.backends.test`) in place of secure sums before the same executor runs.
"""

import collections
import functools
from typing import Any, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.runtime import context as context_lib
from tff_pers.runtime import errors
from tff_pers.runtime import fused
from tff_pers.runtime import native

# One float32 pass on two runtimes; sums stand in another order.
RTOL, ATOL = 1e-5, 1e-6


@functools.lru_cache(maxsize=None)
def _fused_context(strategy):
  """Returns one context for all tests: it keeps what it has compiled."""
  with fused.use(strategy=strategy):
    return tff.framework.get_context_stack().current


def on_native(computation, *args) -> Any:
  """Returns the result of a call on TFF's own executor."""
  with native.use():
    return computation(*args)


def on_fused(
    computation, *args, strategy: str = 'loop', fuses: bool = True
) -> Any:
  """Returns the result of a call on the fused runtime.

  Args:
    computation: A `tff.Computation`, or a function that calls one.
    *args: Its arguments.
    strategy: How to run the clients.
    fuses: Whether the call is fused, not left to the native runtime.

  Raises:
    AssertionError: If `fuses` is wrong.
  """
  context = _fused_context(strategy)
  left_to_native = context.executor._native  # pylint: disable=protected-access
  left_to_native.clear()
  with context_lib.Installed(context):
    result = computation(*args)
  assert fuses or left_to_native, 'The computation was fused.'
  assert not (fuses and left_to_native), 'The computation was not fused.'
  return result


def agree(
    computation,
    *args,
    rtol: float = RTOL,
    atol: float = ATOL,
    strategies: Sequence[str] = ('loop',),
    fuses: bool = True,
) -> Any:
  """Calls `computation` on both runtimes and checks that they agree.

  Args:
    computation: A `tff.Computation`, or a function that calls one.
    *args: Its arguments.
    rtol: Relative tolerance of floats; everything else must be equal.
    atol: Absolute tolerance of floats.
    strategies: How the fused runtime runs the clients: in each of these ways.
    fuses: Whether the fused runtime runs it itself.

  Returns:
    The result of the native runtime.

  Raises:
    AssertionError: If results differ in structure, Python type, dtype, shape
      or value, or if only one runtime raises, or they raise different errors.
    Exception: What native raised, if fused raised an error of the same class
      of Python (TFF refines TypeError).
  """
  native_outcome = _outcome(on_native, computation, args)
  for strategy in strategies:
    on_this = functools.partial(on_fused, strategy=strategy, fuses=fuses)
    _compare(_outcome(on_this, computation, args), native_outcome, rtol, atol)
  expected, error = native_outcome
  if error is not None:
    raise error
  return expected


def _compare(fused_outcome, native_outcome, rtol, atol) -> None:
  """Raises AssertionError unless both calls ended alike."""
  found, fused_error = fused_outcome
  expected, native_error = native_outcome
  if native_error is None and fused_error is None:
    assert_equal(found, expected, rtol, atol)
  elif native_error is None:
    raise AssertionError(
        f'Only fused raises: {fused_error!r}; native returns {expected}.'
    ) from fused_error
  elif fused_error is None:
    raise AssertionError(
        f'Only native raises: {native_error!r}; fused returns {found}.'
    ) from native_error
  elif not isinstance(fused_error, _public(type(native_error))):
    raise AssertionError(
        f'Native raises {native_error!r}, fused {fused_error!r}.'
    ) from fused_error


def _public(error: type) -> type:
  """Returns our class, or that of Python, that `error` is of or refines.

  Raises:
    AssertionError: If that says nothing, as for errors of gRPC.
  """
  found = next(
      c for c in error.__mro__
      if c is errors.ComputationError or c.__module__ == 'builtins'
  )
  assert found is not Exception, f'{error} is of no class of Python.'
  return found


def _outcome(call, computation, args):
  """Returns (result, None) or (None, error)."""
  try:
    return call(computation, *args), None
  except Exception as error:  # pylint: disable=broad-except
    return None, error


def assert_equal(
    found: Any, expected: Any, rtol: float = RTOL, atol: float = ATOL,
    path: str = 'result',
) -> None:
  """Raises AssertionError unless two nested results agree."""
  if isinstance(expected, tf.data.Dataset):
    assert isinstance(found, tf.data.Dataset), f'{path}: {type(found)}'
    assert found.element_spec == expected.element_spec, path
    found, expected = list(found), list(expected)
  assert type(found) is type(expected), (
      f'{path}: {type(found)} on fused, {type(expected)} natively:'
      f' {found!r}, {expected!r}'
  )
  children = _children(expected)
  if children is None:
    _assert_equal_leaves(found, expected, rtol, atol, path)
    return
  others = _children(found)
  assert list(others) == list(children), (
      f'{path}: fields {list(others)} on fused, {list(children)} natively'
  )
  for name, child in children.items():
    assert_equal(others[name], child, rtol, atol, f'{path}[{name!r}]')


def _children(value) -> Any:
  """Returns the parts of a container by name or position; None for a leaf."""
  if isinstance(value, collections.abc.Mapping):
    return dict(value)
  if isinstance(value, tff.structure.Struct):
    return {
        (i, name): item
        for i, (name, item) in enumerate(tff.structure.iter_elements(value))
    }
  if hasattr(value, '__attrs_attrs__'):
    return {a.name: getattr(value, a.name) for a in value.__attrs_attrs__}
  if isinstance(value, (list, tuple)):
    return dict(enumerate(value))
  return None


def _assert_equal_leaves(found, expected, rtol, atol, path) -> None:
  found, expected = np.asarray(found), np.asarray(expected)
  assert found.dtype == expected.dtype, (
      f'{path}: {found.dtype} on fused, {expected.dtype} natively'
  )
  assert found.shape == expected.shape, (
      f'{path}: shape {found.shape} on fused, {expected.shape} natively'
  )
  if np.issubdtype(expected.dtype, np.inexact):
    np.testing.assert_allclose(found, expected, rtol, atol, err_msg=path)
  else:
    np.testing.assert_array_equal(found, expected, err_msg=path)
