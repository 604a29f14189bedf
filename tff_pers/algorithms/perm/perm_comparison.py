"""How PERM compares clients, whose models may be of different width.

    d_ij = ||m * (G_i - G_j)||^2 / share of the coordinates in m,
    c_j  = d_ij + rho sqrt(VC / n_j)

where m keeps the coordinates that both have (compare=all: all coordinates).
Where all clients have the whole model it is ||G_i - G_j||^2, and nothing is
added. See `perm_devices` for what clients have; the formulas are ours.
"""


import tensorflow as tf

from tff_pers.algorithms.perm import perm_devices
from tff_pers.models import submodels
from tff_pers.numerics import distances


def pairwise(
    devices: perm_devices.Devices, vectors: tf.Tensor, is_known: tf.Tensor,
    clients: tf.Tensor, owners: tf.Tensor,
) -> tf.Tensor:
  """Returns d_ij of rows `owners` to all rows, floats [M, R].

  Args:
    devices: What the clients' devices hold.
    vectors: Gradients, floats [R, d].
    is_known: bool[R]; rows of others are 0.
    clients: int32[R], whose they are.
    owners: int32[M], numbers of rows.
  """
  if devices.parts is None or devices.compare == 'all':
    return distances.gram_distances(
        distances.center(vectors, is_known), owners
    )
  both = _both(devices, clients, tf.gather(clients, owners))
  masks, total = _masks(devices.parts), 0
  for k, share in enumerate(devices.shares):
    apart = distances.gram_distances(
        distances.center(vectors * masks[k], is_known), owners
    )
    total += tf.where(
        tf.equal(both, k), apart / tf.constant(share, apart.dtype), 0
    )
  return total


def to_one(
    devices: perm_devices.Devices, vectors: tf.Tensor, vector: tf.Tensor,
    clients: tf.Tensor, client: tf.Tensor,
) -> tf.Tensor:
  """Returns ||g_j - g||^2 of the rows g_j to another gradient, floats [R].

  Args:
    devices: What the clients' devices hold.
    vectors: Gradients, floats [R, d].
    vector: A gradient of client `client`, floats [d].
    clients: int32[R], whose the rows are.
    client: int32 scalar.
  """
  squared = tf.square(vectors - vector)
  if devices.parts is None or devices.compare == 'all':
    return tf.reduce_sum(squared, axis=1)
  both = _both(devices, clients, client[None])[0]
  own = squared * tf.gather(_masks(devices.parts), both)
  shares = tf.constant(devices.shares, vectors.dtype)
  return tf.reduce_sum(own, axis=1) / tf.gather(shares, both)


def with_capacity(
    devices: perm_devices.Devices, c: tf.Tensor, clients: tf.Tensor,
    owners: tf.Tensor, sizes: tf.Tensor,
) -> tf.Tensor:
  """Returns c_j = d_ij + rho sqrt(VC / n_j), floats [M, R].

  Args:
    devices: What the clients' devices hold.
    c: d_ij, floats [M, R].
    clients: int32[R], the sources j.
    owners: int32[M], the learners i, as indices of clients.
    sizes: n_j, float32[R].
  """
  if devices.parts is None or not devices.vc:
    return c
  numbers = [float(tier.num_parameters) for tier in devices.parts.tiers]
  of_learner = devices.vc_of == 'learner'
  dimension = tf.gather(
      numbers, devices.tier(owners)[:, None] if of_learner
      else devices.tier(clients)[None],
  )
  added = devices.vc * tf.sqrt(dimension / tf.maximum(sizes, 1.0))
  return c + tf.cast(added, c.dtype)


def scaled_variance(
    devices: perm_devices.Devices, variance: tf.Tensor, index: tf.Tensor
) -> tf.Tensor:
  """Returns the variance of a client's gradient, in units of distances.

  Args:
    devices: What the clients' devices hold.
    variance: Scalar.
    index: The client, an int32 scalar.
  """
  if devices.parts is None or devices.compare == 'all':
    return variance
  return variance / tf.cast(devices.share(index), variance.dtype)


def _both(devices, clients, owners):
  """Returns the tier whose coordinates two clients share, int32[M, R]."""
  return devices.narrower(devices.tier(owners)[:, None], devices.tier(clients))


def _masks(parts: submodels.Submodels):
  """Returns which coordinates of a gradient each tier has, [tiers, d]."""
  return tf.stack([
      distances.flatten(submodels.mask(parts.base, parts.static(k)))
      for k in range(len(parts.widths))
  ])
