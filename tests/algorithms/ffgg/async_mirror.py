"""Asynchronous FFGG in NumPy, and the tables of docs/ffgg.md that it makes.

    python -m tests.algorithms.ffgg.async_mirror

takes half a minute. Algorithm 3 with w solved exactly, so that a message is
F_m at the theta of its dispatch. A test holds it equal to the product.
"""

from typing import Collection

import numpy as np

from tests.algorithms import least_squares
from tests import built
from tff_pers.simulation import asynchrony
from tff_pers.simulation import asynchrony_delays

_CLIENTS, _SEEDS, _TARGET = 20, (0, 1, 2), 1e-7


def path(
    oracle: least_squares.LeastSquares, events: asynchrony.Schedule, step: float,
    num_updates: int, byzantine: Collection[int] = (),
) -> np.ndarray:
  """Returns theta after each update, float64[R, d], from theta = 0.

  Clients in `byzantine` send -10 times the mean of the honest ones among the
  last P messages, theirs included; 0 if there is none.
  """
  theta, sent = np.zeros(len(oracle.root)), 0
  answers, thetas, arrived = {}, [], []
  for update in range(num_updates):
    while sent < len(events.client) and events.sent_after[sent] <= update:
      answers[sent] = oracle.operators(theta)[events.client[sent]]
      sent += 1
    task = int(events.order[update])
    client, message = int(events.client[task]), answers.pop(task)
    arrived = [*arrived, (client, message)][-events.in_flight:]
    if client in byzantine:
      honest = [known for one, known in arrived if one not in byzantine]
      message = -10 * np.sum(honest, axis=0) / max(len(honest), 1)
    theta = theta - step * message
    thetas.append(theta)
  return np.array(thetas)


def noise_of_draws(oracle: least_squares.LeastSquares, number: int) -> float:
  """Returns how far uniform draws put the mean of R thetas from theta*.

  The mean message tends to 0, and F_m is affine in theta. A client is drawn
  without regard to theta, so the mean of theta is theta* but for who was drawn:
  the root mean square is sqrt(tr(H^-1 C H^-T) / R), H the mean Jacobian of the
  F_m, C the covariance of F_m(theta*) over clients.
  """
  at_root = oracle.operators(oracle.root)
  jacobian = np.stack([
      np.mean(oracle.operators(oracle.root + unit) - at_root, axis=0)
      for unit in np.eye(len(oracle.root))
  ], axis=1)
  apart = np.linalg.solve(jacobian, np.transpose(at_root))
  return np.sqrt(np.mean(np.sum(apart**2, axis=0)) / number)


def _problem(name: str, seed: int) -> least_squares.LeastSquares:
  return least_squares.LeastSquares(built.task(name, seed=seed))


def _events(delays: str, in_flight: int, number: int, seed: int, **options):
  return asynchrony.make_schedule(
      asynchrony_delays.build(delays, '', range(_CLIENTS)), _CLIENTS, in_flight,
      number, seed=seed, **options,
  )


def _theorem(oracle, events, number: int) -> float:
  """Returns the step of Theorem 7."""
  return 1 / (2 * oracle.smoothness * np.sqrt(
      2 * events.in_flight * events.max_delay(number)
  ))


def _print_times(number: int = 3000) -> None:
  print('| delays | step | virtual seconds to 1e-7 | distance at the end |')
  print('|---|---|---|---|')
  for delays in (
      'exponential[slow=10]', 'constant[slow=10]', 'lognormal[slow=10]',
      'pareto[shape=1.5]',
  ):
    for name in ('auto', 'theorem'):
      times, ends = [], []
      for seed in _SEEDS:
        oracle = _problem('overpersonalized', seed)
        events = _events(delays, 5, number, seed)
        step = 1 / (oracle.smoothness * 5)
        if name == 'theorem':
          step = _theorem(oracle, events, number)
        thetas = path(oracle, events, step, number)
        apart = np.linalg.norm(thetas - oracle.root, axis=1)
        found = np.flatnonzero(apart <= _TARGET)
        times.append(f'{events.time_of(found[0] + 1):.0f}' if found.size else '-')
        ends.append(f'{apart[-1]:.0e}')
      print(f'| `{delays}` | {name} | {", ".join(times)} | {", ".join(ends)} |')


def _print_bias(number: int = 20000) -> None:
  print('| next client | P | fastest / slowest | distance of the mean |')
  print('|---|---|---|---|')
  for redispatch in asynchrony.REDISPATCH:
    for in_flight in (5, 10, 20):
      ratios, apart = [], []
      for seed in _SEEDS:
        oracle = _problem('overpersonalized_control', seed)
        events = _events(
            'exponential[slow=10]', in_flight, number, seed,
            redispatch=redispatch,
        )
        step = _theorem(oracle, events, number)
        late = path(oracle, events, step, number)[number // 4:]
        apart.append(np.linalg.norm(late.mean(axis=0) - oracle.root))
        heard = np.bincount(
            events.client[events.order], minlength=_CLIENTS
        )
        ratios.append(heard[0] / heard[-1] if heard[-1] else np.inf)
      print(
          f'| `{redispatch}` | {in_flight} | {np.median(ratios):.2f} |'
          f' {np.mean(apart):.3f} |'
      )
  noise = [
      noise_of_draws(_problem('overpersonalized_control', seed), number * 3 // 4)
      for seed in _SEEDS
  ]
  print(f'\nBy the noise of uniform draws alone: {np.mean(noise):.3f}')


if __name__ == '__main__':
  _print_times()
  print()
  _print_bias()
