"""PERM: personalized empirical risk minimization.

Every client i gets its own model, trained on its own mixture of everybody's
losses, min_w sum_j alpha_i(j) f_j(w). The mixture prefers clients whose
gradient at a shared model w is close to client i's (Eq. 2, see
`numerics.mixing`); all N models are trained at once by shuffling them between
the clients (Algorithm 1, see `algorithms.shuffling`).

Distributed Personalized Empirical Risk Minimization
    Yuyang Deng, Mohammad Mahdi Kamani, Pouria Mahdavinia, Mehrdad Mahdavi.
    NeurIPS 2023. Algorithms 1 (visits), 2 (single loop), 3 (two stages).
"""

import collections
import dataclasses

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers import attacks
from tff_pers import deployment
from tff_pers import dispatch
from tff_pers import hyperparameters as hp
from tff_pers import methods
from tff_pers import process
from tff_pers import random
from tff_pers import round_metrics
from tff_pers import server_state
from tff_pers.aggregators import choice
from tff_pers.aggregators import shuffling as keyed
from tff_pers.algorithms import perm_mixing
from tff_pers.algorithms import shuffling
from tff_pers.client_works import client_work
from tff_pers.client_works import local_gradient
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.data import client_data
from tff_pers.models import functional
from tff_pers.numerics import distances

_SKETCH_USE = -4  # Keeps the sketch apart from the other draws of a round.


@dataclasses.dataclass(frozen=True)
class PermHyperparameters(
    hp.Aggregation, shuffling.ShufflingHyperparameters
):
  """Hyperparameters of PERM."""

  variant: str = hp.field(
      'single_loop',
      'single_loop (Algorithm 2: w, mixing weights and visits in every round)'
      ' or two_stage (Algorithm 3, then Algorithm 1).',
      choices=('single_loop', 'two_stage'),
  )
  global_learning_rate: float = hp.field(
      0.0,
      'gamma: step size of w per round (single_loop), of its local SGD'
      ' (two_stage); 0: learning_rate.',
      minimum=0.0,
  )
  warmup_rounds: int = hp.field(
      10, 'T_w: first rounds that train only w.', minimum=0,
      when='variant=single_loop',
  )
  stage1_rounds: int = hp.field(
      50, 'R: rounds of FedAvg for w before the visits.', minimum=0,
      when='variant=two_stage',
  )
  lambda_: object = hp.field(
      'auto',
      'lambda of Eq. (2), in squared gradient norm times examples; auto:'
      ' lambda_scale times the mean gradient variance.',
      above=0.0,
      auto=True,
  )
  lambda_scale: float = hp.field(
      10.0, 'kappa_n; bounds the self weight of IID clients by about'
      ' 1 / kappa_n.', above=0.0, when='lambda=auto',
  )
  solver: str = hp.field(
      'water_filling',
      'Solver of Eq. (2): water_filling (exact) or projected_gradient.',
      choices=('water_filling', 'projected_gradient'),
  )
  solver_steps: int = hp.field(
      10, 'T_alpha: steps per update.', minimum=1,
      when='solver=projected_gradient',
  )
  alpha_update: str = hp.field(
      'round',
      'When w and the mixing weights are updated: every round or epoch of N'
      ' rounds.',
      choices=('round', 'epoch'), when='variant=single_loop',
  )
  freeze_after: int = hp.field(
      0, 'Round after which the mixing weights stay; 0: never.', minimum=0
  )
  gradient_batch: int = hp.field(
      0, 'M: examples of the gradient of w; 0: all local examples.', minimum=0
  )
  debias: str = hp.field(
      'none',
      'variance subtracts v_i / n_i + v_j / n_j from the distances.',
      choices=('none', 'variance'),
  )
  sketch: int = hp.field(
      0,
      'Dimensions of a random projection of the gradients that distances are'
      ' taken from; 0: the gradients themselves.',
      minimum=0,
  )
  init: str = hp.field(
      'global',
      'Personalized models start from the global model or from the initial'
      ' weights.',
      choices=('global', 'initial'),
  )
  one_trip: bool = hp.field(
      False,
      'As if gradients and visits shared one round trip: visits use the mixing'
      ' weights of the round before (single_loop).',
  )
  row_nonzeros: int = hp.field(
      0,
      'Largest mixing weights kept per client, for many clients (full'
      ' participation); 0: all.',
      minimum=0,
  )

  def __post_init__(self):
    super().__post_init__()
    if self.row_nonzeros and self.solver != 'water_filling':
      raise ValueError(
          '`solver` must be water_filling with row_nonzeros > 0 because sparse'
          f' rows are not warm-started, found {self.solver}.'
      )
    if self.gradient_batch == 1 and self.lambda_ == 'auto':
      raise ValueError(
          '`gradient_batch` must be 0 or >= 2 with lambda=auto because one'
          ' example shows no variance, found 1.'
      )
    if 0 < self.freeze_after <= self.first_measure:
      raise ValueError(
          '`freeze_after` must be 0 or > the first round that solves for mixing'
          f' weights, {self.first_measure}, found {self.freeze_after}.'
      )
    if self.one_trip and (
        self.variant != 'single_loop' or self.alpha_update != 'round'
        or not self.warmup_rounds
    ):
      raise ValueError(
          '`one_trip` must go with variant=single_loop, alpha_update=round and'
          ' warmup_rounds > 0 because visits need earlier mixing weights, found'
          f' variant={self.variant}, alpha_update={self.alpha_update} and'
          f' warmup_rounds={self.warmup_rounds}.'
      )

  @property
  def gamma(self) -> float:
    return self.global_learning_rate or self.learning_rate

  @property
  def first_visit(self) -> int:
    """The first round with visits."""
    if self.variant == 'two_stage':
      return self.stage1_rounds
    return self.warmup_rounds

  @property
  def first_measure(self) -> int:
    """The first round that solves for mixing weights."""
    return self.first_visit - int(self.one_trip)


def build_perm(
    model: functional.FunctionalModel,
    num_clients: int,
    hyperparameters: PermHyperparameters = PermHyperparameters(),
    *,
    client_weighting: str = 'examples',
    full_participation: bool = True,
) -> process.PersonalizedProcess:
  """Builds PERM.

  Algorithm 2 (`variant=single_loop`), round t of the visits, epoch r, round j:

    (a) clients: G_i <- grad f_i(w)          server: w <- w - gamma mean_i G_i
    (b) server : d_ij <- ||G_i - G_j||^2;    alpha_i <- solution of Eq. (2)
    (c) model i -> client c = sigma_r[(i + j) mod N]:
        K times: w_i <- w_i - eta s_i alpha_i(c) grad f_c(w_i; b)

  after `warmup_rounds` rounds of (a) alone; then all w_i start at w.
  Algorithm 3 (`two_stage`): `stage1_rounds` rounds of FedAvg for w; then (a)
  and (b) once (with partial participation in every round, so that all pairs
  become known), without moving w, and (c) in every round.

  Server state: `weights` w, `models` the table of the w_i [N, ...], `mixing` A
  (float32[N, N], or <columns, values> of [N, row_nonzeros]); with matchings
  also `pending` bool[N, N], and with partial participation `distances`
  float32[N, N] (+infinity: unknown), `sizes` and `variances` float32[N].
  Clients are stateless.

  The step of stage 1 and of the visits is that of `local_step`. In line (a) of
  Algorithm 2 clients clip and decay what w descends, not the G_i that are
  compared; its one step has no momentum. The schedule counts all rounds, and
  gamma follows it too.

  Limit cases: lambda -> infinity gives A[i, j] = n_j / n, one model for all;
  lambda -> 0 the identity, local training.

  Byzantine clients (`attacks.carried_out`) attack the mean in (a) alone, and
  with flipped labels their work in all lines. Not attacked are what else they
  send, the G_i of (b) and the visited models of (c): these go to their owners,
  and into no mean.

  Args:
    model: The model; f_i is its mean loss on client i.
    num_clients: N.
    hyperparameters: See `PermHyperparameters`.
    client_weighting: Weights of the mean in (a) and in stage 1.
    full_participation: Whether every round has all clients. If not, rounds are
      matchings, and distances are updated for pairs of the cohort.

  Raises:
    ValueError: If `alpha_update=epoch` meets matchings, which have no common
      epoch; if `freeze_after` has no update to prevent; if `row_nonzeros`
      exceeds N or meets partial participation, whose distances are a dense
      table.
  """
  _check(hyperparameters, num_clients, full_participation)
  server = _Server(model, num_clients, hyperparameters, full_participation)
  data_type = client_data.client_data_type(model.x_spec, model.y_spec)
  sent_type = tff.tensorflow.computation(
      attacks.tagged, model.weights_type, data_type
  ).type_signature.result
  mean_factory = choice.chosen(hyperparameters) or tff.aggregators.MeanFactory(
      no_nan_division=True
  )
  aggregator = attacks.attacked_in_scope(mean_factory).create(
      sent_type, tff.TensorType(np.float32)
  )
  initialize_seeded = server_state.build_initialize(
      server.init_fields, aggregator
  )
  state_type = initialize_seeded.type_signature.result.member
  broadcast = dispatch.build_broadcast(
      lambda state: dict(weights=state['weights']), state_type
  )
  message_type = broadcast.type_signature.result.member
  cohort = shuffling.build_cohort(data_type, num_clients)

  @tff.tensorflow.computation(message_type, data_type)
  def global_work(message, data):
    done = _global_work(
        model, message, attacks.poisoned(data), hyperparameters,
        client_weighting, num_clients, full_participation,
    )
    done['update'] = attacks.tagged(done['update'], data)
    return done

  work_type = global_work.type_signature.result
  collect = keyed.RowCollectionFactory(num_clients).create(
      work_type['gradients']
  )
  collected_type = collect.next.type_signature.result['result'].member

  mean_type = aggregator.next.type_signature.result

  @tff.tensorflow.computation(
      state_type, [value.member for value in mean_type], collected_type,
      cohort.type_signature.result.member,
  )
  def server_line(state, mean, gradients, keys):
    aggregator_state, mean_update, measured = mean
    state = collections.OrderedDict(state, aggregator=aggregator_state)
    planned = server.plan(state, mean_update, gradients, keys)
    if tff.structure.flatten(mean_type.measurements.member):
      planned['measurements']['aggregator'] = measured
    return planned

  @tff.federated_computation(
      tff.FederatedType(state_type, tff.SERVER),
      tff.FederatedType(data_type, tff.CLIENTS),
  )
  def plan(state, data):
    index = tff.federated_map(deployment.client_index(data_type), data)
    work = tff.federated_map(global_work, (broadcast(state, index), data))
    mean = aggregator.next(state.aggregator, work.update, work.weight)
    gradients = collect.next(collect.initialize(), work.gradients).result
    return collections.OrderedDict(
        plan=tff.federated_map(
            server_line,
            (
                state, (mean.state, mean.result, mean.measurements), gradients,
                cohort(data),
            ),
        ),
        report=work.report,
    )

  return shuffling.compose_visiting_process(
      model, hyperparameters, initialize_seeded=initialize_seeded, plan=plan,
      num_clients=num_clients,
  )


def _check(hyperparameters, num_clients: int, full_participation: bool):
  """Raises what `build_perm` documents."""
  updates_once = full_participation and hyperparameters.variant == 'two_stage'
  if updates_once and hyperparameters.freeze_after:
    raise ValueError(
        '`freeze_after` must be 0 with variant=two_stage and full participation'
        ' because the mixing weights are updated once, found'
        f' {hyperparameters.freeze_after}.'
    )
  with_matching = shuffling.uses_matching(hyperparameters, full_participation)
  by_epoch = hyperparameters.alpha_update == 'epoch'
  if with_matching and by_epoch and hyperparameters.variant == 'single_loop':
    raise ValueError(
        '`alpha_update` must be round with matchings (partial participation or'
        ' schedule=matching) because they have no common epoch, found epoch.'
    )
  limit = num_clients if full_participation else 0
  if hyperparameters.row_nonzeros > limit:
    raise ValueError(
        f'`row_nonzeros` must be <= {limit}, the number of clients, or 0 with'
        f' partial participation, found {hyperparameters.row_nonzeros}.'
    )


# What happens in round t (a scalar tensor).


def _descends(t, hyperparameters, num_clients: int):
  """Whether w moves."""
  first = hyperparameters.first_visit
  if hyperparameters.variant == 'two_stage':
    return t < first
  if hyperparameters.alpha_update == 'round':
    return tf.constant(True)
  return tf.logical_or(t < first, tf.equal((t - first) % num_clients, 0))


def _measures(t, hyperparameters, num_clients: int, full_participation: bool):
  """Whether gradients are compared and the mixing weights updated."""
  first = hyperparameters.first_visit
  if hyperparameters.variant == 'two_stage':
    # A cohort shows only its own pairs; w rests, so later rounds add to them.
    measures = tf.equal(t, first) if full_participation else t >= first
  else:
    measures = tf.logical_and(
        t >= hyperparameters.first_measure,
        _descends(t, hyperparameters, num_clients),
    )
  if hyperparameters.freeze_after:
    measures = tf.logical_and(measures, t < hyperparameters.freeze_after)
  return measures


def _global_work(
    model, message, data, hyperparameters, client_weighting, num_clients,
    full_participation,
):
  """Line (a) at a client: its update of w, and its gradient for line (b)."""
  t, weights = message['round'], message['weights']
  descends = _descends(t, hyperparameters, num_clients)
  measures = _measures(t, hyperparameters, num_clients, full_participation)
  two_stage = hyperparameters.variant == 'two_stage'
  local = local_step.build(hyperparameters)
  dtype = tf.nest.flatten(weights)[0].dtype
  zeros = tf.nest.map_structure(tf.zeros_like, weights)
  seed = client_work.key(message, data, use=1)

  def gradient():
    found = local_gradient.compute(
        model, weights, data, seed=seed, num_rows=hyperparameters.gradient_batch
    )
    return found.gradient, found.loss, found.num_rows, found.variance

  def no_gradient():
    return zeros, tf.zeros([], dtype), tf.constant(0), tf.zeros([], dtype)

  g, g_loss, num_rows, variance = tf.cond(
      measures if two_stage else tf.logical_or(descends, measures),
      gradient, no_gradient,
  )
  if two_stage:  # Stage 1 is FedAvg.
    def train():
      final, loss = local_sgd.train(
          model, weights, data, local=local,
          learning_rate=local_step.scheduled(
              hyperparameters, message, hyperparameters.gamma
          ),
          seed=client_work.key(message, data), **hyperparameters.budget(),
      )
      return local_sgd.difference(weights, final), loss
    update, loss = tf.cond(
        descends, train, lambda: (zeros, tf.zeros([], dtype))
    )
  else:
    update = tf.cond(
        descends, lambda: local.direction(weights, g), lambda: zeros
    )
    loss = g_loss
  finite = round_metrics.all_finite((update, g, loss, variance))
  fingerprint = _fingerprint(message, g, hyperparameters)
  sends_gradient = tf.logical_and(measures, finite)
  sent = tf.cast(sends_gradient, tf.int32)
  keep = lambda value: value[None][:sent]
  size = tf.cast(data['num_examples'], tf.float32)
  gradients = collections.OrderedDict(
      fingerprints=keep(fingerprint),
      keys=keep(data['index']),
      rows=keep(tf.cast(num_rows, tf.float32)),
      sizes=keep(size),
      variances=keep(tf.cast(variance, tf.float32)),
  )
  # A deployment sends w, the update and the gradient only in the rounds that
  # use them; here types are fixed and zeros stand in their place.
  exchanged = tf.cast(tf.logical_or(descends, measures), tf.float32)
  sends_update = tf.cast(descends, tf.float32)
  bytes_up = sends_update * round_metrics.payload_bytes(update)
  # The server can clip G_i and add the penalty's gradient by itself.
  is_sent_already = not two_stage and not hyperparameters.sketch
  extra = round_metrics.payload_bytes(gradients['fingerprints'])
  return collections.OrderedDict(
      update=tf.cond(finite, lambda: update, lambda: zeros),
      weight=tf.where(
          finite,
          client_work.client_weight(
              client_weighting, data, hyperparameters.batch_size
          ),
          0.0,
      ),
      gradients=gradients,
      report=collections.OrderedDict(
          loss=tf.cast(loss, tf.float32),
          weight=tf.cast(t < hyperparameters.first_visit, tf.float32),
          finite=finite,
          bytes_down=exchanged * round_metrics.payload_bytes(weights),
          bytes_up=bytes_up + (1 - sends_update if is_sent_already else 1.0)
          * extra,
      ),
  )


def _fingerprint(message, gradient, hyperparameters):
  """The gradient as a vector, or its sketch under the round's shared seed."""
  vector = distances.flatten(gradient)
  if not hyperparameters.sketch:
    return vector
  seed = random.key(message['seed'], _SKETCH_USE, message['round'])
  return distances.sketch(vector, hyperparameters.sketch, seed)


class _Server:
  """The server's lines of PERM, as TensorFlow functions of its state."""

  def __init__(self, model, num_clients, hyperparameters, full_participation):
    self._model = model
    self._n = num_clients
    self._hp = hyperparameters
    self._full = full_participation

  def init_fields(self, seed):
    """The method's own fields of S."""
    n = self._n
    weights = self._model.initial_weights(seed)
    fields = collections.OrderedDict(
        weights=weights, models=shuffling.tile(weights, n),
        mixing=perm_mixing.initial(n, self._hp),
    )
    if shuffling.uses_matching(self._hp, self._full):
      fields['pending'] = tf.zeros([n, n], tf.bool)
    if not self._full:
      fields['distances'] = tf.linalg.set_diag(
          tf.fill([n, n], np.float32(np.inf)), tf.zeros([n])
      )
      fields['sizes'] = tf.zeros([n])
      fields['variances'] = tf.zeros([n])
    return fields

  def plan(self, state, mean_update, gradients, keys):
    """Lines (a) and (b) at the server, and who hosts whom in line (c)."""
    hyperparameters, t = self._hp, state['round']
    first = hyperparameters.first_visit
    before = state['mixing']
    state, lambda_ = self._update_mixing(state, gradients)  # (b)
    two_stage = hyperparameters.variant == 'two_stage'
    state['weights'] = local_sgd.descend(  # (a)
        state['weights'], mean_update,
        1.0 if two_stage else local_step.scheduled(
            hyperparameters, state, hyperparameters.gamma
        ),
    )
    state['models'] = tf.cond(
        t < first, lambda: self._start_models(state), lambda: state['models']
    )
    mixing_now = before if hyperparameters.one_trip else state['mixing']
    planned, owners = shuffling.next_owners(
        state, mixing_now, t - first, shuffling.cohort_mask(keys, self._n),
        self._n,
    )
    if 'pending' in state:  # Before the first visit nothing is pending.
      planned['pending'] = tf.logical_and(planned['pending'], t >= first)
    return collections.OrderedDict(
        state=planned,
        mixing=mixing_now,
        owners=tf.where(t >= first, owners, -1),
        measurements=perm_mixing.measurements(
            state['mixing'], lambda_, hyperparameters
        ),
    )

  def _start_models(self, state):
    """All w_i at w (or at w^0), until the visits begin."""
    weights = state['weights']
    if self._hp.init == 'initial':
      is_last = tf.equal(state['round'], self._hp.first_visit - 1)
      weights = tf.nest.map_structure(
          lambda initial, w: tf.where(is_last, initial, w),
          self._model.initial_weights(state['seed']), weights,
      )
    return shuffling.tile(weights, self._n)

  def _update_mixing(self, state, gradients):
    """Line (b): returns the state with the new A, and lambda."""
    keep = ('mixing', 'distances', 'sizes', 'variances')
    old = collections.OrderedDict(
        (name, state[name]) for name in keep if name in state
    )
    update = (
        perm_mixing.update_full if self._full else perm_mixing.update_partial
    )
    new, lambda_ = tf.cond(
        tf.size(gradients['keys']) > 0,
        lambda: update(old, gradients, self._n, self._hp),
        lambda: (old, tf.constant(np.nan, tf.float32)),
    )
    return collections.OrderedDict(state, **new), lambda_


@methods.register(
    'perm', PermHyperparameters,
    summary='learned mixing weights, models shuffled between clients',
    travels=None,
)
def _build(task, hyperparameters):
  return build_perm(
      task.model, task.num_clients, hyperparameters,
      client_weighting=task.client_weighting,
      full_participation=task.full_participation,
  )
