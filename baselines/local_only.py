"""Local training: every client trains alone."""

import dataclasses

import tensorflow as tf

from tff_pers import composition
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.models import functional


@dataclasses.dataclass(frozen=True)
class LocalOnlyHyperparameters(hp.LocalTraining):
  """Hyperparameters of local training."""


@builders.checked
@builders.takes_statistics('averaged')
def build_local_only(
    model: functional.FunctionalModel,
    hyperparameters: LocalOnlyHyperparameters = LocalOnlyHyperparameters(),
) -> process.PersonalizedProcess:
  """Builds local training without communication.

    client i, whenever it takes part:  K times: v_i <- v_i - eta g_i(v_i; b)

  Server state: only the seed and the round. Client state: v_i, initially w^0,
  the common initial model of the run. Messages hold no weights (0 bytes);
  client i takes K steps in every round in which it takes part.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `LocalOnlyHyperparameters`.

  Returns:
    A `PersonalizedProcess` that deploys v_i at client i.
  """
  return composition.compose(
      model,
      # The server holds no weights: clients compute w^0 from the seed.
      init=lambda seed: {},
      send=lambda state: {},
      work=build_local_work(model, hyperparameters),
      finalize=lambda state, aggregate: {},
      init_client=model.initial_weights,
      deploy=lambda message, own, data: own,  # No adaptation.
      client_model=lambda state, own, index: own,
  )


def build_local_work(
    model: functional.FunctionalModel,
    hyperparameters: LocalOnlyHyperparameters,
) -> client_work.ClientWork:
  """Returns the client work: local SGD on the client state; sends nothing.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `build_local_only`.
  """

  def update(message, client_state, data):
    final, loss = local_sgd.train(
        model, client_state, data, local=local_step.build(hyperparameters),
        **local_sgd.options(hyperparameters, message, data),
        **hyperparameters.budget(),
    )
    return client_work.ClientOutput(
        client_state=final,
        update=(),
        weight=tf.constant(1.0),  # Nothing is averaged.
        loss=loss,
    )

  return client_work.ClientWork(update)


@methods.register(
    'local_only', LocalOnlyHyperparameters, weighs_clients=False,
    summary='every client trains alone, no communication',
    travels=methods.Travels(down=(), up=()),
)
def _build(task, hyperparameters):
  return build_local_only(task.model, hyperparameters)
