"""Builds a method's process; runs that differ in seed or rates share it.

Building a process and tracing its rounds takes longer than many small runs. A
process does not depend on a run's seed, but a method may read the task that it
is built for, and tasks differ between seeds. So the fields that it reads are
recorded, and the last process is reused if all of them are equal. Numbers such
as learning rates are inputs of the traced graphs on the fused runtime (see
`number_inputs`), so that they may differ.
"""

import dataclasses
from typing import Any, NamedTuple, Optional
import weakref

import numpy as np

from tff_pers import attacks
from tff_pers.aggregators import robust
from tff_pers.client_works import factored_sgd
from tff_pers.config import hyperparameters as hp
from tff_pers.core import process as process_lib
from tff_pers.core import left_out
from tff_pers.data import task as task_lib
from tff_pers.experiments import experiment as experiment_lib
from tff_pers.experiments import flags
from tff_pers.experiments import kept_builds
from tff_pers.experiments import privacy
from tff_pers import number_inputs
from tff_pers.runtime import fused
from tff_pers import tff


class Built(NamedTuple):
  """A method built for a task.

  Attributes:
    process: Its process.
    kernel_names: Names of the kernels that clients hold as factors, see
      `client_works.factored_sgd`.
  """

  process: process_lib.PersonalizedProcess
  kernel_names: tuple[str, ...]


class _Last(NamedTuple):
  """The last process and everything that it depends on.

  Attributes:
    key: What must be equal for another run to share it.
    numbers: Its hyperparameters that are inputs, by name.
    reads: The fields of the task that were read, by name.
    built: The process.
  """

  key: tuple[Any, ...]
  numbers: dict[str, number_inputs.NumberInput]
  reads: dict[str, Any]
  built: Built


_MISSING = object()  # Stands for a field that a task does not have.

# Keeping one process is enough and bounds memory: programs run all seeds of a
# variant before the next variant.
_last: Optional[_Last] = None


def build(experiment: experiment_lib.Experiment) -> Built:
  """Returns the method's process for the task, reusing an equal last one.

  A process that is reused computes with this run's numbers from now on, also
  for the caller that was given it before.

  Raises:
    flags.UsageError: If the method cannot be built on this task.
  """
  global _last  # pylint: disable=global-statement
  method, task = experiment.method, experiment.task
  names = hp.specs(method.hyperparameters)
  with flags.usage_errors(f'{method.name}_', names):
    promised = experiment.promised
    hyperparameters = experiment_lib.informed(
        experiment.hyperparameters, task,
        privacy.rule(promised, experiment.flag('dp_clip')),
    )
    floats = _floats(method, hyperparameters)
    others = {
        spec.name: getattr(hyperparameters, spec.name)
        for spec in dataclasses.fields(hyperparameters)
        if spec.name not in floats
    }
    arguments = (
        experiment.flag('attack'),
        int(task.sizes.max(initial=0)),
        experiment.plan.in_flight,
    )
    key = (method, type(hyperparameters), others, *arguments)
    if _last is not None and _last.key == key and all(
        _same(getattr(task, name, _MISSING), value)
        for name, value in _last.reads.items()
    ) and all(
        number.value == floats[name] or not number.fixed
        for name, number in _last.numbers.items()
    ):
      for name, number in _last.numbers.items():
        number.assign(floats[name])
      return _last.built
    _last = None  # Frees its memory before the next one is built.
    reads: dict[str, Any] = {}
    numbers = {
        name: number_inputs.NumberInput(value)
        for name, value in floats.items()
    }
    if numbers:
      hyperparameters = dataclasses.replace(hyperparameters, **numbers)
    watched = _Watched(task, reads)
    built = kept_builds.build(
        lambda: _build(watched, method, hyperparameters, *arguments),
        (method.name, method.build, *key[1:], floats, list(numbers)),
        numbers, watched, reads,
    )
    # Graphs that are traced later need the inputs, too.
    weakref.finalize(built.process, numbers.clear)
    if promised:
      privacy.check(built.process, method, promised)
  _last = _Last(key, numbers, reads, built)
  return built


def _floats(method, hyperparameters) -> dict[str, float]:
  """Returns the hyperparameters that become inputs of the graphs, by name."""
  context: Any = tff.framework.get_context_stack().current
  if (
      not isinstance(context, fused.FusedContext)
      or not context.executor.reads_numbers
      # A method of the user's may ask whether it has a Python float.
      or not method.build.__module__.startswith(('tff_pers.', 'baselines.'))
  ):
    return {}
  return {
      spec.name: value for spec in dataclasses.fields(hyperparameters)
      if isinstance(value := getattr(hyperparameters, spec.name), float)
      and value
  }


def _build(
    task, method, hyperparameters, attack: str, largest: int, in_flight: int
) -> Built:
  """Builds the process; must depend on its arguments only."""
  # A single message gains nothing from factors, and messages in flight are
  # stored in checkpoints, whose format must stay the same.
  with factored_sgd.building(largest, allowed=not in_flight) as known:
    with left_out.leaving_out(task.byzantine), _under_attack(
        attack, task, hyperparameters, in_flight
    ):
      process = method.build(task, hyperparameters)
  return Built(process, tuple(known.names))


def _under_attack(
    attack: str, task: task_lib.Task, hyperparameters, in_flight: int
):
  """Returns the scope in which Byzantine clients attack as --attack says."""
  known = {}
  # Only read with attackers; a private mean, which allows none, is not a rule.
  if task.byzantine is not None and isinstance(
      hyperparameters, hp.Aggregation
  ):
    known['rule'] = robust.parse(hyperparameters.aggregator)
  return attacks.carried_out(
      attacks.parse(attack), task.byzantine, num_classes=task.num_classes,
      window=in_flight, **known,
  )


class _Watched(task_lib.Task):
  """Behaves as a task; `reads` collects the fields that are read, by name.

  Methods read a task while they are built. A field that is first read later, in
  a run that shares the process, is that of the task it was built for.
  """

  # pylint: disable-next=super-init-not-called
  def __init__(self, task: task_lib.Task, reads: dict[str, Any]):
    object.__setattr__(self, 'watched', (task, reads))

  def __getattribute__(self, name):
    task, reads = object.__getattribute__(self, '__dict__')['watched']
    value = getattr(task, name, _MISSING)
    if name == '__dict__':
      value = dict(vars(task))  # A copy: no other task compares equal to it.
    if name != '__class__':
      reads[name] = value
    # Raises the task's own error if there is no such field.
    return getattr(task, name) if value is _MISSING else value


def _same(one, other) -> bool:
  """Whether two values are certainly equal: numbers, texts, arrays of them.

  Any other values, such as models, must be the same object.
  """
  if one is other:
    return True
  if type(one) is not type(other):
    return False
  if isinstance(one, np.ndarray):
    return one.dtype == other.dtype and np.array_equal(one, other)
  if isinstance(one, (tuple, list)):
    return len(one) == len(other) and all(map(_same, one, other))
  return isinstance(one, (bool, int, float, str, np.generic)) and one == other
