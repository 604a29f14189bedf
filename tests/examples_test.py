"""The example of TFF's tutorials gives the same numbers on both runtimes."""

import numpy as np
import pytest

from examples import tff_tutorial
from tff_pers import runtime


@pytest.mark.parametrize(
    'part',
    [
        tff_tutorial.image_classification, tff_tutorial.heavy_hitters,
        tff_tutorial.selection,
    ],
    ids=lambda part: part.__name__,
)
@pytest.mark.slow
def test_numbers_are_those_of_tff(part):
  found = []
  for name in ('native', 'fused'):
    with runtime.use(name):
      found.append(part())
  np.testing.assert_allclose(*found, rtol=1e-5)
