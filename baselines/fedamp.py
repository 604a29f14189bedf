"""FedAMP: models pulled towards similar models by attentive messages.

Personalized Cross-Silo Federated Learning on Non-IID Data
    Huang, Chu, Zhou, Wang, Liu, Pei, Zhang. AAAI 2021.
"""

import dataclasses

import tensorflow as tf

from baselines import client_models
from tff_pers.client_works import local_sgd
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.models import functional
from tff_pers.numerics import distances
from tff_pers.numerics import robust


@dataclasses.dataclass(frozen=True)
class FedAmpHyperparameters(hp.LocalTraining):
  """Hyperparameters of FedAMP."""

  lambda_: float = hp.field(
      0.05, 'Strength lambda of attraction.', minimum=0.0,
      search=hp.Between(0.005, 5.0, log=True),
  )
  pull: float = hp.field(
      0.5, 'Largest total weight of the other models in any u_i.',
      minimum=0.0, maximum=1.0,
  )
  sigma: float = hp.field(
      2.0, 'Squared distance over which models attract each other, in units of'
      ' the median over clients of the squared distance to the nearest.',
      above=0.0, when='variant=attention', search=hp.Around(4),
  )
  sigma_absolute: bool = hp.field(
      False, 'Whether the unit of sigma is 1.', when='variant=attention'
  )
  variant: str = hp.field(
      'attention', 'What determines weights: attention (distances of models) or'
      ' heuristic (their cosines, HeurFedAMP).',
      choices=('attention', 'heuristic'),
  )
  cos_scale: float = hp.field(
      10.0, 'Factor of the cosines in the exponent.', minimum=0.0,
      when='variant=heuristic',
  )
  start: str = hp.field(
      'own', "Initial point of local steps: own, the client's last model, or"
      ' received, u_i.', choices=('own', 'received'),
  )


@builders.checked
def build_fedamp(
    model: functional.FunctionalModel,
    num_clients: int,
    hyperparameters: FedAmpHyperparameters = FedAmpHyperparameters(),
) -> process.PersonalizedProcess:
  """Builds FedAMP.

    min sum_i f_i(w_i) + lambda sum_{i<j} A(||w_i - w_j||^2),
        A(x) = 1 - exp(-x / sigma)

    server  : xi_ij = alpha A'(||w_i - w_j||^2),  xi_ii = 1 - sum_j xi_ij
              u_i = xi_ii w_i + sum_{j != i} xi_ij w_j
    client i: w_i <- argmin f_i(w) + s/2 ||w - u_i||^2,  s = lambda / alpha, by
              K steps w <- w - eta (g_i(w; b) + s (w - u_i)) / (1 + eta s)
    deploy  : w_i

  Steps treat the second term implicitly, so that they are stable for every s.
  alpha is such that the largest row sum of the xi_ij, j != i, is `pull`; rows
  are over the cohort. Distances are in the unit of sigma, also in A': otherwise
  s would grow as models approach each other, until none moves. If the unit is
  0, as in the first round, nothing pulls. With variant=heuristic, xi_ij is
  `pull` times the softmax over j != i of cos_scale cos(w_i, w_j), and alpha =
  `pull`.

  Server state: `models` [N, ...]. Client state: w_i, at first w^0.

  Args:
    model: The model; f_i is its mean loss on client i.
    num_clients: N.
    hyperparameters: See `FedAmpHyperparameters`.
  """
  values = hyperparameters

  def prepare(state, cohort):
    models = client_models.of(state, cohort)
    xi, alpha = attention(distances.flatten_rows(models), values)
    own = 1 - tf.reduce_sum(xi, axis=1)
    strength = values.lambda_ * tf.math.reciprocal_no_nan(alpha)
    return dict(
        weights=client_models.combined(xi + tf.linalg.diag(own), models),
        strength=tf.fill(tf.shape(cohort), strength),
    )

  def train(message, w, data):
    u, s = message['weights'], message['strength']
    w, loss = client_models.descend(
        model, u if values.start == 'received' else w, message, data, values,
        lambda g, w: local_sgd.pulled(g, w, u, s), implicit=s,
    )
    return w, {}, loss

  return client_models.build_client_models(
      model, num_clients, train, prepare=prepare
  )


def attention(
    vectors: tf.Tensor, hyperparameters: FedAmpHyperparameters
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns (xi_ij for j != i and zeros for j = i, [m, m]; alpha).

  Args:
    vectors: The models of a cohort, floats [m, d].
    hyperparameters: See `build_fedamp`.
  """
  is_other = tf.logical_not(tf.eye(tf.shape(vectors)[0], dtype=tf.bool))
  if hyperparameters.variant == 'heuristic':
    slopes = tf.nn.softmax(tf.where(
        is_other, hyperparameters.cos_scale * distances.cosines(vectors),
        vectors.dtype.min,
    ))
  else:
    squared = distances.gram_distances(distances.center(vectors))
    others = tf.where(is_other, squared, vectors.dtype.max)
    unit = robust.median(tf.reduce_min(others, axis=1, keepdims=True))
    if hyperparameters.sigma_absolute:
      unit = tf.ones_like(unit)
    x = tf.math.divide_no_nan(squared, unit)
    sigma = float(hyperparameters.sigma)
    slopes = tf.where(unit > 0, tf.exp(-x / sigma) / sigma, 0)  # A'(x)
  slopes = tf.where(is_other, slopes, 0)
  alpha = hyperparameters.pull * tf.math.reciprocal_no_nan(
      tf.reduce_max(tf.reduce_sum(slopes, axis=1))
  )
  return alpha * slopes, alpha


@methods.register(
    'fedamp', FedAmpHyperparameters, weighs_clients=False, travels=None,
    summary='personal models attract similar ones (Huang 2021)',
)
def _build(task, hyperparameters):
  return build_fedamp(task.model, task.num_clients, hyperparameters)
