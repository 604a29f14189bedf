"""Samplers are pure functions of (seed, round) with the stated laws."""

import numpy as np
import pytest
import scipy.stats

from tff_pers.simulation import cohort


def test_zero_is_everyone_in_order():
  sample = cohort.uniform(5, 0)
  np.testing.assert_array_equal(sample(3, 9), np.arange(5))
  assert sample(3, 9).dtype == np.int32


@pytest.mark.parametrize(
    'sample', [cohort.uniform(30, 7), cohort.weighted(np.arange(30), 7)]
)
def test_cohort_is_distinct_ascending_and_repeatable(sample):
  cohorts = [sample(4, t) for t in range(50)]
  for t, chosen in enumerate(cohorts):
    assert len(chosen) == 7 and np.all(np.diff(chosen) > 0)
    np.testing.assert_array_equal(chosen, sample(4, t))
  assert len({tuple(chosen) for chosen in cohorts}) == 50
  assert any(np.any(sample(5, t) != sample(4, t)) for t in range(3))


def test_uniform_samples_every_client_equally():
  counts = np.bincount(
      np.concatenate([cohort.uniform(20, 5)(0, t) for t in range(2000)]),
      minlength=20,
  )
  # Binomial(2000, 1/4): standard deviation 19.4; 4.5 of them on 20 clients.
  np.testing.assert_array_less(np.abs(counts - 500), 4.5 * 19.4)


def test_weighted_draws_in_proportion_and_never_weight_zero():
  sample = cohort.weighted([0.0, 1.0, 3.0], 1)
  drawn = np.concatenate([sample(1, t) for t in range(2000)])
  assert not np.any(drawn == 0)
  # Binomial(2000, 3/4): standard deviation 19.4.
  assert abs(np.sum(drawn == 2) - 1500) < 4.5 * 19.4


def test_fixed_repeats_its_schedule():
  sample = cohort.fixed([[2, 0], [1]])
  assert [sample(7, t).tolist() for t in range(3)] == [[0, 2], [1], [0, 2]]


@pytest.mark.parametrize(
    'build, message',
    [
        (lambda: cohort.uniform(5, 6), 'the 5 clients that train, found 6'),
        (lambda: cohort.uniform(5, -1), 'found -1'),
        (lambda: cohort.weighted([1.0, 0.0], 2), r'in 1\.\.1'),
        (lambda: cohort.weighted([1.0, -1.0], 1), 'finite and >= 0'),
        (lambda: cohort.fixed([]), 'found none'),
        (lambda: cohort.fixed([[1, 1]]), 'distinct'),
    ],
)
def test_raises_on_impossible_cohorts(build, message):
  with pytest.raises(ValueError, match=message):
    build()


def test_the_evaluated_sample_is_of_the_seed_and_of_all_honest_clients():
  honest = np.array([1, 2, 5, 8, 9])
  chosen = cohort.evaluated(honest, 3, seed=4)
  assert len(chosen) == 3 and np.all(np.diff(chosen) > 0)
  assert np.all(np.isin(chosen, honest))
  np.testing.assert_array_equal(chosen, cohort.evaluated(honest, 3, seed=4))
  drawn = [tuple(cohort.evaluated(honest, 3, seed)) for seed in range(20)]
  assert {client for sample in drawn for client in sample} == {*honest}
  np.testing.assert_array_equal(cohort.evaluated(honest, 5, 0), honest)


@pytest.mark.parametrize('number', [0, 6])
def test_raises_on_a_sample_that_there_is_not(number):
  with pytest.raises(ValueError, match=f'5 honest clients.*found {number}'):
    cohort.evaluated(np.arange(5), number, 0)


def test_the_evaluated_sample_has_draws_of_its_own():
  """Else who is evaluated would be who trains first, or who is held out."""
  for number in range(3):
    assert cohort.evaluated(np.arange(10**6), 5, number).tolist() not in (
        np.sort(np.random.default_rng(key).choice(10**6, 5, False)).tolist()
        for key in ([1, number, 0], [1, number], [2, number], [3, number])
    )


@pytest.mark.parametrize('number, size, marked, num_clients', [
    (2, 10, 5, 25), (0, 3, 1, 20), (4, 3, 5, 9), (1, 4, 3, 5),
])
def test_chance_of_more_is_that_of_scipy(number, size, marked, num_clients):
  expected = scipy.stats.hypergeom.sf(number, num_clients, marked, size)
  found = cohort.chance_of_more(number, size, marked, num_clients)
  np.testing.assert_allclose(found, expected, atol=1e-12)
