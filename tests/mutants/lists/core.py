"""Planted faults of what all methods stand on: data, batches, keys, models."""

from tests.mutants.faults import Fault

_CLIENT_DATA = 'tff_pers/data/client_data.py'
_CLIENT_DATA_TEST = 'tests/data/client_data_test.py'
_FUNCTIONAL = 'tff_pers/models/functional.py'
_LOCAL_SGD = 'tff_pers/client_works/local_sgd.py'
_LOCAL_SGD_TEST = 'tests/client_works/local_sgd_test.py'
_CLIENT_WORK = 'tff_pers/client_works/client_work.py'
_TFF_CLIENT_WORK = 'tff_pers/client_works/tff_client_work.py'
_MIXTURES = 'tff_pers/models/mixtures.py'
_MIXTURES_TEST = 'tests/models/mixtures_test.py'
_STEPS = 'tff_pers/composition/round_steps.py'
_COMPOSITION_TEST = 'tests/composition/composer_test.py'
_ABSENCE = 'tff_pers/aggregators/absence.py'
_ABSENCE_TEST = 'tests/aggregators/absence_test.py'
_SUMMARY = 'tff_pers/evaluation/summary.py'
_SUMMARY_TEST = 'tests/evaluation/summary_test.py'

FAULTS = (
    Fault(
        'same_batches_every_epoch',
        what='All epochs of a round visit the rows in one order.',
        file=_CLIENT_DATA,
        old='tf.random.stateless_uniform([capacity, epochs], seed)',
        new=(
            'tf.tile(tf.random.stateless_uniform([capacity, 1], seed),'
            ' [1, epochs])'
        ),
        tests=(f'{_CLIENT_DATA_TEST}::test_epochs_are_permuted_afresh',),
    ),
    Fault(
        'batches_depend_on_padding',
        what='The order of the rows depends on how many are padding.',
        file=_CLIENT_DATA,
        old='order_keys = tf.random.stateless_uniform([capacity, epochs], seed)',
        new=(
            'order_keys = tf.transpose(tf.random.stateless_uniform('
            '[epochs, capacity], seed))'
        ),
        tests=(f'{_CLIENT_DATA_TEST}::test_padding_never_changes_batches',),
    ),
    Fault(
        'padding_is_trained_on',
        what='Rows of padding are in the batches.',
        file=_CLIENT_DATA,
        old='is_padding = tf.range(capacity)[:, None] >= num_examples',
        new='is_padding = tf.range(capacity)[:, None] > num_examples',
        tests=(f'{_CLIENT_DATA_TEST}::test_padding_never_changes_batches',),
    ),
    Fault(
        'filler_is_padding',
        what='Masked rows are those of padding, whose loss may be undefined.',
        file=_CLIENT_DATA,
        old='return tf.minimum(positions, tf.maximum(last, 0))',
        new='return positions + 0 * last',
        tests=(
            f'{_CLIENT_DATA_TEST}'
            '::test_a_loss_undefined_at_padding_trains_as_without',
        ),
    ),
    Fault(
        'empty_clients_count',
        what='A client without examples has the weight that its work gives.',
        file=_STEPS,
        old="counts = tf.logical_and(finite, data['num_examples'] > 0)",
        new='counts = finite',
        tests=(
            f'{_COMPOSITION_TEST}::test_a_client_without_examples_is_absent',
        ),
    ),
    Fault(
        'empty_clients_count_in_tff',
        what="A client without examples counts in TFF's learning processes.",
        file=_TFF_CLIENT_WORK,
        old='counts = tf.logical_and(is_finite, _has_examples(dataset))',
        new='counts = is_finite',
        tests=(
            f'{_LOCAL_SGD_TEST}::test_clients_of_nan_and_without_examples_do_'
            'not_count_in_tff',
        ),
    ),
    Fault(
        'untested_clients_count',
        what="A client without test examples makes TFF's evaluation NaN.",
        file='tff_pers/simulation/learning_process.py',
        old="counts = found['num_examples'] > 0",
        new="counts = found['num_examples'] > -1",
        tests=(
            'tests/simulation/learning_process_test.py'
            '::test_evaluation_is_the_mean_over_clients',
        ),
    ),
    Fault(
        'short_batch_is_dropped',
        what='The short last batch of an epoch is left out.',
        file=_CLIENT_DATA,
        old='return -(-num_examples // batch_size)',
        new='return num_examples // batch_size',
        tests=(
            f'{_CLIENT_DATA_TEST}'
            '::test_each_epoch_is_a_permutation_with_short_last_batch',
        ),
    ),
    Fault(
        'filler_rows_count',
        what='Filler rows of a short batch are in its mask.',
        file=_CLIENT_DATA,
        old='(position < num_examples)[:, None], tf.shape(rows)',
        new='(position < per_epoch * size)[:, None], tf.shape(rows)',
        tests=(
            f'{_CLIENT_DATA_TEST}'
            '::test_each_epoch_is_a_permutation_with_short_last_batch',
        ),
    ),
    Fault(
        'one_dropout_for_all_steps',
        what='Every step of a round has the same key for dropout.',
        file=_CLIENT_DATA,
        old='            mask[t], random.fold_in(seed, t),\n        )\n        for seed, (rows',
        new='            mask[t], random.fold_in(seed, 0),\n        )\n        for seed, (rows',
        tests=(f'{_CLIENT_DATA_TEST}::test_steps_have_keys_of_their_own',),
    ),
    Fault(
        'key_without_the_round',
        what='Clients draw the same batches in every round.',
        file=_CLIENT_WORK,
        old="random.key(message['seed'], message['round'], index, use)",
        new="random.key(message['seed'], 0, index, use)",
        tests=(
            f'{_LOCAL_SGD_TEST}::test_key_depends_on_seed_round_client_and_use',
        ),
    ),
    Fault(
        'key_without_the_client',
        what='All clients draw under one key.',
        file=_CLIENT_WORK,
        old="random.key(message['seed'], message['round'], index, use)",
        new="random.key(message['seed'], message['round'], 0, use)",
        tests=(
            f'{_LOCAL_SGD_TEST}::test_key_depends_on_seed_round_client_and_use',
        ),
    ),
    Fault(
        'weight_by_whole_batches',
        what='client_weighting=batches rounds down.',
        file=_CLIENT_WORK,
        old='examples = client_data.batches_per_epoch(examples, batch_size)',
        new='examples = examples // batch_size',
        tests=(
            f'{_LOCAL_SGD_TEST}'
            '::test_client_weight_of_dense_data_and_of_batches',
        ),
    ),
    Fault(
        'sequences_draw_alike_in_every_round',
        what="As a client work of TFF the round's number stays 0.",
        file=_TFF_CLIENT_WORK,
        old="seed=state['seed'], round=state['round'] + 1)",
        new="seed=state['seed'], round=state['round'] + 0)",
        tests=(
            f'{_LOCAL_SGD_TEST}'
            '::test_both_forms_train_alike_in_a_tff_learning_process',
        ),
    ),
    Fault(
        'update_is_final_minus_initial',
        what='The update that is sent up has the other sign.',
        file=_LOCAL_SGD,
        old='return tf.nest.map_structure(tf.subtract, initial, final)',
        new='return tf.nest.map_structure(tf.subtract, final, initial)',
        tests=(
            f'{_LOCAL_SGD_TEST}'
            '::test_update_is_initial_minus_final_and_keeps_the_client_state',
        ),
    ),
    Fault(
        'ascent',
        what='Local steps go up the gradient.',
        file='tff_pers/client_works/local_step.py',
        old='return w - tf.cast(rate, w.dtype) * g',
        new='return w + tf.cast(rate, w.dtype) * g',
        tests=(f'{_LOCAL_SGD_TEST}::test_train_matches_numpy',),
    ),
    Fault(
        'all_gradients_at_the_start',
        what='All local steps take the gradient at the received weights.',
        file=_LOCAL_SGD,
        old='loss, gradient = model.loss_and_gradient(sgd.weights, batch)',
        new='loss, gradient = model.loss_and_gradient(weights, batch)',
        tests=(f'{_LOCAL_SGD_TEST}::test_train_matches_numpy',),
    ),
    Fault(
        'mean_over_filler_rows',
        what='The mean loss divides by the size of a batch, filler included.',
        file=_FUNCTIONAL,
        old='count = tf.maximum(self.batch_weight(batch, losses.dtype), 1)',
        new='count = tf.cast(tf.size(losses), losses.dtype)',
        tests=(f'{_LOCAL_SGD_TEST}::test_train_matches_numpy',),
    ),
    Fault(
        'penalty_is_lost',
        what='The penalty is not in the loss that is trained on.',
        file=_FUNCTIONAL,
        old='return total / count + tf.cast(self.penalty(weights), losses.dtype)',
        new=(
            'return total / count'
            ' + 0 * tf.cast(self.penalty(weights), losses.dtype)'
        ),
        tests=('tests/models/zoo_test.py::test_l2_adds_half_the_squared_norm',),
    ),
    Fault(
        'dropout_at_evaluation',
        what='Models are evaluated with dropout on.',
        file=_FUNCTIONAL,
        old='predictions = self.predict(weights, batch.x, False, batch.seed)',
        new='predictions = self.predict(weights, batch.x, True, batch.seed)',
        tests=('tests/models/functional_test.py::test_metrics_are_without_dropout',),
    ),
    Fault(
        'l2_without_the_half',
        what='The L2 penalty is twice what it should be.',
        file='tff_pers/models/zoo_layers.py',
        old='return l2 * tf.add_n([tf.nn.l2_loss(w) for w in trained])',
        new='return 2 * l2 * tf.add_n([tf.nn.l2_loss(w) for w in trained])',
        tests=('tests/models/zoo_test.py::test_l2_adds_half_the_squared_norm',),
    ),
    Fault(
        'layers_start_alike',
        what='Layers of one shape start with the same weights.',
        file='tff_pers/models/zoo_layers.py',
        old='initial_weight(weight, random.fold_in(seed, position), dtype)',
        new='initial_weight(weight, random.fold_in(seed, 0 * position), dtype)',
        tests=('tests/models/zoo_test.py::test_layers_of_one_shape_start_apart',),
    ),
    Fault(
        'equal_models_in_the_table',
        what='All models of a table start alike.',
        file=_MIXTURES,
        old='key = random.key(seed, _TABLE_USE, attempt, c)',
        new='key = random.key(seed, _TABLE_USE, attempt, 0)',
        tests=(
            f'{_MIXTURES_TEST}'
            '::test_initial_models_are_distinct_and_the_first_is_the_run_s',
        ),
    ),
    Fault(
        'restarts_repeat_the_draw',
        what='Another attempt draws the same models.',
        file=_MIXTURES,
        old='key = random.key(seed, _TABLE_USE, attempt, c)',
        new='key = random.key(seed, _TABLE_USE, 0 * attempt, c)',
        tests=(f'{_MIXTURES_TEST}::test_another_attempt_draws_all_models_anew',),
    ),
    Fault(
        'probabilities_mixed_as_logits',
        what='Mixtures of probabilities mix logits.',
        file=_MIXTURES,
        old='  if by_probability:\n',
        new='  if False:\n',
        tests=(
            f'{_MIXTURES_TEST}::test_probabilities_and_logits_may_disagree',
        ),
    ),
    Fault(
        'row_of_the_wrong_client',
        what='Rows that come back are written in their order of arrival.',
        file='tff_pers/aggregators/shuffling.py',
        old='    at = tf.math.invert_permutation(keys)\n',
        new='    at = tf.range(tf.size(keys))\n',
        tests=(
            'tests/aggregators/shuffling_test.py'
            '::test_scatter_writes_rows_at_their_keys',
        ),
    ),
    Fault(
        'same_cohort_every_round',
        what='The cohort does not depend on the round.',
        file='tff_pers/simulation/cohort.py',
        old=(
            '    chosen = generator.choice(num_clients, clients_per_round,'
            ' replace=False)\n'
        ),
        new=(
            '    generator = np.random.default_rng([_COHORT, seed])\n'
            '    chosen = generator.choice(num_clients, clients_per_round,'
            ' replace=False)\n'
        ),
        tests=(
            'tests/simulation/cohort_test.py'
            '::test_uniform_samples_every_client_equally',
        ),
    ),
    Fault(
        'test_examples_in_training',
        what='Test examples are among those that are trained on.',
        file='tff_pers/data/split.py',
        old='rows = np.split(order, [num_train])',
        new='rows = order[:num_train], rng.permutation(size)[num_train:]',
        tests=(
            'tests/data/split_test.py'
            '::test_split_deals_out_all_rows_and_keeps_one_to_train_and_test',
        ),
    ),
    Fault(
        'best_clients_are_the_worst',
        what='The worst decile of losses is the one of the smallest.',
        file=_SUMMARY,
        old='(values if higher_is_better else -values, ~np.isnan(values))',
        new='(values, ~np.isnan(values))',
        tests=(f'{_SUMMARY_TEST}::test_large_losses_are_the_worst',),
    ),
    Fault(
        'client_of_nan_is_the_best',
        what='A client whose metric is NaN counts as the best one.',
        file=_SUMMARY,
        old=', ~np.isnan(values))',
        new=', np.isnan(values))',
        tests=(f'{_SUMMARY_TEST}::test_a_client_of_nan_is_the_worst',),
    ),
    Fault(
        'clients_without_test_examples_count',
        what='Clients without test examples are in the mean.',
        file=_SUMMARY,
        old='values, weights = values[weights > 0], weights[weights > 0]',
        new='values, weights = values[weights >= 0], weights[weights >= 0]',
        tests=(
            f'{_SUMMARY_TEST}::test_clients_without_test_examples_are_left_out',
        ),
    ),
    Fault(
        'equal_clients_are_hurt',
        what='Clients that are as well off as before count as hurt.',
        file=_SUMMARY,
        old='worse = values < reference if higher_is_better else',
        new='worse = values <= reference if higher_is_better else',
        tests=(
            f'{_SUMMARY_TEST}::test_share_hurt_counts_strictly_worse_clients',
        ),
    ),
    Fault(
        'unguarded_update',
        what='An update that is not finite is sent and averaged.',
        file=_STEPS,
        old="_GUARDED = ('client_state', 'update', 'weight', 'loss')",
        new="_GUARDED = ('client_state', 'weight', 'loss')",
        tests=(
            f'{_COMPOSITION_TEST}'
            '::test_each_piece_alone_may_be_what_is_not_finite',
        ),
    ),
    Fault(
        'dropped_client_forgets',
        what='A client that was dropped loses its state.',
        file=_STEPS,
        old='(client_state, tf.nest.map_structure(tf.zeros_like, sent)),',
        new='tf.nest.map_structure(tf.zeros_like, (client_state, sent)),',
        tests=(
            f'{_COMPOSITION_TEST}'
            '::test_non_finite_client_is_dropped_and_listed',
        ),
    ),
    Fault(
        'rounds_are_not_counted',
        what='The number of the round stays 0.',
        file=_STEPS,
        old="state, **changed, round=state['round'] + 1",
        new='state, **changed',
        tests=(
            f'{_COMPOSITION_TEST}'
            '::test_a_round_by_hand_is_next_bit_for_bit',
        ),
    ),
    Fault(
        'metrics_of_the_new_state',
        what='Metrics of the server see the state of after the round.',
        file=_STEPS,
        old='metrics.update(measure(state, result))',
        new='metrics.update(measure({**state, **changed}, result))',
        tests=(f'{_COMPOSITION_TEST}::test_metrics_of_the_server',),
    ),
    Fault(
        'momentum_without_clients',
        what='The server steps in a round in which nobody was present.',
        file=_STEPS,
        old="aggregated['num_present'] > 0",
        new="aggregated['num_present'] >= 0",
        tests=(
            f'{_COMPOSITION_TEST}'
            '::test_cohort_of_dropped_clients_changes_nothing_but_the_round',
        ),
    ),
    Fault(
        'all_keys_of_aggregators_alike',
        what='Aggregators that wrap each other draw under one key.',
        file='tff_pers/aggregators/seeding.py',
        old='return random.key(seed, _USE, len(used))',
        new='return random.key(seed, _USE, 0)',
        tests=(
            'tests/aggregators/seeding_test.py'
            '::test_every_key_is_set_and_is_another_one',
        ),
    ),
    Fault(
        'one_rule_for_all_fields',
        what='All fields of an update are combined by the rule of the first.',
        file='tff_pers/aggregators/structure.py',
        old='(name, factory.create(value_type[name], weight_type))',
        new=(
            '(name, next(iter(self._factories.values())).create('
            'value_type[name], weight_type))'
        ),
        tests=(
            'tests/aggregators/structure_test.py'
            '::test_every_field_is_combined_by_its_own_rule',
        ),
    ),
    Fault(
        'bytes_of_the_tensors',
        what='What a work says of its bytes is not heard.',
        file=_STEPS,
        old='  if name in output:\n',
        new='  if False and name in output:\n',
        tests=(
            f'{_COMPOSITION_TEST}'
            '::test_bytes_that_the_work_knows_better_replace_those_of_the'
            '_tensors',
        ),
    ),
    Fault(
        'absent_clients_count',
        what='An unweighted mean divides by clients that are absent, too.',
        file=_ABSENCE,
        old="return has_field(measured, 'mean_count')",
        new='return False',
        tests=(
            f'{_ABSENCE_TEST}::test_a_mean_is_over_those_who_are_present',
        ),
    ),
    Fault(
        'absent_clients_vote',
        what='Robust rules take what an absent client holds for a message.',
        file='tff_pers/aggregators/robust/factory.py',
        old='present = tf.cast(tf.reduce_any(weight > 0), tf.int32)',
        new='present = tf.constant(1)',
        tests=(
            'tests/aggregators/robust/presence_test.py'
            '::test_a_rule_is_over_who_is_present[trimmed_mean[f=2]]',
        ),
    ),
    Fault(
        'bytes_in_float32',
        what='Every float counts as four bytes.',
        file='tff_pers/core/round_metrics.py',
        old='tf.cast(tf.size(leaf), tf.float32) * leaf.dtype.size',
        new='tf.cast(tf.size(leaf), tf.float32) * 4',
        tests=(
            'tests/core/round_metrics_test.py'
            '::test_payload_bytes_counts_floats_in_their_width',
        ),
    ),
)
