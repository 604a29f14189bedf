"""Who hosts whose model: shuffling schedules and matchings."""

import tensorflow as tf

from tff_pers import random


def permutation(seed, epoch, num_clients: int, use: int = 0):
  """Returns sigma_epoch, a uniform permutation of 0..N-1 keyed by the epoch.

  Args:
    seed: Integer scalar, the run's seed.
    epoch: Integer scalar >= 0.
    num_clients: N.
    use: Keeps this draw apart from others of the same seed.

  Returns:
    int32[N].
  """
  return tf.random.experimental.stateless_shuffle(
      tf.range(num_clients), random.key(seed, use, epoch)
  )


def hosts(seed, visit_round, num_clients: int, use: int = 0):
  """Returns the client that hosts each model: sigma_r[(i + j) mod N] (Alg. 1).

  Round t of the shuffling is round j = t mod N of epoch r = t div N. For fixed
  t this is a bijection; over an epoch every model meets every client once.

  Args:
    seed: The run's seed.
    visit_round: t >= 0, counted from the first round with visits.
    num_clients: N.
    use: See `permutation`.

  Returns:
    int32[N], indexed by the model's owner.
  """
  epoch, j = visit_round // num_clients, visit_round % num_clients
  sigma = permutation(seed, epoch, num_clients, use)
  return tf.gather(sigma, (tf.range(num_clients) + j) % num_clients)


def owners(hosts_of_models, num_clients: int):
  """Inverts `hosts`: the model that each client hosts, -1 for none; and back.

  Args:
    hosts_of_models: int32[N], client hosting model i, -1 if none.
    num_clients: N.

  Returns:
    int32[N], indexed by the client.
  """
  # Models without a host are left out: -1 is no index to scatter to.
  visited = tf.where(hosts_of_models >= 0)[:, 0]
  return tf.tensor_scatter_nd_update(
      tf.fill([num_clients], -1),
      tf.gather(hosts_of_models, visited)[:, None],
      tf.cast(visited, tf.int32),
  )


def matching(pending, available, seed):
  """Returns a random maximum matching of models to available clients.

  First every model asks the free client that it likes best, and every client
  takes the model with the most pending clients that asks, ties at random, until
  nobody can ask. Models that are left are matched along augmenting paths: a
  matched model stays matched, so the matching has maximum cardinality. Cost:
  O(N^2) per turn of asking, which are few, and per model that is left.

  Args:
    pending: bool[N, N]; row i, the clients that model i has still to visit.
    available: bool[N], the clients of this cohort.
    seed: int64[2] key of the draws.

  Returns:
    int32[N], client hosting model i in this round, -1 for none.
  """
  num_models = pending.shape[0]
  ties = tf.random.stateless_uniform([num_models], seed)
  edges = tf.logical_and(pending, available[None, :])
  counts = tf.reduce_sum(tf.cast(pending, tf.float32), axis=1)
  # Counts are integers and a tie adds less than 1/2, so ties never overturn a
  # difference in counts.
  priority = tf.argsort(-(counts + 0.5 * ties), stable=True)
  likes = tf.random.stateless_uniform(
      [num_models, num_models], random.fold_in(seed, 1)
  )
  asked = _by_asking(edges, tf.math.invert_permutation(priority), likes)
  left = tf.boolean_mask(priority, tf.gather(asked, priority) < 0)

  def is_open(position, owner):
    is_free = tf.logical_and(available, owner < 0)
    return tf.logical_and(position < tf.size(left), tf.reduce_any(is_free))

  def augment(position, owner):
    return position + 1, _augment(edges, owner, left[position])

  _, owner = tf.while_loop(
      is_open, augment, (tf.constant(0), owners(asked, num_models))
  )
  return owners(owner, num_models)  # By model again.


def _by_asking(edges, rank, likes):
  """Returns a maximal matching, int32[N] by model, -1 for none.

  Args:
    edges: bool[N, N], which models may ask which clients.
    rank: int32[N]; a client takes the model of the smallest that asks.
    likes: float[N, N], how much models like clients, >= 0.
  """
  num_models = rank.shape[0]

  def turn(hosts, _):
    is_free = owners(hosts, num_models) < 0
    can_ask = tf.logical_and(
        edges, tf.logical_and(is_free[None, :], hosts[:, None] < 0)
    )
    asks = tf.reduce_any(can_ask, axis=1)
    wish = tf.argmax(
        tf.where(can_ask, likes, -1.0), axis=1, output_type=tf.int32
    )
    best = tf.math.unsorted_segment_min(
        tf.where(asks, rank, num_models), wish, num_models
    )
    taken = tf.logical_and(asks, tf.equal(tf.gather(best, wish), rank))
    return tf.where(taken, wish, hosts), tf.reduce_any(asks)

  hosts, _ = tf.while_loop(
      lambda hosts, goes_on: goes_on, turn,
      (tf.fill([num_models], -1), tf.constant(True)),
  )
  return hosts


def _augment(edges, owner, model):
  """Adds `model` to the matching `owner` (int32[N] by client) if it can be.

  Breadth-first search from `model` along edges, and back along matched pairs;
  `parent[c]` is the model from which client c was reached, -1 if it was not.
  """
  num_models = owner.shape[0]

  def may_grow(parent, frontier):
    found = tf.logical_and(parent >= 0, owner < 0)
    return tf.logical_and(
        tf.reduce_any(frontier), tf.logical_not(tf.reduce_any(found))
    )

  def grow(parent, frontier):
    reachable = tf.logical_and(edges, frontier[:, None])  # [model, client]
    new = tf.logical_and(tf.reduce_any(reachable, axis=0), parent < 0)
    via = tf.argmax(tf.cast(reachable, tf.int32), axis=0, output_type=tf.int32)
    parent = tf.where(new, via, parent)
    matched = tf.boolean_mask(owner, tf.logical_and(new, owner >= 0))
    frontier = tf.reduce_any(
        tf.one_hot(matched, num_models, True, False, dtype=tf.bool), axis=0
    )
    return parent, frontier

  parent, _ = tf.while_loop(
      may_grow, grow,
      (
          tf.fill([num_models], -1),
          tf.equal(tf.range(num_models), model),
      ),
  )
  free = tf.logical_and(parent >= 0, owner < 0)

  def flip(client, current):
    via = parent[client]
    # Model `via` moves to `client` and leaves the one that it had, if any.
    previous = tf.argmax(
        tf.cast(tf.equal(current, via), tf.int32), output_type=tf.int32
    )
    # `argmax` also returns 0 if no entry is set, and 0 is a client.
    had = tf.reduce_any(tf.equal(current, via))
    current = tf.tensor_scatter_nd_update(current, [[client]], [via])
    return tf.where(had, previous, -1), current

  def apply_path():
    start = tf.argmax(tf.cast(free, tf.int32), output_type=tf.int32)
    return tf.while_loop(lambda client, _: client >= 0, flip, (start, owner))[1]

  return tf.cond(tf.reduce_any(free), apply_path, lambda: owner)
