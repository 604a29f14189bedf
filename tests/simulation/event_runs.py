"""Runs of events in tests: a program on quadratics, driven step by step."""

import numpy as np

from tests import problems
from tff_pers.simulation import asynchrony
from tff_pers.simulation import asynchrony_delays
from tff_pers.simulation import asynchrony_program
from tff_pers.simulation import program
from tff_pers.simulation import store


def two_clients() -> problems.Quadratics:
  """f_i = (w - c_i)^2 / 2, c = (0, 1), start 0.5 (baselines 8.1)."""
  return problems.Quadratics(
      np.ones([2, 1, 1]), np.array([[0.0], [1.0]]), [1, 1], np.array([0.5])
  )


class Durations:
  """Every visit of client c takes `seconds[c]`."""

  def __init__(self, *seconds):
    self._seconds = seconds

  def draw(self, generator, client, visit):
    del generator, visit  # Always the same.
    return self._seconds[client]


def schedule(
    num_clients, num_updates, *, seed=0, delays=None, in_flight=None, **options
) -> asynchrony.Schedule:
  """Returns a schedule; all clients are at work unless told otherwise."""
  delays = delays or asynchrony_delays.build(
      'exponential[slow=10]', '', range(num_clients)
  )
  return asynchrony.make_schedule(
      delays, num_clients, in_flight or num_clients, num_updates, seed=seed,
      **options,
  )


def trainer(process, clients, events, states=None, **options):
  """Returns the program of a process on these clients."""
  return asynchrony_program.AsynchronousProgram(
      process, program.Data(clients, clients), states or store.ClientStateStore(),
      events, **options,
  )


def updates(training, number):
  """Yields the server state after each of the next server updates."""
  for _ in range(number):
    training.train_round(training.sampler(0, training.position.round))
    yield training.state
