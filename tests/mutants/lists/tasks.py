"""Planted faults of what a task knows: validation, Byzantine, optimum."""

from tests.mutants.faults import Fault

_VALIDATION = 'tff_pers/data/validation.py'
_PROGRAM = 'tff_pers/simulation/program.py'
_METRIC_ROWS = 'tff_pers/simulation/metric_rows.py'
_EXPERIMENT = 'tff_pers/experiments/experiment.py'
_LEFT_OUT = 'tff_pers/core/left_out.py'
_VALIDATION_TEST = 'tests/data/validation_test.py'
_KNOWLEDGE_TEST = 'tests/simulation/task_knowledge_test.py'
_NON_FINITE_TEST = 'tests/simulation/non_finite_test.py'
_FILES_TEST = 'tests/binaries/task_knowledge_test.py'
_BYZANTINE_TEST = 'tests/contracts/byzantine_test.py'
_VALIDATION_COLUMNS = (
    f'{_KNOWLEDGE_TEST}'
    '::test_validation_is_evaluated_and_changes_nothing_else',
)
_MEAN_DISTANCE = (
    f'{_KNOWLEDGE_TEST}::test_distance_is_the_mean_over_honest_clients',
)
_NO_ROWS = (f'{_FILES_TEST}::test_byzantine_clients_are_no_rows',)

FAULTS = (
    Fault(
        'tests_by_their_own_mean',
        what='Test images are centered by the mean of the test images.',
        file='tff_pers/data/tasks/assembly.py',
        old='[(x - mean, y) for (x, y), mean in zip(part, means)]',
        new='[(x - x.mean(axis=0), y) for (x, y), mean in zip(part, means)]',
        tests=(
            'tests/data/tasks/digits_test.py'
            '::test_clients_subtract_the_mean_of_what_they_train_on',
        ),
    ),
    Fault(
        'validation_rows_are_trained_on',
        what='Rows to validate on stay in the training data.',
        file=_VALIDATION,
        old='return _Split(np.sort(kept), np.sort(held))',
        new='return _Split(np.sort(order), np.sort(held))',
        tests=(
            f'{_VALIDATION_TEST}'
            '::test_test_data_stay_and_training_data_are_dealt_out',
        ),
    ),
    Fault(
        'first_rows_are_held_out',
        what='The rows to validate on are the first ones, whatever the seed.',
        file=_VALIDATION,
        old='np.split(order, ',
        new='np.split(np.sort(order), ',
        tests=(f'{_VALIDATION_TEST}::test_seed_decides_and_clients_differ',),
    ),
    Fault(
        'class_counts_of_before',
        what='Class counts still include the rows to validate on.',
        file=_VALIDATION,
        old='      class_counts=_class_counts(task, train),\n',
        new='',
        tests=(
            f'{_VALIDATION_TEST}'
            '::test_class_counts_are_those_of_the_remaining_training_data',
        ),
    ),
    Fault(
        'nothing_left_to_train_on',
        what='A client may lose all of its training rows to validation.',
        file=_VALIDATION,
        old='np.maximum(sizes - 1, 0)',
        new='sizes',
        tests=(
            f'{_VALIDATION_TEST}'
            '::test_a_client_keeps_an_example_to_train_on',
        ),
    ),
    Fault(
        'validation_on_test_data',
        what='The validation columns are evaluated on the test data.',
        file=_PROGRAM,
        old="self._evaluate_honest('validation')",
        new='self._evaluate_honest()',
        tests=_VALIDATION_COLUMNS,
    ),
    Fault(
        'everybody_is_honest',
        what='Byzantine clients are evaluated as everybody is.',
        file=_PROGRAM,
        old='np.flatnonzero(~self._byzantine)',
        new='np.arange(len(self._byzantine))',
        tests=_MEAN_DISTANCE,
    ),
    Fault(
        'byzantine_clients_keep_a_round',
        what='A round goes on that keeps no other clients than Byzantine ones.',
        file=_PROGRAM,
        old='    if set(honest or trained) <= set(bad):',
        new='    if set(trained) <= set(bad):',
        tests=(
            f'{_NON_FINITE_TEST}'
            '::test_a_round_that_keeps_no_honest_client_stops',
        ),
    ),
    Fault(
        'drops_are_not_counted',
        what='Clients that are dropped from a round are not counted.',
        file=_PROGRAM,
        old='self._position = done.with_dropped(sorted(lost))._replace(',
        new='self._position = done._replace(',
        tests=(
            f'{_NON_FINITE_TEST}'
            '::test_a_dropped_client_is_counted_and_changes_nothing',
        ),
    ),
    Fault(
        'drops_of_the_last_round_alone',
        what='Counts of dropped clients restart in every round.',
        file='tff_pers/simulation/position.py',
        old='collections.Counter(dict(self.dropped))',
        new='collections.Counter()',
        tests=(f'{_NON_FINITE_TEST}::test_rounds_are_counted_by_client',),
    ),
    Fault(
        'optimum_of_the_first_client',
        what='The distance of every client is that to the optimum of client 0.',
        file='tff_pers/simulation/optimum_distance.py',
        old='tuple(leaf[c] for leaf in self._optimum)',
        new='tuple(leaf[0] for leaf in self._optimum)',
        tests=(
            f'{_KNOWLEDGE_TEST}'
            '::test_a_leaf_without_optimum_is_no_part_of_the_distance',
        ),
    ),
    Fault(
        'median_distance',
        what='The distance column is the median over clients, not the mean.',
        file=_METRIC_ROWS,
        old='float(np.mean(distances))',
        new='float(np.median(distances))',
        tests=_MEAN_DISTANCE,
    ),
    Fault(
        'validation_columns_of_test_metrics',
        what='The validation columns summarize the metrics on the test data.',
        file=_METRIC_ROWS,
        old='_summaries(validation)',
        new='_summaries(metrics)',
        tests=_VALIDATION_COLUMNS,
    ),
    Fault(
        'groups_of_the_first_clients',
        what='Clusters are scored with the groups of the first clients.',
        file=_METRIC_ROWS,
        old='groups, router = groups[honest],',
        new='groups, router = groups[:len(groups[honest])],',
        tests=(
            'tests/simulation/metric_rows_test.py'
            '::test_clusters_are_scored_for_honest_clients_alone',
        ),
    ),
    Fault(
        'optimum_of_another_seed',
        what='The optimum of floral_linear is that of the next seed.',
        file='tff_pers/data/tasks/floral_regression.py',
        old='  kernels = _linear_maps(clusters, seed)[groups]',
        new='  kernels = _linear_maps(clusters, seed + 1)[groups]',
        tests=(
            'tests/data/tasks/floral_test.py'
            '::test_linear_optimum_is_the_least_squares_map_of_each_client',
        ),
    ),
    Fault(
        'optimum_of_the_whole_task',
        what='With clients held out, the others get optima by position.',
        file=_EXPERIMENT,
        old='optimum=tf.nest.map_structure(pick, task.optimum)',
        new='optimum=task.optimum',
        tests=(
            f'{_FILES_TEST}'
            '::test_distance_is_to_the_row_of_the_client_itself',
        ),
    ),
    Fault(
        'byzantine_clients_held_out',
        what='Byzantine clients that are held out are evaluated.',
        file=_EXPERIMENT,
        old='unseen = np.intersect1d(held_out, full.honest)',
        new='unseen = held_out',
        tests=_NO_ROWS,
    ),
    Fault(
        'dropped_clients_from_one',
        what='The list of dropped clients numbers them from 1.',
        file='tff_pers/experiments/runner.py',
        old='experiment.clients[client]: rounds',
        new='client + 1: rounds',
        tests=(f'{_FILES_TEST}::test_drop_goes_on_counts_and_lists',),
    ),
    Fault(
        'left_out_clients_count',
        what='Clients that are left out count in the training metrics.',
        file=_LEFT_OUT,
        old='    return tf.logical_and(is_reported, tf.logical_not(left_out))',
        new='    return is_reported',
        tests=(
            f'{_BYZANTINE_TEST}'
            '::test_training_loss_is_that_of_the_honest_clients',
        ),
    ),
    Fault(
        'left_out_for_ever',
        what='Clients stay left out of what is built after the scope.',
        file='tff_pers/core/interception.py',
        old='    _CHANGES.reset(token)',
        new='    pass',
        tests=(
            f'{_BYZANTINE_TEST}'
            '::test_who_is_left_out_ends_with_the_scope',
        ),
    ),
)
