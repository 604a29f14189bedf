"""From flags to the events of a run, or to the clock of its rounds."""

import dataclasses
from typing import Any, Collection, Mapping, NamedTuple, Optional

from tff_pers.config import methods
from tff_pers.data import brackets
from tff_pers.data import task as task_lib
from tff_pers.experiments import auto_rounds
from tff_pers.experiments import flags
from tff_pers.simulation import asynchrony
from tff_pers.simulation import asynchrony_clocks
from tff_pers.simulation import asynchrony_delays
from tff_pers.simulation import cohort

# The delays of events unless --delays says otherwise.
DEFAULT_DELAYS = 'exponential[slow=10]'
# Flags that act with driver=events alone.
_OF_EVENTS = ('in_flight', 'redispatch')


class Plan(NamedTuple):
  """What happens when in a run.

  Attributes:
    schedule: The events, or None: the run goes by rounds.
    clock: The clock of rounds, or None: there is none, or the schedule's.
  """

  schedule: Optional[asynchrony.Schedule] = None
  clock: Optional[asynchrony_clocks.RoundClock] = None


def driver_of(method: methods.Method, given: Mapping[str, Any]) -> str:
  """Returns what drives a method: `rounds` or `events`.

  Raises:
    ValueError: If it cannot be driven by that.
  """
  asked = given.get('driver', flags.DEFAULTS['driver'])
  if asked == 'auto':
    return method.driver
  if asked == 'events' and not _takes_events(method):
    raise ValueError(
        f'`driver` must be rounds with {method.name}, found events. Tip: events'
        ' drive methods whose clients receive and send weights and nothing'
        ' else.'
    )
  return asked


def _takes_events(method: methods.Method) -> bool:
  is_averaging = method.travels == methods.Travels()
  needs_all = 'full_participation' in method.needs
  return method.driver == 'events' or (is_averaging and not needs_all)


def in_events(
    task: task_lib.Task, given: Mapping[str, Any], hyperparameters: Any
) -> task_lib.Task:
  """Returns the task with the defaults of a run of events.

  A server update is a round; unless the task says how many there are, all
  together take as many messages as the task's rounds. The number of updates
  between evaluations grows alike.
  """
  rounds = task.updates or -(
      -task.rounds * (task.clients_per_round or task.num_clients)
      // hyperparameters.messages_per_update
  )
  changes: dict[str, Any] = {}
  if 'rounds' not in given:
    changes['rounds'] = rounds
  if 'eval_every' not in given:
    changes['eval_every'] = max(1, task.eval_every * rounds // task.rounds)
  return dataclasses.replace(task, **changes)


def check(
    driver: str, given: Mapping[str, Any], hyperparameters: Any, *, is_one: bool
) -> None:
  """Refuses flags that do not go together.

  Args:
    driver: See `driver_of`.
    given: Values of the flags that were given.
    hyperparameters: Those of the method.
    is_one: Whether the flags are for this run alone: then all must act.

  Raises:
    flags.UsageError: Names the first.
  """
  if driver == 'rounds':
    for name in _OF_EVENTS if is_one else ():
      if given.get(name, flags.DEFAULTS[name]) != flags.DEFAULTS[name]:
        raise flags.UsageError(
            f'`--{name}` must be left out in a run by rounds, found'
            f' {given[name]}. Tip: --driver=events.'
        )
    if given.get('network_delays') and not given.get('delays'):
      raise flags.UsageError(
          '`--network_delays` must be left out without --delays in a run by'
          f" rounds, found {given['network_delays']!r}."
      )
    return
  if given.get('rounds') == auto_rounds.AUTO:
    raise flags.UsageError(
        '`--rounds` must be a number of server updates with driver=events,'
        ' found auto.'
    )
  attack = given.get('attack', flags.DEFAULTS['attack'])
  if brackets.parse(attack)[0] != 'none':
    raise flags.UsageError(
        '`--attack` must be none with driver=events, where messages arrive one'
        f' by one and none is seen beside the others, found {attack}.'
    )
  rule = getattr(hyperparameters, 'aggregator', 'mean')
  if rule != 'mean':
    raise flags.UsageError(
        '`--driver` must be rounds with a robust rule, which compares messages,'
        f' found events and {rule}.'
    )
  if getattr(hyperparameters, 'pretrain_rounds', 0):
    raise flags.UsageError(
        '`--driver` must be rounds with pretrain_rounds, because a message of'
        ' the first stage may arrive in the second, found events.'
    )


def plan(
    driver: str, task: task_lib.Task, given: Mapping[str, Any],
    hyperparameters: Any, names: Collection[Any],
) -> Plan:
  """Returns the events or the clock of a run.

  Args:
    driver: See `driver_of`.
    task: The task, with its number of rounds.
    given: Values of the flags that were given.
    hyperparameters: Those of the method.
    names: Clients as users know them, in order.

  Raises:
    flags.UsageError: If the flags do not fit.
  """
  value = lambda name: given.get(name, flags.DEFAULTS[name])
  text = value('delays') or (DEFAULT_DELAYS if driver == 'events' else '')
  if not text:
    return Plan()
  with flags.sentences(names=('delays', 'network_delays', 'in_flight')):
    delays = asynchrony_delays.build(
        text, value('network_delays'), names, flags.resolve_path
    )
    if driver == 'rounds':
      return Plan(clock=asynchrony_clocks.RoundClock(
          delays, cohort.uniform(task.num_clients, task.clients_per_round),
          value('seed'),
      ))
    return Plan(asynchrony.make_schedule(
        delays, task.num_clients,
        value('in_flight') or default_in_flight(task), task.rounds,
        seed=value('seed'), redispatch=value('redispatch'),
        messages_per_update=hyperparameters.messages_per_update,
    ))


def default_in_flight(task: task_lib.Task) -> int:
  """Returns the clients of a round, or a quarter of all if that is all."""
  if task.full_participation:
    return -(-task.num_clients // 4)
  return task.clients_per_round


def arrivals(schedule: asynchrony.Schedule, rounds: int) -> task_lib.Arrivals:
  """Returns what a method may know of the events before training."""
  return task_lib.Arrivals(schedule.in_flight, schedule.max_delay(rounds))
