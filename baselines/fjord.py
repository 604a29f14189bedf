"""FjORD: nested sub-models by ordered dropout.

FjORD: Fair and Accurate Federated Learning under Heterogeneous Targets with
Ordered Dropout
    Horvath, Laskaridis, Almeida, Leontiadis, Venieris, Lane. NeurIPS 2021.
"""

import dataclasses
from typing import Sequence

import tensorflow as tf

from baselines import heterofl
from tff_pers.client_works import local_step
from tff_pers.client_works import submodel_sgd
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.data import tiers as tier_assignment
from tff_pers.models import functional
from tff_pers.models import masked
from tff_pers.models import submodels
from tff_pers.models import tiers as tiers_lib
from tff_pers.models import width_hyperparameters as width_hp

_WIDTH_USE = -1  # Separates this draw from the dropout of a batch.


@dataclasses.dataclass(frozen=True)
class FjORDHyperparameters(width_hp.WidthHyperparameters):
  """Hyperparameters of FjORD."""

  distill: bool = hp.field(
      False,
      'Whether a step trains the largest sub-model of a client on the labels,'
      ' and the drawn one on the predictions of the largest.',
  )


@builders.checked
def build_fjord(
    parts: submodels.Submodels,
    names: Sequence[float],
    assign: tier_assignment.Assign,
    hyperparameters: FjORDHyperparameters = FjORDHyperparameters(),
    *,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds FjORD.

    client i: w_i <- the weights between the first p_max C units of each layer
              K times, with a minibatch b:
                p  uniform among the widths <= p_max, one for the whole network
                without distillation: a step of the first p C units on
                        CE(model_p(x), y); the others stay
                with:   z = model_pmax(x), a step of all units of the client on
                        CE(z, y) + CE(stop_gradient(softmax(z)), model_p(x))
    server  : w[p] <- w[p] - sum_i q_i (w - w_i)[p] / sum_i q_i, over the
              clients i whose p_max reaches coordinate p, whichever p they drew

  Server state: `weights` w. Clients are stateless. Deployment and
  `evaluate_global` are as in HeteroFL. With all widths 1 it is FedAvg.

  Args:
    parts: The sub-models of the tiers.
    names: Numbers of the tiers.
    assign: The tier of a client, see `data.tiers.assign`.
    hyperparameters: See `FjORDHyperparameters`; `tiers` and `width_rounding`
      are in `parts`.
    client_weighting: q_i, see `client_work.client_weight`.

  Raises:
    ValueError: If the model has no logit per class to distill.
  """
  if hyperparameters.distill:
    masked.head(parts.base, '`distill`')

  def train(
      tier, model, weights, data, *, learning_rate, seed, local, **budget
  ):
    widths = [
        k for k in _one_of_each(parts.widths)
        if parts.widths[k] <= parts.widths[tier]
    ]

    def step(sgd, batch):
      drawn = tf.random.stateless_uniform(
          [], random.fold_in(batch.seed, _WIDTH_USE), 0, len(widths), tf.int32
      )
      return tiers_lib.switch(
          [parts.widths[k] for k in widths], drawn,
          lambda position: take(sgd, batch, widths[position]),
      )

    def take(sgd, batch, k):
      kept = parts.static(k)
      if hyperparameters.distill:
        taught = distilled(model, parts.tiers[k], kept)
        loss, gradient = taught.loss_and_gradient(sgd.weights, batch)
        return local.apply(sgd, gradient, learning_rate), loss
      # A step of the slice only, so that neither momentum nor weight decay
      # moves the units above it.
      own = local_step.SgdState(*_each(sgd, lambda all_: submodels.extract(
          model, all_, kept
      )))
      loss, gradient = parts.tiers[k].loss_and_gradient(own.weights, batch)
      moved = local.apply(own, gradient, learning_rate)
      return local_step.SgdState(*(
          submodels.replace(model, all_, new, kept) if new else all_
          for all_, new in zip(sgd, moved)
      )), loss

    sgd, loss = client_data.fold_batches(
        data, step, local.start(weights), seed=seed, reports=True, **budget
    )
    return sgd.weights, loss

  work = submodel_sgd.build_submodel_sgd(
      parts, assign, hyperparameters, client_weighting, train=train
  )
  return heterofl.deploying_first_units(parts, names, assign, work)


def distilled(
    model: functional.FunctionalModel, student: functional.FunctionalModel,
    kept: submodels.Kept,
) -> functional.FunctionalModel:
  """Returns the model whose loss also trains one of its sub-models.

  Args:
    model: The largest model z of a client.
    student: A sub-model of it.
    kept: The units that the sub-model keeps.
  """

  def predict(weights, x, training, seed):
    return tf.stack([
        model.predict(weights, x, training, seed),
        student.predict(
            submodels.extract(model, weights, kept), x, training, seed
        ),
    ], axis=1)

  def example_loss(y, predictions):
    z, own = predictions[:, 0], predictions[:, 1]
    # The teacher does not learn from its student.
    target = tf.stop_gradient(tf.nn.softmax(z))
    return model.example_loss(y, z) + tf.nn.softmax_cross_entropy_with_logits(
        target, own
    )

  return dataclasses.replace(
      model, predict=predict, example_loss=example_loss, takes_factors=False
  )


def _each(sgd, change):
  """Applies `change` to the weights and, if any, the momentum."""
  return [change(part) if part else part for part in sgd]


def _one_of_each(widths) -> list[int]:
  """Returns one tier number per distinct width."""
  return [k for k, width in enumerate(widths) if widths.index(width) == k]


@methods.register(
    'fjord', FjORDHyperparameters, needs=('widths',),
    summary='nested sub-models by ordered dropout (Horvath 2021)',
    travels=heterofl.TRAVELS,
)
def _build(task, hyperparameters):
  return build_fjord(
      *heterofl.of_task(task, hyperparameters), hyperparameters,
      client_weighting=task.client_weighting,
  )
