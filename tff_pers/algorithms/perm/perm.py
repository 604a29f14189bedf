"""PERM: personalized empirical risk minimization.

Every client i gets its own model, trained on its own mixture of all clients'
losses, min_w sum_j alpha_i(j) f_j(w). The mixture prefers clients whose
gradient at a shared model w is close to client i's (Eq. 2, see
`numerics.mixing`); all N models are trained at once by shuffling them between
the clients (Algorithm 1, see `visits`).

Distributed Personalized Empirical Risk Minimization
    Yuyang Deng, Mohammad Mahdi Kamani, Pouria Mahdavinia, Mehrdad Mahdavi.
    NeurIPS 2023. Algorithms 1 (visits), 2 (single loop), 3 (two stages).
"""

from typing import Any, Optional

from tff_pers.aggregators import shuffling as keyed
from tff_pers.algorithms.perm import fingerprints
from tff_pers.algorithms.perm import own_rows
from tff_pers.algorithms.perm import perm_client
from tff_pers.algorithms.perm import perm_devices
from tff_pers.algorithms.perm import perm_hyperparameters
from tff_pers.algorithms.perm import perm_lambda
from tff_pers.algorithms.perm import perm_new_clients
from tff_pers.algorithms.perm import perm_server
from tff_pers.algorithms.perm import visits
from tff_pers.composition import builders
from tff_pers.composition import dispatch as dispatch_lib
from tff_pers.composition import own_next
from tff_pers.composition import server_state
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.core import round_metrics
from tff_pers.core import traces
from tff_pers.models import functional
from tff_pers import tff

# A `federated_map`: its values are all at the server, or all at the clients.
computed = own_next.computed
PermHyperparameters = perm_hyperparameters.PermHyperparameters
# Tables up to this many numbers (64 MiB) are kept for later clients.
_FEW_NUMBERS = 2**24


@builders.checked
@builders.takes_statistics('averaged')
def build_perm(
    model: functional.FunctionalModel,
    num_clients: int,
    hyperparameters: PermHyperparameters = PermHyperparameters(),
    *,
    client_weighting: str = 'examples',
    full_participation: bool = True,
    num_new_clients: int = 0,
    keep_gradients: bool = False,
    devices: Optional[perm_devices.Devices] = None,
    num_visits: Optional[float] = None,
) -> process.PersonalizedProcess:
  """Builds PERM (Deng et al., NeurIPS 2023, Algorithms 1 to 3).

  Algorithm 2 (`variant=single_loop`), round j in epoch r of the visits:

    (a) clients: G_i <- grad f_i(w)          server: w <- w - gamma mean_i G_i
    (b) server : d_ij <- ||G_i - G_j||^2;    alpha_i <- solution of Eq. (2)
    (c) model i -> client c = sigma_r[(i + j) mod N]:
        K times: w_i <- w_i - eta s_i alpha_i(c) grad f_c(w_i; b)

  with r N + j the number of rounds since the first visit (for s_i and changes
  by matchings see `visits.step_multiplier`), after `warmup_rounds` rounds of
  FedAvg for w (`warmup=gradient`: of (a) only); then all w_i start at w. Before
  the first visits kappa is chosen once, with lambda = kappa times the
  gradients' variance (see `perm_lambda`). With `schedule=permutation`, hosts
  are those of Algorithm 1; by default models are matched to clients with
  alpha_i(c) > 0 (see `visit_schedule`).
  Algorithm 3 (`two_stage`): `stage1_rounds` rounds of FedAvg for w; then (a)
  and (b) without moving w (once, if all clients take part), and (c) in every
  round from then on.

  With partial participation, which the paper does not cover, w is fixed from
  the first visit on. A client sends its gradient when it first takes part after
  that (with `gradient_batch`: each time), and the server keeps it: after about
  N / m rounds of m clients it knows all pairs. In each round it solves for the
  rows of the cohort. With `models=C` the server has C models, not N, for
  clusters of clients: (b) solves for the rows of their centers, see
  `perm_clusters`.

  Server state: `weights` w, `models` the table of the w_i [N, ...], `mixing` A
  (see `mixing_rows`), `pending` (see `visit_schedule.no_pending_visits`),
  `table` of gradients (see `fingerprints`) at the model `anchor`, `assignment`
  to models (see `perm_clusters.unassigned`), `scale` (kappa) and `lambda_`,
  with which A was solved (0: not yet). Clients are stateless.

  The step of stage 1, of the warm-up and of the visits is that of `local_step`.
  In (a) of Algorithm 2 clients clip and decay the update of w, but not the G_i
  that are compared; this single step has no momentum.
  `learning_rate_schedule` counts all rounds and also applies to gamma.

  Limit cases: lambda -> infinity gives A[i, j] = n_j / n, one model for all;
  lambda -> 0 the identity, local training.

  Moving statistics of batch normalization (`moving_statistics`) are averaged in
  local steps of w, and travel with the visiting models; every host updates them
  with its batches if s_i alpha_i(c) > 0. G_i uses the statistics of w and is 0
  in them, so that comparisons ignore them and steps of w along G_i keep them.

  Byzantine clients (`attacks.carried_out`) attack only the mean in (a); with
  flipped labels also all of their own work. The G_i of (b) and the visited
  models of (c) are not attacked: they are never averaged.

  Args:
    model: The model; f_i is its mean loss on client i.
    num_clients: N.
    hyperparameters: See `PermHyperparameters`.
    client_weighting: Weights of the mean in (a), in stage 1 and in the warm-up.
    full_participation: Whether every round has all clients. If not, rounds are
      matchings, and the server keeps a table of gradients.
    num_new_clients: Number of clients that never trained for `evaluate`, see
      `perm_new_clients`; their indices are N and above. If > 0, the server
      always keeps a table.
    keep_gradients: Whether the server keeps the table of gradients for clients
      that join after the run, even if the run does not need it.
    devices: The parts of the model on the clients' devices; None: all of it.
    num_visits: Visits of a model in the run, (R - T_w) m / N for R rounds of m
      clients. Kappa is chosen for this number, see `perm_lambda`; None: for
      whole epochs.

  Returns:
    A `PersonalizedProcess` for these N clients. A client deploys its row of
    `models`, weights of `model`, or with `devices` its units of them, after
    `own_rounds` rounds of steps on its own examples. The metrics of a round
    include, beside those of all methods, properties of the rows of A
    (`perm_mixing.measurements`, `perm_clusters.measurements`), `lambda_scale`
    if kappa is chosen, and `visits_idle`, the share of the cohort that trained
    no model.

  Raises:
    TypeError: If `model`, `num_clients` or `hyperparameters` has the wrong
      type.
    ValueError: If `num_clients` is below 1; if `devices` have parts of a model
      with moving statistics; if `alpha_update=epoch` is used with matchings,
      which have no common epoch; if `freeze_after` has no update to prevent; if
      `row_nonzeros` or `models` exceed N.
  """
  hyperparameters.check(num_clients, full_participation)
  if model.statistics and devices is not None and devices.parts is not None:
    raise ValueError(
        '`model` must have no trained batch normalization with tiers, whose'
        f' parts have statistics of their own, found {model.name}. Tip:'
        ' group or layer normalization, or tiers=none.'
    )
  # The fields of `PermSetting`, from which Client, Server and Trial inherit.
  setting_values = (
      devices or perm_devices.Devices(model), hyperparameters, num_clients,
      full_participation, client_weighting, num_visits,
  )
  client = perm_client.Client(*setting_values)
  server = perm_server.Server(*setting_values)
  data_type = client.data_type
  # Only for its type: the values that the aggregator averages.
  sent = tff.tensorflow.computation(client.sent, model.weights_type, data_type)
  aggregator = server.build_aggregator(sent.type_signature.result)
  keeps_table = keep_gradients or num_new_clients > 0 or not full_participation
  initialize_seeded = server_state.build_initialize(
      lambda seed: server.initial_fields(seed, keeps_table), aggregator
  )
  state_type = initialize_seeded.type_signature.result.member
  broadcast = dispatch_lib.build_broadcast(
      lambda state: dict(weights=state['weights']), state_type
  )

  @traces.federated_computation(
      tff.FederatedType(state_type, tff.SERVER),
      tff.FederatedType((), tff.CLIENTS),
      tff.FederatedType(data_type, tff.CLIENTS),
  )
  def next_fn(state, client_states, data):
    clock = own_next.fields_of(state, 'round', 'seed')
    index = computed(lambda data: data['index'], data)
    cohort = keyed.present(index, num_clients)

    # `setting.PermSetting` says what happens in which round.
    # (a) G_i <- grad f_i(w);  w <- w - gamma mean_i G_i, or FedAvg, or w rests
    message = broadcast(state, index)
    # Whether the server has this client's G_i at the current w.
    is_known = fingerprints.known(client, state.table, index)
    work = computed(client.work_on_w, message, is_known, data)
    mean = aggregator.next(state.aggregator, work.update, work.weight)
    weights = computed(server.descend, clock, state.weights, mean.result)

    # (b) d_ij <- ||G_i - G_j||^2;  alpha_i <- Eq. (2), in rounds that update A
    kappa = state.scale
    trial_reports: list[Any] = []
    if hyperparameters.chooses_kappa:
      # Traced into every round, but chosen only in `first_mixing_update`.
      kappa, *trial_reports = perm_lambda.Trial(*setting_values).choose_kappa(
          kappa, message, index, data
      )
    # With the w at which the G_i were taken, not the new one.
    old = own_next.fields_of(
        state, 'round', 'seed', 'weights', 'mixing', 'assignment', 'lambda_',
        'table', 'anchor',
    )
    # All rows concatenated, not averaged; at most num_clients of them.
    gradients = keyed.collect(work.gradients, num_clients)
    solved = computed(server.solve, old, kappa, cohort, gradients)

    # (c) model i -> a host c (see `visit_schedule`), K steps there, and back
    # Before the first visit all w_i become w; later this changes nothing.
    models = computed(server.start, clock, weights, state.models)
    # With one_trip models leave before the G_i arrive: A is last round's.
    mixing = state.mixing if hyperparameters.one_trip else solved.mixing
    # hosts.owners: int32[N], owner of the model at each client, -1: none.
    hosts = computed(server.host, clock, mixing, state.pending, cohort)
    models, visit_report = visits.visit_clients(
        client, state, models, mixing, hosts.owners, index, data
    )

    # The loss is w's before the first visit, later that of hosted models.
    client_metrics = computed(
        own_next.of_reports, data,
        (work.report, visit_report, *trial_reports),
    )
    return process.RoundOutput(
        state=own_next.advance(
            state, aggregator=mean.state, weights=weights, models=models,
            mixing=solved.mixing, pending=hosts.pending, table=solved.table,
            anchor=solved.anchor, scale=kappa, assignment=solved.assignment,
            lambda_=solved.lambda_,
        ),
        client_states=client_states,
        metrics=round_metrics.merge(
            round_metrics.aggregate(client_metrics), solved.measurements,
            hosts.measurements, *round_metrics.of_aggregator(mean.measurements),
        ),
    )

  deployment = dict(deployed=client.deployed) if not num_new_clients else dict(
      dispatch=perm_new_clients.build_dispatch(
          client, state_type, num_new_clients
      ),
      deployed=lambda weights, data: perm_new_clients.deployed(
          client, weights, data
      ),
  )
  return own_rows.deploying(
      client, initialize_seeded=initialize_seeded, next_fn=next_fn, **deployment
  )


@methods.register(
    'perm', PermHyperparameters,
    needs=dict(examples=lambda values: values.chooses_kappa),
    summary='learned mixing weights, models shuffled between clients',
    travels=None, recipes=dict(paper=perm_hyperparameters.PAPER),
)
def _build(task, hyperparameters):
  width = hyperparameters.sketch or task.model.num_parameters
  hyperparameters = hyperparameters.for_cohorts(task)
  return build_perm(
      task.model, task.num_clients, hyperparameters,
      client_weighting=task.client_weighting,
      full_participation=task.full_participation,
      num_new_clients=task.num_new_clients,
      keep_gradients=task.num_clients * width <= _FEW_NUMBERS,
      devices=perm_devices.build_devices(task, hyperparameters),
      num_visits=hyperparameters.num_visits(task),
  )
