"""Planted faults of visits: who hosts whom, steps, weights, whose model."""

from tests.mutants.faults import Fault

_EXAMPLES = 'tests/algorithms/perm/perm_examples_test.py'
_NUMPY = (f'{_EXAMPLES}::test_follows_the_algorithm_in_numpy',)
_ORACLE = (
    f'{_EXAMPLES}::test_is_near_the_oracle_with_another_model_per_client',
)
_PERM_TEST = 'tests/algorithms/perm/perm_test.py'
_SHUFFLING = 'tff_pers/algorithms/perm/fixed_mixing.py'
_VISITS = 'tff_pers/algorithms/perm/visits.py'
_SCHEDULE = 'tff_pers/algorithms/perm/visit_schedule.py'
_ROWS = 'tff_pers/numerics/mixing_rows.py'
_SHUFFLING_TEST = 'tests/algorithms/perm/fixed_mixing_test.py'
_SCHEDULE_TEST = 'tests/algorithms/perm/visit_schedule_test.py'
_MATCHING = 'tff_pers/numerics/matching.py'

FAULTS = (
    Fault(
        'one_model_for_all',
        what='Every client deploys the model of client 0.',
        file='tff_pers/algorithms/perm/own_rows.py',
        old='lambda table: table[client], models',
        new='lambda table: table[0], models',
        tests=_ORACLE,
    ),
    Fault(
        'same_batches_every_round',
        what='Visits reuse the batches of round 0.',
        file=_VISITS,
        old="      round=value['round'],\n",
        new="      round=tf.zeros_like(value['round']),\n",
        tests=_NUMPY,
    ),
    Fault(
        'oracle_of_the_other_group',
        what='oracle_groups trains a client on the other group.',
        file=_SHUFFLING,
        old='np.equal.outer(task.groups, task.groups)',
        new='np.not_equal.outer(task.groups, task.groups)',
        tests=_ORACLE,
    ),
    Fault(
        'uniform_is_identity',
        what='uniform_shuffling trains every client by itself.',
        file=_SHUFFLING,
        old='task.model, np.full([n, n], 1 / n), hyperparameters,',
        new='task.model, np.eye(n), hyperparameters,',
        tests=(
            f'{_EXAMPLES}::test_one_model_for_all_is_far_from_the_oracle',
        ),
    ),
    Fault(
        'transposed_weights',
        what='The weight of a visit is that of the host for the owner.',
        file=_ROWS,
        old='tf.stack([owner, host], axis=-1)',
        new='tf.stack([host, owner], axis=-1)',
        tests=(f'{_SHUFFLING_TEST}::test_owner_row_scales_at_the_host',),
    ),
    Fault(
        'no_factor_n',
        what='The step of a visit lacks the factor N.',
        file=_VISITS,
        old='scale = tf.constant(rows.num_clients, tf.float64)',
        new='scale = tf.constant(1, tf.float64)',
        tests=(f'{_SHUFFLING_TEST}::test_scale_n_is_step_n_eta',),
    ),
    Fault(
        'matched_steps_by_n',
        what='With matchings the step of a visit has the factor N as well.',
        file=_VISITS,
        old='        tf.cast(count, tf.float64) * alpha, tf',
        new='        rows.num_clients * alpha, tf',
        tests=(f'{_SHUFFLING_TEST}::test_one_hot_rows_are_local_training',),
    ),
    Fault(
        'nobody_is_displaced',
        what='A matching is done when nobody can ask, maximum or not.',
        file=_MATCHING,
        old='  owners = _augmented(models, hosts, rank, owners)\n',
        new='',
        tests=(
            'tests/numerics/matching_test.py'
            '::test_matching_is_maximum_and_valid',
        ),
    ),
    Fault(
        'clients_take_the_most_visited',
        what='A client takes the model that was visited most.',
        file=_MATCHING,
        old='  priority = tf.argsort(tf.cast(so_far, tf.float32)',
        new='  priority = tf.argsort(-tf.cast(so_far, tf.float32)',
        tests=(
            'tests/numerics/matching_test.py'
            '::test_matching_prefers_models_that_were_visited_least',
        ),
    ),
    Fault(
        'pending_outside_the_support',
        what='Models still visit clients that they no longer learn from.',
        file=_SCHEDULE,
        old="rows.looked_up(pending['clients'], pending['left']), 2 * epoch",
        new="rows.looked_up(pending['clients'], pending['left']), 2 + 0 * epoch",
        tests=_NUMPY,
    ),
    Fault(
        'visited_again',
        what='A matched client stays pending.',
        file=_SCHEDULE,
        old='left = tf.maximum(left - visited, 0)',
        new='left = tf.maximum(left - 0 * visited, 0)',
        tests=(
            f'{_SCHEDULE_TEST}'
            '::test_matching_with_all_clients_visits_supported_pairs_once',
        ),
    ),
    Fault(
        'no_cap',
        what='The cap of the largest step is ignored.',
        file=_VISITS,
        old='scale = tf.minimum(scale, cap / largest)',
        new='del largest',
        tests=_NUMPY,
    ),
    Fault(
        'cap_by_client',
        what='The cap is by the weight of the visit, not by the largest one.',
        file=_VISITS,
        old='largest = tf.cast(rows.maximum(owner), tf.float64)',
        new='largest = alpha + 1e-9',
        tests=(f'{_SCHEDULE_TEST}::test_cap_bounds_the_largest_step',),
    ),
    Fault(
        'same_permutation_every_epoch',
        what='Every epoch of visits has the same permutation.',
        file='tff_pers/numerics/schedule.py',
        old='tf.range(num_clients), random.key(seed, use, epoch)',
        new='tf.range(num_clients), random.key(seed, use, 0 * epoch)',
        tests=(
            'tests/numerics/schedule_test.py'
            '::test_every_epoch_covers_all_pairs_once',
        ),
    ),
    Fault(
        'models_never_move_on',
        what='A model stays at its first host for the whole epoch.',
        file='tff_pers/numerics/schedule.py',
        old='(tf.range(num_clients) + j) % num_clients',
        new='(tf.range(num_clients) + 0 * j) % num_clients',
        tests=(
            'tests/numerics/schedule_test.py'
            '::test_every_epoch_covers_all_pairs_once',
        ),
    ),
    Fault(
        'hosts_for_owners',
        what='The table of hosts is read as that of owners.',
        file=_SCHEDULE,
        old='owners = schedule.owners(hosts, cohort.shape[0])\n',
        new='owners = hosts\n',
        tests=_NUMPY,
    ),
    Fault(
        'matching_outside_the_support',
        what='Matchings visit clients of weight 0 as well.',
        file=_SCHEDULE,
        old='  once = tf.cast(alpha > 0, tf.int32)\n',
        new='  once = tf.cast(alpha >= 0, tf.int32)\n',
        tests=(f'{_PERM_TEST}::test_matching_visits_the_support',),
    ),
)
