"""Attacks on methods driven by events, from the flags of `train` on."""

import types

import numpy as np
import pytest

from binaries import train
from tests.algorithms import least_squares
from tests.algorithms.ffgg import async_mirror
from tff_pers.evaluation import results
from tff_pers.experiments import experiment
from tff_pers.experiments import flags

_FLAGS = dict(
    task='overpersonalized', num_clients=6, num_byzantine=2, attack='ipm',
    in_flight=3, rounds=12, eval_every=1,
)
_FEDBUFF = (
    'fedbuff[buffer_size=1,exponent=0,local_steps=1,learning_rate=0.2]'
)


def _messages(algo, oracle):
  """Returns what `async_mirror.path` needs: a start, and honest messages."""
  if algo == 'async_ffgg':
    return oracle
  # One step of gradient descent on theta and w, the model of all.
  shared = len(oracle.root)
  return types.SimpleNamespace(
      root=np.zeros(shared + oracle.d.shape[-1]),
      operators=lambda x: np.concatenate(
          oracle.gradient(x[:shared], np.tile(x[shared:], [len(oracle.y), 1])),
          axis=1,
      ),
  )


@pytest.mark.parametrize('algo', ['async_ffgg', _FEDBUFF])
def test_attackers_send_minus_what_the_last_messages_say(algo, tmp_path):
  """By NumPy after every message; without an attack the path is another."""
  given = dict(_FLAGS, algo=algo)
  assert train.main(
      ['train', *flags.as_words(given), f'--output_dir={tmp_path}']
  ) == 0
  found = results.read_run(str(tmp_path)).metrics['distance']
  table = flags.all_flags(flags.own_flag('algo', '', ''))
  built = experiment.build(given, table)
  events, byzantine = built.plan.schedule, np.flatnonzero(built.task.byzantine)
  oracle = least_squares.LeastSquares(built.task)
  step = 0.2 if algo == _FEDBUFF else 1 / (3 * oracle.smoothness)
  optimum = built.task.optimum[0][0]

  def distances(byzantine):
    path = async_mirror.path(
        _messages(algo, oracle), events, step, 12, byzantine
    )
    return np.linalg.norm(path[:, :len(optimum)] - optimum, axis=1)

  expected = distances(byzantine)
  np.testing.assert_allclose(found, expected, rtol=1e-9)
  assert abs(expected[-1] - distances(())[-1]) > 0.1
