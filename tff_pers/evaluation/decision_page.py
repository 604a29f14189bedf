"""Builds the page of a decision: sentences and tables."""

from typing import Any, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from tff_pers.evaluation import comparison
from tff_pers.evaluation import costs
from tff_pers.evaluation import decision as decision_lib
from tff_pers.evaluation import paired

COLUMNS = (
    'algo', 'accuracy_validation', 'accuracy_test', 'low', 'high',
    'accuracy_worst_decile', 'share_hurt_vs_local_only',
    'share_hurt_vs_fedavg', 'seconds', 'recommended', 'metric',
    'value_validation', 'value_test', 'value_worst_decile',
)
DIFFERENCE_COLUMNS = (
    'algo', 'variant', 'metric', 'validation', 'test', 'low', 'high',
    'difference', 'difference_low', 'difference_high', 'p_value',
    'share_better', 'share_worse', 'bytes_per_client', 'trials', 'seconds',
)


class Method(NamedTuple):
  """A method and its results after the final runs.

  Attributes:
    algo: The method as given.
    variant: The method with the chosen values.
    trials: Number of its trials.
    validation: Values of clients on validation data.
    test: Values of clients on test data.
    worst_decile: Mean over the worst 10 % of the clients and over seeds.
    hurt: Share of clients that are worse off than with `local_only` and
      `fedavg`; None if these were not run.
    bytes_per_client: Bytes of a client that takes part in all rounds of a run,
      see `costs`, mean over seeds.
    seconds: Seconds of a run, likewise.
  """

  algo: str
  variant: str
  trials: int
  validation: paired.Values
  test: paired.Values
  worst_decile: float
  hurt: tuple[Optional[float], Optional[float]]
  bytes_per_client: float
  seconds: float


def methods(
    runs: comparison.Runs, variants: Mapping[str, str],
    trials: Mapping[str, int], metric: str, *, by_split: bool = False,
) -> dict[str, Method]:
  """Returns every method that has no diverged run, with its results.

  Args:
    runs: Runs by (method, seed).
    variants: The methods with the chosen values.
    trials: Number of trials of each method.
    metric: `accuracy` or `loss`.
    by_split: See `paired.of_clients`.
  """
  found = {}
  for row in comparison.summary_rows(runs):
    algo = row['algo']
    all_seeds = [run for (name, _), run in runs.items() if name == algo]
    own = [run for run in all_seeds if run is not None]
    if len(own) < len(all_seeds):
      continue
    found[algo] = Method(
        algo, variants[algo], trials[algo],
        paired.of_clients(own, metric, validation=True, by_split=by_split),
        paired.of_clients(own, metric, by_split=by_split),
        float(np.mean([
            comparison.final_summary(run, metric).worst_decile for run in own
        ])),
        (row['share_hurt_vs_local'], row['share_hurt_vs_fedavg']),
        *(float(np.mean([values(run)[-1] for run in own])) for values in (
            costs.cumulative_bytes, lambda run: run.metrics['seconds'],
        )),
    )
  return found


def choice_rows(
    found: Mapping[str, Method], order: Sequence[str], metric: str,
    recommended: str,
) -> list[dict[str, Any]]:
  """Returns the ranking, rows of `COLUMNS`; some only for accuracies."""
  rows = []
  for algo in order:
    method, test = found[algo], paired.mean_of(found[algo].test)
    values = dict(
        validation=_mean(method.validation), test=test.mean,
        worst_decile=method.worst_decile,
    )
    row = dict.fromkeys(COLUMNS)
    if metric == 'accuracy':
      row.update({f'accuracy_{name}': v for name, v in values.items()})
    row.update({f'value_{name}': v for name, v in values.items()})
    row.update(
        algo=algo, metric=metric, low=test.low, high=test.high,
        share_hurt_vs_local_only=method.hurt[0],
        share_hurt_vs_fedavg=method.hurt[1],
        seconds=round(method.seconds, 3), recommended=int(algo == recommended),
    )
    rows.append(row)
  return rows


def difference_rows(
    found: Mapping[str, Method], order: Sequence[str], metric: str,
    recommended: str,
) -> list[dict[str, Any]]:
  """Returns rows of `differences.csv`: to the recommended, on test data."""
  rows = []
  for algo in order:
    method, test = found[algo], paired.mean_of(found[algo].test)
    row = dict.fromkeys(DIFFERENCE_COLUMNS)
    row.update(
        algo=algo, variant=method.variant, metric=metric,
        validation=_mean(method.validation), test=test.mean, low=test.low,
        high=test.high, trials=method.trials,
        seconds=round(method.seconds, 3),
    )
    if not np.isnan(method.bytes_per_client):  # Unknown of old runs by events.
      row['bytes_per_client'] = round(method.bytes_per_client)
    if algo != recommended:
      gap = paired.difference(method.test, found[recommended].test, metric)
      row.update(
          difference=gap.gain.mean, difference_low=gap.gain.low,
          difference_high=gap.gain.high, p_value=gap.p_value,
          share_better=gap.share_better, share_worse=gap.share_worse,
      )
    rows.append(row)
  return rows


def recommendation(
    decision: decision_lib.Decision, order: Sequence[str], metric: str,
    num_ended: int,
) -> str:
  """Returns the sentence that recommends a method and how certain that is.

  `order` are the requested methods, simple ones first, of which `num_ended`
  finished.
  """
  start = f'**{decision.algo}** is recommended'
  if 1 < num_ended < len(order):
    start = (
        f'Of the {num_ended} methods that finished ({len(order)} were'
        f' requested), {start}'
    )
  if decision.ahead is None:
    return f'{start}: no other method finished.'
  if decision.behind is not None:
    return (
        f'{start}: {decision.best} is better on validation data by'
        f' {_amount(decision.behind, metric)}, which is within noise, and'
        f' {decision.algo} is simpler.'
    )
  if not decision.ahead.gain.mean:
    return (
        f'{start}: on validation data it is as good as the next one,'
        f' {decision.runner_up}, and simpler.'
    )
  amount = _amount(decision.ahead, metric)
  if not decision.ahead.is_noise:
    return (
        f'{start}: on validation data it is better than the next one,'
        f' {decision.runner_up}, by {amount}, which is more than noise.'
    )
  is_simpler = order.index(decision.algo) < order.index(decision.runner_up)
  why = (
      f'{decision.algo} is the simpler of the two' if is_simpler else
      f'{decision.runner_up} is simpler, but more than a standard error behind'
  )
  return (
      f'{start}: it is the best on validation data, but better than the next'
      f' one, {decision.runner_up}, by {amount}, which is within noise; {why}.'
  )


def test_sentence(
    found: Mapping[str, Method], recommended: str, metric: str
) -> str:
  """Returns what test data, which were not used, say of the recommendation."""
  tests = {algo: method.test for algo, method in found.items()}
  best = decision_lib.ranked(tests, metric)[0]
  own = paired.mean_of(tests[recommended])
  article = 'an' if metric[0] in 'afr' else 'a'
  text = (
      'On test data, which were not used for this choice, it has'
      f' {article} {metric} of {own.mean:.4f}{_interval(own)}.'
      + _fall(found[recommended], metric)
  )
  if best == recommended:
    return text + ' No other method is better there.'
  behind = paired.difference(tests[best], tests[recommended], metric)
  verdict = 'within noise' if behind.is_noise else 'more than noise'
  return (
      f'{text} The best method there is {best}, better by'
      f' {_amount(behind, metric)}: {verdict}.'
  )


def _fall(method: Method, metric: str) -> str:
  """Returns a sentence if test data are worse than validation data."""
  fall = paired.difference(method.validation, method.test, metric)
  if fall.is_noise or fall.gain.mean <= 0:
    return ''
  chosen = (
      f'it is the best of {method.trials} trials there, which makes the'
      ' validation result too good; or ' if method.trials > 1 else ''
  )
  return (
      f' On validation data it was better by {_amount(fall, metric)}, which is'
      f' more than noise: {chosen}the test rows differ from the training rows,'
      ' for example in time or place.'
  )


def _mean(values: paired.Values) -> float:
  return paired.mean_of(values).mean


def _amount(found: paired.Difference, metric: str) -> str:
  """Returns a gain with its interval: `0.0120 of accuracy (...)`."""
  gain = found.gain
  return f'{gain.mean:.4f} of {metric}{_interval(gain, with_clients=True)}'


def _interval(found: paired.Mean, *, with_clients: bool = False) -> str:
  if found.low is None:
    return ' (one client has no interval)'
  over = f' over {found.clients} clients' if with_clients else ''
  return f' (95 % interval {found.low:.4f} to {found.high:.4f}{over})'
