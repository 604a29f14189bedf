"""The curves of Figure 1: methods, step sizes and panels.

Partially Personalized Federated Learning: Breaking the Curse of Data
Heterogeneity
    Mishchenko, Islamov, Gorbunov, Horvath. 2023. Section 4 and Figure 1.
"""

import os
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np

from tff_pers.data import least_squares
from tff_pers.data import task as task_lib
from tff_pers.evaluation import results

_LAMBDA = 0.1  # lambda of L2GD.


class Operator:
  """F of a least-squares task, and the constants that set the step sizes.

  Attributes:
    smoothness: L = max_m lambda_max(G_m).
    private: max_m lambda_max(B_m^T B_m).
    joint: L_f, the smoothness of f_m in (theta, w).
    num_clients: M.
  """

  def __init__(self, task: task_lib.Task):
    assert task.model.layers is not None  # Two layers, linear in each.
    theta_dim = task.model.layers[0].shape[0]
    rows = [data['examples'] for data in task.train]
    self._g, self._h = (np.stack(part) for part in zip(*(
        least_squares.operator(row['x'], row['y'], theta_dim) for row in rows
    )))
    self.smoothness = np.linalg.eigvalsh(self._g).max()
    self.private = max(
        np.linalg.norm(row['x'][:, theta_dim:], 2) ** 2 for row in rows
    )
    self.joint = max(
        float(np.linalg.norm(row['x'], 2)) ** 2 for row in rows
    )
    self.num_clients = len(rows)

  def norms(self, theta: np.ndarray) -> tuple[float, float]:
    """Returns ||F(theta)|| and the root of mean_m ||F_m(theta)||^2."""
    each = self._g @ theta - self._h
    return (
        float(np.linalg.norm(each.mean(axis=0))),
        float(np.sqrt(np.square(each).sum(axis=1).mean())),
    )


class Curve(NamedTuple):
  """A method with hyperparameters.

  Attributes:
    label: In legends and tables.
    algo: Name of the method.
    values: Hyperparameters by flag name.
  """

  label: str
  algo: str
  values: Mapping[str, Any]


def conjugate_gradient(operator: Operator, taus: Sequence[int]) -> list[Curve]:
  """Returns the curves of panel (a): more local work is better."""
  return [
      Curve(f'FFGG, CG, tau = {tau}', 'ffgg', dict(
          tuner='cg', local_steps=tau, local_epochs=0,
          server_learning_rate=1 / operator.smoothness,
      ))
      for tau in taus
  ]


def comparison(operator: Operator, tau: int) -> list[Curve]:
  """Returns the curves of the panel with `tau` local steps, (b) to (d).

  The paper prints the reciprocal of L2GD's step size and misplaces M^2; both
  are corrected here. Local GD with the paper's step size is equally slow for
  every tau, so it is repeated with a step size that does not shrink with tau.
  """
  full = dict(batch_size=0, local_steps=tau, local_epochs=0)
  careful = 1 / (operator.joint * tau)
  p = 1 / tau
  l2gd = dict(batch_size=0, p=p, **{'lambda': _LAMBDA})
  # alpha / M for alpha = 1 / (2 M max(L_f / (1 - p), lambda / p)).
  small = 0.5 / operator.num_clients ** 2 / max(
      operator.joint / (1 - p), _LAMBDA / p
  )
  return [
      Curve('FFGG, GD', 'ffgg', dict(
          full, learning_rate=1 / operator.private,
          server_learning_rate=1 / operator.smoothness,
      )),
      Curve('Local GD, 1/(L_f tau)', 'fedavg', dict(
          full, learning_rate=careful
      )),
      Curve('Scaffold', 'scaffold', dict(
          full, learning_rate=careful, server_learning_rate=0.5, option='1'
      )),
      Curve('Local GD, 1/L_f', 'fedavg', dict(
          full, learning_rate=1 / operator.joint
      )),
      Curve('L2GD, (M/2)/max', 'l2gd', dict(l2gd, smoothness=operator.joint)),
      # Without a smoothness constant the step is given: alpha / (M (1 - p)).
      Curve('L2GD, (2M)^-1/max', 'l2gd', dict(
          l2gd, learning_rate=small / (1 - p)
      )),
  ]


# Rounds in tables.
ROUNDS = (10, 100, 200, 500, 1000)


def calibrated(panel: str) -> dict[str, dict[str, str]]:
  """Returns ||F|| by curve and round, on overpersonalized at the paper's scale.

  From an independent computation of the formulas; not results of the paper.
  """
  rows = results.read_rows(os.path.dirname(__file__), 'calibrated.csv')
  return {row['curve']: row for row in rows if row['panel'] == panel}
