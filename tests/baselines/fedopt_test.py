"""FedAvgM, FedAdam, FedYogi and FedAdagrad: check B11 in rounds."""

import numpy as np
import pytest

from baselines import fedopt
from tests import problems
from tff_pers.config import methods


def _scalar_rounds(name, **options):
  """Returns w after rounds whose mean of u - w is 1, -.5, .25.

  One client: f(w) = (w - c)^2 / 2 and one step of size 1 end in u = c, so that
  c = w + D makes D what we want.
  """
  problem = problems.s2()
  hyperparameters = methods.get(name).hyperparameters(
      learning_rate=1.0, local_steps=1, server_learning_rate=0.1, **options
  )
  process = fedopt.build_fedopt(problem.model, hyperparameters)
  state, after = process.initialize_seeded(0), []
  for update in (1.0, -0.5, 0.25):
    w = np.asarray(state['weights'][0])
    client = problem.clients()[0]  # Curvature 1.
    client['examples']['x'][:, 1] = w + update
    state = process.next(state, [()], [client])['state']
    after.append(np.asarray(state['weights'][0])[0])
  return after


@pytest.mark.parametrize(
    'name, options, expected',
    [
        ('fedavgm', {}, (0.1, 0.14, 0.201)),
        ('fedadagrad', {}, (0.009990, 0.013565, 0.018884)),
        ('fedadagrad', dict(beta1=0.0), (0.099900, 0.055219, 0.077021)),
        ('fedadam', {}, (0.099005, 0.134605, 0.187840)),
        ('fedyogi', {}, (0.099005, 0.134464, 0.187246)),
    ],
)
def test_scalar_trajectory(name, options, expected):
  """Baselines B11: the sign is right, and state goes from round to round."""
  np.testing.assert_allclose(
      _scalar_rounds(name, **options), expected, rtol=0, atol=1e-6
  )
