"""Training that nobody does: runs whose curves are told, at no time at all.

Programs that search see what they would see of real runs: rows of metrics after
evaluated rounds, checkpoints, tables of clients, time that passes.
"""

import functools
import os
from typing import Any, Callable, Mapping, NamedTuple

import numpy as np

from tests import csv_rows
from tff_pers.config import hyperparameters as hp
from tff_pers.data.tasks import digits
from tff_pers.evaluation import figures
from tff_pers.evaluation import results
from tff_pers.experiments import budgets
from tff_pers.experiments import runner
from tff_pers.experiments import saved_runs
from tff_pers.experiments import variant_search
from tff_pers.simulation import position as position_lib
from tff_pers.simulation import store

CLIENTS = 6
FLAGS = [
    f'--num_clients={CLIENTS}', '--partition=iid', '--train_fraction=0.1',
    '--rounds=4', '--eval_every=1', '--jobs=1',
]
BYTES = 50.0


class Round(NamedTuple):
  """What a curve is asked about.

  Attributes:
    algo: The method.
    values: All its hyperparameters by flag name.
    seed: Of the run.
    number: Of the round.
  """

  algo: str
  values: Mapping[str, Any]
  seed: int
  number: int


class Curve(NamedTuple):
  """What clients reach after a round: accuracies, a number or one per client.

  Attributes:
    validation: On validation data.
    test: On test data.
    is_finite: Whether the losses are finite.
  """

  validation: Any
  test: Any
  is_finite: bool = True


def table(folder, name: str) -> list[dict[str, str]]:
  """Returns the rows of a CSV file."""
  return csv_rows.read(os.path.join(folder, name))


def by_rate(of: Round) -> Curve:
  """A curve that is best at the learning rate 1, and rises with rounds."""
  rate = of.values['learning_rate']
  value = (0.9 - 0.1 * abs(np.log10(rate))) * (0.5 + of.number / 8)
  return Curve(value, value - 0.05)


def finite_where(is_finite: Callable[[Round], bool]) -> Callable[[Round], Curve]:
  """Returns the curve `by_rate`, which diverges elsewhere."""
  return lambda of: by_rate(of)._replace(is_finite=is_finite(of))


class Training:
  """Stands in for `runner.execute`, and for the clock.

  Attributes:

    trained: (variant, seed, round) of every round that was trained, in order.
    now: Seconds on the clock.
  """

  def __init__(
      self, monkeypatch, curve: Callable[[Round], Curve] = by_rate,
      seconds: float = 1.0,
  ):
    """Takes the place of training until the test is over.

    Args:
      monkeypatch: The fixture.
      curve: The results of a run.
      seconds: What a round takes.
    """
    self._curve, self._seconds = curve, seconds
    self.trained, self.now = [], 0.0
    monkeypatch.setattr(runner, 'execute', self._execute)
    monkeypatch.setattr(variant_search, 'time', self)
    monkeypatch.setattr(budgets, 'now', self.monotonic)
    # What takes most of the time then: the data, and figures.
    monkeypatch.setattr(digits, 'load', functools.cache(digits.load))
    monkeypatch.setattr(figures, 'save', _save)

  def monotonic(self) -> float:
    """Returns the time."""
    return self.now

  def runs(self) -> list[tuple[str, int]]:
    """Returns (variant, seed) of what was trained, in order."""
    return list(dict.fromkeys(run[:2] for run in self.trained))

  def _execute(
      self, experiment, folder, *, quiet, draw, is_enough=lambda row: False
  ):
    del quiet, draw
    if runner.is_finished(folder):
      return
    results.write_config(folder, dict(
        experiment.config, parameters=dict(model=10, client=10), cost={}
    ))
    path = os.path.join(folder, results.CHECKPOINT)
    with store.ClientStateStore(path) as states:
      position = position_lib.Position(**(states.position() or {}))
      rows = saved_runs.rows(folder, position.round)
      for number in range(position.round + 1, experiment.task.rounds + 1):
        self.now += self._seconds

        self.trained.append(
            (experiment.variant, experiment.flag('seed'), number)
        )
        curve = self._at(experiment, number)
        if not curve.is_finite:
          raise runner.Diverged(f'round {number}')
        rows.append(_row(number, curve))
        results.write_csv(
            os.path.join(folder, results.METRICS), list(rows[0]), rows
        )
        position = position._replace(round=number)
        states.commit((), position._asdict())
        if is_enough(rows[-1]):
          break
      _write_tables(folder, self._at(experiment, position.round))
      states.set_position(position._replace(finished=True)._asdict())

  def _at(self, experiment, number: int) -> Curve:
    return self._curve(Round(
        experiment.method.name, hp.as_dict(experiment.hyperparameters),
        experiment.flag('seed'), number,
    ))


def _save(picture, output_dir: str, name: str) -> str:
  del picture
  return os.path.join(output_dir, name)


def _row(number: int, curve: Curve) -> dict[str, Any]:
  validation, test = np.mean(curve.validation), np.mean(curve.test)
  return dict(
      round=number, seconds=float(number), train_loss=1.0, accuracy_mean=test,
      loss_mean=1 - test, accuracy_worst_decile=test, bytes_down=BYTES,
      bytes_up=BYTES, accuracy_validation=validation,
      loss_validation=1 - validation,
  )


def _write_tables(folder: str, curve: Curve) -> None:
  rows = [
      dict(client=client, seen=1, num_train=10, num_test=10, num_validation=5,
           accuracy=accuracy, loss=1 - accuracy)
      for client, accuracy in enumerate(np.broadcast_to(curve.test, CLIENTS))
  ]
  results.write_clients(folder, _columns(rows, results.CLIENT_COLUMNS))
  validation = np.broadcast_to(curve.validation, CLIENTS)
  results.write_validation(folder, _columns(
      [dict(row, accuracy=accuracy, loss=1 - accuracy)
       for row, accuracy in zip(rows, validation)],
      results.VALIDATION_COLUMNS,
  ))


def _columns(rows, names) -> list[dict[str, Any]]:
  return [{name: row[name] for name in names} for row in rows]
