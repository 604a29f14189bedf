"""Records what byzfl's rules make of fixed vectors, for `byzfl_test`.

In an environment of its own, because byzfl needs PyTorch:

    pip install byzfl==0.0.11
    python tests/numerics/robust/record_byzfl.py

Writes byzfl.json beside this file. Prints the mean squared errors of some rules
under attack, 20 honest normal messages of 20 numbers and 5 others, relative to
the spread of the honest ones (the table of properties_test).
"""

import inspect
import json
import pathlib

import byzfl
import numpy as np

F = 3


def _filter():
  """Returns byzfl's CAF with two changes.

  The power method converges (byzfl takes one step from a random vector), and
  the largest tau is that of the messages that still count.
  """
  source = inspect.getsource(byzfl.CAF)
  for before, after in (
      ('max_iters=1)', 'max_iters=999)'), ('tau.max()', 'tau[c > 0].max()'),
  ):
    assert before in source
    source = source.replace(before, after)
  names = dict(inspect.getmodule(byzfl.CAF).__dict__)
  exec(source, names)  # pylint: disable=exec-used
  return names['CAF'](F)


RULES = {
    'Average': byzfl.Average(),
    'Median': byzfl.Median(),
    'TrMean': byzfl.TrMean(F),
    'GeometricMedian': byzfl.GeometricMedian(nu=0.1, T=3),
    'Krum': byzfl.Krum(F),
    'MultiKrum': byzfl.MultiKrum(F),
    'CenteredClipping': byzfl.CenteredClipping(L=3, tau=1.5),
    'CAF': _filter(),
    'NNM': byzfl.NNM(F),
    'Clipping': byzfl.Clipping(c=2.0),
    'ARC': byzfl.ARC(F),
}

ATTACKS = {
    'ipm': lambda x: -10 * x.mean(0),
    'alie': lambda x: x.mean(0) - 0.2533 * x.std(0, ddof=1),
    'mimic': lambda x: x[0],
}


def main() -> None:
  """Writes the vectors and what each rule returns."""
  rng = np.random.default_rng(0)
  far = [rng.standard_normal((n, 5)) + [3.0, 0, 0, -1, 0] for n in (11, 12)]
  for x in far:
    x[:F] = 4 * rng.standard_normal((F, 5)) - 6
  # Here the last covariance of CAF is not its smallest one.
  near = np.random.default_rng(1).standard_normal((11, 5))
  np.random.seed(0)  # The power method starts at random.
  cases = []
  for x in (*far, near):
    RULES['CenteredClipping'].m = None  # Else it resumes from the last case.
    cases.append({
        'vectors': x.tolist(),
        # Clipping writes into its argument.
        'results': {
            name: rule(x.copy()).tolist() for name, rule in RULES.items()
        },
    })
  path = pathlib.Path(__file__).with_name('byzfl.json')
  path.write_text(json.dumps(cases, indent=1) + '\n')
  for name in ('TrMean', 'Meamed', 'CAF'):
    errors = {
        attack: f'{_error(getattr(byzfl, name)(5), bad):.3f}'
        for attack, bad in ATTACKS.items()
    }
    print(name, errors)


def _error(rule, bad):
  rng = np.random.default_rng(1)
  errors, spreads = [], []
  for _ in range(200):
    x = rng.standard_normal((20, 20))
    out = rule(np.concatenate([x, np.tile(bad(x), (5, 1))]))
    errors.append(np.sum((out - x.mean(0)) ** 2))
    spreads.append(np.mean(np.sum((x - x.mean(0)) ** 2, axis=1)))
  return np.mean(errors) / np.mean(spreads)


if __name__ == '__main__':
  main()
