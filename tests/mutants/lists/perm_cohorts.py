"""Planted faults of PERM with cohorts: the table, rows, visits, the warm-up."""

from tests.mutants.faults import Fault

_CLIENT = 'tff_pers/algorithms/perm/perm_client.py'
_SERVER = 'tff_pers/algorithms/perm/perm_server.py'
_SETTING = 'tff_pers/algorithms/perm/setting.py'
_HYPERPARAMETERS = 'tff_pers/algorithms/perm/perm_hyperparameters.py'
_MIXING = 'tff_pers/algorithms/perm/perm_mixing.py'
_ROWS = 'tff_pers/numerics/mixing_rows.py'
_SCHEDULE = 'tff_pers/algorithms/perm/visit_schedule.py'
_TABLE = 'tff_pers/algorithms/perm/fingerprints.py'
_VISITS = 'tff_pers/algorithms/perm/visits.py'
_SCHEDULE_TEST = 'tests/algorithms/perm/visit_schedule_test.py'
_COHORTS_TEST = 'tests/algorithms/perm/perm_cohorts_test.py'
_KEPT = (f'{_COHORTS_TEST}::test_gradients_of_cohorts_are_kept',)
_NOT_BEGUN = (
    f'{_COHORTS_TEST}::test_nobody_hosts_before_the_first_visit[False]',
)
_SAID = (f'{_COHORTS_TEST}::test_a_sentence_says_that_nobody_will_visit',)
_NOT_COME = (
    f'{_COHORTS_TEST}'
    '::test_a_client_that_has_not_come_yet_learns_from_itself',
)

FAULTS = (
    Fault(
        'w_moves_between_cohorts',
        what='w moves on while gradients of other rounds are kept.',
        file=_SETTING,
        old=(
            "hyperparameters.variant == 'two_stage' or not self.full_particip"
            'ation:'
        ),
        new="hyperparameters.variant == 'two_stage':",
        tests=_KEPT,
    ),
    Fault(
        'gradients_forgotten',
        what='Only the gradients of the present cohort are compared.',
        file=_SETTING,
        old='return tf.minimum(t, self.hyperparameters.first_visit)',
        new='return t',
        tests=_KEPT,
    ),
    Fault(
        'gradients_sent_again',
        what='Clients send their gradient in every round.',
        file=_CLIENT,
        old='tf.logical_and(self.measures(t), tf.logical_not(is_known))',
        new='self.measures(t)',
        tests=_KEPT,
    ),
    Fault(
        'rows_of_everybody',
        what='Rows of clients that are not there are solved, too.',
        file=_MIXING,
        old="tf.where(tf.logical_and(cohort, self.table['sizes'] > 0))",
        new="tf.where(tf.logical_or(cohort, self.table['sizes'] > 0))",
        tests=_KEPT,
    ),
    Fault(
        'strangers_at_distance_0',
        what='Clients that are not in the table are at the distance of zeros.',
        file=_MIXING,
        old=(
            'c = self._among_known(tf.where(is_known[:, None], c, tf.zeros_li'
            'ke(c)))'
        ),
        new='c = tf.where(is_known[:, None], c, tf.zeros_like(c))',
        tests=_KEPT,
    ),
    Fault(
        'gradients_at_the_wrong_client',
        what='The table has the gradients in the order in which they came.',
        file=_TABLE,
        old="  keys = gradients['keys']\n",
        new="  keys = tf.range(tf.size(gradients['keys']))\n",
        tests=_KEPT,
    ),
    Fault(
        'models_wait_for_the_absent',
        what='A model whose last hosts are away waits for them.',
        file=_SCHEDULE,
        old='waits = tf.logical_and(hosts < 0, tf.logical_not(',
        new='waits = tf.logical_and(hosts < -1, tf.logical_not(',
        tests=(
            f'{_SCHEDULE_TEST}'
            '::test_models_do_not_wait_for_clients_that_are_not_there',
        ),
    ),
    Fault(
        'visits_without_bound',
        what='Models owe absent clients more and more visits.',
        file=_SCHEDULE,
        old='further = tf.minimum(left + epoch, 2 * epoch)',
        new='further = left + epoch',
        tests=(
            f'{_SCHEDULE_TEST}'
            '::test_models_do_not_wait_for_clients_that_are_not_there',
        ),
    ),
    Fault(
        'one_large_step',
        what='A client of large weight is visited once, with a large step.',
        file=_SCHEDULE,
        old='tf.maximum(tf.cast(visits, tf.int32), 1)',
        new='tf.maximum(0 * tf.cast(visits, tf.int32), 1)',
        tests=(
            f'{_SCHEDULE_TEST}'
            '::test_matchings_visit_clients_of_large_weight_several_times',
        ),
    ),
    Fault(
        'step_not_shared',
        what='Each of several visits takes the step of all of them.',
        file=_VISITS,
        old='alpha, tf.cast(visits, tf.float64)',
        new='alpha, tf.cast(visits ** 0, tf.float64)',
        tests=(
            f'{_SCHEDULE_TEST}'
            '::test_matchings_visit_clients_of_large_weight_several_times',
        ),
    ),
    Fault(
        'visits_by_column',
        what='Pending visits stay in their columns when sparse rows change.',
        file=_ROWS,
        old='    return tf.where(is_same, found, 0)\n',
        new='    return tf.where(is_same, visits, visits)\n',
        tests=(
            f'{_SCHEDULE_TEST}'
            '::test_visits_follow_clients_to_other_columns',
        ),
    ),
    Fault(
        'warmup_of_the_cohort',
        what='The warm-up is as long with cohorts as with all clients.',
        file=_HYPERPARAMETERS,
        old='math.ceil(self.warmup_rounds * num_clients / cohort_size)',
        new='self.warmup_rounds',
        tests=(f'{_COHORTS_TEST}::test_warm_up_is_as_long_for_every_client',),
    ),
    Fault(
        'w_moved_by_attackers',
        what='What attackers send moves w when it rests.',
        file=_SERVER,
        old='tf.cond(self.moves_w(t), moved, lambda: weights)',
        new='moved()',
        tests=(f'{_COHORTS_TEST}::test_w_rests_whatever_attackers_send',),
    ),
    Fault(
        'dates_stay',
        what='A gradient that is left out keeps a date.',
        file=_TABLE,
        old="-1 if name == 'dates' else 0",
        new='0',
        tests=(
            f'{_COHORTS_TEST}::test_gradients_at_another_w_are_no_gradients',
        ),
    ),
    Fault(
        'cohorts_start_uniform',
        what='Who has not come yet learns from all by projected gradient.',
        file=_MIXING,
        old=(
            '      setting.full_participation\n      and hyperparameters.solve'
            'r =='
        ),
        new='      hyperparameters.solver ==',
        tests=_NOT_COME,
    ),
    Fault(
        'columns_overwritten',
        what='Of a column that a sparse row has twice the last weight counts.',
        file='tff_pers/evaluation/clusters.py',
        old="np.add.at(table, (rows, mixing['columns']), mixing['values'])",
        new="table[rows, mixing['columns']] = mixing['values']",
        tests=_NOT_COME,
    ),
    Fault(
        'own_weight_of_zero_kept',
        what='A sparse row keeps its own weight of 0, and divides by it.',
        file='tff_pers/numerics/mixing.py',
        old='  own = tf.where(alpha > 0, own, tf.zeros_like(own))\n',
        new='',
        tests=(
            'tests/numerics/mixing_test.py'
            '::test_sparse_rows_do_without_an_own_weight_of_zero',
        ),
    ),
    Fault(
        'hosts_before_the_visits',
        what='Clients host models in the warm-up.',
        file=_SERVER,
        old="owners = tf.where(begun, hosts['owners'], -1)",
        new="owners = hosts['owners']",
        tests=_NOT_BEGUN,
    ),
    Fault(
        'epochs_before_the_visits',
        what='Epochs of visits begin in the warm-up.',
        file=_SERVER,
        old='lambda old, new: tf.where(begun, new, old), pending,',
        new='lambda old, new: new, pending,',
        tests=_NOT_BEGUN,
    ),
    Fault(
        'busy_before_the_visits',
        what='In the warm-up no client is said to be idle.',
        file=_SERVER,
        old='_idle(mixing, owners, cohort), 1.0)',
        new='_idle(mixing, owners, cohort), 0.0)',
        tests=_NOT_BEGUN,
    ),
    Fault(
        'nobody_is_warned',
        what='That nobody will visit is said of cohorts alone.',
        file=_HYPERPARAMETERS,
        old='    if fitted.first_visit >= task.rounds:\n',
        new='    if n > m and fitted.first_visit >= task.rounds:\n',
        tests=_SAID,
    ),
    Fault(
        'bad_advice',
        what='The advice is as many rounds as leave none for visits.',
        file=_HYPERPARAMETERS,
        old='(task.rounds - 1) * m // n',
        new='task.rounds * m // n',
        tests=_SAID,
    ),
    Fault(
        'all_download',
        what='A client without a visit downloads the model of client 0.',
        file=_VISITS,
        old='  count = tf.cast(owner >= 0, tf.int32)\n',
        new='  count = tf.cast(owner >= -1, tf.int32)\n',
        tests=(
            f'{_SCHEDULE_TEST}::test_clients_without_a_visit_send_nothing',
        ),
    ),
)
