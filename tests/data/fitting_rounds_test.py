"""Default rounds of users' data."""

from tff_pers.data import fitting_rounds


def test_rounds_grow_with_clients_examples_and_small_cohorts():
  number = fitting_rounds.number
  assert number(4, 4, 8.0) == 100
  assert number(20, 20, 8.0) == 100
  assert number(40, 40, 8.0) == 200
  assert number(41, 41, 8.0) == 210  # A multiple of 10, upwards.
  assert number(4, 4, 0.1) == 200
  assert number(4, 2, 0.1) == 400
  assert number(40, 20, 8.0) == 400
  assert number(1000, 10, 0.01) == 1000
  assert number(4, 4, 0.0) == 100  # Not known.
