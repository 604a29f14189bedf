"""Planted faults of batch normalization and FedBN."""

from tests.mutants.faults import Fault

_NORM = 'tff_pers/models/batch_norm.py'
_STEP = 'tff_pers/client_works/local_step.py'
_KERAS = 'tests/models/architectures_test.py::test_a_step_is_that_of_keras'
_TEST = 'tests/baselines/batch_norm_test.py'
_AVERAGES = f'{_TEST}::test_the_server_averages_what_keras_computes'
_FEDBN = 'tests/baselines/fedbn_test.py'

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
        new="lambda w: w.kind == batch_norm.KIND)",
        tests=(
            f'{_FEDBN}::test_affine_maps_of_the_inputs_make_no_difference',
        ),
    ),
)
