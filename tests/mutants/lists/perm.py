"""Planted faults of PERM: Eq. (2), distances, schedule, visits, both variants."""

from tests.mutants.faults import Fault

_EXAMPLES = 'tests/algorithms/perm_examples_test.py'
_NUMPY = (f'{_EXAMPLES}::test_follows_the_algorithm_in_numpy',)
_ORACLE = (
    f'{_EXAMPLES}::test_is_near_the_oracle_with_another_model_per_client',
)
_PERM = 'tff_pers/algorithms/perm.py'
_PERM_TEST = 'tests/algorithms/perm_test.py'
_MIXING_TEST = 'tests/algorithms/perm_mixing_test.py'
_COHORTS_TEST = 'tests/algorithms/perm_cohorts_test.py'
_MIXING = 'tff_pers/algorithms/perm_mixing.py'
_SHUFFLING = 'tff_pers/algorithms/shuffling.py'
_VISITS = 'tff_pers/algorithms/visits.py'
_SCHEDULE = 'tff_pers/algorithms/visit_schedule.py'
_ROWS = 'tff_pers/algorithms/mixing_rows.py'
_LAMBDA = 'tff_pers/algorithms/perm_lambda.py'
_LAMBDA_TEST = 'tests/algorithms/perm_lambda_test.py'
_LOSSES = (f'{_LAMBDA_TEST}::test_losses_follow_numpy',)
_CLIENT = 'tff_pers/algorithms/perm_client.py'
_SERVER = 'tff_pers/algorithms/perm_server.py'
_HYPERPARAMETERS = 'tff_pers/algorithms/perm_hyperparameters.py'
_SHUFFLING_TEST = 'tests/algorithms/shuffling_test.py'
_MATCHING = 'tff_pers/numerics/matching.py'
_TABLE = 'tff_pers/algorithms/fingerprints.py'
_KEPT = (f'{_COHORTS_TEST}::test_gradients_of_cohorts_are_kept',)
_NEW = 'tff_pers/algorithms/perm_new_clients.py'
_NEW_TEST = 'tests/algorithms/perm_new_clients_test.py'
_MIXTURE = (
    f'{_NEW_TEST}'
    '::test_a_new_client_gets_the_models_whose_mixtures_make_up_its_row',
)

FAULTS = (
    Fault(
        'one_model_for_all',
        what='Every client deploys the model of client 0.',
        file=_SHUFFLING,
        old='lambda table: table[client], state',
        new='lambda table: table[0], state',
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
            f'{_SHUFFLING_TEST}'
            '::test_matching_with_all_clients_visits_supported_pairs_once',
        ),
    ),
    Fault(
        'warmup_by_one_step',
        what='w moves by one gradient per round in the warm-up.',
        file=_CLIENT,
        old='  return t < hyperparameters.first_visit\n\n\ndef measures',
        new='  return t < 0\n\n\ndef measures',
        tests=_NUMPY,
    ),
    Fault(
        'kappa_sees_what_is_held_out',
        what='lambda is chosen by models that saw the held-out examples.',
        file=_LAMBDA,
        old='return train(data), train(some), found',
        new='return train(data), train(data), found',
        tests=_LOSSES,
    ),
    Fault(
        'kappa_by_whole_gradients',
        what='Rows of the choice know the gradient of the held-out examples.',
        file=_LAMBDA,
        old='found, own.gradient\n',
        new='found, found.gradient\n',
        tests=_LOSSES,
    ),
    Fault(
        'kappa_counts_own_model_twice',
        what='The mixture of the others contains the own model.',
        file=_LAMBDA,
        old='others = tf.where(is_own, tf.zeros_like(alpha), alpha)',
        new='others = alpha',
        tests=_LOSSES,
    ),
    Fault(
        'kappa_of_one_scale',
        what='Mixtures are judged without going on.',
        file=_LAMBDA,
        old='tf.gather(_SCALES, pair[1])',
        new='tf.gather(_SCALES, 0 * pair[1])',
        tests=_LOSSES,
    ),
    Fault(
        'kappa_of_the_largest_loss',
        what='The worst kappa is taken.',
        file=_LAMBDA,
        old='tf.argmin(tf.reduce_min(losses, axis=1))',
        new='tf.argmax(tf.reduce_min(losses, axis=1))',
        tests=(f'{_LAMBDA_TEST}::test_kappa_fits_the_clients',),
    ),
    Fault(
        'kappa_chosen_anew',
        what='kappa is chosen in every round.',
        file=_LAMBDA,
        old="tf.equal(message['round'], hyperparameters.first_measure)",
        new="message['round'] >= hyperparameters.first_measure",
        tests=(f'{_LAMBDA_TEST}::test_kappa_is_chosen_once',),
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
        tests=(f'{_SHUFFLING_TEST}::test_cap_bounds_the_largest_step',),
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
        old='  return schedule.owners(hosts, num_clients)\n\n\ndef matching_owners',
        new='  return hosts\n\n\ndef matching_owners',
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
        tests=(f'{_MIXING_TEST}::test_auto_lambda_is_scaled_gradient_variance',),
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
        old='/ (1 / count_a + 1 / count_b)',
        new='/ (2 / tf.maximum(count_a, count_b))',
        tests=_NUMPY,
    ),
    Fault(
        'debias_by_one_gradient',
        what='Debiasing subtracts the noise of one of the two gradients.',
        file=_MIXING,
        old='tf.gather(noise, owners)[:, None] + noise, c.dtype)',
        new='0 * tf.gather(noise, owners)[:, None] + noise, c.dtype)',
        tests=(
            f'{_MIXING_TEST}'
            '::test_debias_subtracts_the_noise_of_both_gradients',
        ),
    ),
    Fault(
        'cold_start',
        what='Projected gradient starts from uniform weights in every round.',
        file=_MIXING,
        old='start=lambda: tf.gather(old, owners),',
        new='start=lambda: tf.nn.softmax(0 * tf.gather(old, owners)),',
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
        old='              client_weighting, data, hyperparameters.batch_size\n',
        new="              'uniform', data, hyperparameters.batch_size\n",
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
        old="    if hyperparameters.init == 'global':",
        new="    if hyperparameters.init == 'initial':",
        tests=(f'{_PERM_TEST}::test_single_loop_is_algorithm_2',),
    ),
    Fault(
        'stage_two_moves_w',
        what='Two stages: A is solved in every round of stage 2.',
        file=_CLIENT,
        old='    measured = tf.equal(t, hyperparameters.first_visit)\n',
        new='    measured = t >= hyperparameters.first_visit\n',
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
        'w_moves_between_cohorts',
        what='w moves on while gradients of other rounds are kept.',
        file=_CLIENT,
        old="hyperparameters.variant == 'two_stage' or not full_participation:",
        new="hyperparameters.variant == 'two_stage':",
        tests=_KEPT,
    ),
    Fault(
        'gradients_forgotten',
        what='Only the gradients of the present cohort are compared.',
        file=_CLIENT,
        old='return tf.minimum(t, hyperparameters.first_visit)',
        new='return t',
        tests=_KEPT,
    ),
    Fault(
        'gradients_sent_again',
        what='Clients send their gradient in every round.',
        file=_CLIENT,
        old='      tf.logical_not(is_known),\n',
        new='      tf.logical_or(tf.logical_not(is_known), True),\n',
        tests=_KEPT,
    ),
    Fault(
        'rows_of_everybody',
        what='Rows of clients that are not there are solved, too.',
        file=_MIXING,
        old="tf.where(tf.logical_and(cohort, table['sizes'] > 0))",
        new="tf.where(tf.logical_or(cohort, table['sizes'] > 0))",
        tests=_KEPT,
    ),
    Fault(
        'strangers_at_distance_0',
        what='Clients that are not in the table are at the distance of zeros.',
        file=_MIXING,
        old="        tf.where(is_known, c, float('inf')), table['sizes'], lambda_,",
        new="        tf.where(is_known, c, c), table['sizes'], lambda_,",
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
            f'{_SHUFFLING_TEST}'
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
            f'{_SHUFFLING_TEST}'
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
            f'{_SHUFFLING_TEST}'
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
            f'{_SHUFFLING_TEST}'
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
            f'{_SHUFFLING_TEST}'
            '::test_visits_follow_clients_to_other_columns',
        ),
    ),
    Fault(
        'warmup_of_the_cohort',
        what='The warm-up is as long with cohorts as with all clients.',
        file=_HYPERPARAMETERS,
        old='    return hp.replace(self, warmup_rounds=rounds)\n',
        new='    return hp.replace(self, warmup_rounds=self.warmup_rounds)\n',
        tests=(f'{_COHORTS_TEST}::test_warm_up_is_as_long_for_every_client',),
    ),
    Fault(
        'new_clients_at_another_w',
        what='New clients show their gradient at w, after the comparison.',
        file=_NEW,
        old='round=state.round, weights=state.anchor',
        new='round=state.round, weights=state.weights',
        tests=_MIXTURE,
    ),
    Fault(
        'new_clients_like_the_first',
        what='All new clients deploy the mixture of the first.',
        file=_NEW,
        old='lambda table: table[place[0]], found',
        new='lambda table: table[0 * place[0]], found',
        tests=_MIXTURE,
    ),
    Fault(
        'clients_that_trained_are_new',
        what='Clients that trained go on from their models, too.',
        file=_NEW,
        old='  return tf.cond(is_new, train, lambda: weights)',
        new='  return train()',
        tests=(f'{_NEW_TEST}::test_only_new_clients_adapt',),
    ),
    Fault(
        'new_clients_mixed_twice',
        what='A new client deploys the models combined by its row itself.',
        file=_NEW,
        old="    beta = combinations(state['mixing'], alpha)\n",
        new='    beta = alpha\n',
        tests=_MIXTURE,
    ),
    Fault(
        'new_clients_row_without_itself',
        what='The row of a new client is solved as if it had no examples.',
        file=_MIXING,
        old='  shared = row(tf.logical_or(has_trained, itself))',
        new='  shared = row(has_trained)',
        tests=_MIXTURE,
    ),
    Fault(
        'combinations_not_descended',
        what='The combination of models is where the descent starts.',
        file=_NEW,
        old='lambda k, *_: k < _NUM_STEPS, descend',
        new='lambda k, *_: k < 0, descend',
        tests=(f'{_NEW_TEST}::test_combinations_are_the_least_squares',),
    ),
)
