"""Planted faults of FedHM: factors, tiers, products, weights, decay."""

from tests.mutants.faults import Fault

_FACTORIZATION = 'tff_pers/numerics/factorization.py'
_LOW_RANK = 'tff_pers/numerics/low_rank.py'
_FACTORIZED = 'tff_pers/models/factorized.py'
_TIERED = 'tff_pers/models/tiered_model.py'
_TIERS = 'tff_pers/models/tiers.py'
_MASKED = 'tff_pers/models/masked.py'
_AGGREGATOR = 'tff_pers/aggregators/low_rank.py'
_DECAY = 'tff_pers/client_works/frobenius_decay.py'
_FEDHM = 'tff_pers/algorithms/fedhm/fedhm.py'
_HYPERPARAMETERS = 'tff_pers/algorithms/fedhm/fedhm_hyperparameters.py'
_ASSIGNMENT = 'tff_pers/data/tiers.py'
_ZOO = 'tff_pers/models/zoo.py'

_FACTORIZATION_TEST = 'tests/numerics/factorization_test.py'
_FACTORIZED_TEST = 'tests/models/factorized_test.py'
_AGGREGATOR_TEST = 'tests/aggregators/low_rank_test.py'
_FEDHM_TEST = 'tests/algorithms/fedhm/fedhm_test.py'
_ORACLE = (f'{_FEDHM_TEST}::test_rounds_are_those_of_numpy',)
_FROM_ZERO = (f'{_FEDHM_TEST}::test_a_kernel_that_starts_at_zero_learns',)
_TASKS_TEST = 'tests/data/tasks/fedhm_tasks_test.py'

FAULTS = (
    Fault(
        'raw_reshape',
        what='A kernel is unrolled without the transposition.',
        file=_FACTORIZATION,
        old='tf.reshape(tf.transpose(kernel, [2, 0, 3, 1]), [rows, columns])',
        new='tf.reshape(kernel, [rows, columns])',
        tests=(
            f'{_FACTORIZATION_TEST}::test_two_thin_convolutions_are_one',
        ),
    ),
    Fault(
        'transposed_unrolling',
        what='Rows go with the horizontal taps.',
        file=_FACTORIZATION,
        old='tf.transpose(kernel, [2, 0, 3, 1])',
        new='tf.transpose(kernel, [2, 1, 3, 0])',
        tests=(
            f'{_FACTORIZATION_TEST}::test_rows_are_inputs_and_vertical_taps',
        ),
    ),
    Fault(
        'recovered_with_taps_exchanged',
        what='The recovered kernel has height and width exchanged.',
        file=_FACTORIZATION,
        old='tf.transpose(product, [1, 3, 0, 2])',
        new='tf.transpose(product, [3, 1, 0, 2])',
        tests=(
            f'{_FACTORIZATION_TEST}::test_two_thin_convolutions_are_one',
        ),
    ),
    Fault(
        'spectrum_on_one_side',
        what='The second factor has no root of the singular values.',
        file=_FACTORIZATION,
        old='u = root[:, None] * tf.transpose(right[:, :rank])',
        new='u = tf.transpose(right[:, :rank])',
        tests=(
            f'{_FACTORIZATION_TEST}'
            '::test_both_factors_get_the_root_of_the_spectrum',
        ),
    ),
    Fault(
        'whole_spectrum_on_one_side',
        what='The first factor has the singular values, the second none.',
        file=_FACTORIZATION,
        old=(
            '    v = left[:, :rank] * root\n'
            '    u = root[:, None] * tf.transpose(right[:, :rank])\n'
        ),
        new=(
            '    v = left[:, :rank] * values[:rank]\n'
            '    u = tf.transpose(right[:, :rank])\n'
        ),
        tests=_ORACLE,
    ),
    Fault(
        'trailing_directions',
        what='A tier gets the smallest singular directions.',
        file=_FACTORIZATION,
        old='low_rank.Factors(factors.v[:, :rank], factors.u[:rank])',
        new='low_rank.Factors(factors.v[:, -rank:], factors.u[-rank:])',
        tests=(
            f'{_FACTORIZATION_TEST}::test_one_decomposition_serves_all_ranks',
        ),
    ),
    Fault(
        'half_the_gradient_of_the_norm',
        what='The gradient of the squared norm misses one factor.',
        file=_FACTORIZATION,
        old='of_u = tf.matmul(tf.matmul(v, v, transpose_a=True), u)',
        new='of_u = tf.zeros_like(u)',
        tests=(f'{_FACTORIZATION_TEST}::test_gradient_of_the_squared_norm',),
    ),
    Fault(
        'both_strides_first',
        what='The first of two thin convolutions strides along both axes.',
        file=_LOW_RANK,
        old='tf.nn.conv2d(x, kernel.v, (down, 1), first)',
        new='tf.nn.conv2d(x, kernel.v, (down, right), first)',
        tests=(
            f'{_FACTORIZATION_TEST}::test_two_thin_convolutions_are_one',
        ),
    ),
    Fault(
        'all_padding_first',
        what='The first of two thin convolutions has the padding of both.',
        file=_LOW_RANK,
        old='first = [none, padding[1], none, none]',
        new='first = padding',
        tests=(
            f'{_FACTORIZATION_TEST}'
            '::test_strides_and_paddings_of_the_axes_are_apart',
        ),
    ),
    Fault(
        'ratio_of_input_channels',
        what='The rank is a share of the input channels.',
        file=_FACTORIZED,
        old='out_channels=shape[-1], min',
        new='out_channels=shape[-2], min',
        tests=(f'{_FACTORIZED_TEST}::test_rank',),
    ),
    Fault(
        'rank_cut_off',
        what='The rank is cut off and not rounded.',
        file=_FACTORIZED,
        old='round(ratio * bases[rank_base])',
        new='int(ratio * bases[rank_base])',
        tests=(f'{_FACTORIZED_TEST}::test_rank',),
    ),
    Fault(
        'rank_zero',
        what='A small layer may have the rank 0.',
        file=_FACTORIZED,
        old='min(max(1, round(',
        new='min(max(0, round(',
        tests=(f'{_FACTORIZED_TEST}::test_rank',),
    ),
    Fault(
        'ratio_one_is_factorised',
        what='Clients of full rank train factors, too.',
        file=_FACTORIZED,
        old='    if self.ratio == 1:\n      return {}\n',
        new='',
        tests=(
            f'{_FACTORIZED_TEST}::test_ratio_one_is_the_model_itself',
        ),
    ),
    Fault(
        'factorised_shortcuts',
        what='Convolutions of 1 x 1 are factorised.',
        file=_FACTORIZED,
        old='if k.shape[:-2] == (1, 1)]',
        new='if k.shape[:-2] == (0, 0)]',
        tests=(f'{_FACTORIZED_TEST}::test_what_stays_by_default',),
    ),
    Fault(
        'factorised_stem',
        what='The first layer is factorised.',
        file=_FACTORIZED,
        old='({*first, *last, *thin}, {*last, *thin}, set(thin))',
        new='({*last, *thin}, set(thin))',
        tests=(f'{_FACTORIZED_TEST}::test_what_stays_by_default',),
    ),
    Fault(
        'list_of_the_model_forgotten',
        what='What the model says of its layers has no effect.',
        file=_FACTORIZED,
        old='kept = self.base.full_rank or layers_of_full_rank(self.weights)',
        new='kept = layers_of_full_rank(self.weights)',
        tests=(f'{_FACTORIZED_TEST}::test_lists_of_layers',),
    ),
    Fault(
        'penalty_of_factors_left_out',
        what='A factorised model has no L2 penalty.',
        file=_FACTORIZED,
        old='penalty=base.penalty_by(',
        new='penalty=(lambda _: base.penalty)(',
        tests=(
            f'{_FACTORIZED_TEST}'
            '::test_computes_what_the_recovered_weights_do',
        ),
    ),
    Fault(
        'slim_is_not_the_nearest',
        what='The slim model has fewer parameters, not the nearest number.',
        file=_FACTORIZED,
        old='return abs(size(thousandths) - num_parameters)',
        new='return abs(size(thousandths) - 0.9 * num_parameters)',
        tests=(f'{_FACTORIZED_TEST}::test_slim_model_is_the_nearest_in_size',),
    ),
    Fault(
        'slim_is_never_smaller',
        what='The slim model is the first that is large enough.',
        file=_FACTORIZED,
        old='widths[max(first - 1, 0):first + 1]',
        new='widths[first:first + 1]',
        tests=(
            f'{_FACTORIZED_TEST}'
            '::test_slim_model_is_that_of_an_exhaustive_search',
        ),
    ),
    Fault(
        'slim_cut_off',
        what='Widths of slim networks are cut off and not rounded.',
        file='tff_pers/models/submodels.py',
        old='return max(1, round(wanted))',
        new='return max(1, int(wanted))',
        tests=('tests/models/zoo_test.py::test_width_scales_what_is_hidden',),
    ),
    Fault(
        'slim_without_penalty',
        what='A slim network has no L2 penalty.',
        file=_ZOO,
        old='name, x_spec, num_classes, dtype, l2, num_targets, factor * width',
        new='name, x_spec, num_classes, dtype, 0.0, num_targets, factor * width',
        tests=('tests/models/zoo_test.py::test_width_scales_what_is_hidden',),
    ),
    Fault(
        'tier_of_the_next_client',
        what='A client trains the model of another tier.',
        file=_FEDHM,
        old='tier = assign(message[\'seed\'], message[\'round\'], data[\'index\'])',
        new=(
            'tier = (1 + assign(message[\'seed\'], message[\'round\'],'
            ' data[\'index\'])) % len(tiered.ratios)'
        ),
        tests=_ORACLE,
    ),
    Fault(
        'deploys_the_largest_tier',
        what='Every client deploys the model of the first tier.',
        file=_FEDHM,
        old='tier = assign(fields[\'seed\'], fields[\'round\'], index)',
        new='tier = assign(fields[\'seed\'], fields[\'round\'], 0 * index)',
        tests=(f'{_FEDHM_TEST}::test_clients_get_the_model_of_their_tier',),
    ),
    Fault(
        'temperature_inverted',
        what='Weights are exp(gamma tau).',
        file=_FEDHM,
        old='math.exp((ratio - max(ratios)) / tau)',
        new='math.exp((ratio - max(ratios)) * tau)',
        tests=(f'{_FEDHM_TEST}::test_weights_of_the_tiers',),
    ),
    Fault(
        'small_tiers_weigh_more',
        what='Weights fall with gamma.',
        file=_FEDHM,
        old='math.exp((ratio - max(ratios)) / tau)',
        new='math.exp((min(ratios) - ratio) / tau)',
        tests=(f'{_FEDHM_TEST}::test_weights_of_the_tiers',),
    ),
    Fault(
        'softmax_over_all_tiers',
        what='Clients that do not take part count in the softmax.',
        file=_AGGREGATOR,
        old='    self._mean_factory = mean_factory or tff.aggregators.MeanFactory(\n'
            '        no_nan_division=True\n    )\n',
        new='    self._mean_factory = tff.aggregators.as_weighted_aggregator(\n'
            '        tff.aggregators.UnweightedMeanFactory()\n    )\n',
        tests=(
            f'{_FEDHM_TEST}::test_round_without_training_attenuates',
            f'{_AGGREGATOR_TEST}::test_mean_over_ranks_and_full_kernels',
        ),
    ),
    Fault(
        'examples_do_not_count',
        what='The option of weighting by examples has no effect.',
        file=_FEDHM,
        old='            client_weighting, data, hyperparameters.batch_size\n',
        new='            \'uniform\', data, hyperparameters.batch_size\n',
        tests=(f'{_FEDHM_TEST}::test_examples_can_count',),
    ),
    Fault(
        'bytes_of_full_models',
        what='Traffic is counted as if all clients had the full model.',
        file=_FEDHM,
        old='sizes = [float(size * tier.num_parameters) for tier in tiered.tiers]',
        new=(
            'sizes = [float(size * tiered.base.num_parameters)'
            ' for tier in tiered.tiers]'
        ),
        tests=(f'{_FEDHM_TEST}::test_metrics_of_a_round',),
    ),
    Fault(
        'energy_of_the_largest_ranks',
        what='The energy that all tiers have is that of the largest tier.',
        file=_TIERED,
        old='for position, rank in self.least_ranks.items():',
        new='for position, rank in self.top_ranks.items():',
        tests=(f'{_FEDHM_TEST}::test_metrics_of_a_round',),
    ),
    Fault(
        'energy_of_the_first_kernel',
        what='The energy is that of one kernel, not the mean over all.',
        file=_TIERED,
        old='    return tf.reduce_mean(shares)',
        new='    return shares[0]',
        tests=(f'{_FEDHM_TEST}::test_energy_is_the_mean_over_all_kernels',),
    ),
    Fault(
        'schedule_ignored',
        what='Clients take the step size of round 0 in every round.',
        file=_FEDHM,
        old=(
            '          learning_rate=local_step.scheduled(\n'
            '              hyperparameters, message,'
            ' hyperparameters.learning_rate\n'
            '          ),\n'
        ),
        new='          learning_rate=hyperparameters.learning_rate,\n',
        tests=_ORACLE,
    ),
    Fault(
        'dead_directions',
        what='A direction without energy always has factors of 0.',
        file=_FACTORIZATION,
        old='  is_dead = values <= error * tf.reduce_max(values)',
        new='  is_dead = values < -1.0',
        tests=_FROM_ZERO,
    ),
    Fault(
        'directions_of_the_first_round',
        what='Directions without energy are the same in every round.',
        file=_FEDHM,
        old="    return whole(weights, state['seed'], state['round'] + 1)",
        new="    return whole(weights, state['seed'], 0)",
        tests=_FROM_ZERO,
    ),
    Fault(
        'factors_of_the_first_round',
        what='The server factorises the initial model in every round.',
        file=_FEDHM,
        old=(
            "    return whole(weights, state['seed'], state['round'] + 1)\n"
            '\n  def of_client'
        ),
        new='    return dict(weights=weights)\n\n  def of_client',
        tests=_ORACLE,
    ),
    Fault(
        'signs_of_factors_are_lost',
        what='The product of a client is not that of its factors.',
        file=_AGGREGATOR,
        old='factors = low_rank.Factors(next(tensors), next(tensors))',
        new='factors = low_rank.Factors(*(abs(next(tensors)) for _ in "vu"))',
        tests=(f'{_AGGREGATOR_TEST}::test_products_are_averaged_not_factors',),
    ),
    Fault(
        'full_kernels_are_lost',
        what='A client of full rank counts as one of kernel 0.',
        file=_FACTORIZATION,
        old='return tf.reshape(whole, product.shape) + product',
        new='return 0 * tf.reshape(whole, product.shape) + product',
        tests=(f'{_AGGREGATOR_TEST}::test_mean_over_ranks_and_full_kernels',),
    ),
    Fault(
        'head_not_renormalised',
        what='Rows of rare classes shrink.',
        file=_AGGREGATOR,
        old='leaves[position] = tf.math.divide_no_nan(leaf,',
        new='leaves[position] = leaf + 0 * tf.math.divide_no_nan(leaf,',
        tests=(
            f'{_AGGREGATOR_TEST}'
            '::test_rows_of_classes_are_means_over_their_owners',
        ),
    ),
    Fault(
        'head_of_those_without_the_class',
        what='Clients without a class have a say in its row.',
        file=_AGGREGATOR,
        old='leaves[position] *= tf.cast(owned, leaves[position].dtype)',
        new='leaves[position] *= tf.ones([], leaves[position].dtype)',
        tests=(
            f'{_AGGREGATOR_TEST}'
            '::test_rows_of_classes_are_means_over_their_owners',
        ),
    ),
    Fault(
        'row_that_nobody_has_becomes_zero',
        what='The row of a class that nobody has is lost.',
        file=_MASKED,
        old='        shares > 0, leaves[position],',
        new='        shares >= 0, leaves[position],',
        tests=(f'{_FEDHM_TEST}::test_masked_classes',),
    ),
    Fault(
        'logits_are_not_masked',
        what='Absent classes keep their logits in training.',
        file=_MASKED,
        old='tf.where(classes > 0, logits, tf.zeros_like(logits))',
        new='tf.where(classes >= 0, logits, tf.zeros_like(logits))',
        tests=(f'{_FEDHM_TEST}::test_logits_of_absent_classes_are_zero',),
    ),
    Fault(
        'masked_with_infinity',
        what='Logits of absent classes are very negative, not 0.',
        file=_MASKED,
        old='logits, tf.zeros_like(logits))',
        new='logits, -1e9 * tf.ones_like(logits))',
        tests=(f'{_FEDHM_TEST}::test_logits_of_absent_classes_are_zero',),
    ),
    Fault(
        'padding_has_classes',
        what='Rows of padding count as labels of the client.',
        file=_MASKED,
        old='is_example = tf.range(tf.shape(y)[0]) < data[\'num_examples\']',
        new='is_example = tf.range(tf.shape(y)[0]) >= 0',
        tests=(f'{_FEDHM_TEST}::test_padding_has_no_classes',),
    ),
    Fault(
        'l2_on_factors',
        what='Factors decay themselves, not their product.',
        file=_DECAY,
        old='penalty = factorization.squared_norm_gradient(weight)',
        new='penalty = weight',
        tests=(f'{_FEDHM_TEST}::test_decay_is_in_the_gradient_before_momentum',),
    ),
    Fault(
        'l2_beside_frobenius_decay',
        what='Factors have the coefficient of the L2 penalty.',
        file=_DECAY,
        old='_add(g, self.frobenius_decay, p)',
        new='_add(g, self.weight_decay, p)',
        tests=(f'{_FEDHM_TEST}::test_decay_is_in_the_gradient_before_momentum',),
    ),
    Fault(
        'frobenius_decay_does_nothing',
        what='The flag of Frobenius decay has no effect.',
        file=_DECAY,
        old='frobenius_decay=hyperparameters.frobenius_decay,',
        new='frobenius_decay=0.0,',
        tests=_ORACLE,
    ),
    Fault(
        'momentum_does_nothing',
        what='The flag of momentum has no effect.',
        file='tff_pers/client_works/local_step.py',
        old='momentum=hyperparameters.momentum,',
        new='momentum=0.0,',
        tests=_ORACLE,
    ),
    Fault(
        'momentum_starts_at_the_weights',
        what='Momentum is not 0 when a round starts.',
        file='tff_pers/client_works/local_step.py',
        old='return SgdState(weights, tf.nest.map_structure(tf.zeros_like, weights))',
        new='return SgdState(weights, weights)',
        tests=_ORACLE,
    ),
    Fault(
        'smallest_is_the_largest',
        what='all_smallest are tiers of the largest ratio.',
        file=_TIERS,
        old='return (min(of_task),) * len(of_task)',
        new='return (max(of_task),) * len(of_task)',
        tests=(f'{_FEDHM_TEST}::test_ratios',),
    ),
    Fault(
        'dynamic_weights_are_equal',
        what='Dynamic tiers have equal weights by default.',
        file=_HYPERPARAMETERS,
        old='return 5.0 if assignment == \'dynamic\' else math.inf',
        new='return math.inf',
        tests=(
            f'{_FEDHM_TEST}::test_temperature_is_the_papers_by_default',
        ),
    ),
    Fault(
        'tiers_drawn_once',
        what='Dynamic tiers are the same in every round.',
        file=_ASSIGNMENT,
        old='random.key(seed, round_num, index, _TIER_USE)',
        new='random.key(seed, 0, index, _TIER_USE)',
        tests=(
            f'{_FEDHM_TEST}::test_dynamic_tiers_are_drawn_for_every_round',
        ),
    ),
    Fault(
        'all_clients_drawn_alike',
        what='All clients of a round have one dynamic tier.',
        file=_ASSIGNMENT,
        old='random.key(seed, round_num, index, _TIER_USE)',
        new='random.key(seed, round_num, _TIER_USE)',
        tests=(
            f'{_FEDHM_TEST}::test_dynamic_tiers_are_drawn_for_every_round',
        ),
    ),
    Fault(
        'tiers_in_the_order_of_clients',
        what='Fixed tiers go with the order of the clients.',
        file=_ASSIGNMENT,
        old='np.random.default_rng(_DEAL).permutation(num_clients)',
        new='np.arange(num_clients)',
        tests=(f'{_FEDHM_TEST}::test_fixed_tiers_are_equal_groups',),
    ),
    Fault(
        'given_tiers_are_forgotten',
        what='Tiers that the data give have no effect.',
        file=_ASSIGNMENT,
        old='fixed(num_clients, num_tiers) if given is None else',
        new='fixed(num_clients, num_tiers) if True else',
        tests=(f'{_FEDHM_TEST}::test_clients_get_the_model_of_their_tier',),
    ),
    Fault(
        'tier_is_a_feature',
        what='The tier of the clients is one of the features.',
        file='tff_pers/data/readings.py',
        old='      and name not in (*tables.REQUIRED, *tables.OPTIONAL)',
        new="      and name not in (*tables.REQUIRED, 'split')",
        tests=(
            'tests/data/tasks/own_data_test.py'
            '::test_csv_tiers_are_those_of_the_clients',
        ),
    ),
    Fault(
        'rank_of_the_map',
        what='The map of the regression has full rank.',
        file='tff_pers/data/tasks/low_rank_regression.py',
        old='  return (product / np.sqrt(rank)).astype(np.float32)',
        new='  product = rng.standard_normal((INPUTS, OUTPUTS))\n'
            '  return (product / np.sqrt(rank)).astype(np.float32)',
        tests=(f'{_TASKS_TEST}::test_targets_are_one_map_of_that_rank',),
    ),
    Fault(
        'one_mode_per_class',
        what='Every class has one mode, so that it is easy.',
        file='tff_pers/data/tasks/gaussian_modes.py',
        old='modes = rng.integers(MODES, size=len(labels))',
        new='modes = np.zeros(len(labels), int)',
        tests=(
            f'{_TASKS_TEST}'
            '::test_classes_are_not_linear_but_can_be_told_apart',
        ),
    ),
)
