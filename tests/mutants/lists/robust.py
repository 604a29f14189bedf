"""Planted faults of the robust rules."""

from tests.mutants.faults import Fault

_NUMERICS = 'tff_pers/numerics/robust.py'
_FACTORY = 'tff_pers/aggregators/robust/factory.py'
_RULES = 'tff_pers/aggregators/robust/rules.py'
_PRESENCE_TEST = (
    'tests/aggregators/robust/presence_test.py'
    '::test_a_rule_is_over_who_is_present'
)
_VALUES_TEST = 'tests/numerics/robust/values_test.py'
_BYZFL = (
    'tests/numerics/robust/byzfl_test.py::test_rule_is_that_of_byzfl[CAF]',
)
_FACTORY_TEST = 'tests/aggregators/robust/factory_test.py'

FAULTS = (
    Fault(
        'filter_by_the_last_covariance',
        what='The covariance filter returns its last mean.',
        file=_NUMERICS,
        old='tf.where(first < smallest, w, best)',
        new='w',
        tests=_BYZFL,
    ),
    Fault(
        'filter_counts_the_removed',
        what='A far message without weight keeps the others from losing theirs.',
        file=_NUMERICS,
        old='tau = tf.where(c > 0, along**2, tf.zeros_like(c))',
        new='tau = along**2',
        tests=_BYZFL,
    ),
    Fault(
        'neighbours_one_too_many',
        what='Krum sums over n - f - 1 neighbours.',
        file=_NUMERICS,
        old='ascending[:, 1 : n - num_byzantine - 1]',
        new='ascending[:, 1 : n - num_byzantine]',
        tests=(f'{_VALUES_TEST}::test_krum_scores',),
    ),
    Fault(
        'sum_in_multi_krum',
        what='Multi-Krum returns the sum of the best, not their mean.',
        file=_NUMERICS,
        old='tf.reduce_mean(tf.gather(x, order[:num_best]), axis=0)',
        new='tf.reduce_sum(tf.gather(x, order[:num_best]), axis=0)',
        tests=(f'{_VALUES_TEST}::test_multi_krum_is_a_mean_of_the_best',),
    ),
    Fault(
        'distances_from_the_mean',
        what='A far message drowns the distances of all others.',
        file=_NUMERICS,
        old='distances.gram_distances(x - median(x))',
        new='distances.gram_distances(distances.center(x))',
        tests=(
            f'{_VALUES_TEST}'
            '::test_far_messages_drown_no_distance_of_the_others',
        ),
    ),
    Fault(
        'self_left_out_of_mixing',
        what='A message is not one of its own neighbours.',
        file=_NUMERICS,
        old='stable=True)[:, :count]',
        new='stable=True)[:, 1 : count + 1]',
        tests=(
            f'{_VALUES_TEST}'
            '::test_mixing_counts_a_message_among_its_own_neighbours',
        ),
    ),
    Fault(
        'bucket_divided_by_its_full_size',
        what='The short last bucket is divided by s.',
        file=_NUMERICS,
        old='tf.math.segment_mean(tf.gather(x, order), tf.range(n) // size)',
        new='tf.math.segment_sum('
        'tf.gather(x, order), tf.range(n) // size) / size',
        tests=(f'{_VALUES_TEST}::test_a_bucket_is_divided_by_its_own_size',),
    ),
    Fault(
        'radius_of_the_first_step',
        what='Centered clipping keeps the radius of the start.',
        file=_NUMERICS,
        old='    r = _median_of(distance) if radius is None else _as(radius, x)\n',
        new='    r = _median_of(distance) if radius is None else _as(radius, x)\n'
        '    radius = r\n',
        tests=(f'{_VALUES_TEST}::test_centered_clipping_from_zero',),
    ),
    Fault(
        'fixed_smoothing',
        what='The smoothing of the geometric median does not scale.',
        file=_NUMERICS,
        old='      nu = share * _median_of(distance)',
        new='      nu = tf.constant(0.1, x.dtype)',
        tests=('tests/numerics/robust/properties_test.py::test_scale',),
    ),
    Fault(
        'f_not_reduced',
        what='With too few messages left a rule assumes no fewer Byzantine ones.',
        file=_FACTORY,
        old='tf.maximum(most - removed, 0)',
        new='most',
        tests=(f'{_FACTORY_TEST}::test_f_does_not_fall_below_zero',),
    ),
    Fault(
        'every_removed_one_is_byzantine',
        what='NaN of an honest client makes room for a Byzantine one.',
        file=_FACTORY,
        old='tf.maximum(most - removed, 0), most + 1)',
        new='tf.maximum(most - removed, 0), tf.maximum(most - removed, 0) + 1)',
        tests=(f'{_PRESENCE_TEST}[trimmed_mean[f=2]]',),
    ),
    Fault(
        'passes_ignored',
        what='`geometric_median[passes]` moves nothing.',
        file=_RULES,
        old='robust.geometric_median(x, passes=self.passes)',
        new='robust.geometric_median(x)',
        tests=(f'{_PRESENCE_TEST}[geometric_median[passes=1]]',),
    ),
    Fault(
        'radius_ignored',
        what='`centered_clipping[radius]` moves nothing.',
        file=_RULES,
        old='x, steps=self.steps, radius=self.radius or None',
        new='x, steps=self.steps',
        tests=(f'{_PRESENCE_TEST}[centered_clipping[steps=2,radius=0.1]]',),
    ),
    Fault(
        'same_buckets_in_every_round',
        what='The permutation is not drawn again.',
        file=_FACTORY,
        old="round=state['round'] + 1",
        new="round=state['round'] + 0",
        tests=(f'{_FACTORY_TEST}::test_buckets_are_dealt_anew_in_every_round',),
    ),
    Fault(
        'leaves_in_another_order',
        what='The leaves of a result stand in the order of the type.',
        file='tff_pers/aggregators/vectors.py',
        old='  for leaf in tf.nest.flatten(shapes):',
        new='  for leaf in reversed(tf.nest.flatten(shapes)):',
        tests=(f'{_FACTORY_TEST}::test_norm_is_not_of_each_leaf',),
    ),
)
