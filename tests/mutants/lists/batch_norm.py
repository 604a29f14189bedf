"""Planted faults of batch normalization and FedBN."""

from tests.mutants.faults import Fault

_NORM = 'tff_pers/models/batch_norm.py'
_STEP = 'tff_pers/client_works/local_step.py'
_KERAS = 'tests/models/architectures_test.py::test_a_step_is_that_of_keras'
_TEST = 'tests/baselines/batch_norm_test.py'
_AVERAGES = f'{_TEST}::test_the_server_averages_what_keras_computes'
_FEDBN = 'tests/baselines/fedbn_test.py'
_BUILDERS = 'tff_pers/composition/builders.py'

FAULTS = (
    Fault(
        'filler_rows_are_normalized_by',
        what='Rows that fill up a batch count in its mean and variance.',
        file=_NORM,
        old='  counts = tf.cast(counts, x.dtype)\n',
        new='  counts = tf.ones_like(tf.cast(counts, x.dtype))\n',
        tests=(f'{_KERAS}[vgg_batch_norm]',),
    ),
    Fault(
        'fused_variance_is_biased',
        what='Moving variances of images leave out Bessel\'s correction.',
        file=_NORM,
        old='  if unbiased:\n',
        new='  if False:\n',
        tests=(f'{_KERAS}[vgg_batch_norm]',),
    ),
    Fault(
        'statistics_have_a_rate',
        what='The learning rate scales how far statistics move.',
        file=_STEP,
        old='return descend(weights, direction, learning_rate, self.statistics)',
        new='return descend(weights, direction, learning_rate)',
        tests=(f'{_AVERAGES}[fedavg]',),
    ),
    Fault(
        'statistics_have_momentum',
        what='Statistics go on moving by the momentum of a step.',
        file=_STEP,
        old='return self.with_statistics(momentum, direction), momentum',
        new='return momentum, momentum',
        tests=(f'{_AVERAGES}[fedavg]',),
    ),
    Fault(
        'statistics_count_in_the_norm',
        what='How far statistics move shortens the step of the weights.',
        file=_STEP,
        old='functional.at_statistics(statistics, tf.zeros_like, gradient)\n',
        new='gradient\n',
        tests=(f'{_TEST}::test_statistics_do_not_count_in_the_norm',),
    ),
    Fault(
        'the_server_optimizer_moves_statistics',
        what='Adam moves statistics at the server.',
        file='baselines/fedavg.py',
        old='moved, weights, mean_update, statistics\n',
        new='moved, weights, mean_update, ()\n',
        tests=(f'{_AVERAGES}[fedadam]',),
    ),
    Fault(
        'the_pull_moves_statistics',
        what='The pull of Ditto moves statistics, too.',
        file='baselines/ditto.py',
        old='    pulled = local.with_statistics(pulled, gradient)\n',
        new='',
        tests=(
            f'{_TEST}::test_the_client_keeps_what_keras_computes[ditto]',
        ),
    ),
    Fault(
        'any_method_takes_statistics',
        what='A method that moves statistics like weights trains them.',
        file='tff_pers/composition/builders.py',
        old='  if how is None:\n',
        new='  if False:\n',
        tests=(f'{_TEST}::test_all_other_methods_refuse',),
    ),
    Fault(
        'new_clients_have_the_first_statistics',
        what='A client that never trained keeps mean 0 and variance 1.',
        file='baselines/fedbn.py',
        old='num_epochs=tf.cast(is_first, tf.int32)',
        new='num_epochs=0',
        tests=(
            f'{_FEDBN}::'
            'test_a_new_client_takes_the_statistics_of_its_own_data',
        ),
    ),
    Fault(
        'only_statistics_stay',
        what='FedBN averages scales and offsets.',
        file='baselines/fedbn.py',
        old='lambda w: w.layer in normalizations)',
        new="lambda w: w.kind == moving_statistics.KIND)",
        tests=(
            f'{_FEDBN}::test_affine_maps_of_the_inputs_make_no_difference',
        ),
    ),
    Fault(
        'the_last_leaves_are_the_last_layer',
        what='Fine-tuning trains statistics for the last layer.',
        file='baselines/fedavg_finetuned.py',
        old='for i, is_statistic in enumerate(still) if not is_statistic]',
        new='for i, _ in enumerate(still)]',
        tests=(f'{_TEST}::test_the_last_layer_is_that_with_the_last_kernel',),
    ),
    Fault(
        'statistics_of_a_private_input_layer_are_shared',
        what='split=input_layer tears a normalization apart.',
        file='tff_pers/models/partition.py',
        old='  return [weight.layer in block for weight in weights]\n',
        new='  return [\n'
        "      w.layer in block and w.kind != 'statistics' for w in weights\n"
        '  ]\n',
        tests=(
            f'{_TEST}::'
            'test_a_norm_stays_whole_where_the_input_layer_is_private',
        ),
    ),
    Fault(
        'statistics_do_not_go_back_to_keras',
        what='merge_into refuses weights with moving statistics.',
        file='tff_pers/models/export.py',
        old='  for variables in ([*trained, *moving], trained,',
        new='  for variables in (trained,',
        tests=(f'{_TEST}::test_weights_go_back_into_the_keras_model',),
    ),
    Fault(
        'clients_may_forget_statistics',
        what='Statistics of clients without a state start again in each round.',
        file=_BUILDERS,
        old='any(parts.statistics[1]) and forgets:',
        new='False:',
        tests=(f'{_TEST}::test_all_other_methods_refuse',),
    ),
    Fault(
        'stateless_clients_may_forget_statistics',
        what='Likewise with FedAlt, whose flag is another.',
        file=_BUILDERS,
        old="      hyperparameters, 'stateless', False\n",
        new="      hyperparameters, 'nothing', False\n",
        tests=(f'{_TEST}::test_all_other_methods_refuse',),
    ),
    Fault(
        'factories_average_as_they_like',
        what='A rule that is given as a factory clips statistics.',
        file=_BUILDERS,
        old="given.get('model_aggregator') or getattr(",
        new='getattr(',
        tests=(f'{_TEST}::test_robust_rules_are_refused',),
    ),
    Fault(
        'every_channel_has_as_many_steps',
        what='With channels on axis 1 a mask counts the same for each of them.',
        file=_NORM,
        old='    number = tf.reduce_sum(tf.ones_like(x) * counts, axes)\n',
        new='    number = tf.reduce_mean('
        'tf.reduce_sum(tf.ones_like(x) * counts, axes))\n',
        tests=(f'{_TEST}::test_masks_of_steps_on_axis_1_are_those_of_keras',),
    ),
    Fault(
        'places_of_a_row_count_once',
        what='The number of values of a channel is that of the rows.',
        file=_NORM,
        old='number = tf.reduce_sum(counts) * tf.cast(places, x.dtype)',
        new='number = tf.reduce_sum(counts)',
        tests=(f'{_KERAS}[vgg_batch_norm]',),
    ),
    Fault(
        'tff_trains_statistics',
        what="TFF's training takes a model whose statistics it never moves.",
        file='tff_pers/models/tff_models.py',
        old='  if model.statistics:\n',
        new='  if False:\n',
        tests=(f'{_TEST}::test_all_other_methods_refuse',),
    ),
    Fault(
        'statistics_have_additive_adaptors',
        what='Adaptors that are added move statistics.',
        file='tff_pers/models/adaptors.py',
        old='weight, None if weight.kind == moving_statistics.KIND\n',
        new='weight, None if False\n',
        tests=(f'{_TEST}::test_adaptors_leave_statistics_alone',),
    ),
    Fault(
        'perm_decays_statistics',
        what='The step of the shared model of PERM decays its statistics.',
        file='tff_pers/algorithms/perm/perm_client.py',
        old='local_step.build(hyperparameters).of(self.devices.model)',
        new='local_step.build(hyperparameters)',
        tests=(f'{_TEST}::test_they_travel_with_the_models_of_perm',),
    ),
)
