"""Builds methods from computations that an earlier process has traced.

Tracing a method takes longer than its first rounds. What is traced depends on
our sources, the hyperparameters, and the fields of the task that the method
reads; where all of them are equal, the computations of `core.traces` come from
the folder of compiled computations (`runtime.fused.disk`). Everything else is
built as usual.

Only for methods, rules, attacks and models of this project: nobody could see
that a function of a user's has changed.
"""

import contextlib
import hashlib
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence

from absl import logging
import numpy as np
import scipy
import tensorflow as tf

from tff_pers.config import registry
from tff_pers.core import interception
from tff_pers.core import traces
from tff_pers.models import functional
from tff_pers.models import zoo
from tff_pers import number_inputs
from tff_pers.runtime import fused
from tff_pers.runtime.fused import disk
from tff_pers.runtime.fused import kept
from tff_pers.runtime.fused.graphs import stored
from tff_pers import tff

_PACKAGES = ('baselines', 'tff_pers')
# Reading more data than this would take longer than tracing.
_MOST_BYTES = 2**26


class _UnknownError(Exception):
  """A build depends on a value that `_digest` does not know."""


def build(
    trace: Callable[[], Any], key: Sequence[Any],
    inputs: Mapping[str, number_inputs.NumberInput], task: Any,
    fields: Iterable[str],
) -> Any:
  """Returns what `trace()` does, which traces nothing if the folder has it.

  Args:
    trace: Builds the method; returns a `processes.Built`.
    key: What the method depends on besides the task: functions, classes, and
      values as of `_digest`.
    inputs: Its hyperparameters that are inputs, by name.
    task: The task. If the folder has the build, this reads the fields of the
      task that the method would read.
    fields: The names of the fields that were read, also those that `trace` will
      have read.
  """
  kept_build, folder = None, _folder(key)
  if folder is not None:
    with kept.unless_it_fails(), contextlib.suppress(_UnknownError):
      kept_build = _KeptBuild(folder, key, inputs, task)
  if kept_build is None:
    return trace()
  known = kept_build.read()
  if known is not None:
    found, kernel_names = known
    try:
      with traces.using(found):
        built = trace()
      found.check_end()
      return built._replace(kernel_names=kernel_names)
    except traces.MismatchError as error:
      logging.warning('The method is traced again: %s', error)
  made = traces.Traces()
  with traces.using(made):
    built = trace()
  with kept.unless_it_fails(), contextlib.suppress(_UnknownError):
    kept_build.write(made, built.kernel_names, fields)
  return built


class _KeptBuild:
  """A build in the folder, by its key and the fields of the task."""

  def __init__(
      self, folder: disk.Folder, key: Sequence[Any],
      inputs: Mapping[str, number_inputs.NumberInput], task: Any,
  ):
    self._folder, self._inputs, self._task = folder, inputs, task
    self._parts = _digest((
        [_name(part) if callable(part) else part for part in key],
        kept.process(), np.__version__, scipy.__version__,
        kept.sources(*_PACKAGES),
    ))
    # Those that builds of this key have read, of whatever task.
    entry = self._folder.get(self._fields_key)
    self._fields = entry.description['fields'] if entry else []

  def read(self) -> Optional[tuple[traces.Traces, tuple[str, ...]]]:
    """Returns the computations and the names of kernels, None without any."""
    with kept.unless_it_fails(), contextlib.suppress(_UnknownError):
      entry = self._folder.get(self._key(self._fields))
      if entry is None:
        return None
      rows, start = [], 0
      for signature, description, size in entry.description['computations']:
        content = entry.content[start:start + size]
        start += size
        rows.append(traces.Traced(
            signature, stored.read(description, content, self._inputs)
        ))
      for name in entry.description['fixed']:
        self._inputs[name].fix()
      return traces.Traces(rows), tuple(entry.description['kernel_names'])
    return None

  def write(
      self, made: traces.Traces, kernel_names: Sequence[str],
      fields: Iterable[str],
  ) -> None:
    """Writes what was traced, unless our sources have changed meanwhile."""
    fields = sorted({*self._fields, *fields})
    key = self._key(fields)
    if not kept.sources.__wrapped__(*_PACKAGES):
      return
    computations, contents = [], []
    for signature, computation in made.traced:
      description, content = stored.written(computation, self._inputs)
      computations.append([signature, description, len(content)])
      contents.append(content)
    self._folder.put(self._fields_key, disk.Entry(dict(fields=fields)))
    self._folder.put(key, disk.Entry(dict(
        kernel_names=list(kernel_names), computations=computations,
        fixed=[name for name, n in self._inputs.items() if n.fixed],
    ), b''.join(contents)))

  @property
  def _fields_key(self):
    return _digest(('fields', self._parts))

  def _key(self, fields):
    values = {name: getattr(self._task, name, 'missing') for name in fields}
    arrays = [x for x in tf.nest.flatten(values) if isinstance(x, np.ndarray)]
    if sum(array.nbytes for array in arrays) > _MOST_BYTES:
      raise _UnknownError('much data')
    return _digest(('build', self._parts, values))


def _folder(key: Sequence[Any]) -> Optional[disk.Folder]:
  """Returns the folder of the runtime, None for other code than ours."""
  context: Any = tff.framework.get_context_stack().current
  if not isinstance(context, fused.FusedContext) or not kept.is_plain():
    return None
  names = [*registry.modules, *map(_name, filter(callable, key))]
  is_ours = all(name.partition('.')[0] in _PACKAGES for name in names)
  if not is_ours or interception.is_open() or not kept.sources(*_PACKAGES):
    return None
  return context.executor.folder


def _name(function: Any) -> str:
  """Returns the module and the name of a function or class."""
  return f'{function.__module__}.{function.__qualname__}'


def _digest(value: Any) -> str:
  """Returns a digest of texts, numbers, arrays, models of the zoo, and so on.

  Raises:
    _UnknownError: If the value, or a part of it, is something else.
  """
  kind = type(value)
  if value is None or isinstance(value, (bool, int, float, str, bytes)):
    parts = [repr(value)]
  elif isinstance(value, np.generic):
    parts = [repr((value.dtype, value.item()))]
  elif kind is np.ndarray and value.dtype != object:
    content = hashlib.sha256(value.tobytes()).hexdigest()
    parts = [content, repr((value.dtype, value.shape))]
  elif isinstance(value, Mapping):
    parts = [_digest(pair) for pair in value.items()]
  elif isinstance(value, (tuple, list)):
    parts = [_digest(part) for part in value]
  elif isinstance(value, functional.FunctionalModel) and (
      recipe := zoo.recipe(value)
  ):
    parts = [recipe]
  else:
    raise _UnknownError(kind)
  text = ' '.join([_name(kind), *parts])
  return hashlib.sha256(text.encode()).hexdigest()
