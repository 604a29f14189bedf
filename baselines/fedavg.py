"""FedAvg: one global model by averaging local SGD.

Communication-Efficient Learning of Deep Networks from Decentralized Data
    McMahan, Moore, Ramage, Hampson, Aguera y Arcas. AISTATS 2017.
"""

import collections
import dataclasses
from typing import Any, Callable, Mapping, Optional, Union

import tensorflow as tf

from tff_pers import composition
from tff_pers.aggregators import choice
from tff_pers.aggregators import partial
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.client_works import masked_sgd
from tff_pers.composition import builders
from tff_pers.composition import deployment
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.models import functional
from tff_pers import tff

_Deploy = Union[Callable[..., Any], deployment.Choosing, None]


@dataclasses.dataclass(frozen=True)
class AveragingHyperparameters(hp.Aggregation, hp.LocalTraining):
  """Hyperparameters of methods whose server is FedAvg's."""

  server_learning_rate: float = hp.field(
      1.0, 'Server step size eta_g; 1 is plain averaging.', above=0.0
  )


@dataclasses.dataclass(frozen=True)
class FedAvgHyperparameters(hp.MaskedLoss, AveragingHyperparameters):
  """Hyperparameters of FedAvg."""


@builders.checked
@builders.takes_statistics('averaged')
def build_fedavg(
    model: functional.FunctionalModel,
    hyperparameters: FedAvgHyperparameters = FedAvgHyperparameters(),
    *,
    client_weighting: str = 'examples',
    model_aggregator: Optional[composition.Aggregator] = None,
) -> process.PersonalizedProcess:
  """Builds FedAvg.

    client i: u <- w;  K times: u <- u - eta g_i(u; b)
    server  : w <- w - eta_g * sum_i q_i (w - u_i) / sum_i q_i

  Server state: `weights` w. Clients are stateless. With a masked loss the rows
  of the output layer are means over the clients that have the class, and stay
  if there is none.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `FedAvgHyperparameters`.
    client_weighting: q_i: `uniform` 1, `examples` n_i, `batches` ceil(n_i / B).
    model_aggregator: Replaces the `aggregator` of the hyperparameters.

  Returns:
    A `PersonalizedProcess` that deploys w at every client.

  Raises:
    ValueError: If the loss is masked and the model has no logit per class.
  """
  aggregator = model_aggregator or choice.chosen(hyperparameters)
  build_work: Callable[..., client_work.ClientWork] = local_sgd.build_local_sgd
  if hyperparameters.masked_loss:
    build_work = masked_sgd.build_masked_sgd
    aggregator = partial.PartialMeanFactory(aggregator)
  return build_averaging(
      model, build_work(model, hyperparameters, client_weighting),
      model_aggregator=aggregator,
      server_learning_rate=hyperparameters.server_learning_rate,
  )


def _shared_model(weights, client_state):
  del client_state  # One model for all.
  return weights


@builders.checked
@builders.takes_statistics('averaged')
def build_averaging(
    model: functional.FunctionalModel,
    work: client_work.ClientWork,
    *,
    server_learning_rate: float = 1.0,
    server_optimizer: Optional[tff.learning.optimizers.Optimizer] = None,
    initial_weights: Optional[Callable[[tf.Tensor], Any]] = None,
    init_client: Callable[[tf.Tensor], Any] = lambda seed: (),
    init_each_client: bool = False,
    combine: Callable[[Any, Any], Any] = _shared_model,
    client_model: Optional[Callable[..., Any]] = None,
    deploy: _Deploy = None,
    project: Optional[Callable[[Any], Any]] = None,
    model_aggregator: Optional[composition.Aggregator] = None,
    deployed: Optional[functional.FunctionalModel] = None,
    tiers: Optional[Mapping[str, composition.Tier]] = None,
    statistics: Optional[tuple[bool, ...]] = None,
) -> process.PersonalizedProcess:
  """Builds a method whose server is FedAvg's: a mean of client updates.

    server  : w <- w - eta_g * sum_i q_i (w - u_i) / sum_i q_i

  Server state: `weights` w, and `optimizer` if there is one. Client state: the
  result of `init_client`.

  Args:
    model: The model that is trained.
    work: The client work; its update is w - u_i, its weight q_i.
    server_learning_rate: eta_g; 1 with an optimizer, which has its own.
    server_optimizer: Replaces the server's step; it uses the mean update as the
      gradient of w.
    initial_weights: `seed -> w`, a TensorFlow function: the weights to average,
      if they are not those of the whole model.
    init_client: `seed -> C`, a TensorFlow function: the initial state of a
      client.
    init_each_client: See `composition.compose`.
    combine: `(w, C) -> W`, a TensorFlow function: what a client deploys without
      using its data.
    client_model: `(S, C, index) -> W`, a TensorFlow function that replaces
      `combine` if more of the server state than w is needed.
    deploy: `(message, C, D) -> W`, a TensorFlow function: what a client deploys
      after adapting `message['weights']` to its training data D. None:
      `combine`.
    project: `w -> w`, a TensorFlow function applied after the server's step.
    model_aggregator: Replaces the weighted mean.
    deployed: The model over W; None: `model`.
    tiers: See `composition.compose`; None: w, if it is a model by itself.
    statistics: Leaves of w that are moving statistics, which are always
      averaged, whatever the server's step. None: the model's.

  Returns:
    A `PersonalizedProcess`.

  Raises:
    TypeError: If the optimizer is not one of TFF's.
    ValueError: If there are both an optimizer and a server step size.
  """
  if not isinstance(
      server_optimizer, (tff.learning.optimizers.Optimizer, type(None))
  ):
    raise TypeError(
        '`server_optimizer` must be one of tff.learning.optimizers, found'
        f' {type(server_optimizer).__name__}. Tip: `build_sgdm`, `build_adam`'
        ' and others are there.'
    )
  if server_optimizer is not None and server_learning_rate != 1.0:
    raise ValueError(
        '`server_learning_rate` must be 1 with `server_optimizer`, which has'
        f' its own, found {server_learning_rate}.'
    )

  if statistics is None:
    statistics = model.statistics

  def init(seed):
    weights = (initial_weights or model.initial_weights)(seed)
    fields = collections.OrderedDict(weights=weights)
    if server_optimizer is not None:
      fields['optimizer'] = server_optimizer.initialize(
          tf.nest.map_structure(
              lambda w: tf.TensorSpec(w.shape, w.dtype), weights
          )
      )
    return fields

  def step(state, mean_update):
    # The mean of w - u_i is subtracted. An optimizer takes it as a gradient,
    # which it subtracts too.
    weights = state['weights']
    if server_optimizer is None:
      return dict(weights=local_step.descend(
          weights, mean_update, server_learning_rate, statistics
      ))
    optimizer, moved = server_optimizer.next(
        state['optimizer'], weights, mean_update
    )
    return dict(optimizer=optimizer, weights=local_step.averaged_statistics(
        moved, weights, mean_update, statistics
    ))

  def finalize(state, mean_update):
    fields = step(state, mean_update)
    if project is not None:
      fields['weights'] = project(fields['weights'])
    return fields

  if tiers is None and initial_weights is None:  # Otherwise w is not a model.
    tiers = {'1': composition.Tier(model, lambda state: state['weights'])}
  return composition.compose(
      model,
      init=init,
      send=lambda state: dict(weights=state['weights']),
      work=work,
      aggregator=model_aggregator,
      finalize=finalize,
      init_client=init_client,
      init_each_client=init_each_client,
      deploy=deploy or (
          lambda message, own, data: combine(message['weights'], own)
      ),
      client_model=client_model or (
          lambda state, own, index: combine(state['weights'], own)
      ),
      tiers=tiers, deployed=deployed,
  )


@methods.register(
    'fedavg', FedAvgHyperparameters,
    summary='one global model (McMahan 2017)',
)
def _build(task, hyperparameters):
  return build_fedavg(
      task.model, hyperparameters, client_weighting=task.client_weighting
  )
