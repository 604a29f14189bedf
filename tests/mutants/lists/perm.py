"""Planted faults of PERM: Eq. (2), distances, w, variants, metrics."""

from tests.mutants.faults import Fault

_EXAMPLES = 'tests/algorithms/perm/perm_examples_test.py'
_NUMPY = (f'{_EXAMPLES}::test_follows_the_algorithm_in_numpy',)
_PERM = 'tff_pers/algorithms/perm/perm.py'
_PERM_TEST = 'tests/algorithms/perm/perm_test.py'
_MIXING_TEST = 'tests/algorithms/perm/perm_mixing_test.py'
_MIXING = 'tff_pers/algorithms/perm/perm_mixing.py'
_CLIENT = 'tff_pers/algorithms/perm/perm_client.py'
_SERVER = 'tff_pers/algorithms/perm/perm_server.py'
_SETTING = 'tff_pers/algorithms/perm/setting.py'
_HYPERPARAMETERS = 'tff_pers/algorithms/perm/perm_hyperparameters.py'

FAULTS = (
    Fault(
        'empty_clients_move_w',
        what='If clients have equal weights, one without examples has it, too.',
        file='tff_pers/algorithms/perm/perm_client.py',
        old="tf.logical_and(finite, data['num_examples'] > 0),",
        new='finite,',
        tests=(
            'tests/algorithms/perm/perm_test.py'
            '::test_a_client_without_examples_has_no_weight_in_w',
        ),
    ),
    Fault(
        'warmup_by_one_step',
        what='w moves by one gradient per round in the warm-up.',
        file=_SETTING,
        old='    return t < self.hyperparameters.first_visit\n',
        new='    return t < 0\n',
        tests=_NUMPY,
    ),
    Fault(
        'lambda_by_m_over_n',
        what='lambda is scaled by M / n instead of n / M.',
        file=_MIXING,
        old="tf.math.divide_no_nan(table['sizes'], rows)  # n_i / M",
        new="tf.math.divide_no_nan(rows, table['sizes'])  # n_i / M",
        tests=(
            f'{_EXAMPLES}'
            '::test_gradients_of_few_rows_follow_the_algorithm_in_numpy',
        ),
    ),
    Fault(
        'lambda_of_the_sum',
        what='lambda=auto is scaled by the sum of the variances.',
        file='tff_pers/numerics/mixing.py',
        old='return scale * total / tf.maximum(tf.reduce_sum(known), 1)',
        new='return scale * total * tf.ones_like(tf.reduce_sum(known))',
        tests=(
            f'{_MIXING_TEST}::test_auto_lambda_is_scaled_gradient_variance',
        ),
    ),
    Fault(
        'half_lambda',
        what='Water filling solves Eq. (2) with half of lambda.',
        file='tff_pers/numerics/mixing.py',
        old='  two_lambda = 2 * tf.maximum(_float64(lambda_), _TINY)\n  order',
        new='  two_lambda = tf.maximum(_float64(lambda_), _TINY)\n  order',
        tests=('tests/numerics/mixing_test.py::test_limits',),
    ),
    Fault(
        'sizes_ignored',
        what='Water filling takes all clients for equally large.',
        file='tff_pers/numerics/mixing.py',
        old='n = tf.broadcast_to(_float64(sizes), tf.shape(c))',
        new='n = tf.reduce_mean(_float64(sizes)) * tf.ones_like(c)',
        tests=('tests/numerics/mixing_test.py::test_limits',),
    ),
    Fault(
        'gradient_step_of_the_largest',
        what='Projected gradient takes the step n_max / (2 lambda).',
        file='tff_pers/numerics/mixing.py',
        old='step = tf.reduce_min(n) / two_lambda',
        new='step = tf.reduce_max(n) / two_lambda',
        tests=(
            'tests/numerics/mixing_test.py::test_projected_gradient_contracts',
        ),
    ),
    Fault(
        'not_centered',
        what='Gradients are not centered before their Gram matrix.',
        file='tff_pers/numerics/distances.py',
        old='return vectors - tf.reduce_mean(vectors, axis=0, keepdims=True)',
        new='return vectors',
        tests=(
            'tests/numerics/distances_test.py'
            '::test_common_component_needs_centering',
        ),
    ),
    Fault(
        'distances_not_squared',
        what='Distances enter Eq. (2) without the square.',
        file='tff_pers/numerics/distances.py',
        old='  return tf.where(own, tf.zeros_like(squared), squared)',
        new='  return tf.where(own, tf.zeros_like(squared), tf.sqrt(squared))',
        tests=('tests/numerics/distances_test.py::test_gram_equals_naive_loop',),
    ),
    Fault(
        'sketch_without_signs',
        what='The count sketch adds coordinates without random signs.',
        file='tff_pers/numerics/distances.py',
        old='      signs * vector, drawn // 2, num_segments=dimension',
        new='      signs * signs * vector, drawn // 2, num_segments=dimension',
        tests=(
            'tests/numerics/distances_test.py'
            '::test_sketch_keeps_the_norm_of_a_constant_vector',
        ),
    ),
    Fault(
        'sketch_of_each_client',
        what='Clients sketch under different seeds.',
        file=_CLIENT,
        old="seed = random.key(message['seed'], _SKETCH_USE)",
        new=(
            'seed = tf.cast(tf.reduce_sum(vector) * 1e6, tf.int64)'
            " + random.key(message['seed'], _SKETCH_USE)"
        ),
        tests=(f'{_PERM_TEST}::test_sketch_replaces_the_gradient',),
    ),
    Fault(
        'dropout_in_the_gradient',
        what='Dropout is on in the gradient G_i.',
        file='tff_pers/client_works/local_gradient.py',
        old='model.loss_and_gradient(weights, batch, training=False)',
        new='model.loss_and_gradient(weights, batch, training=True)',
        tests=(
            'tests/client_works/local_gradient_test.py::test_dropout_is_off',
        ),
    ),
    Fault(
        'sum_of_losses',
        what='G_i is the gradient of the sum of the losses, not of their mean.',
        file='tff_pers/client_works/local_gradient.py',
        old='lambda x, y: (x + y) / tf.maximum(count, 1), a[:2], b[:2]',
        new='lambda x, y: x + y, a[:2], b[:2]',
        tests=(
            f'{_MIXING_TEST}::test_auto_lambda_is_scaled_gradient_variance',
        ),
    ),
    Fault(
        'biased_variance',
        what='The variance of a gradient takes its halves for equally large.',
        file='tff_pers/client_works/local_gradient.py',
        old='/ (1 / rows_a + 1 / rows_b)',
        new='/ (2 / tf.maximum(rows_a, rows_b))',
        tests=_NUMPY,
    ),
    Fault(
        'debias_by_one_gradient',
        what='Debiasing subtracts the noise of one of the two gradients.',
        file=_MIXING,
        old='tf.gather(noise, owners)[:, None] + noise, d.dtype)',
        new='0 * tf.gather(noise, owners)[:, None] + noise, d.dtype)',
        tests=(
            f'{_MIXING_TEST}'
            '::test_debias_subtracts_the_noise_of_both_gradients',
        ),
    ),
    Fault(
        'cold_start',
        what='Projected gradient starts from uniform weights in every round.',
        file=_MIXING,
        old='start=lambda: tf.gather(old, owners))',
        new='start=lambda: tf.nn.softmax(0 * tf.gather(old, owners)))',
        tests=(f'{_PERM_TEST}::test_projected_gradient_is_warm_started',),
    ),
    Fault(
        'gamma_ignored',
        what='w moves by the step size of the visits.',
        file=_HYPERPARAMETERS,
        old='return self.global_learning_rate or self.learning_rate',
        new='return self.learning_rate',
        tests=_NUMPY,
    ),
    Fault(
        'uniform_mean_of_gradients',
        what='The mean of line (a) ignores the clients\' weights.',
        file=_CLIENT,
        old=(
            '                self.client_weighting, data, self.hyperparameter'
            's.batch_size\n'
        ),
        new=(
            "                'uniform', data, self.hyperparameters.batch_size"
            '\n'
        ),
        tests=_NUMPY,
    ),
    Fault(
        'stale_weights',
        what='Visits always use the mixing weights of the round before.',
        file=_PERM,
        old='mixing = state.mixing if hyperparameters.one_trip',
        new='mixing = state.mixing if not hyperparameters.one_trip',
        tests=(f'{_PERM_TEST}::test_single_loop_is_algorithm_2',),
    ),
    Fault(
        'models_from_the_start',
        what='Visits start from the initial weights, not from w.',
        file=_SERVER,
        old="      if self.hyperparameters.init == 'initial':",
        new="      if self.hyperparameters.init == 'global':",
        tests=(f'{_PERM_TEST}::test_single_loop_is_algorithm_2',),
    ),
    Fault(
        'stage_two_moves_w',
        what='Two stages: A is solved in every round of stage 2.',
        file=_SETTING,
        old='        measured = tf.equal(t, hyperparameters.first_visit)\n',
        new='        measured = t >= hyperparameters.first_visit\n',
        tests=(f'{_PERM_TEST}::test_cost_is_that_of_the_sheet',),
    ),
    Fault(
        'no_local_steps_in_stage_one',
        what='Stage 1 stops after one local step.',
        file=_CLIENT,
        old='seed=client_work.key(message, data), **hyperparameters.budget(),',
        new=(
            'seed=client_work.key(message, data),'
            ' **dict(hyperparameters.budget(), num_steps=1),'
        ),
        tests=(f'{_PERM_TEST}::test_two_stage_is_algorithm_3_then_1',),
    ),
    Fault(
        'few_known_are_centered_with_zeros',
        what='Gradients are centered with the zeros of who sent none.',
        file=_MIXING,
        old="self.table['fingerprints'], sizes > 0, clients, owners",
        new="self.table['fingerprints'], sizes >= 0, clients, owners",
        tests=(
            'tests/algorithms/perm/perm_few_known_test.py'
            '::test_rows_of_few_known_clients_are_exact',
        ),
    ),
    Fault(
        'mean_over_all_rows',
        what='The mean of some rows is divided by the number of all.',
        file='tff_pers/numerics/distances.py',
        old='number = tf.reduce_sum(tf.cast(counts, vectors.dtype))',
        new='number = tf.cast(tf.size(counts), vectors.dtype)',
        tests=(
            'tests/numerics/distances_test.py'
            '::test_the_mean_is_of_the_rows_that_count',
        ),
    ),
    Fault(
        'visits_in_vain_are_work',
        what='A client that trains with weight 0 is not counted as idle.',
        file=_SERVER,
        old='works = tf.logical_and(hosted >= 0, weight > 0)',
        new='works = tf.logical_and(hosted >= 0, weight >= 0)',
        tests=(f'{_MIXING_TEST}::test_visits_in_vain_are_idle',),
    ),
    Fault(
        'alone_with_half',
        what='Half of the weight on itself counts as learning alone.',
        file=_MIXING,
        old='own >= _ALONE, tf.float32)),\n',
        new='own >= _ALONE / 2, tf.float32)),\n',
        tests=(f'{_MIXING_TEST}::test_health_of_the_weights',),
    ),
    Fault(
        'rule_ignored',
        what='w moves by the mean, whatever rule was asked for.',
        file=_SERVER,
        old='factory = choice.chosen(self.hyperparameters) or mean',
        new='factory = mean',
        tests=(f'{_PERM_TEST}::test_a_robust_rule_moves_w',),
    ),
    Fault(
        'silence_about_no_visits',
        what='The end of a run speaks of mixing weights that nobody solved for.',
        file='tff_pers/experiments/outputs.py',
        old="  if not last['lambda']:\n",
        new='  if False:\n',
        tests=(
            'tests/experiments/outputs_test.py'
            '::test_a_sentence_says_how_much_was_mixed',
        ),
    ),
)
