"""Planted faults of the Byzantine attacks."""

from tests.mutants.faults import Fault

_NUMERICS = 'tff_pers/numerics/attacks.py'
_NUMERICS_TEST = 'tests/numerics/attacks_test.py'
_MIMIC = 'tff_pers/numerics/attacks_mimic.py'
_MIMIC_TEST = 'tests/numerics/attacks_mimic_test.py'
_ADAPTIVE = 'tff_pers/numerics/attacks_adaptive.py'
_ADAPTIVE_TEST = 'tests/numerics/attacks_adaptive_test.py'
_LINES = 'tff_pers/attacks/computations.py'
_LINES_TEST = 'tests/attacks/aggregation_test.py'
_SCOPE = 'tff_pers/attacks/scope.py'
_SCOPE_TEST = 'tests/attacks/scope_test.py'
_LABELS = 'tff_pers/attacks/labels.py'
_LABELS_TEST = 'tests/attacks/labels_test.py'
_SCREENING = 'tff_pers/attacks/screening.py'
_SCREENING_TEST = 'tests/attacks/screening_test.py'
_NOISE = (
    f'{_LINES_TEST}::test_noise_is_independent_and_repeats_with_the_seed',
)
_SIGN_FLIP = (f'{_LINES_TEST}::test_message[sign_flip-expected4]',)

FAULTS = (
    Fault(
        'honest_mean_with_attackers',
        what='Attackers count their own messages among the honest ones.',
        file=_LINES,
        old="      honest=tf.boolean_mask(rows['message'], honest),",
        new="      honest=rows['message'],",
        tests=_SIGN_FLIP,
    ),
    Fault(
        'absent_clients_seen',
        what='The messages of clients of weight 0 are in mu and std.',
        file=_LINES,
        old='        tf.reduce_any(weight > 0), round_metrics',
        new='        tf.reduce_any(weight >= 0), round_metrics',
        tests=_SIGN_FLIP,
    ),
    Fault(
        'absent_clients_attack',
        what='A Byzantine client of weight 0 attacks.',
        file=_LINES,
        old="attacks = tf.logical_and(value['byzantine'], present)",
        new="attacks = value['byzantine']",
        tests=_SIGN_FLIP,
    ),
    Fault(
        'noise_shared',
        what='All attackers send the same noise.',
        file=_LINES,
        old="          random.fold_in(order['key'], index),",
        new="          random.fold_in(order['key'], 0),",
        tests=_NOISE,
    ),
    Fault(
        'parts_of_a_mixture_exchanged',
        what='The first attackers make the second attack of a mixture.',
        file='tff_pers/attacks/mixed.py',
        old='        sender.place < end,',
        new='        sender.place >= end,',
        tests=(f'{_SCOPE_TEST}::test_what_the_plain_mean_becomes'
               '[mixed[first=label_flip,second=bit_flip]-expected10]',),
    ),
    Fault(
        'only_the_own_message_is_seen',
        what='In event-driven runs attackers see no message but their own.',
        file=_LINES,
        old='tf.concat([old, new], axis=0)[-old.shape[0]:]',
        new='tf.concat([tf.zeros_like(old), new], axis=0)[-old.shape[0]:]',
        tests=(
            f'{_LINES_TEST}'
            '::test_of_messages_one_by_one_attackers_see_the_last_ones',
        ),
    ),
    Fault(
        'noise_of_one_round',
        what='The noise of all rounds is the same.',
        file=_LINES,
        old='random.fold_in(seed, round_num), memory',
        new='random.fold_in(seed, 0), memory',
        tests=_NOISE,
    ),
    Fault(
        'nan_spreads',
        what='A refused message has weight 0, but stays NaN.',
        file=_LINES,
        old='lambda: tf.nest.map_structure(tf.zeros_like, (update, weight)),',
        new='lambda: (update, tf.zeros_like(weight)),',
        tests=(f'{_LINES_TEST}::'
               'test_what_is_not_finite_becomes_absent_and_is_named[nan]',),
    ),
    Fault(
        'refused_still_counts',
        what='A refused message becomes zeros, but keeps its weight.',
        file=_LINES,
        old='lambda: tf.nest.map_structure(tf.zeros_like, (update, weight)),',
        new=(
            'lambda: (tf.nest.map_structure(tf.zeros_like, update), weight),'
        ),
        tests=(f'{_LINES_TEST}::'
               'test_what_is_not_finite_becomes_absent_and_is_named[nan]',),
    ),
    Fault(
        'silent_clients_present',
        what='Silent clients are present.',
        file=_LINES,
        old='    if attack.is_silent:',
        new='    if False:',
        tests=(
            f'{_LINES_TEST}::test_silent_clients_are_absent_but_not_refused',
        ),
    ),
    Fault(
        'nobody_left_is_a_round',
        what='A round whose messages were all refused takes a step.',
        file=_LINES,
        old='nobody = tf.cast(tf.equal(num_messages, 0), tf.int32)',
        new='nobody = tf.cast(tf.equal(num_messages, -1), tf.int32)',
        tests=(
            f'{_SCOPE_TEST}::test_a_round_of_refused_messages_changes_nothing',
        ),
    ),
    Fault(
        'biased_std',
        what='The standard deviation divides by h, not by h - 1.',
        file=_NUMERICS,
        old='tf.maximum(tf.shape(honest)[0] - 1, 0)',
        new='tf.maximum(tf.shape(honest)[0], 0)',
        tests=(f'{_NUMERICS_TEST}::test_messages',),
    ),
    Fault(
        'alie_to_the_other_side',
        what='ALIE adds z std.',
        file=_NUMERICS,
        old='mean(honest) - tf.cast(z, honest.dtype)',
        new='mean(honest) + tf.cast(z, honest.dtype)',
        tests=(f'{_NUMERICS_TEST}::test_messages',),
    ),
    Fault(
        'sign_of_z',
        what='z is the quantile of the supporters, -z.',
        file=_NUMERICS,
        old='share = 1 - tf.cast(supporters, tf.float64) / honest',
        new='share = tf.cast(supporters, tf.float64) / honest',
        tests=(f'{_NUMERICS_TEST}::test_z_of_alie',),
    ),
    Fault(
        'supporters_rounded_down',
        what='s of ALIE is floor(n / 2) - f.',
        file=_NUMERICS,
        old='num_messages // 2 + 1 - num_byzantine',
        new='num_messages // 2 - num_byzantine',
        tests=(f'{_NUMERICS_TEST}::test_z_of_alie',),
    ),
    Fault(
        'target_not_frozen',
        what='Mimic looks for another target after the warm-up.',
        file=_MIMIC,
        old='known.round < warmup)',
        new='known.round < 10 * warmup)',
        tests=(f'{_MIMIC_TEST}::test_target_is_frozen_after_the_warm_up',),
    ),
    Fault(
        'target_by_place',
        what='The target of mimic is a place in the cohort, not a client.',
        file=_MIMIC,
        old='tf.gather(indices, nearest))',
        new='nearest)',
        tests=(f'{_LINES_TEST}::test_mimic_remembers_its_target',),
    ),
    Fault(
        'mean_of_one_round',
        what='The mean of the power iteration is that of the last round.',
        file=_MIMIC,
        old='mean = (t * known.mean + attacks.mean(honest)) / (1 + t)',
        new='mean = attacks.mean(honest)',
        tests=(f'{_MIMIC_TEST}::test_the_sheets_numbers',),
    ),
    Fault(
        'forward_only_search',
        what='The refinement looks beyond the best step alone.',
        file=_ADAPTIVE,
        old='low = tf.gather(grid, tf.maximum(best - 1, 0))',
        new='low = tf.gather(grid, best)',
        tests=(f'{_ADAPTIVE_TEST}::test_damage_is_that_of_the_table',),
    ),
    Fault(
        'one_side_of_the_top_direction',
        what='The search along z1 has one side only.',
        file=_ADAPTIVE,
        old='-attacks.mean(honest), top, -top])',
        new='-attacks.mean(honest), top, top])',
        tests=(f'{_ADAPTIVE_TEST}::test_directions',),
    ),
    Fault(
        'permutation_seen',
        what='Attackers look at one draw of the rule, with the key they know.',
        file=_ADAPTIVE,
        old='range(_PERMUTATIONS if rule.is_random else 1)',
        new='range(1)',
        tests=(
            f'{_ADAPTIVE_TEST}'
            '::test_a_random_rule_counts_with_the_mean_over_four_draws',
        ),
    ),
    Fault(
        'key_of_the_rule',
        what='The attack takes the key that the rule has without it.',
        file='tff_pers/attacks/aggregation.py',
        old='        inner=inner_state, seed=tf.zeros([2], tf.int64),'
        ' round=tf.constant(0),\n',
        new='        seed=tf.zeros([2], tf.int64), inner=inner_state,'
        ' round=tf.constant(0),\n',
        tests=(
            f'{_LINES_TEST}::test_attackers_do_not_know_the_draws_of_the_server',
        ),
    ),
    Fault(
        'largest_step_of_equal_damage',
        what='Among steps of equal damage the largest is taken.',
        file=_ADAPTIVE,
        old='tf.argmin(tf.where(found >= enough, steps, np.inf))',
        new='tf.argmax(tf.where(found >= enough, steps, -np.inf))',
        tests=(
            f'{_ADAPTIVE_TEST}::test_equal_damage_takes_the_smallest_step',
        ),
    ),
    Fault(
        'own_messages_not_tried',
        what='The adaptive attack does not try what attackers would send.',
        file='tff_pers/attacks/adaptive.py',
        old='tf.concat([honest, made, seen.own], axis=0)',
        new='tf.concat([honest, made], axis=0)',
        tests=(
            f'{_LINES_TEST}::test_adaptive_tries_own_and_honest_messages',
        ),
    ),
    Fault(
        'labels_shifted',
        what='Labels become C - y.',
        file=_LABELS,
        old='tf.constant(num_classes - 1, y.dtype) - y',
        new='tf.constant(num_classes, y.dtype) - y',
        tests=(f'{_LABELS_TEST}::test_classes_are_mirrored',),
    ),
    Fault(
        'targets_not_flipped',
        what='Targets of a regression stay as they are.',
        file=_LABELS,
        old='    return -y\n',
        new='    return y\n',
        tests=(f'{_LABELS_TEST}::test_targets_change_their_sign',),
    ),
    Fault(
        'labels_of_the_honest_flipped',
        what='The honest clients flip their labels, the attackers do not.',
        file=_SCOPE,
        old='        self._is_byzantine(data), self.attack.flips(sender)\n',
        new=(
            '        tf.logical_not(self._is_byzantine(data)),\n'
            '        self.attack.flips(sender),\n'
        ),
        tests=(f'{_SCOPE_TEST}::test_what_the_plain_mean_becomes'
               '[label_flip-expected6]',),
    ),
    Fault(
        'impossible_rounds_count',
        what='A rule with too few messages moves the server.',
        file='tff_pers/composition/round_steps.py',
        old='tf.reduce_any(tf.stack(impossible) > 0)',
        new='tf.reduce_any(tf.stack(impossible) < 0)',
        tests=(
            f'{_SCOPE_TEST}'
            '::test_a_rule_with_too_few_messages_is_as_if_nobody_was_there',
        ),
    ),
    Fault(
        'rank_not_checked',
        what='Screening looks at the leading dimensions only.',
        file=_SCREENING,
        old='array.dtype == expected.dtype and len(array.shape) == len(\n'
        '      expected.shape\n  ) and all(',
        new='array.dtype == expected.dtype and all(',
        tests=(f'{_SCREENING_TEST}'
               '::test_a_bad_message_is_refused_and_its_client_absent[scalars]',),
    ),
    Fault(
        'screened_dtype_not_checked',
        what='Screening lets other dtypes in.',
        file=_SCREENING,
        old='array.dtype == expected.dtype and len',
        new='len',
        tests=(f'{_SCREENING_TEST}'
               '::test_a_bad_message_is_refused_and_its_client_absent[dtype]',),
    ),
    Fault(
        'refused_are_not_named',
        what='Whose messages were refused is counted, but not known.',
        file='tff_pers/simulation/program.py',
        old='    lost = {*bad, *self._rows.refused(metrics)}\n',
        new='    lost = {*bad}\n',
        tests=(
            'tests/binaries/robustness_test.py'
            '::test_train_names_whose_messages_were_refused[mean]',
        ),
    ),
    Fault(
        'removed_before_the_rule',
        what='A robust rule does not learn how many messages were removed.',
        file='tff_pers/attacks/aggregation.py',
        old='screens=not removes_non_finite(inner)',
        new='screens=True',
        tests=(
            'tests/attacks/aggregation_test.py'
            '::test_a_rule_assumes_less_for_what_it_removed',
        ),
    ),
)
