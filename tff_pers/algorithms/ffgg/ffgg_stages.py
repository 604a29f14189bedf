"""Server and stages of FFGG and Local FFGG.

  1. Pre-training, if requested: FedAvg of all weights, to get theta^0 and w^0.
  2. Training: clients fine-tune w and send an update of theta.
  3. Final fine-tuning: with frozen theta, each client trains w before it is
     evaluated.

Partially Personalized Federated Learning: Breaking the Curse of Data
Heterogeneity
    Mishchenko, Islamov, Gorbunov, Horvath. TMLR 2025. Section 5.3 of the
    spec sheet: the pipeline of the experiments on real data.
"""

import collections
from typing import Any, Callable, Mapping, Optional

import tensorflow as tf

from tff_pers import composition
from tff_pers.algorithms.ffgg import ffgg_private
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.core import process
from tff_pers.models import partition
from tff_pers.numerics import distances


def compose(
    parts: partition.Partition,
    work: client_work.ClientWork,
    private: ffgg_private.PrivateWeights,
    hyperparameters: ffgg_private.Hyperparameters,
    *,
    scale: Callable[[Mapping[str, Any]], tf.Tensor],
    client_weighting: str,
    model_aggregator: Optional[composition.Aggregator] = None,
) -> process.PersonalizedProcess:
  """Composes clients that send updates of theta with the server.

    server  : theta <- theta - gamma_theta * mean of the updates

  Server state: `weights` theta; `optimizer` if it is not plain; with
  pre-training `private`, w^0, and `pretraining`, its optimizer. Stateful
  clients keep w. Deploys (theta, w) after the final fine-tuning.

  Two metrics tell whether the split suits the data, both means with the weights
  of the clients. `mean_squared_norm` is mean_m ||F_m||^2: if it is tiny from
  the beginning, so much is private that theta gets no signal; if it stays large
  while `norm_of_mean` ||mean_m F_m|| goes to 0, no theta suits all clients: the
  model is not overpersonalized. In stage 1, F_m is the sum of a client's
  gradients with respect to theta.

  Args:
    parts: The model and its split.
    work: The client work of stage 2; its update is <weights>.
    private: The private weights, see `ffgg_private.PrivateWeights`.
    hyperparameters: Those of the method.
    scale: `(message) -> scalar`: in stage 2 a client sends F_m times this.
    client_weighting: Weights of the clients in stage 1.
    model_aggregator: Replaces the weighted mean, e.g. by a robust rule.
  """
  pretrains = bool(hyperparameters.pretrain_rounds)
  server = _Server(
      hyperparameters, hyperparameters.server_learning_rate, parts.model.dtype
  )
  first_server = _Server(
      hyperparameters, hyperparameters.pretrain_server_learning_rate,
      parts.model.dtype,
  )

  def init(seed):
    theta, own = parts.initial_weights(seed)
    fields = collections.OrderedDict(weights=theta)
    fields.update(server.start('optimizer', theta))
    if pretrains:
      fields['private'] = own
      fields.update(first_server.start('pretraining', (theta, own)))
    return fields

  def send(state):
    names = ('weights', 'private') if pretrains else ('weights',)
    return {name: state[name] for name in names}

  def personalize(state, mean):
    return server.step(
        'optimizer', state, state['weights'], mean['weights'], ('weights',)
    )

  def pretrain(state, mean):
    return first_server.step(
        'pretraining', state, (state['weights'], state['private']),
        (mean['weights'], mean['private']), ('weights', 'private'),
    )

  def finalize(state, mean):
    if not pretrains:
      return personalize(state, mean)
    same = lambda: {
        name: state[name] for name in state
        if name not in ('seed', 'round', 'aggregator')
    }
    return tf.cond(
        state['round'] < hyperparameters.pretrain_rounds,
        lambda: collections.OrderedDict(same(), **pretrain(state, mean)),
        lambda: collections.OrderedDict(same(), **personalize(state, mean)),
    )

  def deploy(message, kept, data):
    own = private.tune_finally(message, kept, data)
    return parts.merge(message['weights'], own)

  def client_model(state, kept, index):
    del index  # Not needed.
    own = kept
    if not hyperparameters.stateful:
      own = ffgg_private.initial(parts, state)
    return parts.merge(state['weights'], own)

  def scale_of_round(state_or_message):
    later = scale(state_or_message)
    if not pretrains:
      return later
    return tf.where(
        state_or_message['round'] < hyperparameters.pretrain_rounds,
        *(
            tf.convert_to_tensor(rate, tf.float64) for rate in
            (_pretrain_rate(hyperparameters, state_or_message), later)
        ),
    )

  if pretrains:
    work = _after_pretraining(parts, work, hyperparameters, client_weighting)
  return composition.compose(
      parts.model,
      init=init,
      send=send,
      work=_with_norm(work, scale_of_round),
      aggregator=model_aggregator,
      finalize=finalize,
      init_client=(
          (lambda seed: parts.initial_weights(seed)[1])
          if hyperparameters.stateful else (lambda seed: ())
      ),
      deploy=deploy,
      client_model=client_model,
      measure=lambda state, mean: dict(
          norm_of_mean=tf.sqrt(
              _squared_norm(mean['weights'], scale_of_round(state))
          )
      ),
  )


def _with_norm(work: client_work.ClientWork, scale) -> client_work.ClientWork:
  """Returns client work that also reports ||F_m||^2."""

  def update(message, kept, data):
    output = work.update(message, kept, data)
    squared = _squared_norm(output.update['weights'], scale(message))
    return output._replace(metrics=dict(mean_squared_norm=squared))

  return client_work.ClientWork(update)


def _squared_norm(update, scale):
  """Returns ||update / scale||^2 over all leaves, a scalar."""
  vector = distances.flatten(update)
  scale = tf.convert_to_tensor(scale, dtype_hint=vector.dtype)
  return tf.reduce_sum(tf.square(vector / tf.cast(scale, vector.dtype)))


class _Server:
  """Server steps, plain or of an optimizer stored in the server state."""

  def __init__(self, hyperparameters, learning_rate: float, dtype):
    self._rate = learning_rate
    self._optimizer = hyperparameters.build_server_optimizer(
        learning_rate, dtype
    )

  def start(self, field: str, weights):
    if self._optimizer is None:
      return {}
    specs = tf.nest.map_structure(
        lambda w: tf.TensorSpec(w.shape, w.dtype), weights
    )
    return {field: self._optimizer.initialize(specs)}

  def step(self, field: str, state, weights, mean, names):
    """Returns the updated fields of the state."""
    changed = {}
    if self._optimizer is None:
      weights = local_sgd.descend(weights, mean, self._rate)
    else:
      changed[field], weights = self._optimizer.next(
          state[field], weights, mean
      )
    weights = weights if len(names) > 1 else (weights,)
    return {**changed, **dict(zip(names, weights))}


def _after_pretraining(
    parts: partition.Partition,
    work: client_work.ClientWork,
    hyperparameters: ffgg_private.Hyperparameters,
    client_weighting: str,
) -> client_work.ClientWork:
  """Returns client work: stage 1 in its rounds, then stage 2."""

  def pretrain(message, kept, data):
    weights = parts.merge(message['weights'], message['private'])
    final, loss = local_sgd.train(
        parts.model, weights, data,
        learning_rate=_pretrain_rate(hyperparameters, message),
        seed=client_work.key(message, data),
        local=local_step.build(hyperparameters), **hyperparameters.budget(),
    )
    theta, own = parts.split(local_sgd.difference(weights, final))
    return client_work.ClientOutput(
        client_state=kept,
        update=collections.OrderedDict(weights=theta, private=own),
        weight=client_work.client_weight(
            client_weighting, data, hyperparameters.batch_size
        ),
        loss=loss,
        bytes_up=_num_bytes(parts, (0, 1)),
    )

  def personalize(message, kept, data):
    output = work.update(message, kept, data)
    # Zeros of the aggregate's type; nothing private is sent in this stage.
    nothing = tf.nest.map_structure(tf.zeros_like, message['private'])
    return output._replace(
        update=collections.OrderedDict(output.update, private=nothing),
        bytes_up=_num_bytes(parts, (0,)),
    )

  def update(message, kept, data):
    return tf.cond(
        message['round'] < hyperparameters.pretrain_rounds,
        lambda: pretrain(message, kept, data),
        lambda: personalize(message, kept, data),
    )

  return client_work.ClientWork(update)


def _pretrain_rate(hyperparameters, message):
  """Returns the step size of the clients in a round of stage 1."""
  return local_step.scheduled(
      hyperparameters.of_pretraining(), message, hyperparameters.pretrain_rate
  )


def _num_bytes(parts: partition.Partition, sides):
  """Returns the bytes of parts of the weights, a float32."""
  counts = parts.num_parameters()
  size = parts.model.dtype.size
  return tf.constant(float(size * sum(counts[side] for side in sides)))
