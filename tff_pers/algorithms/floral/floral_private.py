"""Private adaptors of clients, an option of FLoRAL; ours, not the paper's.

A client that belongs to no cluster has no shared adaptor that suits it. With
`private_rank` > 0 every client has one more adaptor of that rank, which it
alone trains and keeps:

    W + sum_c pi_c U_c V_c^T + P_k Q_k^T

It is outside the mixture and takes the same steps as the shared adaptors, from
the same point. The server neither receives nor sends anything of it.
"""

import collections
import dataclasses
from typing import Any, Mapping

import tensorflow as tf

from tff_pers import composition
from tff_pers.algorithms.floral import floral_hyperparameters as floral_hp
from tff_pers.client_works import client_work
from tff_pers.client_works import local_step
from tff_pers.client_works import router_training
from tff_pers.core import random
from tff_pers.models import adapted_model
from tff_pers.models import adaptor_plan
from tff_pers.models import functional

# Folded into the model's key: its random factors must not be those of a shared
# adaptor.
_PRIVATE_USE = -3


@dataclasses.dataclass(frozen=True)
class JointModel:
  """A model with shared adaptors and a private one, for `router_training`.

  Its adaptors are <private, shared>.

  Attributes:
    shared: The model with C adaptors.
    private: All weights of the same model, with one adaptor.
  """

  shared: adapted_model.AdaptedModel
  private: adapted_model.AdaptedModel

  @classmethod
  def of(
      cls, shared: adapted_model.AdaptedModel, rank: int
  ) -> 'JointModel':
    """Returns the model with private adaptors where it has shared ones.

    Args:
      shared: The model with C adaptors.
      rank: r >= 1 of every private kernel, at most its full rank.
    """
    return cls(shared, adapted_model.AdaptedModel(
        shared.merged, 1, adaptor_plan.with_rank(shared.plan, rank)
    ))

  @property
  def base(self) -> functional.FunctionalModel:
    """The model without adaptors."""
    return self.shared.base

  @property
  def plan(self) -> tuple[adaptor_plan.AdaptedWeight, ...]:
    """The plan of the shared adaptors."""
    return self.shared.plan

  def mixed(self, mix: tf.Tensor) -> functional.FunctionalModel:
    """Returns the model of one mixture, see `AdaptedModel.mixed`."""
    inner = self.private.mixed(self.alone)

    def over(weights):
      own = weights['adaptors']
      return collections.OrderedDict(
          adaptors=own['private'],
          base=self.shared.effective(weights['base'], own['shared'], mix),
      )

    return dataclasses.replace(
        inner,
        init=lambda key: collections.OrderedDict(
            adaptors=collections.OrderedDict(
                private=self.private_adaptor(key),
                shared=self.shared.drawn(key),
            ),
            base=self.base.init(key),
        ),
        predict=lambda weights, *args: inner.predict(over(weights), *args),
        penalty=lambda weights: inner.penalty(over(weights)),
        layers=(
            *adaptor_plan.describe(self.private.plan, 1),
            *(self.shared.mixed(mix).layers or ()),
        ),
    )

  def private_adaptor(self, key: tf.Tensor) -> Any:
    """Returns the first private adaptor, given a key of the base model."""
    return self.private.drawn(random.fold_in(key, _PRIVATE_USE))

  @property
  def alone(self) -> tf.Tensor:
    """The mix of the private adaptor."""
    return tf.ones([1], self.base.dtype)

  def beside(self, adaptors: Any, others: Any) -> Any:
    """Returns adaptors with the shared ones of `others` as well."""
    shared = self.shared.beside(adaptors['shared'], others['shared'])
    return collections.OrderedDict(adaptors, shared=shared)

  def precondition(self, adaptors: Any, gradients: Any) -> Any:
    """Returns `AdaptedModel.precondition` of both."""
    return self._of_both('precondition', adaptors, gradients)

  def bounded(self, adaptors: Any, directions: Any, rate: Any) -> Any:
    """Returns `AdaptedModel.bounded` of both."""
    return self._of_both('bounded', adaptors, directions, rate)

  def _of_both(self, method, adaptors, directions, *args):
    return collections.OrderedDict(
        (name, getattr(getattr(self, name), method)(
            adaptors[name], directions[name], *args
        )) for name in ('private', 'shared')
    )


def with_private(
    pieces: Mapping[str, Any], joint: JointModel, work: client_work.ClientWork,
    hyperparameters: floral_hp.FloralHyperparameters, num_clients: Any,
) -> dict[str, Any]:
  """Returns the parts of FLoRAL for `composition.compose`, with private ones.

  Client states have a further field `private`, the client's adaptor, which is
  initially equal for all and changes nothing. A client that never trains learns
  its router first, then in `adapt_epochs` epochs its adaptor, with all else
  frozen, as in `local_adaptor`.

  Args:
    pieces: `init_client`, `deploy` and `client_model` without private adaptors.
    joint: The model with both kinds.
    work: The client work of `joint`.
    hyperparameters: See `build_floral`.
    num_clients: See `build_floral`.
  """

  def add(weights, private):
    return joint.private.effective(weights, private, joint.alone)

  def init_client(seed):
    return collections.OrderedDict(
        pieces['init_client'](seed) or (),
        private=joint.private_adaptor(functional.init_key(seed)),
    )

  def update(message, client_state, data):
    weights, private = message['weights'], client_state['private']
    joined = collections.OrderedDict(
        weights, adaptors=collections.OrderedDict(
            private=private, shared=weights['adaptors']
        ),
    )
    output = work.update(dict(message, weights=joined), client_state, data)
    moved = output.update['adaptors']  # Weights before less those after.
    return output._replace(
        client_state=collections.OrderedDict(
            output.client_state or (),
            private=tf.nest.map_structure(
                tf.subtract, private, moved['private']
            ),
        ),
        # Only what is shared: P_k and Q_k never leave their client.
        update=collections.OrderedDict(
            output.update, adaptors=moved['shared']
        ),
    )

  def deploy(message, client_state, data):
    found = pieces['deploy'](message, client_state, data)
    private = client_state['private']
    if num_clients is not None:
      is_unseen = client_work.is_unseen(data['index'], num_clients)
      _, trained, _ = router_training.train(
          joint.private, joint.alone,
          collections.OrderedDict(adaptors=private, base=found.weights), data,
          # The step size 0 freezes the base, see `local_step.moves`.
          rates=router_training.Rates(
              0.0, hyperparameters.adaptor_rate(joint.shared)
          ),
          seed=client_work.key(message, data), mix=router_training.known_mix,
          precondition=hyperparameters.precondition,
          local=local_step.build(hyperparameters),
          # Trained clients keep their adaptor: 0 passes change nothing.
          num_epochs=tf.where(is_unseen, hyperparameters.adapt_epochs, 0),
          batch_size=hyperparameters.batch_size,
      )
      private = trained['adaptors']
    return composition.Deployed(add(found.weights, private), found.report)

  def client_model(state, client_state, index):
    return add(
        pieces['client_model'](state, client_state, index),
        client_state['private'],
    )

  return dict(
      pieces, work=client_work.ClientWork(update), init_client=init_client,
      deploy=deploy, client_model=client_model,
  )
