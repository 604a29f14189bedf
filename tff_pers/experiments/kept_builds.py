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

import numpy as np

from tff_pers.config import registry
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


class _UnknownError(Exception):
  """A build depends on a value of a kind that `_digest` does not know."""


class KeptBuild:
  """One build, and what the folder has of it.

  Attributes:
    traces: What the build is to use (`traces.using`); None: nothing is kept.
  """

  def __init__(
      self, builder: Callable[..., Any], parts: Sequence[Any],
      inputs: Mapping[str, number_inputs.NumberInput], task: Any,
  ):
    """Looks for the build.

    Args:
      builder: The function that builds the method.
      parts: What it depends on besides the task, see `_digest`.
      inputs: Its hyperparameters that are inputs, by name.
      task: The task. Of a build that is found, the fields are read that it has
        read.
    """
    self.traces: Optional[traces.Traces] = None
    self._kernel_names: Sequence[str] = ()
    self._folder, self._inputs, self._task = _folder(builder), inputs, task
    if self._folder is None:
      return
    with kept.unless_it_fails(), contextlib.suppress(_UnknownError):
      self._parts = _digest((
          builder.__module__, builder.__qualname__, parts, kept.process(),
          kept.sources(*_PACKAGES),
      ))
      entry = self._folder.get(self._fields_key)
      self._fields = entry.description['fields'] if entry else []
      entry = self._folder.get(self._key(self._fields))
      self.traces = traces.Traces(self._found(entry) if entry else ())

  def finish(
      self, kernel_names: Sequence[str], fields: Iterable[str]
  ) -> tuple[str, ...]:
    """Keeps a build that is new; returns the names of its kernels.

    Args:
      kernel_names: Those that were noted while functions were traced.
      fields: The fields of the task that were read.
    """
    # Functions that were not traced have noted nothing.
    kernel_names = tuple(dict.fromkeys((*self._kernel_names, *kernel_names)))
    if self._folder is None or self.traces is None or self.traces.known:
      return kernel_names
    with kept.unless_it_fails(), contextlib.suppress(_UnknownError):
      fields = sorted({*self._fields, *fields})
      key = self._key(fields)
      computations, contents = [], []
      for signature, computation in self.traces.made:
        description, content = stored.written(computation, self._inputs)
        computations.append([signature, description, len(content)])
        contents.append(content)
      self._folder.put(self._fields_key, disk.Entry(dict(fields=fields)))
      self._folder.put(key, disk.Entry(dict(
          kernel_names=kernel_names, computations=computations,
          fixed=[name for name, n in self._inputs.items() if n.fixed],
      ), b''.join(contents)))
    return kernel_names

  @property
  def _fields_key(self):
    return _digest(('fields', self._parts))

  def _key(self, fields):
    values = [(name, getattr(self._task, name, None)) for name in fields]
    return _digest(('build', self._parts, values))

  def _found(self, entry: disk.Entry) -> list[traces.Traced]:
    """Returns the computations of an entry."""
    for name in entry.description['fixed']:
      self._inputs[name].fix()
    self._kernel_names = entry.description['kernel_names']
    rows, start = [], 0
    for signature, description, size in entry.description['computations']:
      content = entry.content[start:start + size]
      start += size
      rows.append(traces.Traced(
          signature, stored.read(description, content, self._inputs)
      ))
    return rows


def _folder(builder: Callable[..., Any]) -> Optional[disk.Folder]:
  """Returns the folder of the runtime, None for other code than ours."""
  context: Any = tff.framework.get_context_stack().current
  is_ours = all(
      module.partition('.')[0] in _PACKAGES
      for module in (builder.__module__, *registry.modules)
  )
  if not isinstance(context, fused.FusedContext) or not is_ours:
    return None
  return context.executor.folder if kept.sources(*_PACKAGES) else None


def _digest(value: Any) -> str:
  """Returns a digest of texts, numbers, arrays, models of the zoo, and so on.

  Raises:
    _UnknownError: If the value, or a part of it, is something else.
  """
  kind = type(value).__qualname__
  if value is None or isinstance(value, (bool, int, float, str, np.generic)):
    content = [repr(value)]
  elif isinstance(value, bytes):
    content = [value.hex()]
  elif isinstance(value, np.ndarray) and value.dtype != object:
    content = [repr((value.dtype, value.shape)), value.tobytes().hex()]
  elif isinstance(value, Mapping):
    content = [_digest(pair) for pair in value.items()]
  elif isinstance(value, (tuple, list)):
    content = [_digest(part) for part in value]
  elif isinstance(value, functional.FunctionalModel) and (
      recipe := zoo.recipe(value)
  ):
    content = [recipe]
  else:
    raise _UnknownError(kind)
  return hashlib.sha256(' '.join([kind, *content]).encode()).hexdigest()
