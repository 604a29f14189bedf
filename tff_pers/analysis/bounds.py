"""Bounds on the distance of the surrogate's minimizer to the true one.

With a = min_i lambda_min(Q_i) and b = max_i lambda_max(Q_i), the paper states

  ||xtil* - x*|| <= 8 C (sqrt b - sqrt a) / (sqrt b + sqrt a)         (Eq. 15)

in every dimension, and conjectures 2 C instead of 8 C. Both are false for d >=
2: the proof assumes ||P_1 (P_1 + P_2)^-1|| <= 1 for positive definite matrices,
and derives this from similarity, which does not preserve the norm. These bounds
are valid:

  (V1) `heterogeneity_bound`  any clients
  (V2) `commuting_bound`      A_i with common eigenvectors
  (V3) `scalar_bound`         d = 1, the paper's Lemma 12

Convergence and Accuracy Trade-Offs in Federated Learning and Meta-Learning
    Zachary Charles, Jakub Konecny. AISTATS 2021.
"""

import math
from typing import Any, Optional
import warnings

import numpy as np

from tff_pers.analysis import local_updates
from tff_pers.analysis import surrogate as surrogate_lib


def delta(kappa0: Any, kappa: Any) -> Any:
  """Returns (sqrt kappa0 - sqrt kappa) / (sqrt kappa0 + sqrt kappa)  (Eq. 17).

  In [0, 1] for 1 <= kappa <= kappa0. It concerns the loss of the model before
  clients adapt it, not personalized models.
  """
  return np.tanh((np.log(kappa0) - np.log(kappa)) / 4)


def delta_of_distortion(distortion: local_updates.LogRange) -> float:
  """Returns (sqrt b - sqrt a) / (sqrt b + sqrt a).

  Equal to Eq. 17 if the eigenvalues of Q A increase with those of A, because
  then b / a = kappa0 / kappa. Otherwise only this one measures a distance.

  Args:
    distortion: Range of the logarithms of eigenvalues of Q.
  """
  return math.tanh(distortion.width / 4)


def heterogeneity_bound(surrogate: surrogate_lib.Surrogate) -> float:
  """Returns (V1): (b - a) / (2 lambda_min(H)) E_i ||grad f_i(x*)||.

  Because H (xtil* - x*) = E[(Q_i - s I) A_i (c_i - x*)] for every number s;
  here s = (a + b) / 2. It is 0 if all clients have the same optimum.
  """
  federation = surrogate.federation
  low, high = np.exp(surrogate.distortion_range)
  norms = np.linalg.norm(federation.gradients(federation.optimum), axis=1)
  strong_convexity = surrogate.extremes[0]
  return float((high - low) / (2 * strong_convexity) * federation.mean(norms))


def commuting_bound(surrogate: surrogate_lib.Surrogate) -> float:
  """Returns (V2): 2 Delta sqrt(sum_j max_i c_ij^2) in the common eigenbasis.

  (V3) in every coordinate; at most 2 sqrt(d) C Delta.

  Raises:
    ValueError: If the A_i do not commute.
  """
  basis = _common_basis(surrogate.federation)
  if basis is None:
    raise ValueError(
        '`surrogate` must have Hessians that commute. Tip: heterogeneity_bound'
        ' holds for all.'
    )
  coordinates = surrogate.federation.optima @ basis
  reach = math.sqrt(np.square(coordinates).max(axis=0).sum())
  return 2 * reach * delta_of_distortion(surrogate.distortion_range)


def scalar_bound(surrogate: surrogate_lib.Surrogate) -> float:
  """Returns (V3): 2 C Delta, tight  (Lemma 12).

  Raises:
    ValueError: If d > 1.
  """
  federation = surrogate.federation
  if federation.dim != 1:
    raise ValueError(
        f'`surrogate` must have dimension 1, found {federation.dim}. Tip:'
        ' heterogeneity_bound holds in every dimension.'
    )
  return 2 * federation.radius * delta_of_distortion(
      surrogate.distortion_range
  )


def paper_bound(
    surrogate: surrogate_lib.Surrogate, factor: float = 8.0
) -> float:
  """Returns Eq. 15, factor * C * Delta, which may be wrong for d >= 2.

  Args:
    surrogate: The surrogate loss.
    factor: 8 as printed; 2 as conjectured, and proven for d = 1.

  Warns:
    UserWarning: If d >= 2; says whether the bound fails here.
  """
  federation = surrogate.federation
  bound = factor * federation.radius * delta_of_distortion(
      surrogate.distortion_range
  )
  if federation.dim > 1:
    fails = 'fails' if surrogate.distance > bound else 'holds'
    warnings.warn(
        'The bound of the paper is not valid in two and more dimensions; here'
        f' it {fails}: {bound:.6g} for a distance of {surrogate.distance:.6g}.'
        ' Tip: heterogeneity_bound is valid.', stacklevel=2,
    )
  return bound


def table(surrogate: surrogate_lib.Surrogate) -> list[dict[str, Any]]:
  """Returns a row per bound: `bound`, `value`, `is_valid`, `holds`.

  A bound that does not apply to these clients has no row.
  """
  federation = surrogate.federation
  rows = [('V1', heterogeneity_bound(surrogate), True)]
  if _common_basis(federation) is not None:
    rows.append(('V2', commuting_bound(surrogate), True))
  with warnings.catch_warnings():
    warnings.simplefilter('ignore')  # The rows replace the warning.
    printed = paper_bound(surrogate)
  if federation.dim == 1:
    rows.append(('V3', scalar_bound(surrogate), True))
  rows.append(('paper, 8 C Delta', printed, federation.dim == 1))
  return [
      dict(
          bound=name, value=value, is_valid=valid,
          # Up to rounding: without heterogeneity both sides are 0.
          holds=bool(surrogate.distance <= value + 1e-12 * federation.radius),
      )
      for name, value, valid in rows
  ]


def _common_basis(federation) -> Optional[np.ndarray]:
  """Returns the common eigenvectors of all A_i, or None."""
  # Eigenvalues of one matrix may coincide; those of a random combination only
  # do if those of all matrices do.
  mix = np.random.default_rng(0).uniform(1, 2, len(federation.hessians))
  basis = np.linalg.eigh(np.tensordot(mix, federation.hessians, 1))[1]
  rotated = basis.T @ federation.hessians @ basis
  others = rotated * (1 - np.eye(federation.dim))
  is_common = np.abs(others).max() < 1e-10 * np.abs(rotated).max()
  return basis if is_common else None
