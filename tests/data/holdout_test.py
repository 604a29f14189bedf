"""Clients that never train are drawn by the seed alone."""

import numpy as np
import pytest

from tff_pers.data import holdout


def test_held_out_clients_are_a_fixed_subset_of_the_seed():
  chosen = holdout.choose(40, 8, seed=3)
  assert len(set(chosen.tolist())) == 8 and np.all(np.diff(chosen) > 0)
  np.testing.assert_array_equal(chosen, holdout.choose(40, 8, seed=3))
  assert holdout.choose(40, 8, seed=4).tolist() != chosen.tolist()
  assert holdout.choose(40, 0, seed=3).size == 0


def test_raises_if_nobody_is_left():
  with pytest.raises(ValueError, match='the 5 clients of the task, found 5'):
    holdout.choose(5, 5, 0)
