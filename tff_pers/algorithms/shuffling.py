"""Shuffling Local SGD: N personalized models trained by visits (Algorithm 1).

The server does not average models, it shuffles them: in each round every
client hosts one model (usually somebody else's), takes K local steps on it with
its gradient scaled by the owner's mixing weight for this client, and returns
it. In the N rounds of an epoch every model visits every client once.

Distributed Personalized Empirical Risk Minimization
    Yuyang Deng, Mohammad Mahdi Kamani, Pouria Mahdavinia, Mehrdad Mahdavi.
    NeurIPS 2023. Algorithm 1. The step scale, its cap and partial participation
    by matchings are ours: the paper leaves them open.
"""

import collections
import dataclasses

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers import attacks
from tff_pers import deployment
from tff_pers import hyperparameters as hp
from tff_pers import methods
from tff_pers import process
from tff_pers import random
from tff_pers import round_metrics
from tff_pers import server_state
from tff_pers.aggregators import shuffling as keyed
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.data import client_data
from tff_pers.models import functional
from tff_pers.numerics import schedule

# Keep the server's draws apart.
SCHEDULE_USE = -2
_MATCHING_USE = -3


@dataclasses.dataclass(frozen=True)
class ShufflingHyperparameters(hp.LocalTraining):
  """Hyperparameters of the visits."""

  step_scale: str = hp.field(
      'clients',
      'Scale s_i of the step eta * s_i * alpha_i(c): clients (N, so that eta is'
      ' that of FedAvg) or one.',
      choices=('clients', 'one'),
  )
  step_cap: float = hp.field(
      4.0,
      'Largest s_i * alpha_i(c), in units of eta: s_i = min(N, cap / max_c'
      ' alpha_i(c)), for networks; 0: no cap.',
      minimum=0.0, when='step_scale=clients',
  )
  schedule: str = hp.field(
      'permutation',
      'Who hosts whom: permutation (a fresh one per epoch, Algorithm 1) or'
      ' matching (only clients with alpha_i(c) > 0 are visited; always used'
      ' with partial participation).',
      choices=('permutation', 'matching'),
  )


# Dense mixing weights are float[N, N]; sparse ones <columns, values> of [N, k].


def mixing_weight(mixing, owner, host):
  """Returns alpha_owner(host), a float32 scalar."""
  if isinstance(mixing, tf.Tensor):
    return mixing[owner, host]
  hits = tf.equal(mixing['columns'][owner], host)
  return tf.reduce_sum(tf.where(hits, mixing['values'][owner], 0.0))


def row_maximum(mixing, owner):
  """Returns max_c alpha_owner(c)."""
  values = mixing if isinstance(mixing, tf.Tensor) else mixing['values']
  return tf.reduce_max(values[owner])


def support(mixing, num_clients: int):
  """Returns bool[N, N], where alpha_i(c) > 0."""
  if isinstance(mixing, tf.Tensor):
    return mixing > 0
  rows = tf.broadcast_to(
      tf.range(num_clients)[:, None], tf.shape(mixing['columns'])
  )
  hits = tf.where(mixing['values'] > 0)
  indices = tf.stack(
      [tf.gather_nd(rows, hits), tf.gather_nd(mixing['columns'], hits)], axis=1
  )
  return tf.tensor_scatter_nd_update(
      tf.zeros([num_clients, num_clients], tf.bool), indices,
      tf.ones([tf.shape(hits)[0]], tf.bool),
  )


def step_multiplier(mixing, owner, host, num_clients: int, hyperparameters):
  """Returns s_owner * alpha_owner(host), float64.

  s = N (or 1); with a cap s_i = min(N, cap / max_c alpha_i(c)).
  """
  alpha = tf.cast(mixing_weight(mixing, owner, host), tf.float64)
  if hyperparameters.step_scale == 'one':
    return alpha
  scale = tf.constant(num_clients, tf.float64)
  if hyperparameters.step_cap:
    largest = tf.cast(row_maximum(mixing, owner), tf.float64)
    scale = tf.minimum(scale, hyperparameters.step_cap / largest)
  return scale * alpha


def tile(weights, num_clients: int):
  """Returns the model table whose N rows are all `weights`."""
  return tf.nest.map_structure(
      lambda w: tf.tile(w[None], [num_clients] + [1] * w.shape.rank), weights
  )


def permutation_owners(seed, visit_round, num_clients: int):
  """Returns the model at each client: sigma_r[(i + j) mod N] hosts model i."""
  hosts = schedule.hosts(seed, visit_round, num_clients, SCHEDULE_USE)
  return schedule.owners(hosts, num_clients)


def matching_owners(pending, mixing, available, key, num_clients: int):
  """Plans a round by matching: (model at each client, pending sets).

  pending[i] are the clients that model i has still to visit in its epoch. A
  model with none left starts its next epoch: the support of alpha_i.

  Args:
    pending: bool[N, N].
    mixing: Mixing weights.
    available: bool[N], the cohort.
    key: int64[2].
    num_clients: N.
  """
  supported = support(mixing, num_clients)
  pending = tf.logical_and(pending, supported)  # A may have changed.
  is_done = tf.logical_not(tf.reduce_any(pending, axis=1, keepdims=True))
  pending = tf.where(is_done, supported, pending)
  hosts = schedule.matching(pending, available, key)
  visited = tf.one_hot(
      hosts, num_clients, on_value=True, off_value=False, dtype=tf.bool
  )
  owners = schedule.owners(hosts, num_clients)
  return owners, tf.logical_and(pending, tf.logical_not(visited))


def cohort_mask(keys, num_clients: int):
  """Returns bool[N], True at the clients `keys` int32[M]."""
  return tf.tensor_scatter_nd_update(
      tf.zeros([num_clients], tf.bool), keys[:, None],
      tf.ones([tf.shape(keys)[0]], tf.bool),
  )


def select_hosted(plan, client, num_clients: int, hyperparameters):
  """Returns what `client` downloads: the 0 or 1 models that it hosts.

  Args:
    plan: `<state, mixing, owners, ...>`, see `compose_visiting_process`.
    client: int32 scalar.
    num_clients: N.
    hyperparameters: `ShufflingHyperparameters`.

  Returns:
    `<models, multipliers, owners>` with a leading dimension of 0 or 1, and the
    round and the seed.
  """
  state = plan['state']
  owner = plan['owners'][client]
  count = tf.cast(owner >= 0, tf.int32)
  first = tf.maximum(owner, 0)
  models = tf.nest.map_structure(
      lambda table: table[first : first + count], state['models']
  )
  multiplier = step_multiplier(
      plan['mixing'], first, client, num_clients, hyperparameters
  )
  dtype = tf.nest.flatten(models)[0].dtype
  return collections.OrderedDict(
      models=models,
      multipliers=tf.cast(multiplier, dtype)[None][:count],
      owners=first[None][:count],
      round=state['round'],
      seed=state['seed'],
  )


def visit(model, hosted, data, hyperparameters):
  """Alg. 1, client c: K steps of size eta * s_i * alpha_i(c) on hosted model i.

  The factor s_i * alpha_i(c) is in the step size: the gradient of f_c is
  clipped before it is scaled, and weight decay is scaled as the rest of f_c is,
  so that it counts once in the sum over the hosts. Momentum does not travel
  with the model.

  Returns:
    `<rows=<keys, models>, loss, finite, multiplier>`. A model that would not be
    finite returns as it came. With multiplier 0 (or nothing hosted) nothing is
    computed: the visit changes nothing.
  """
  dtype = tf.nest.flatten(hosted['models'])[0].dtype

  def train():
    weights = tf.nest.map_structure(lambda rows: rows[0], hosted['models'])
    multiplier = hosted['multipliers'][0]
    final, loss = local_sgd.train(
        model, weights, data,
        learning_rate=local_step.scheduled(
            hyperparameters, hosted,
            tf.constant(hyperparameters.learning_rate, dtype) * multiplier,
        ),
        seed=client_work.key(hosted, data),
        local=local_step.build(hyperparameters), **hyperparameters.budget(),
    )
    finite = round_metrics.all_finite((final, loss))
    kept = tf.cond(finite, lambda: final, lambda: weights)
    rows = tf.nest.map_structure(lambda w: w[None], kept)
    return rows, loss, finite, multiplier

  def leave():
    nothing = tf.zeros([], dtype)
    return hosted['models'], nothing, tf.constant(True), nothing

  works = tf.reduce_any(hosted['multipliers'] > 0)
  models, loss, finite, multiplier = tf.cond(works, train, leave)
  return collections.OrderedDict(
      rows=collections.OrderedDict(keys=hosted['owners'], models=models),
      loss=loss,
      finite=finite,
      multiplier=multiplier,
  )


def empty_report():
  """Returns the report of a client that did nothing before its visit."""
  return collections.OrderedDict(
      loss=tf.constant(0.0), weight=tf.constant(0.0), finite=tf.constant(True),
      bytes_down=tf.constant(0.0), bytes_up=tf.constant(0.0),
  )


def compose_visiting_process(
    model: functional.FunctionalModel,
    hyperparameters: ShufflingHyperparameters,
    *,
    initialize_seeded: tff.Computation,
    plan: tff.Computation,
    num_clients: int,
) -> process.PersonalizedProcess:
  """Composes a method whose rounds end with visits.

    plan    : what precedes the visits, down to who hosts whom
    fetch   : keyed download of the hosted model and of s_i * alpha_i(c)
    visit   : K local steps (Alg. 1)
    collect : keyed upload; the server writes the rows into its table

  Args:
    model: The model.
    hyperparameters: `ShufflingHyperparameters`.
    initialize_seeded: Makes S; its field `models` is the table of N models.
    plan: (S@SERVER, {D}@CLIENTS -> <plan=<state=S, mixing=A, owners=int32[N],
      measurements=M>@SERVER, report={<loss, weight, finite, bytes_down,
      bytes_up>}@CLIENTS>); `owners` is the model at each client, -1 for none;
      the report says what happened at the client before the visit.
    num_clients: N.
  """
  state_type = initialize_seeded.type_signature.result.member
  plan_type = plan.type_signature.result['plan'].member
  report_type = plan.type_signature.result['report'].member
  data_type = client_data.client_data_type(model.x_spec, model.y_spec)
  stateless = tff.to_type(())

  fetch = keyed.build_fetch(
      plan_type,
      lambda plan, client: select_hosted(
          plan, client, num_clients, hyperparameters
      ),
      num_clients,
  )
  hosted_type = fetch.type_signature.result.member

  @tff.tensorflow.computation(hosted_type, data_type)
  def visit_fn(hosted, data):
    return visit(model, hosted, attacks.poisoned(data), hyperparameters)

  visited_type = visit_fn.type_signature.result
  collect = keyed.RowCollectionFactory(num_clients).create(visited_type['rows'])
  collected_type = collect.next.type_signature.result['result'].member

  @tff.tensorflow.computation(plan_type, collected_type)
  def store(plan, collected):
    state = collections.OrderedDict(plan['state'])
    state['models'] = keyed.scatter(
        state['models'], collected['keys'], collected['models']
    )
    state['round'] = state['round'] + 1
    return state

  @tff.tensorflow.computation(data_type, report_type, hosted_type, visited_type)
  def client_metrics(data, report, hosted, visited):
    weight = tf.cast(visited['multiplier'], tf.float32)
    total = report['weight'] + weight
    loss = tf.math.divide_no_nan(
        tf.math.multiply_no_nan(report['loss'], report['weight'])
        + tf.cast(visited['loss'], tf.float32) * weight,
        total,
    )
    sent = (hosted['models'], hosted['multipliers'])
    return round_metrics.client_metrics(
        data, loss, tf.logical_and(report['finite'], visited['finite']),
        bytes_down=report['bytes_down'] + round_metrics.payload_bytes(sent),
        bytes_up=report['bytes_up']
        + round_metrics.payload_bytes(visited['rows']['models']),
        weight=total,
    )

  @tff.tensorflow.computation(plan_type)
  def plan_measurements(plan):
    return plan['measurements']

  @tff.federated_computation(
      tff.FederatedType(state_type, tff.SERVER),
      tff.FederatedType(stateless, tff.CLIENTS),
      tff.FederatedType(data_type, tff.CLIENTS),
  )
  def next_fn(state, client_states, data):
    planned = plan(state, data)
    index = tff.federated_map(deployment.client_index(data_type), data)
    hosted = fetch(planned.plan, index)
    visited = tff.federated_map(visit_fn, (hosted, data))
    collected = collect.next(collect.initialize(), visited.rows)
    metrics = round_metrics.aggregate(
        tff.federated_map(
            client_metrics, (data, planned.report, hosted, visited)
        )
    )
    return collections.OrderedDict(
        state=tff.federated_map(store, (planned.plan, collected.result)),
        client_states=client_states,
        metrics=round_metrics.merge(
            metrics, tff.federated_map(plan_measurements, planned.plan)
        ),
    )

  def own_row(state, client):
    return tf.nest.map_structure(lambda table: table[client], state['models'])

  return process.PersonalizedProcess(
      initialize_seeded=initialize_seeded,
      initialize_client=server_state.stateless_client(state_type),
      next_fn=next_fn,
      # A client deploys its own row of the table, fetched by its index.
      evaluate=deployment.build_evaluate(
          keyed.build_fetch(state_type, own_row, num_clients), stateless,
          data_type, lambda weights, client_state, data: weights, model,
      ),
      client_model=tff.tensorflow.computation(
          lambda state, client_state, index: own_row(state, index),
          state_type, stateless, np.int32,
      ),
      deployed=model,
  )


def build_shuffling(
    model: functional.FunctionalModel,
    mixing_weights: np.ndarray,
    hyperparameters: ShufflingHyperparameters = ShufflingHyperparameters(),
    *,
    full_participation: bool = True,
) -> process.PersonalizedProcess:
  """Builds shuffled training with fixed mixing weights (Algorithm 1).

    for epoch r:  sigma_r <- a fresh permutation of the clients
      for j in 0..N-1, all models i in parallel:
        c = sigma_r[(i + j) mod N]                     # host of model i
        K times: w_i <- w_i - eta s_i A[i, c] grad f_c(w_i; b)

  Model i approaches argmin_w sum_c A[i, c] f_c(w). Limit cases: A = identity is
  local training (once per epoch); all A[i, c] = 1/N sends every model to the
  minimizer of the mean loss. Cost per client and round: one model down and one
  up, as in FedAvg, and a scalar. Clients are stateless.

  Args:
    model: The model; f_c is its mean loss on client c.
    mixing_weights: A, floats [N, N], rows on the simplex; row = owner, column =
      host.
    hyperparameters: See `ShufflingHyperparameters`.
    full_participation: Whether every round has all clients; if not, rounds are
      matchings between the cohort and the models.

  Raises:
    ValueError: If `mixing_weights` is not square, has a negative entry or a row
      that does not sum to 1.
  """
  mixing = check_mixing_weights(mixing_weights)
  num_clients = len(mixing)
  with_matching = uses_matching(hyperparameters, full_participation)

  def init_fields(seed):
    weights = model.initial_weights(seed)
    fields = collections.OrderedDict(
        models=tile(weights, num_clients), mixing=tf.constant(mixing)
    )
    if with_matching:
      fields['pending'] = tf.zeros([num_clients, num_clients], tf.bool)
    return fields

  initialize_seeded = server_state.build_initialize(init_fields)
  state_type = initialize_seeded.type_signature.result.member
  data_type = client_data.client_data_type(model.x_spec, model.y_spec)
  report = tff.tensorflow.computation(lambda data: empty_report(), data_type)
  cohort = build_cohort(data_type, num_clients)

  @tff.tensorflow.computation(state_type, cohort.type_signature.result.member)
  def plan_visits(state, keys):
    state, owners = next_owners(
        state, state['mixing'], state['round'],
        cohort_mask(keys, num_clients), num_clients,
    )
    return collections.OrderedDict(
        state=state, mixing=state['mixing'], owners=owners, measurements=()
    )

  @tff.federated_computation(
      tff.FederatedType(state_type, tff.SERVER),
      tff.FederatedType(data_type, tff.CLIENTS),
  )
  def plan(state, data):
    return collections.OrderedDict(
        plan=tff.federated_map(plan_visits, (state, cohort(data))),
        report=tff.federated_map(report, data),
    )

  return compose_visiting_process(
      model, hyperparameters, initialize_seeded=initialize_seeded, plan=plan,
      num_clients=num_clients,
  )


def uses_matching(hyperparameters, full_participation: bool) -> bool:
  return hyperparameters.schedule == 'matching' or not full_participation


def next_owners(state, mixing, visit_round, available, num_clients: int):
  """Returns (state, owners int32[N]): who hosts whom in this round.

  Args:
    state: The server state; with a field `pending` the round is a matching.
    mixing: Mixing weights whose support matchings visit.
    visit_round: int32, counted from the first round with visits.
    available: bool[N], the cohort; permutations need all clients.
    num_clients: N.
  """
  state = collections.OrderedDict(state)
  if 'pending' not in state:
    with tf.control_dependencies([
        tf.debugging.Assert(
            tf.reduce_all(available),
            ['Every round must have all clients: the process was built for full'
             ' participation.'],
        )
    ]):
      return state, permutation_owners(state['seed'], visit_round, num_clients)
  key = random.key(state['seed'], _MATCHING_USE, visit_round)
  owners, state['pending'] = matching_owners(
      state['pending'], mixing, available, key, num_clients
  )
  return state, owners


def build_cohort(data_type: tff.Type, num_clients: int) -> tff.Computation:
  """Returns `({D}@CLIENTS -> int32[?]@SERVER)`, the indices of the cohort."""

  @tff.tensorflow.computation(data_type)
  def own_index(data):
    return data['index'][None]

  collect = keyed.RowCollectionFactory(num_clients).create(
      own_index.type_signature.result
  )

  @tff.federated_computation(tff.FederatedType(data_type, tff.CLIENTS))
  def cohort(data):
    indices = tff.federated_map(own_index, data)
    return collect.next(collect.initialize(), indices).result

  return cohort


def check_mixing_weights(mixing_weights) -> np.ndarray:
  """Returns A as float32[N, N]; see `build_shuffling` for what is raised."""
  mixing = np.asarray(mixing_weights, np.float64)
  if mixing.ndim != 2 or mixing.shape[0] != mixing.shape[1]:
    raise ValueError(
        '`mixing_weights` must be square, [num_clients, num_clients], found'
        f' shape {mixing.shape}.'
    )
  sums, least = mixing.sum(axis=1), mixing.min(axis=1)
  good = (least >= 0) & (np.abs(sums - 1) <= 1e-6)  # False for NaN.
  if not np.all(good):
    worst = int(np.argmin(good))
    raise ValueError(
        'Every row of `mixing_weights` must be >= 0 and sum to 1, found row'
        f' {worst} with minimum {least[worst]} and sum {sums[worst]}.'
    )
  return mixing.astype(np.float32)


@methods.register(
    'oracle_groups', ShufflingHyperparameters, needs=('groups',),
    summary='shuffling with uniform weights in the true group (reference)',
    travels=None,
)
def _build_oracle_groups(task, hyperparameters):
  same = np.equal.outer(task.groups, task.groups).astype(np.float64)
  return build_shuffling(
      task.model, same / same.sum(axis=1, keepdims=True), hyperparameters,
      full_participation=task.full_participation,
  )


@methods.register(
    'uniform_shuffling', ShufflingHyperparameters,
    summary='shuffling with uniform weights 1/N (reference)',
    travels=None,
)
def _build_uniform_shuffling(task, hyperparameters):
  n = task.num_clients
  return build_shuffling(
      task.model, np.full([n, n], 1 / n), hyperparameters,
      full_participation=task.full_participation,
  )
