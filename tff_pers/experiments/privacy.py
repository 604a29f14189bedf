"""--dp_noise_multiplier, --dp_clip and --dp_target_delta."""

from typing import Any, Mapping, Optional

from tff_pers.aggregators import private_mean
from tff_pers.analysis import privacy
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process as process_lib
from tff_pers.data import features
from tff_pers.data import task as task_lib
from tff_pers.experiments import flags


def guarantee(
    given: Mapping[str, Any], method: methods.Method, hyperparameters: Any,
    driver: str, task: task_lib.Task,
) -> Optional[privacy.Guarantee]:
  """Returns what a run guarantees to its clients; None: nothing.

  Args:
    given: Values of the flags that were given.
    method: What is run.
    hyperparameters: Its hyperparameters.
    driver: What drives it.
    task: What it trains on.

  Raises:
    flags.UsageError: If the flags do not fit each other, or the method.
  """
  noise = given.get('dp_noise_multiplier', 0.0)
  for name in ('dp_clip', 'dp_target_delta'):
    if not noise and given.get(name):
      raise flags.UsageError(
          f'`--{name}` must be left out without --dp_noise_multiplier, found'
          f' {given[name]:g}.'
      )
  if not noise:
    return None
  # FedHM's server averages products of factors, which are no updates to clip.
  # L2GD's clients are told what follows from the sizes of all.
  if (
      not isinstance(hyperparameters, hp.Aggregation) or driver != 'rounds'
      or method.travels != methods.Travels()
  ):
    _refuse(method, noise)
  for is_so, what in (
      (task.byzantine is not None,
       'with Byzantine clients, who see what others send'),
      (any(task.model.statistics),
       'for a model whose batch normalization is trained, because its moving'
       ' statistics bear no noise'),
      (_tells_of_clients(task.features),
       'where statistics of all clients scale or encode the data without noise'
       ' (--standardize, texts, missing values, y of a regression)'),
      (task.num_clients < 2, 'with one client'),
  ):
    if is_so:
      raise flags.UsageError(
          f'`--dp_noise_multiplier` must be 0 {what}, found {noise:g}.'
      )
  if hyperparameters.aggregator != 'mean':
    raise flags.UsageError(
        f'`--{method.name}_aggregator` must be mean with'
        f' --dp_noise_multiplier={noise:g}, found'
        f' {hyperparameters.aggregator}. Tip: docs/privacy.md says why robust'
        ' rules and noise do not go together.'
    )
  number = task.num_clients
  delta = given.get('dp_target_delta') or number ** -1.1
  if delta > 1 / number:
    raise flags.UsageError(
        f'`--dp_target_delta` must be at most 1 / {number}, one by the number'
        f' of clients, found {delta:g}: publishing the data of one would do.'
    )
  return privacy.Guarantee(
      noise, number, task.clients_per_round or number, delta
  )


def _tells_of_clients(fitted: Optional[features.Features]) -> bool:
  """Whether what is made of columns follows from the rows of all clients."""
  return fitted is not None and (
      fitted.standardize or fitted.y_mean is not None or any(
          f.indicator or f.categories is not None for f in fitted.features
      )
  )


def rule(promised: Optional[privacy.Guarantee], clip: float) -> str:
  """Returns the value of `aggregator` that keeps a promise; '' for none.

  Args:
    promised: The promise.
    clip: --dp_clip.
  """
  if promised is None:
    return ''
  return private_mean.PrivateMean(
      promised.noise_multiplier, promised.cohort_size, clip
  ).text


def check(
    process: process_lib.PersonalizedProcess, method: methods.Method,
    promised: privacy.Guarantee,
) -> None:
  """Refuses a method whose clients send more than the private mean takes.

  Args:
    process: The method, built with `rule`.
    method: What it was built from.
    promised: What the run is to guarantee.

  Raises:
    flags.UsageError: Says so.
  """
  if not private_mean.takes_all(process):
    _refuse(method, promised.noise_multiplier)


def _refuse(method, noise):
  raise flags.UsageError(
      f'`--dp_noise_multiplier` must be 0 with {method.name}, whose server does'
      f' not take one mean of updates in a round, found {noise:g}. Tip:'
      ' docs/privacy.md names the methods that take noise.'
  )


def sentence(promised: privacy.Guarantee, rounds: int) -> str:
  """Returns what is promised after so many rounds."""
  who = ''
  if promised.cohort_size < promised.num_clients:
    who = (
        ' if nobody knows who trains in which round, which follows from --seed,'
    )
  return (
      f'Client-level differential privacy of the shared model after {rounds}'
      f' rounds: epsilon = {promised.epsilon(rounds):.4g} at delta ='
      f' {promised.delta:.3g},{who} for one client in the place of another. It'
      ' covers what the server makes of the means: neither metrics, nor what'
      ' clients keep or deploy after steps of their own, nor what was chosen by'
      ' validation data.'
  )
