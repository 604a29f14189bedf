"""The training program: rounds, evaluations and checkpoints of one run.

A round draws the cohort, fetches its client states, calls `process.next`, and
stores the new states. A run depends only on its arguments: resuming a killed
run from its last checkpoint gives bit-identical results.
"""

import collections
import functools
import time
import types
from typing import (
    Any, Callable, Iterator, Mapping, NamedTuple, Optional, Sequence
)

import numpy as np
import tensorflow as tf

from tff_pers.core import process as process_lib
from tff_pers.data import on_demand
from tff_pers.evaluation import quality
from tff_pers.evaluation import summary
from tff_pers.models import functional
from tff_pers.simulation import cohort as cohort_lib
from tff_pers.simulation import metric_rows
from tff_pers.simulation import non_finite
from tff_pers.simulation import optimum_distance
from tff_pers.simulation import position as position_lib
from tff_pers.simulation import predictions
from tff_pers.simulation import prefetch
from tff_pers.simulation import progress as progress_lib
from tff_pers.simulation import release
from tff_pers.simulation import store
from tff_pers import tff

# Clients evaluated in one call, to bound memory; it changes no number, unless
# those of a call choose something together, see `deployment.Choosing`.
CLIENTS_PER_CALL = 128
# A checkpoint is taken after every evaluated round, and after any round once
# the last checkpoint is this old.
_CHECKPOINT_SECONDS = 60.0


class Data(NamedTuple):
  """Dense data of clients, in order of the index; `validation` may be None."""

  train: Sequence[Any]
  test: Sequence[Any]
  validation: Optional[Sequence[Any]] = None

  def pick(
      self, clients: Sequence[int], first: Optional[int] = None
  ) -> 'Data':
    """Returns the data of `clients`, given by their positions.

    Their indices are numbers from `first` on; None: they keep them.
    """
    pick = functools.partial(on_demand.pick, places=clients, first=first)
    return Data(
        pick(self.train), pick(self.test),
        None if self.validation is None else pick(self.validation),
    )


def _frozen(clients) -> Sequence[Any]:
  """Makes the arrays of clients read-only, and returns the clients.

  A runtime may then keep an array on its device and use it again in later
  rounds. It would not notice a change, so changing the array must fail.

  Raises:
    ValueError: If the `index` of a client is not its position.
  """
  if isinstance(clients, on_demand.OnDemand):
    return clients  # Read-only as they are read.
  for position, client in enumerate(clients):
    if client['index'] != position:
      raise ValueError(
          '`index` of a client must be its position in `data`, since its state'
          f' is kept by it, found {int(client["index"])} at {position}.'
      )

  def freeze(array):
    frozen = np.asarray(array)
    owner: Optional[np.ndarray] = frozen
    # A view is constant only if the arrays behind it are.
    while isinstance(owner, np.ndarray):
      owner.flags.writeable = False
      owner = owner.base
    return frozen
  return [tf.nest.map_structure(freeze, client) for client in clients]


class TrainingProgram:
  """Trains one process on the data of its clients."""

  def __init__(
      self,
      process: process_lib.PersonalizedProcess,
      data: Data,
      states: store.ClientStateStore,
      *,
      seed: int = 0,
      groups: Optional[np.ndarray] = None,
      byzantine: Optional[np.ndarray] = None,
      evaluated: Optional[np.ndarray] = None,
      optimum: Optional[Any] = None,
      on_non_finite: str = 'stop',
      clock: Optional[Any] = None,
      metric: str = 'accuracy',
      own_metrics: quality.Own = types.MappingProxyType({}),
      epsilon: Optional[Callable[[int], float]] = None,
  ):
    """Starts at round 0, or at the checkpoint in `states`.

    Args:
      process: The method.
      data: Data of the clients; `index` is the position.
      states: Client states and checkpoints.
      seed: The run's seed.
      groups: int[N], the true clusters of the clients if they are known.
      byzantine: bool[N], the clients that train but are not evaluated, or None.
      evaluated: int[K], the honest clients that are evaluated, ascending; None:
        all honest clients.
      optimum: See `Task.optimum`, or None.
      on_non_finite: How to treat clients whose loss or update is not finite:
        `stop` the run, or `drop` them from the round and count them.
        A round that would drop all honest clients stops the run either way.
      clock: The virtual clock, see `asynchrony_clocks`, or None.
      metric: The metric by which validation data choose.
      own_metrics: See `Task.metrics`.
      epsilon: Returns the epsilon of differential privacy after a number of
        rounds; None: no guarantee.

    Raises:
      ValueError: If the `index` of a client is not its position.
    """
    self._process, self._states, self._clock = process, states, clock
    self._data = Data(
        _frozen(data.train), _frozen(data.test),
        None if data.validation is None else _frozen(data.validation),
    )
    self._reader = prefetch.Prefetch(self._data.train)
    self._seed, self._drops = seed, on_non_finite == 'drop'
    self._metric = None if metric in summary.COMMON else metric
    self._own_metrics = own_metrics
    self._byzantine = np.zeros([len(data.train)], bool)
    if byzantine is not None:
      self._byzantine = np.asarray(byzantine, bool)
    self._evaluated = (
        np.flatnonzero(~self._byzantine) if evaluated is None
        else np.asarray(evaluated)
    )
    self._distances = None
    if optimum_distance.is_comparable(process, optimum):
      self._distances = optimum_distance.Distances(process, optimum)
    self._rows = metric_rows.MetricRows(
        process, groups=groups, honest=self._evaluated,
        has_validation=data.validation is not None, metric=metric,
        has_distance=self._distances is not None, has_dropped=self._drops,
        epsilon=epsilon, others=clock.columns if clock else (),
    )
    self._initialize = _build_initialize_clients(process)
    self._like = None
    self._state = process.initialize_seeded(seed)
    self._position = position_lib.Position()
    saved = states.position()
    if saved is not None:
      self._position = position_lib.read(saved)
      self._state = states.server_state(like=self._state)

  @property
  def position(self) -> position_lib.Position:
    """The progress of the run: rounds, seconds, bytes."""
    return self._position

  @property
  def deployed(self) -> functional.FunctionalModel:
    """The model whose weights clients deploy."""
    return self._process.deployed

  @property
  def columns(self) -> list[str]:
    """The columns of a row of metrics, after `round`."""
    return [*self._rows.columns, *(self._clock.columns if self._clock else ())]

  @property
  def evaluated(self) -> np.ndarray:
    """The honest clients that are evaluated, ascending."""
    return self._evaluated

  @property
  def seconds_waiting(self) -> float:
    """Seconds that rounds of this object have waited for data."""
    return self._reader.seconds_waiting

  @property
  def state(self) -> Any:
    """The server state."""
    return self._state

  def run(
      self,
      sampler: cohort_lib.Sampler,
      *,
      rounds: int,
      eval_every: int,
      releases: release.Releases,
      progress: progress_lib.Progress,
      is_enough: Callable[[Mapping[str, Any]], bool] = lambda row: False,
  ) -> Mapping[str, np.ndarray]:
    """Trains up to round `rounds`; returns the metrics of the last evaluation.

    These are metrics of the `evaluated` clients on their test data, [K] each.
    `OnDemand` data are read for the next round during the current one.

    Args:
      sampler: Draws the cohorts, see `cohort`.
      rounds: Rounds of the whole run, including those already done.
      eval_every: The `evaluated` clients are evaluated, and a checkpoint is
        taken, after every `eval_every` rounds and after the last.
      releases: Receives a row of `columns` per evaluated round.
      progress: Is notified after every round.
      is_enough: Gets every row, with `round`, after its checkpoint; the run
        ends there if it returns True. It may raise, too.

    Raises:
      NonFiniteError: See `train_round`.
      DataError: If the data of a client of a round cannot be read.
      OSError: If results cannot be written. The last checkpoint is intact.
    """
    metrics = None
    saved = time.monotonic()
    start = self._position.round

    def choose(round_num: int) -> Sequence[int]:
      if round_num >= rounds:
        return ()
      return [int(client) for client in sampler(self._seed, round_num)]

    following = choose(start)
    with self._reader:
      for round_num in range(start + 1, rounds + 1):
        row = None
        cohort = following
        # A sampler is a pure function, so the next cohort is known already.
        following = choose(round_num)
        measured = self.train_round(cohort, following)
        progress.round_done(
            round_num, measured['train_loss'], len(cohort),
            measured.get('visits_idle', 0.0),
        )
        if round_num % eval_every == 0 or round_num == rounds:
          metrics = self._evaluate_honest()
          row = self._row(measured, metrics)
          releases.release(row, round_num)
        elif time.monotonic() - saved < _CHECKPOINT_SECONDS:
          continue
        # After the row: a run that is killed in between repeats the round, and
        # `Releases` drops the row on resuming. In the opposite order, the row
        # would be missing.
        self._checkpoint()
        saved = time.monotonic()
        if row is None:
          continue
        # Last, since the first release and checkpoint take longer as well.
        progress.evaluated(row['accuracy_mean'])
        if is_enough(dict(row, round=round_num)):
          break
    if metrics is None:
      metrics = self._evaluate_honest()
    return metrics

  def train_round(
      self, cohort: Sequence[int], following: Sequence[int] = ()
  ) -> dict[str, float]:
    """Trains one round with the clients `cohort`; returns its scalar metrics.

    Args:
      cohort: The clients that take part.
      following: The cohort of the next round, if it is known.

    Returns:
      Floats by column: `train_loss`, and the method's own scalars.

    Raises:
      NonFiniteError: If a loss or an update is not finite; nothing is changed.
      NobodyLeftError: With `on_non_finite='drop'`: only if that holds for all
        honest clients that have examples to train on.
    """
    started = time.monotonic()
    cohort = [int(client) for client in cohort]
    self._states.keep_at_least(len(cohort))
    data = self._reader.take(cohort)
    self._reader.begin(following)
    output = self._process.next(self._state, self._client_states(cohort), data)
    metrics = output['metrics']
    bad = np.asarray(metrics['non_finite']).tolist()
    # Not by `train_loss`, which is also NaN in a round where nobody trained
    # (PERM, with all weights 0).
    if bad:
      self._check_non_finite(cohort, bad)
    if self._process.is_stateful:
      # Only after the check: a round that stops the run changes no state.
      for client, state in zip(cohort, output['client_states']):
        self._states.put(client, state)
    self._state = output['state']
    done = self._position
    # The server may refuse what a Byzantine client sent instead of its update.
    lost = {*bad, *self._rows.refused(metrics)}
    self._position = done.with_dropped(sorted(lost))._replace(
        round=done.round + 1,
        seconds=done.seconds + time.monotonic() - started,
        clients=done.clients + len(cohort),
        # Metrics are means over the cohort, positions are totals.
        bytes_down=done.bytes_down + float(metrics['bytes_down']) * len(cohort),
        bytes_up=done.bytes_up + float(metrics['bytes_up']) * len(cohort),
        virtual_time=(
            self._clock.time_of(done.round + 1) if self._clock else 0.0
        ),
    )
    return self._rows.measured(metrics)

  def _checkpoint(self) -> None:
    """Makes the current state the checkpoint."""
    self._states.commit(self._state, self._position._asdict())

  def _check_non_finite(self, cohort: Sequence[int], bad: Sequence[int]):
    """Stops the run unless the clients `bad` of `cohort` may be dropped."""
    round_num = self._position.round + 1
    if not self._drops:
      raise non_finite.NonFiniteError(round_num, bad)
    sizes = on_demand.sizes(self._data.train)
    trained = [client for client in cohort if sizes[client] > 0]
    honest = [c for c in trained if not self._byzantine[c]]
    # In a cohort without honest clients, the Byzantine ones decide.
    if set(honest or trained) <= set(bad):
      raise non_finite.NobodyLeftError(round_num, bad)

  def evaluate(self, data: Data) -> dict[str, np.ndarray]:
    """Returns the metrics of clients on `data.test`; changes no state.

    Args:
      data: Data of any clients, identified by their `index`; they adapt to
        `data.train`.

    Returns:
      An array per metric with an entry per client, in the order of `data`.
    """
    results = []
    for chunk in _adapt_and_test(data):
      results += self._process.evaluate(
          self._state,
          self._client_states([int(both['adapt']['index']) for both in chunk]),
          chunk,
      )
    return _by_metric(results)

  def evaluate_finetuned(
      self, computation: tff.Computation, data: Data
  ) -> dict[int, dict[str, np.ndarray]]:
    """Returns a global model's metrics, by number of local steps.

    Args:
      computation: See `finetuning.build_evaluate_finetuned`.
      data: See `evaluate`.
    """
    results = []
    for chunk in _adapt_and_test(data):
      results += computation(self._state, chunk)
    return {
        int(steps): _by_metric([result[steps] for result in results])
        for steps in (results[0] if results else ())
    }

  def evaluate_global(
      self, data: Mapping[str, Any]
  ) -> Mapping[str, Mapping[str, Any]]:
    """Returns the metrics of every capacity tier's model on common data.

    Args:
      data: Dense data, e.g. `Task.global_test`.
    """
    evaluate = self._process.evaluate_global
    assert evaluate is not None
    return evaluate(self._state, data)

  def honest_distances(self) -> np.ndarray:
    """Returns the distances of the evaluated clients from the optimum.

    float64, one per client; the optimum must be known.
    """
    distances = self._distances
    assert distances is not None
    return np.concatenate([
        distances(self._state, self._client_states(chunk), chunk)
        for chunk in _chunks(self._evaluated.tolist())
    ])

  def deployed_weights(self, data: Data) -> list[Any]:
    """Returns what clients deploy after adapting to `data.train`.

    These are the weights that `evaluate` evaluates when given the same clients:
    in some methods the clients choose something together.

    Args:
      data: See `evaluate`; its test data are not used.

    Returns:
      A structure of arrays per client, weights of `deployed`, in the order of
      `data`.
    """
    weights = []
    for chunk in _chunks(data.train):
      weights += [
          result['weights'] for result in self._process.deploy(
              self._state,
              self._client_states([int(client['index']) for client in chunk]),
              list(chunk),
          )
      ]
    return weights

  def predictions(self, data: Data) -> list[Optional[quality.Predictions]]:
    """Returns clients' predictions on `data.test`, see `predictions`.

    Args:
      data: See `evaluate`; y are labels, or one target each.
    """
    return predictions.of_clients(
        self.deployed, self.deployed_weights(data), data.test
    )

  def finish(self) -> None:
    """Records in the checkpoint that all results have been written."""
    self._position = self._position._replace(finished=True)
    self._states.set_position(self._position._asdict())

  def _client_states(self, clients: Sequence[int]) -> list[Any]:
    """Returns the states of `clients`; initial ones are not stored."""
    if not self._process.is_stateful:
      return [()] * len(clients)
    new = [client for client in clients if client not in self._states]
    # The store keeps no structure, so reading needs at least one initial state
    # as an example.
    if new or self._like is None:
      fresh = self._initialize(self._state, new or clients[:1])
      self._like = fresh[0]
    initial = dict(zip(new, fresh)) if new else {}
    return [
        initial[client]
        if client in initial
        else self._states.get(client, self._like)
        for client in clients
    ]

  def _evaluate_honest(self, part: str = 'test') -> dict[str, np.ndarray]:
    """Returns the evaluated clients' metrics on one part of their data."""
    data = self._data.pick(self._evaluated.tolist())
    return self.evaluate(Data(data.train, getattr(data, part)))

  def _row(self, measured, metrics) -> dict[str, Any]:
    """Returns the row of this round."""
    validation, apart = None, None
    if self._data.validation is not None:
      validation = self._evaluate_honest('validation')
    chosen_by = {}
    if self._metric is not None:
      train, test, held_out = self._data.pick(self._evaluated.tolist())
      parts = dict(mean=test, validation=held_out)
      chosen_by = {
          f'{self._metric}_{name}': quality.mean(
              self.predictions(Data(train, part)), self._metric,
              self._own_metrics,
          ) for name, part in parts.items() if part is not None
      }
    if self._distances is not None:
      apart = self.honest_distances()
    row = self._rows.row(
        self._position, measured, metrics, state=self._state,
        validation=validation, distances=apart, chosen_by=chosen_by,
    )
    if self._clock:
      row.update(self._clock.values(self._position.round, self._state))
    return row


def _adapt_and_test(data: Data) -> Iterator[list[Any]]:
  """Yields chunks of adapt and test data, reading one chunk at a time."""
  for train, test in zip(_chunks(data.train), _chunks(data.test)):
    yield [
        collections.OrderedDict(adapt=adapt, test=tested)
        for adapt, tested in zip(train, test)
    ]


def _by_metric(results) -> dict[str, np.ndarray]:
  """Returns an array per metric from a list of clients' metrics."""
  return {
      name: np.asarray([result[name] for result in results])
      for name in (results[0] if results else ())
  }


def _chunks(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
  """Yields `items` in parts, each evaluated in one call."""
  for start in range(0, len(items), CLIENTS_PER_CALL):
    yield items[start:start + CLIENTS_PER_CALL]


def _build_initialize_clients(process) -> tff.Computation:
  """Returns (S, indices -> client states), for all new clients at once."""

  @tff.federated_computation(
      tff.FederatedType(process.server_state_type, tff.SERVER),
      tff.FederatedType(np.int32, tff.CLIENTS),
  )
  def initialize_clients(state, indices):
    return tff.federated_map(
        process.initialize_client, (tff.federated_broadcast(state), indices)
    )

  return initialize_clients
