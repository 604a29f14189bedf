"""Planted faults of FLoRAL: adaptors, routers, preconditioner, averaging."""

from tests.mutants.faults import Fault

_HYPERPARAMETERS = 'tff_pers/algorithms/floral/floral_hyperparameters.py'
_ALGORITHM = 'tff_pers/algorithms/floral/floral.py'
_ALGORITHM_TEST = 'tests/algorithms/floral/floral_test.py'
_ADAPT = (
    f'{_ALGORITHM_TEST}::test_hyperparameters_say_what_adaptors_are_like',
)
_OWN_RATE = (
    f'{_ALGORITHM_TEST}'
    '::test_adaptors_may_have_their_own_rate_or_no_preconditioner',
)
_ADAPTED = 'tff_pers/models/adapted_model.py'
_ADAPTORS_TEST = 'tests/models/adaptors_test.py'
_LAYERS = 'tff_pers/models/adaptor_layers.py'
_ROUTERS = 'tff_pers/algorithms/floral/floral_routers.py'
_TRAINING = 'tff_pers/client_works/router_training.py'
_TRAINING_TEST = 'tests/client_works/router_training_test.py'
_AGGREGATOR = 'tff_pers/aggregators/router.py'
_CLUSTERS = 'tff_pers/evaluation/clusters.py'
_AGGREGATOR_TEST = 'tests/aggregators/router_test.py'

FAULTS = (
    Fault(
        'adaptor_rate_ignored',
        what='Adaptors move by the step size of the base.',
        file=_HYPERPARAMETERS,
        old='    if not isinstance(self.adaptor_learning_rate, str):\n',
        new='    if False:\n',
        tests=_OWN_RATE,
    ),
    Fault(
        'always_preconditioned',
        what='precondition=false has no effect.',
        file=_ALGORITHM,
        old='precondition=hyperparameters.precondition,',
        new='precondition=True,',
        tests=_OWN_RATE,
    ),
    Fault(
        'never_preconditioned',
        what='Gradients of factors are never preconditioned.',
        file=_ALGORITHM,
        old='precondition=hyperparameters.precondition,',
        new='precondition=False,',
        tests=_OWN_RATE,
    ),
    Fault(
        'conv_form_ignored',
        what='Convolutions are always factorised as balanced_2d.',
        file=_HYPERPARAMETERS,
        old='conv_form=self.conv_form,',
        new='',
        tests=_ADAPT,
    ),
    Fault(
        'adapt_norm_ignored',
        what='Normalizations never have adaptors.',
        file=_HYPERPARAMETERS,
        old='adapt_norm=self.adapt_norm,\n',
        new='\n',
        tests=_ADAPT,
    ),
    Fault(
        'adapt_bias_ignored',
        what='Biases always have adaptors.',
        file=_HYPERPARAMETERS,
        old='adapt_bias=self.adapt_bias,',
        new='',
        tests=_ADAPT,
    ),
    Fault(
        'other_eps',
        what='The preconditioner has eps = 1e-3 by default.',
        file=_ADAPTED,
        old='eps: float = 1e-5,',
        new='eps: float = 1e-3,',
        tests=(
            f'{_ADAPTORS_TEST}'
            '::test_preconditioner_is_by_default_that_of_the_sheet',
        ),
    ),
    Fault(
        'other_conv_norm',
        what='The Gram of a convolution sums over the window by default.',
        file=_ADAPTED,
        old="conv_norm: str = 'spatial'",
        new="conv_norm: str = 'matrix'",
        tests=(
            f'{_ADAPTORS_TEST}'
            '::test_preconditioner_is_by_default_that_of_the_sheet',
        ),
    ),
    Fault(
        'training_has_another_eps',
        what='Training asks the preconditioner for eps = 1e-3.',
        file=_TRAINING,
        old="adapted.precondition(w['adaptors'], g_adaptors)",
        new="adapted.precondition(w['adaptors'], g_adaptors, 1e-3)",
        tests=(
            f'{_TRAINING_TEST}'
            '::test_a_step_moves_all_parts_from_the_old_point',
        ),
    ),
    Fault(
        'own_gram',
        what='Each factor is preconditioned by its own Gram matrix.',
        file=_LAYERS,
        old="u=rescaled('u', 'v'), v=rescaled('v', 'u')",
        new="u=rescaled('u', 'u'), v=rescaled('v', 'v')",
        tests=(
            f'{_ADAPTORS_TEST}'
            '::test_each_factor_is_preconditioned_by_the_other',
        ),
    ),
    Fault(
        'convolutions_as_matrices',
        what='Convolutions are preconditioned by a matrix.',
        file='tff_pers/models/adaptor_plan.py',
        old="has_matrix_gram=self.conv_form == 'reshaped_linear',",
        new='has_matrix_gram=True,',
        tests=(
            f'{_ADAPTORS_TEST}'
            '::test_each_factor_is_preconditioned_by_the_other',
        ),
    ),
    Fault(
        'eps_inside_the_norm',
        what='eps is added to the Gram of a convolution, not to its norm.',
        file='tff_pers/numerics/low_rank.py',
        old='      norm + eps, [-1] + [1] * (gradient.shape.rank - 1)',
        new=(
            '      tf.sqrt(norm * norm + eps),'
            ' [-1] + [1] * (gradient.shape.rank - 1)'
        ),
        tests=(
            'tests/numerics/low_rank_test.py'
            '::test_gram_norm_keeps_positions_apart',
        ),
    ),
    Fault(
        'factors_are_mixed',
        what='The mixture weighs both factors, so products by its square.',
        file='tff_pers/numerics/low_rank.py',
        old='    v = scale * v\n  else',
        new='    v, u = scale * v, scale * u\n  else',
        tests=(
            'tests/numerics/low_rank_test.py'
            '::test_products_are_mixed_not_factors',
        ),
    ),
    Fault(
        'equal_adaptors',
        what='All adaptors start with the same factors.',
        file=_LAYERS,
        old=(
            'return tf.random.stateless_uniform(shape, key, -limit, limit,'
            ' dtype)'
        ),
        new=(
            'return tf.repeat(tf.random.stateless_uniform([1, *shape[1:]],'
            ' key, -limit, limit, dtype), shape[0], axis=0)'
        ),
        tests=(
            f'{_ADAPTORS_TEST}'
            '::test_adaptors_start_apart_and_follow_the_seed',
        ),
    ),
    Fault(
        'divided_by_the_rank',
        what='The change of a kernel is divided by the rank.',
        file=_LAYERS,
        old='product = low_rank.mixed_product(*self._as_matrices(factors), mix)',
        new=(
            'product = low_rank.mixed_product(*self._as_matrices(factors),'
            ' mix / self.rank)'
        ),
        tests=(f'{_ADAPTORS_TEST}::test_effective_weights_mix_products',),
    ),
    Fault(
        'rank_not_clipped',
        what='A budget may buy rank 0.',
        file='tff_pers/models/adaptor_forms.py',
        old='return max(1, min(rank, full // form.multiplicity))',
        new='return max(0, min(rank, full // form.multiplicity))',
        tests=(
            'tests/models/adaptor_forms_test.py'
            '::test_rank_is_at_least_one_and_at_most_full',
        ),
    ),
    Fault(
        'window_split_the_dear_way',
        what='balanced_2d splits the window the way that costs more.',
        file='tff_pers/models/adaptor_forms.py',
        old="      'balanced_2d': min(",
        new="      'balanced_2d': max(",
        tests=(
            'tests/models/adaptor_forms_test.py'
            '::test_window_is_split_the_cheaper_way',
        ),
    ),
    Fault(
        'router_at_the_rate_of_adaptors',
        what='The router moves by the step size of the adaptors.',
        file=_TRAINING,
        old='  rate = rates._asdict()\n  unclipped',
        new=(
            '  rate = dict(rates._asdict(), router=rates.adaptors)\n'
            '  unclipped'
        ),
        tests=(
            f'{_TRAINING_TEST}'
            '::test_a_step_moves_all_parts_from_the_old_point',
        ),
    ),
    Fault(
        'slope_of_the_logits',
        what='The step without a scale forgets to divide by pi.',
        file=_TRAINING,
        old='h = tf.math.divide_no_nan(g_theta, pi)',
        new='h = g_theta',
        tests=(
            f'{_TRAINING_TEST}'
            '::test_scale_free_direction_is_the_slope_in_the_mixture',
        ),
    ),
    Fault(
        'underflow_is_not_a_number',
        what='A mixture weight of 0 gives a step that is not a number.',
        file=_TRAINING,
        old='h = tf.math.divide_no_nan(g_theta, pi)',
        new='h = g_theta / pi',
        tests=(
            f'{_TRAINING_TEST}'
            '::test_scale_free_direction_of_what_cannot_move_is_zero',
        ),
    ),
    Fault(
        'largest_slope_with_its_sign',
        what='The step is divided by the largest h, not by the largest |h|.',
        file=_TRAINING,
        old='h / (tf.reduce_max(tf.abs(h)) + ',
        new='h / (tf.reduce_max(h) + ',
        tests=(
            f'{_TRAINING_TEST}'
            '::test_scale_free_direction_is_the_slope_in_the_mixture',
        ),
    ),
    Fault(
        'noise_moves_full_steps',
        what='Slopes that are nearly 0 move a logit by a full step.',
        file=_TRAINING,
        old='_FLAT = 1e-3',
        new='_FLAT = 1e-12',
        tests=(
            f'{_TRAINING_TEST}'
            '::test_scale_free_direction_of_what_cannot_move_is_zero',
        ),
    ),
    Fault(
        'slope_without_the_noise',
        what='The slope is divided by the weights without their noise.',
        file=_TRAINING,
        old='scale_free(g_theta, mix(theta, batch.seed))',
        new='scale_free(g_theta, tf.nn.softmax(theta))',
        tests=(
            f'{_TRAINING_TEST}'
            '::test_scale_free_step_is_joint_and_with_the_weights_in_use',
        ),
    ),
    Fault(
        'scale_free_step_is_clipped',
        what='Clipping shortens the step without a scale.',
        file=_TRAINING,
        old="('router',) if router_step == 'scale_free' else ()",
        new='()',
        tests=(
            f'{_TRAINING_TEST}'
            '::test_clipping_leaves_the_scale_free_step_alone',
        ),
    ),
    Fault(
        'router_step_ignored',
        what="Routers always take the paper's step.",
        file=_ALGORITHM,
        old='router_step=hyperparameters.router_step, **options',
        new="router_step='gradient', **options",
        tests=_OWN_RATE,
    ),
    Fault(
        'new_clients_spend_a_warmup',
        what='New clients take the steps of stateless ones.',
        file=_ROUTERS,
        old='tf.where(never_trains, self._hp.adapt_epochs, 0)',
        new='tf.where(never_trains, self._hp.router_warmup_steps, 0)',
        tests=(
            f'{_ALGORITHM_TEST}'
            '::test_clients_that_never_train_learn_a_router',
        ),
    ),
    Fault(
        'warmup_ignores_the_step',
        what='Routers that are learned alone always follow the gradient.',
        file=_ROUTERS,
        old='router_step=hyperparameters.router_step',
        new="router_step='gradient'",
        tests=(
            f'{_ALGORITHM_TEST}'
            '::test_clients_that_never_train_learn_a_router',
        ),
    ),
    Fault(
        'overlap_of_the_most_distant',
        what='The overlap is that of the two clusters farthest apart.',
        file=_CLUSTERS,
        old='return max(\n      (float(',
        new='return min(\n      (float(',
        tests=(
            'tests/evaluation/clusters_test.py'
            '::test_overlap_is_that_of_the_nearest_two_clusters',
        ),
    ),
    Fault(
        'load_of_the_decided',
        what='Every adaptor with any weight counts as used.',
        file=_CLUSTERS,
        old='used=len(np.unique(of_router(router)))',
        new='used=int(np.any(router, axis=0).sum())',
        tests=(
            'tests/evaluation/clusters_test.py'
            '::test_a_shared_adaptor_shows_in_load_and_overlap',
        ),
    ),
    Fault(
        'noise_about_zero',
        what='The noise of the router is U[-1, 1), not U[0, 1).',
        file=_TRAINING,
        old='logits += tf.constant(noise, logits.dtype) * draw',
        new='logits += tf.constant(noise, logits.dtype) * (2 * draw - 1)',
        tests=(
            f'{_TRAINING_TEST}'
            '::test_noise_explores_and_a_minimum_bounds_the_mix',
        ),
    ),
    Fault(
        'router_before_training',
        what='Adaptors are averaged with the routers of before the round.',
        file=_ALGORITHM,
        old=(
            '    router, weights, loss = local_steps(router, message, data)\n'
            '    pi = routers.probabilities(router)'
        ),
        new=(
            '    pi = routers.probabilities(router)\n'
            '    router, weights, loss = local_steps(router, message, data)\n'
        ),
        tests=(
            f'{_ALGORITHM_TEST}'
            '::test_server_averages_with_the_routers_after_training',
        ),
    ),
    Fault(
        'adaptors_by_examples',
        what='Adaptors are averaged like the base, whichever clients use them.',
        file=_AGGREGATOR,
        old='return tf.concat([n[None], n * tf.cast(router, tf.float32)], axis=0)',
        new=(
            'return tf.concat([n[None], n * tf.ones_like(router, tf.float32)],'
            ' axis=0)'
        ),
        tests=(
            f'{_ALGORITHM_TEST}'
            '::test_server_averages_with_the_routers_after_training',
        ),
    ),
    Fault(
        'base_by_use',
        what='The base is averaged with the weights of adaptor 0.',
        file=_AGGREGATOR,
        old='return operation(x, tf.cast(weight[0], x.dtype))',
        new='return operation(x, tf.cast(weight[-1], x.dtype))',
        tests=(f'{_AGGREGATOR_TEST}::test_base_by_examples_and_adaptors_by_use',),
    ),
    Fault(
        'unnormalised_shares',
        what='Centering gets shares that do not sum to one.',
        file=_AGGREGATOR,
        old='shares = tf.math.divide_no_nan(weight[1:], weight[0])',
        new='shares = weight[1:]',
        tests=(
            f'{_AGGREGATOR_TEST}'
            '::test_shares_say_how_much_each_adaptor_is_used',
        ),
    ),
    Fault(
        'router_forgotten',
        what='A stateful client starts every round with a uniform router.',
        file=_ROUTERS,
        old=(
            '    if self._stateful:\n'
            "      return client_state['router']\n"
        ),
        new=(
            '    if self._stateful:\n'
            "      return tf.zeros_like(client_state['router'])\n"
        ),
        tests=(
            f'{_ALGORITHM_TEST}'
            '::test_noise_is_for_training_and_a_minimum_for_deployment_too',
        ),
    ),
    Fault(
        'no_bound_at_deployment',
        what='The lower bound of the mix is for training alone.',
        file=_ROUTERS,
        old='        minimum=hyperparameters.min_mix_prob\n',
        new='        minimum=0.0\n',
        tests=(
            f'{_ALGORITHM_TEST}'
            '::test_noise_is_for_training_and_a_minimum_for_deployment_too',
        ),
    ),
    Fault(
        'no_warmup',
        what='Stateless clients do not learn a router before the joint steps.',
        file=_ROUTERS,
        old='return self._learn(message, data, self._hp.router_warmup_steps)\n',
        new='return self._learn(message, data, 0)\n',
        tests=(
            f'{_ALGORITHM_TEST}'
            '::test_stateless_clients_warm_their_router_up_in_every_round',
        ),
    ),
    Fault(
        'exponential_of_the_gain',
        what='MFL prefers the model of the largest loss.',
        file='tff_pers/client_works/mfl.py',
        old='return -tf.constant(rate, dtype) * losses',
        new='return tf.constant(rate, dtype) * losses',
        tests=(
            'tests/client_works/mfl_test.py'
            '::test_exponential_router_minimizes_its_objective',
        ),
    ),
    Fault(
        'adaptor_server_rate_ignored',
        what='Adaptors have the server step size of the base.',
        file=_HYPERPARAMETERS,
        old=(
            "build(self.server_learning_rate if rate == 'auto' else rate)"
        ),
        new='build(self.server_learning_rate)',
        tests=(
            f'{_ALGORITHM_TEST}::test_adaptors_may_have_their_own_server_rate',
        ),
    ),
    Fault(
        'mean_adaptor_is_lost',
        what='Centering takes the mean from the biases, and drops it.',
        file=_LAYERS,
        old='    return mean, parameters - mean[None]\n',
        new='    return 0 * mean, parameters - mean[None]\n',
        tests=(
            f'{_ADAPTORS_TEST}'
            '::test_centering_moves_the_mean_of_vectors_exactly',
        ),
    ),
    Fault(
        'gradient_flows_to_the_scale',
        what='Batch-NorA lets gradients of the shift into the scale.',
        file='tff_pers/numerics/normalization.py',
        old='offset + shift * tf.stop_gradient(scale)',
        new='offset + shift * scale',
        tests=(
            'tests/numerics/normalization_test.py'
            '::test_offset_sends_no_gradient_to_the_scale',
        ),
    ),
    Fault(
        'entropy_with_the_wrong_sign',
        what='Routers that are undecided have a negative entropy.',
        file=_ALGORITHM,
        old='router_entropy=-tf.reduce_sum(',
        new='router_entropy=tf.reduce_sum(',
        tests=(
            f'{_ALGORITHM_TEST}::test_reports_how_undecided_routers_are',
        ),
    ),
)
