"""Maximum matchings of models to the clients that host them.

The pairs that may be matched are a list of edges, so that the cost grows with
their number, not with models times clients.
"""

import tensorflow as tf

from tff_pers.core import random
from tff_pers.numerics import schedule


def matching(
    clients: tf.Tensor, visits: tf.Tensor, so_far: tf.Tensor,
    available: tf.Tensor, seed: tf.Tensor,
) -> tf.Tensor:
  """Returns a random maximum matching of models to available clients.

  First every model asks one of the free clients, drawn in proportion to its
  remaining visits, so that an unfinished epoch does not change the mixture.
  Every client takes the asking model with the fewest visits so far, ties at
  random, until no model can ask: so all models train equally, however long
  their epochs are. The remaining clients are matched along augmenting paths: a
  matched client stays matched, so the matching has maximum cardinality. Cost
  per turn of asking and per step of the search: O(edges + models + clients);
  there are few of both.

  Args:
    clients: int32[C, K]; row i of C models, clients in any order.
    visits: int32[C, K], how often model i still has to visit them; a client
      with > 0 visits occurs once per row.
    so_far: int32[C], number of past visits of each model.
    available: bool[N], the clients of this cohort.
    seed: int64[2] key of the draws.

  Returns:
    int32[C], client hosting model i in this round, -1 for none.
  """
  num_models = clients.shape[0]
  edges = tf.where(tf.logical_and(visits > 0, tf.gather(available, clients)))
  models = tf.cast(edges[:, 0], tf.int32)
  ties = tf.random.stateless_uniform([num_models], seed)
  # Visits are integers and a tie-break adds less than 1/2, so ties never change
  # the order of different numbers of visits.
  priority = tf.argsort(tf.cast(so_far, tf.float32) + 0.5 * ties, stable=True)
  rank = tf.math.invert_permutation(priority)
  hosts = tf.gather_nd(clients, edges)
  likes = _likes(tf.gather_nd(visits, edges), random.fold_in(seed, 1))
  owners = _by_asking(models, hosts, rank, likes, available.shape[0])
  owners = _augmented(models, hosts, rank, owners)
  return schedule.owners(owners, num_models)  # Inverted: by model.


def _likes(visits, seed):
  """Returns distinct int32[E]; the largest is an edge drawn by its visits.

  log(visits) plus Gumbel noise is largest with probability in proportion to the
  visits.
  """
  uniform = tf.random.stateless_uniform(tf.shape(visits), seed, 1e-7)
  gumbel = -tf.math.log(-tf.math.log(uniform))
  order = tf.argsort(tf.math.log(tf.cast(visits, tf.float32)) + gumbel)
  return tf.math.invert_permutation(order)


def _by_asking(models, clients, rank, likes, num_clients: int):
  """Returns a maximal matching, int32[N] by client, -1 for none.

  Args:
    models: int32[E], models of the edges.
    clients: int32[E], clients of the edges.
    rank: int32[C]; a client takes the asking model of smallest rank.
    likes: int32[E], distinct and >= 0, preference of the model for the client.
    num_clients: N.
  """
  num_models = rank.shape[0]

  def turn(owners, _):
    can_ask = tf.logical_and(
        tf.gather(owners, clients) < 0,
        tf.gather(schedule.owners(owners, num_models) < 0, models),
    )
    wishes = tf.where(can_ask, likes, -1)
    best = tf.math.unsorted_segment_max(wishes, models, num_models)
    asks = tf.logical_and(can_ask, tf.equal(wishes, tf.gather(best, models)))
    ranks = tf.where(asks, tf.gather(rank, models), num_models)
    first = tf.math.unsorted_segment_min(ranks, clients, num_clients)
    taken = tf.where(
        tf.logical_and(asks, tf.equal(ranks, tf.gather(first, clients)))
    )
    owners = tf.tensor_scatter_nd_update(
        owners, tf.gather(clients, taken), tf.gather(models, taken[:, 0])
    )
    return owners, tf.reduce_any(can_ask)

  owners, _ = tf.while_loop(
      lambda owners, goes_on: goes_on, turn,
      (tf.fill([num_clients], -1), tf.constant(True)),
  )
  return owners


def _augmented(models, clients, rank, owners):
  """Returns a maximum matching, from a matching `owners` int32[N] by client.

  Alternating trees grow from all free clients at once, along edges to models
  and back along matched pairs. Trees share no model, so one path of each tree
  that ends at a free model can be flipped at the same time. If no tree has one,
  there is no augmenting path (Berge).
  """
  num_models, num_clients = rank.shape[0], owners.shape[0]

  def flip_one_path_of_each_tree(owners, _):
    parent, root = _grow(models, clients, owners, num_models)
    is_end = tf.logical_and(
        parent >= 0, schedule.owners(owners, num_models) < 0
    )
    ends = tf.where(is_end)[:, 0]
    trees = tf.gather(root, tf.gather(parent, ends))
    best = tf.math.unsorted_segment_min(
        tf.gather(rank, ends), trees, num_clients
    )
    is_chosen = tf.equal(tf.gather(rank, ends), tf.gather(best, trees))
    chosen = tf.cast(tf.boolean_mask(ends, is_chosen), tf.int32)
    return _flip(parent, owners, chosen), tf.size(chosen) > 0

  owners, _ = tf.while_loop(
      lambda owners, goes_on: goes_on, flip_one_path_of_each_tree,
      (owners, tf.constant(True)),
  )
  return owners


def _grow(models, clients, owners, num_models: int):
  """Grows an alternating tree from every free client, breadth first.

  Returns:
    `(parent, root)`: int32[C], the client from which a model was reached; and
    int32[N], the free client in whose tree a client is; -1: not reached.
  """
  num_clients = owners.shape[0]

  def step(parent, root, frontier):
    reaches = tf.where(
        tf.logical_and(
            tf.gather(frontier, clients), tf.gather(parent, models) < 0
        ),
        clients, -1,
    )
    via = tf.math.unsorted_segment_max(reaches, models, num_models)
    # Not reached: -1, or the smallest integer for a model without an edge.
    is_new = via >= 0
    parent = tf.where(is_new, via, parent)
    hosted = tf.maximum(owners, 0)
    frontier = tf.logical_and(owners >= 0, tf.gather(is_new, hosted))
    root = tf.where(
        frontier,
        tf.gather(root, tf.maximum(tf.gather(parent, hosted), 0)), root,
    )
    return parent, root, frontier

  is_free = owners < 0
  parent, root, _ = tf.while_loop(
      lambda parent, root, frontier: tf.reduce_any(frontier), step,
      (
          tf.fill([num_models], -1),
          tf.where(is_free, tf.range(num_clients), -1), is_free,
      ),
  )
  return parent, root


def _flip(parent, owners, ends):
  """Flips the paths that end at the free models `ends` int32[P]."""

  def step(current, owners):
    # The model moves to the client from which it was reached, and leaves its
    # previous one; a root had none.
    hosts = tf.gather(parent, current)
    had = tf.gather(owners, hosts)
    owners = tf.tensor_scatter_nd_update(owners, hosts[:, None], current)
    return tf.boolean_mask(had, had >= 0), owners

  return tf.while_loop(
      lambda current, owners: tf.size(current) > 0, step, (ends, owners),
      shape_invariants=(tf.TensorShape([None]), owners.shape),
  )[1]
