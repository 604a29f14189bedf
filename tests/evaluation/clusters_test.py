"""Recovery of clusters, whatever they are called."""

import numpy as np
import pytest

from tff_pers.evaluation import clusters

_GROUPS = np.array([0, 1, 2, 0, 1, 2, 0, 1])


@pytest.mark.parametrize('names', [(0, 1, 2), (2, 0, 1), (7, 3, 5)])
def test_right_clusters_score_one_under_any_names(names):
  """Floral trap 16."""
  found = clusters.recovery(np.array(names)[_GROUPS], _GROUPS)
  assert found.accuracy == 1.0
  np.testing.assert_allclose(found.nmi, 1.0)


def test_scores_by_hand():
  """One client of eight in the wrong cluster; one cluster for all."""
  predicted = _GROUPS.copy()
  predicted[7] = 2
  assert clusters.recovery(predicted, _GROUPS).accuracy == 7 / 8
  alone = clusters.recovery(np.zeros(8, int), _GROUPS)
  assert alone.accuracy == 3 / 8 and alone.nmi == 0.0


def test_a_predicted_cluster_matches_one_true_cluster_only():
  """Two halves of a cluster: the larger counts; too many clusters are free."""
  groups = np.array([0, 0, 0, 1, 1])
  found = clusters.recovery(np.array([4, 4, 1, 0, 0]), groups)
  assert found.accuracy == 4 / 5 and 0 < found.nmi < 1


def test_routers_count_by_their_largest_weight():
  router = np.array([[0.2, 0.5, 0.3], [0.4, 0.3, 0.3]])
  np.testing.assert_array_equal(clusters.of_router(router), [1, 0])
  assert clusters.score([5, 6], router=router).accuracy == 1.0


def test_a_shared_adaptor_shows_in_load_and_overlap():
  """Two of three clusters at adaptor 1, adaptor 2 left over."""
  groups = np.array([0, 1, 2, 0, 1, 2])
  apart, shared = np.eye(3)[groups], np.eye(3)[[0, 1, 1, 0, 1, 1]]
  assert clusters.load(apart) == (3, 1 / 3)
  assert clusters.overlap(apart, groups) == 0.0
  assert clusters.load(shared) == (2, 2 / 3)
  assert clusters.overlap(shared, groups) == 1.0
  uniform = np.full([6, 3], 1 / 3)
  assert clusters.load(uniform).used == 1
  np.testing.assert_allclose(clusters.overlap(uniform, groups), 1.0)


def test_overlap_is_that_of_the_nearest_two_clusters():
  router = np.array([[0.8, 0.2, 0], [0.6, 0.4, 0], [0, 0.5, 0.5], [0, 0, 1]])
  # Means (.7, .3, 0), (0, .5, .5), (0, 0, 1).
  found = clusters.overlap(router, np.array([5, 5, 7, 9]))
  np.testing.assert_allclose(found, 0.5)
  assert clusters.overlap(router, np.zeros(4, int)) == 0.0


def test_mixing_weights_within_groups_are_clusters():
  """PERM: rows on the simplex, nearly block-wise, asymmetric."""
  rng = np.random.default_rng(0)
  same = _GROUPS[:, None] == _GROUPS
  mixing = np.where(same, rng.uniform(0.2, 0.5, [8, 8]), 0.02)
  mixing /= mixing.sum(axis=1, keepdims=True)
  found = clusters.score(_GROUPS, mixing=mixing)
  assert found.accuracy == 1.0
  sparse = dict(
      columns=np.argsort(-mixing, axis=1)[:, :3],
      values=-np.sort(-mixing, axis=1)[:, :3],
  )
  assert clusters.score(_GROUPS, mixing=sparse).accuracy == 1.0


def test_dense_mixing_keeps_the_columns_of_sparse_rows():
  sparse = dict(
      columns=np.array([[1, 0], [1, 2], [0, 0]]),
      values=np.array([[0.7, 0.3], [1.0, 0.0], [0.5, 0.5]]),
  )
  np.testing.assert_allclose(
      clusters.dense_mixing(sparse, 3),
      [[0.3, 0.7, 0], [0, 1, 0], [1, 0, 0]],
  )


def test_nothing_to_choose_from_has_no_score():
  assert clusters.score(_GROUPS) is None
  assert clusters.score(_GROUPS, router=np.zeros([8, 0])) is None
  assert clusters.score([0], mixing=np.ones([1, 1])) is None
