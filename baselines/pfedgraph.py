"""pFedGraph: each client starts from a mixture of models by cosines.

Personalized Federated Learning with Inferred Collaboration Graphs
    Ye, Ni, Wu, Chen, Wang. ICML 2023.
"""

import dataclasses

import tensorflow as tf

from baselines import client_models
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.models import functional
from tff_pers.numerics import distances
from tff_pers.numerics import simplex

# The authors' code treats larger cosines as 1.
_ALIKE = 0.9


@dataclasses.dataclass(frozen=True)
class PFedGraphHyperparameters(hp.LocalTraining):
  """Hyperparameters of pFedGraph."""

  lambda_: float = hp.field(
      0.8, 'Pull lambda of rows towards the shares of examples.', above=0.0,
      search=hp.Between(0.05, 10.0, log=True),
  )
  mu: float = hp.field(
      0.01, "Reward mu for a local model's cosine to its neighbours.",
      minimum=0.0, search=hp.Between(0.001, 1.0, log=True),
  )


@builders.checked
def build_pfedgraph(
    model: functional.FunctionalModel,
    num_clients: int,
    hyperparameters: PFedGraphHyperparameters = PFedGraphHyperparameters(),
    *,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds pFedGraph.

    server  : a_i = argmin over the simplex of lambda ||a - p||^2
                    - sum_j a_j cos(theta_i - theta_0, theta_j - theta_0)
              u_i = sum_j a_ij theta_j,  c_i = sum_j a_ij theta_j / ||theta_j||
    client i: theta_i <- u_i;  K times:
              theta_i <- theta_i - eta (g_i - mu grad cos(., c_i))(theta_i; b)
    deploy  : theta_i

  p_j = q_j / sum q. Rows are over the members of the cohort that have trained;
  others do not contribute, and start from the mixture p. theta_0 is the initial
  model of the run, and a cosine with 0 is 0. a_i is the projection of
  p + cos_i / (2 lambda) onto the simplex. With mu = 0, c_i is not sent.

  Server state: `models` [N, ...], `initial` theta_0, `sizes` the q_j, 0 before
  a client has trained. Client state: theta_i, initially theta_0.

  Args:
    model: The model; f_i is its mean loss on client i.
    num_clients: N.
    hyperparameters: See `PFedGraphHyperparameters`.
    client_weighting: q_j, see `fedavg.build_fedavg`.
  """
  values = hyperparameters

  def prepare(state, cohort):
    models = client_models.of(state, cohort)
    moved = tf.nest.map_structure(tf.subtract, models, state['initial'])
    a = rows(
        distances.cosines(distances.flatten_rows(moved)),
        tf.gather(state['sizes'], cohort), values.lambda_,
    )
    message = dict(weights=client_models.combined(a, models))
    if values.mu:
      norms = tf.norm(distances.flatten_rows(models), axis=1)
      message['direction'] = client_models.combined(
          tf.math.divide_no_nan(a, tf.cast(norms, a.dtype)), models
      )
    return message

  def added(gradient, theta, message):
    if not values.mu:
      return gradient
    toward = distances.cosine_gradient(theta, message['direction'])
    return local_sgd.descend(gradient, toward, values.mu)

  def train(message, theta, data):
    del theta  # It starts from the mixture.
    theta, loss = client_models.descend(
        model, message['weights'], message, data, values,
        lambda g, theta: added(g, theta, message),
    )
    weight = client_work.client_weight(
        client_weighting, data, values.batch_size
    )
    return theta, dict(sizes=weight), loss

  return client_models.build_client_models(
      model, num_clients, train, prepare=prepare,
      init=lambda weights: dict(initial=weights, sizes=tf.zeros([num_clients])),
      record=lambda state, keys, sent: dict(sizes=tf.tensor_scatter_nd_update(
          state['sizes'], keys[:, None], sent['sizes']
      )),
  )


def rows(cosines: tf.Tensor, sizes: tf.Tensor, lambda_: float) -> tf.Tensor:
  """Returns the rows a_i, float64[m, m].

  Args:
    cosines: Floats [m, m].
    sizes: q_j, floats [m]; clients with 0 do not contribute.
    lambda_: See `PFedGraphHyperparameters`.
  """
  cosines, q = tf.cast(cosines, tf.float64), tf.cast(sizes, tf.float64)
  teaches = q > 0
  # Before any client has trained, all models are theta_0.
  q = tf.where(tf.reduce_any(teaches), tf.where(teaches, q, 0), 1.0)
  p = q / tf.reduce_sum(q)
  alike = tf.where(cosines > _ALIKE, tf.ones_like(cosines), cosines)
  return simplex.project(
      tf.where(q > 0, p + alike / (2 * float(lambda_)), -float('inf'))
  )


@methods.register(
    'pfedgraph', PFedGraphHyperparameters, travels=None,
    summary='starts from a mixture of similar models (Ye 2023)',
)
def _build(task, hyperparameters):
  return build_pfedgraph(
      task.model, task.num_clients, hyperparameters,
      client_weighting=task.client_weighting,
  )
