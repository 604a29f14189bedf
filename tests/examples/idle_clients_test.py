"""The bounds on idle clients, by hand."""

import numpy as np
import pytest

from examples import idle_clients


@pytest.mark.parametrize('visits, alike, least', [
    ([[2, 1, 1], [1, 2, 1], [1, 1, 2]], 0, 0),
    ([[3, 0], [1, 0]], 1 / 2, 1 / 2),
    # The load of client 0 is 2; models 1 and 2 alone share it in turn.
    ([[1, 0, 0], [1, 1, 0], [1, 0, 1]], 1 / 2, 1 / 3),
])
def test_least_share_of_idle_clients(visits, alike, least):
  np.testing.assert_allclose(
      idle_clients.least_idle(np.array(visits)), [alike, least], atol=1e-9
  )


def test_clusters_share_a_permutation_of_the_labels(tmp_path):
  """The same images of three clients, named alike by two of them."""
  path = tmp_path / 'digits.npz'
  idle_clients.write(str(path), [0, 1, 0], seed=2)
  found = np.load(path)
  assert found['x'].shape == (1797, 64)
  assert set(found['client']) == {0, 1, 2}
  means = [found['x'][found['client'] == i].mean(axis=0) for i in range(3)]
  np.testing.assert_allclose(means, 0, atol=1e-6)
  # A zero has an empty middle, whatever it is called.
  middle = found['x'][:, [27, 28, 35, 36]].mean(axis=1)
  zeros = []
  for i in range(3):
    darkness = [
        middle[(found['client'] == i) & (found['y'] == name)].mean()
        for name in range(10)
    ]
    zeros.append(np.argmin(darkness))
  assert zeros[0] == zeros[2] != zeros[1]
