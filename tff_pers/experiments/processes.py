"""A method's process on a task; runs that differ in their seed share it.

To build a process and to trace its rounds takes longer than many small runs. A
process does not know the seed of a run, but a method may look at the task it is
built on, and tasks differ between seeds. So what it looks at is noted, and the
last process is used again where all of that is the same.
"""

from typing import Any, NamedTuple, Optional

import numpy as np

from tff_pers import attacks
from tff_pers.aggregators import robust
from tff_pers.client_works import factored_sgd
from tff_pers.config import hyperparameters as hp
from tff_pers.core import process as process_lib
from tff_pers.core import round_metrics
from tff_pers.data import on_demand
from tff_pers.data import task as task_lib
from tff_pers.experiments import experiment as experiment_lib
from tff_pers.experiments import flags
from tff_pers.experiments import privacy


class Built(NamedTuple):
  """What a method is on a task.

  Attributes:
    process: Its process.
    kernel_names: Names of the kernels that clients hold as factors, see
      `client_works.factored_sgd`.
  """

  process: process_lib.PersonalizedProcess
  kernel_names: tuple[str, ...]


class _Last(NamedTuple):
  """The last process, and all that it depends on."""

  key: tuple[Any, ...]
  reads: dict[str, Any]
  built: Built


_MISSING = object()  # In the place of a field that a task does not have.

# One is enough, and takes the memory of one: programs go through the seeds of a
# variant before they go on to the next.
_last: Optional[_Last] = None


def build(experiment: experiment_lib.Experiment) -> Built:
  """Returns the method's process on the task: the last one, if it is the same.

  Args:
    experiment: What to run.

  Raises:
    flags.UsageError: If the method cannot be built on this task.
  """
  global _last  # pylint: disable=global-statement
  method, task = experiment.method, experiment.task
  names = experiment_lib.option_names(method.hyperparameters)
  with flags.sentences(f'{method.name}_', names):
    promised = experiment.promised
    hyperparameters = experiment_lib.informed(
        experiment.hyperparameters, task,
        privacy.rule(promised, experiment.flag('dp_clip')),
    )
    key = (
        method, type(hyperparameters), hyperparameters,
        experiment.flag('attack'),
        int(on_demand.sizes(task.train).max(initial=0)),
        # One message alone gains nothing from factors, and those that are
        # under way are in checkpoints: there they stay what they always were.
        experiment.plan.schedule is None,
    )
    if _last is not None and _last.key == key and all(
        _same(getattr(task, name, _MISSING), value)
        for name, value in _last.reads.items()
    ):
      return _last.built
    _last = None  # Its memory is free before the next one takes some.
    reads: dict[str, Any] = {}
    built = _build(_watched(task, reads), *key)
    if promised:
      privacy.check(built.process, method, promised)
  _last = _Last(key, reads, built)
  return built


def _build(
    task, method, _, hyperparameters, attack: str, largest: int, by_rounds: bool
) -> Built:
  """Builds the process; looks at nothing but these."""
  with factored_sgd.building(largest, allowed=by_rounds) as known:
    with round_metrics.leaving_out(task.byzantine), _under_attack(
        attack, task, hyperparameters
    ):
      process = method.build(task, hyperparameters)
  return Built(process, tuple(known.names))


def _under_attack(attack: str, task: task_lib.Task, hyperparameters):
  """Returns the scope in which Byzantine clients do what --attack says."""
  known = {}
  # Without attackers nobody asks; a private mean, which has none, is no rule.
  if task.byzantine is not None and isinstance(
      hyperparameters, hp.Aggregation
  ):
    known['rule'] = robust.parse(hyperparameters.aggregator)
  return attacks.carried_out(
      attacks.parse(attack), task.byzantine, num_classes=task.num_classes,
      **known,
  )


class _Watched(task_lib.Task):
  """A task, as far as methods can tell, that notes what they look at."""

  def __getattribute__(self, name):
    task, reads = object.__getattribute__(self, '__dict__')['watched']
    value = getattr(task, name, _MISSING)
    if name == '__dict__':
      value = dict(vars(task))  # All of it, so that no other task is the same.
    if name != '__class__':
      reads[name] = value
    # The task's own words if there is no such field.
    return getattr(task, name) if value is _MISSING else value


def _watched(task: task_lib.Task, reads: dict[str, Any]) -> task_lib.Task:
  """Returns the task; `reads` gets what is looked at by name.

  Methods look at a task while they are built; what is first read of it later,
  in a run that shares the process, is of the task that it was built on.
  """
  watched = object.__new__(_Watched)
  object.__setattr__(watched, 'watched', (task, reads))
  return watched


def _same(one, other) -> bool:
  """Whether two values are equal for sure: numbers, texts, and arrays of them.

  Everything else has to be the very same object, as a model is.
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
