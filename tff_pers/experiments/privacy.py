"""Privacy guarantees from the --dp_ flags."""

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
  """Returns the privacy guarantee of a run; None without noise.

  `driver` is `rounds` or `events`.

  Raises:
    flags.UsageError: If the flags conflict, or do not fit the method.
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
  # FedHM's server averages products of factors, which cannot be clipped as
  # updates. L2GD tells clients a quantity that depends on all clients' sizes.
  if (
      not isinstance(hyperparameters, hp.Aggregation) or driver != 'rounds'
      or method.travels != methods.Travels()
  ):
    _refuse(method, noise)
  for is_so, what in (
      (task.byzantine is not None,
       'with Byzantine clients, which see what others send'),
      (any(task.model.statistics),
       'for a model with trained batch normalization, because its moving'
       ' statistics get no noise'),
      (task.pooled_statistics or _tells_of_clients(task.features),
       'where statistics of all clients scale or encode the data without noise'
       ' (--standardize, texts, missing values, y of a regression, a counted'
       ' vocabulary)'),
      (task.num_clients < 2, 'with one client'),
      (getattr(hyperparameters, 'masked_loss', False),
       'with a masked loss, which also averages who has which class'),
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
        f'`--dp_target_delta` must be at most 1 / {number}, the inverse of the'
        f' number of clients, found {delta:g}: a larger one would allow'
        ' publishing one client\'s data.'
    )
  return privacy.Guarantee(
      noise, number, task.clients_per_round or number, delta
  )


def _tells_of_clients(fitted: Optional[features.Features]) -> bool:
  """Whether the preprocessing of columns depends on the rows of all clients."""
  return fitted is not None and (
      fitted.standardize or fitted.y_mean is not None or any(
          f.indicator or f.categories is not None for f in fitted.features
      )
  )


def rule(promised: Optional[privacy.Guarantee], clip: float) -> str:
  """Returns the `aggregator` that fulfils a guarantee; '' without one."""
  if promised is None:
    return ''
  return private_mean.PrivateMean(
      promised.noise_multiplier, promised.cohort_size, clip
  ).text


def check(
    process: process_lib.PersonalizedProcess, method: methods.Method,
    promised: privacy.Guarantee,
) -> None:
  """Refuses a method whose clients send more than the private mean covers.

  The process was built with `rule`.

  Raises:
    flags.UsageError: If they do.
  """
  if not private_mean.takes_all(process):
    _refuse(method, promised.noise_multiplier)


def _refuse(method, noise):
  raise flags.UsageError(
      f'`--dp_noise_multiplier` must be 0 with {method.name}, whose server does'
      f' not take exactly one mean of updates per round, found {noise:g}. Tip:'
      ' docs/privacy.md names the methods that take noise.'
  )


def sentence(promised: Optional[privacy.Guarantee], rounds: int) -> str:
  """Returns the guarantee after a number of rounds, as a sentence, or ''."""
  if promised is None:
    return ''
  who = ''
  if promised.cohort_size < promised.num_clients:
    who = ' if the cohorts, which follow from --seed, stay secret,'
  return (
      f'Client-level differential privacy of the shared model after {rounds}'
      f' rounds: epsilon = {promised.epsilon(rounds):.4g} at delta ='
      f' {promised.delta:.3g},{who} for replacing one client by another. It'
      ' covers what the server computes from the means: not metrics, not what'
      ' clients keep or deploy after their own steps, and not what was chosen'
      ' on validation data.'
  )
