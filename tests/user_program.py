"""A user's program as a type checker sees it: `make types` reads it, nobody runs it.

An `ignore` that nothing needs is an error of `make types`: so it fails if one of
the wrong lines below is no longer found, or a right one is.
"""

import numpy as np
import tensorflow as tf

import tff_pers
from tff_pers.algorithms import build_perm


def right() -> None:
  """What the package says about itself."""
  model = tff_pers.from_keras(tf.keras.Sequential(), 'mse')
  process = tff_pers.build_perm(model, num_clients=5)
  name: str = model.name
  is_stateful: bool = process.is_stateful
  client = tff_pers.dense(0, np.zeros([2, 3]), np.zeros(2))
  data = tff_pers.simulation.program.Data([client], [client])
  with tff_pers.ClientStateStore('checkpoint') as states:
    program = tff_pers.TrainingProgram(process, data, states)
    losses: dict[str, float] = program.train_round([0])
  print(name, is_stateful, losses)


def wrong(model: tff_pers.FunctionalModel) -> None:
  """What it must not take."""
  tff_pers.build_perm(model, num_clients='5')  # type: ignore[arg-type]
  tff_pers.build_ffgg(model)  # type: ignore[arg-type]
  build_perm(model, 5, learning_rate=0.1)  # type: ignore[call-arg]
  tff_pers.dense('first', np.zeros(1), np.zeros(1))  # type: ignore[arg-type]
  tff_pers.build_prem(model, 5)  # type: ignore[attr-defined]
  process = tff_pers.build_perm(model, 5)
  rounds: str = process.is_stateful  # type: ignore[assignment]
  print(rounds)
