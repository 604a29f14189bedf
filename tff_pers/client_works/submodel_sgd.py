"""Local SGD of a part of the model: the units that a client's device keeps.

    tier of client i: the units that it keeps
    w_i <- the weights between those units;  K steps;  send the difference

The update is `<kept, update>`, see `aggregators.PartialMeanFactory`.

HeteroFL: Computation and Communication Efficient Federated Learning for
Heterogeneous Clients
    Diao, Ding, Tarokh. ICLR 2021.
"""

from typing import Any, Callable, Optional, Sequence

import tensorflow as tf

from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.client_works import masked_sgd
from tff_pers.data import tiers as tier_assignment
from tff_pers.models import masked
from tff_pers.models import submodels

# `(tier, message, data) -> Kept`
Keep = Callable[[int, Any, Any], submodels.Kept]
# `(model, weights, data, tier, **options of local_sgd.train)`
Train = Callable[..., tuple[Any, Any]]


def build_submodel_sgd(
    parts: submodels.Submodels,
    assign: tier_assignment.Assign,
    hyperparameters: Any,
    client_weighting: str,
    *,
    keep: Optional[Keep] = None,
    models: Optional[Sequence[Any]] = None,
    head: Sequence[int] = (),
    train: Optional[Train] = None,
) -> client_work.ClientWork:
  """Returns the client work.

  Args:
    parts: The sub-models of the tiers.
    assign: The tier of a client, see `data.tiers.assign`.
    hyperparameters: A `hyperparameters.LocalTraining`.
    client_weighting: See `client_work.client_weight`.
    keep: Units that a client trains; None: the first ones.
    models: The models that tiers train instead of `parts.tiers`, with the same
      weights, e.g. with a scaler.
    head: Leaves of the output layer. If given, logits of classes that a client
      does not have are 0 in training, and the rows of those classes are not
      sent.
    train: Takes the local steps; None: `local_sgd.train`.
  """
  keep = keep or (lambda tier, message, data: parts.static(tier))
  models = models or parts.tiers
  train = train or (lambda tier, *args, **rest: local_sgd.train(*args, **rest))
  # A real deployment would send only the sub-model, both ways.
  sizes = [
      float(parts.base.dtype.size * model.num_parameters) for model in models
  ]

  def update(message, client_state, data):
    owned = masked.owned(parts.base, head, data) if head else None

    def of_tier(k):
      kept = keep(k, message, data)
      own = submodels.extract(parts.base, message['weights'], kept)
      final, loss = train(
          k, models[k] if owned is None else masked.masked(models[k], owned),
          own, data,
          learning_rate=local_step.scheduled(
              hyperparameters, message, hyperparameters.learning_rate
          ),
          seed=client_work.key(message, data),
          local=local_step.build(hyperparameters), **hyperparameters.budget(),
      )
      return masked_sgd.of_owners(
          head, owned,
          submodels.expand(
              parts.base, local_sgd.difference(own, final), kept
          ), submodels.mask(parts.base, kept),
      ), loss

    tier = assign(message['seed'], message['round'], data['index'])
    sent, loss = parts.switch(tier, of_tier)
    num_bytes = tf.gather(tf.constant(sizes), tier)
    return client_work.ClientOutput(
        client_state=client_state,
        update=sent,
        weight=client_work.client_weight(
            client_weighting, data, hyperparameters.batch_size
        ),
        loss=loss,
        bytes_down=num_bytes,
        bytes_up=num_bytes,
    )

  return client_work.ClientWork(update)
