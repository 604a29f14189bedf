"""Planted faults of PERM with models of clusters."""

from tests.mutants.faults import Fault

_KMEANS = 'tff_pers/numerics/kmeans.py'
_KMEANS_TEST = 'tests/numerics/kmeans_test.py'
_CLUSTERS = 'tff_pers/algorithms/perm/perm_clusters.py'
_TEST = 'tests/algorithms/perm/perm_clusters_test.py'
_COHORTS = (
    f'{_TEST}'
    '::test_cohorts_make_clients_known_and_models_of_one_group_part',
)
_KEPT = (
    f'{_TEST}'
    '::test_models_keep_their_clusters_and_the_unknown_teach_nobody',
)
_GROUPS = (f'{_TEST}::test_two_groups_share_two_models[values0]',)
_MOVES = (
    f'{_KMEANS_TEST}::test_a_cluster_moves_if_it_gains_twice_what_is_lost',
)
_PERMUTED = (
    f'{_TEST}::test_permuted_models_meet_every_client_once_in_an_epoch',
)

FAULTS = (
    Fault(
        'centers_without_weights',
        what='A center is the plain mean of its clients.',
        file=_KMEANS,
        old=') * tf.cast(weights, vectors.dtype)',
        new=') * tf.cast(weights > 0, vectors.dtype)',
        tests=(
            f'{_KMEANS_TEST}::test_clear_groups_are_found_and_distances_are'
            '_to_weighted_means',
        ),
    ),
    Fault(
        'costs_without_weights',
        what='What a cluster saves does not count sizes.',
        file=_KMEANS,
        old='return apart, tf.reduce_sum(weights * tf.maximum(',
        new='return apart, tf.reduce_sum(tf.maximum(',
        tests=(
            f'{_KMEANS_TEST}'
            '::test_a_light_vector_far_away_gets_no_cluster_of_its_own',
        ),
    ),
    Fault(
        'clusters_do_not_move',
        what='Lloyd steps alone, which do not leave a bad start.',
        file=_KMEANS,
        old='is_better = gains[best] > _WORTH * missed[worst] + least',
        new='is_better = tf.logical_and(missed[worst] < least, gains[best] > 0)',
        tests=(f'{_KMEANS_TEST}::test_a_start_that_lloyd_does_not_leave_is_left',),
    ),
    Fault(
        'clusters_move_for_little',
        what='A cluster moves for whatever lowers the cost.',
        file=_KMEANS,
        old='_WORTH = 2.0',
        new='_WORTH = 1.0',
        tests=_MOVES,
    ),
    Fault(
        'nothing_is_missed',
        what='What a cluster saves its clients is not the way to the second.',
        file=_KMEANS,
        old='weights * (second - nearest)',
        new='weights * nearest',
        tests=_MOVES,
    ),
    Fault(
        'no_lloyd_step',
        what='Clients stay with where a cluster moved, not with its center.',
        file=_KMEANS,
        old='apart_from(assignment), assignment\n\n  apart =',
        new='apart, assignment\n\n  apart =',
        tests=(
            f'{_KMEANS_TEST}::test_clear_groups_are_found_and_distances_are'
            '_to_weighted_means',
        ),
    ),
    Fault(
        'clusters_begin_anew',
        what='K-means forgets in every round, and clusters change their names.',
        file=_CLUSTERS,
        old="table['sizes'], old['assignment'], problem",
        new="table['sizes'], 0 * old['assignment'] - 1, problem",
        tests=_KEPT,
    ),
    Fault(
        'empty_clusters_are_visited',
        what='A cluster without clients has the row of equal distances.',
        file=_CLUSTERS,
        old='tf.where(is_used, alpha, 0),',
        new='alpha,',
        tests=(
            f'{_TEST}::test_a_cluster_without_clients_is_visited_by_nobody',
        ),
    ),
    Fault(
        'unknown_clients_are_assigned',
        what='Who sent no gradient is in the cluster nearest to zeros.',
        file=_CLUSTERS,
        old="tf.where(table['sizes'] > 0, assignment, old['assignment']),",
        new='assignment,',
        tests=_COHORTS,
    ),
    Fault(
        'unknown_clients_deploy_the_last_model',
        what='Index -1 is taken for a model.',
        file='tff_pers/algorithms/perm/own_rows.py',
        old='cluster >= 0,',
        new='cluster >= -1,',
        tests=_COHORTS,
    ),
    Fault(
        'new_clients_get_the_farthest',
        what='A new client gets the model of the farthest cluster.',
        file=_CLUSTERS,
        old="tf.where(is_used[:, None], apart, float('inf')), axis=0",
        new="tf.where(is_used[:, None], -apart, float('inf')), axis=0",
        tests=(
            f'{_TEST}::test_new_clients_get_the_model_of_the_nearest_cluster',
        ),
    ),
    Fault(
        'new_clients_get_an_empty_cluster',
        what='The center of no clients is taken for zeros.',
        file=_CLUSTERS,
        old="tf.where(is_used[:, None], apart, float('inf')), axis=0",
        new='tf.where(is_used[:, None], apart, 0), axis=0',
        tests=(
            f'{_TEST}::test_new_clients_get_the_model_of_the_nearest_cluster',
        ),
    ),
    Fault(
        'entropy_over_the_models',
        what='The entropy is taken over ln C, not over ln N.',
        file=_CLUSTERS,
        old='mixing_lib.entropy(rows, mixing.shape[1])',
        new='mixing_lib.entropy(rows)',
        tests=_GROUPS,
    ),
    Fault(
        'centers_teach_from_who_is_unknown',
        what='Clients without a gradient are at the distance of zeros.',
        file='tff_pers/algorithms/perm/perm_mixing.py',
        old='self._solved(self._among_known(c), lambda: old)',
        new='self._solved(c, lambda: old)',
        tests=_KEPT,
    ),
    Fault(
        'every_client_hosts_when_permuted',
        what='Clients beyond the models host one a second time.',
        file='tff_pers/algorithms/perm/visit_schedule.py',
        old='tf.where(owners < num_models, owners, -1)',
        new='owners % num_models',
        tests=_PERMUTED,
    ),
    Fault(
        'few_known_clusters_are_centered_with_zeros',
        what='Gradients are centered with the zeros of who sent none.',
        file=_CLUSTERS,
        old="distances.center(table['fingerprints'], table['sizes'] > 0)",
        new="distances.center(table['fingerprints'])",
        tests=(
            'tests/algorithms/perm/perm_few_known_test.py'
            '::test_clusters_of_few_known_clients_are_exact',
        ),
    ),
    Fault(
        'new_clients_are_centered_with_zeros',
        what='New clients are compared beside the zeros of who sent none.',
        file=_CLUSTERS,
        old="gradients['sizes']], axis=0) > 0,",
        new="gradients['sizes']], axis=0) >= 0,",
        tests=(
            'tests/algorithms/perm/perm_few_known_test.py'
            '::test_new_clients_are_compared_with_who_is_known',
        ),
    ),
    Fault(
        'clusters_scored_by_rows',
        what='Clusters of clients are read from the rows of models.',
        file='tff_pers/simulation/metric_rows.py',
        old='clusters.recovery(assignment[honest], groups)',
        new='clusters.recovery(np.maximum(assignment[honest], 0), groups)',
        tests=(
            'tests/simulation/metric_rows_test.py'
            '::test_clusters_are_scored_for_honest_clients_alone',
        ),
    ),
)
