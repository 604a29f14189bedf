"""The table of N models, of which each client deploys its own row."""

from typing import Any, Callable, Optional

import numpy as np
import tensorflow as tf

from tff_pers.aggregators import shuffling as keyed
from tff_pers.algorithms.perm import setting as setting_lib
from tff_pers.composition import deployment
from tff_pers.composition import own_next
from tff_pers.core import process
from tff_pers import tff


def tile(weights: Any, num_models: int) -> Any:
  """Returns the model table whose rows are all `weights`."""
  return tf.nest.map_structure(
      lambda w: tf.tile(w[None], [num_models] + [1] * w.shape.rank), weights
  )


def own_row(state: Any, client: tf.Tensor) -> Any:
  """Returns a client's row of `models`.

  With clusters (see `perm_clusters`) it is model a(i), or w if it has none.
  """
  models = state['models']
  assignment = dict(state).get('assignment', ())
  if not isinstance(assignment, tf.Tensor):
    return tf.nest.map_structure(lambda table: table[client], models)
  cluster = assignment[client]
  return tf.cond(
      cluster >= 0,
      lambda: tf.nest.map_structure(lambda table: table[cluster], models),
      lambda: state['weights'],
  )


def deploying(
    setting: setting_lib.Setting, *, initialize_seeded: tff.Computation,
    next_fn: tff.Computation, dispatch: Optional[tff.Computation] = None,
    deployed: Callable[[Any, Any], Any] = lambda row, data: row,
) -> process.PersonalizedProcess:
  """Returns the process whose clients deploy their rows of `models`.

  `dispatch` sends something else instead of the rows, as in
  `deployment.build_deploy`, and `deployed` turns what clients receive and their
  own data into what they deploy.
  """
  devices, stateless = setting.devices, tff.to_type(())
  state_type = initialize_seeded.type_signature.result.member

  deploy_rows = deployment.build_deploy(
      dispatch or keyed.build_fetch(state_type, own_row, setting.num_clients),
      stateless, setting.data_type,
      lambda row, client_state, data: devices.own_units(
          deployed(row, data), data['index']
      ), devices.deployed,
  )
  return process.PersonalizedProcess(
      initialize_seeded=initialize_seeded,
      initialize_client=own_next.stateless_client(state_type),
      next_fn=next_fn,
      deploy=deploy_rows,
      evaluate=lambda: deployment.build_evaluate(deploy_rows, devices.deployed),
      client_model=tff.tensorflow.computation(
          lambda state, client_state, index: devices.own_units(
              own_row(state, index), index
          ), state_type, stateless, np.int32,
      ),
      deployed=devices.deployed,
  )
