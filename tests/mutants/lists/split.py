"""Planted faults of split models: partitions, and new clients."""

from tests.mutants.faults import Fault

_PARTITION = 'tff_pers/models/partition.py'
_PARTITION_TEST = 'tests/models/partition_test.py'
_SPLITS_OF_KERAS = (f'{_PARTITION_TEST}::test_splits_of_keras_models',)
_PLAN = 'tff_pers/models/adaptor_plan.py'
_HYPERPARAMETERS = 'tff_pers/models/split_hyperparameters.py'
_TRAINING = 'tff_pers/client_works/split_training.py'
_TRAINING_TEST = 'tests/client_works/split_training_test.py'

FAULTS = (
    Fault(
        'norm_takes_biases',
        what='The scheme norm makes the biases of dense layers private too.',
        file=_PARTITION,
        old="    'norm': _of_kind(*_NORM),",
        new="    'norm': lambda ws: [w.kind in ('norm', 'bias') for w in ws],",
        tests=_SPLITS_OF_KERAS,
    ),
    Fault(
        'bias_takes_offsets_of_norms',
        what='The scheme bias goes by names and takes the offsets of norms.',
        file=_PARTITION,
        old="    'bias': _of_kind('bias'),",
        new=(
            "    'bias': lambda ws:"
            " [w.name.endswith(('bias', 'beta')) for w in ws],"
        ),
        tests=_SPLITS_OF_KERAS,
    ),
    Fault(
        'input_layer_without_its_norm',
        what='The norm behind the first layer stays global.',
        file=_PARTITION,
        old='      block.add(weight.layer)',
        new='      pass',
        tests=_SPLITS_OF_KERAS,
    ),
    Fault(
        'embedding_is_the_input_layer',
        what='An embedding table counts as the input layer.',
        file=_PARTITION,
        old="weight.kind in ('dense', 'conv') or",
        new="weight.kind in ('dense', 'conv', 'embedding') or",
        tests=_SPLITS_OF_KERAS,
    ),
    Fault(
        'output_layer_is_the_first',
        what='The scheme output_layer takes the first layer.',
        file=_PARTITION,
        old='weight.layer in kernels[-1:] for',
        new='weight.layer in kernels[:1] for',
        tests=(f'{_PARTITION_TEST}::test_first_and_last_layers_of_the_zoo',),
    ),
    Fault(
        'items_must_all_fit',
        what='A weight is private only if it fits all items of the split.',
        file=_PARTITION,
        old='tuple(map(any, zip(*chosen)))',
        new='tuple(map(all, zip(*chosen)))',
        tests=_SPLITS_OF_KERAS,
    ),
    Fault(
        'total_split_is_accepted',
        what='A flag may make all weights private.',
        file=_PARTITION,
        old='  if all(partition.is_private):',
        new='  if not any(partition.is_private):',
        tests=(
            f'{_PARTITION_TEST}'
            '::test_raises_where_the_only_layer_would_be_private',
        ),
    ),
    Fault(
        'empty_split_is_accepted',
        what='A scheme that fits no weight is no error.',
        file=_PARTITION,
        old='  if any(fits):',
        new='  if fits:',
        tests=(f'{_PARTITION_TEST}::test_raises_on_norms_of_the_zoo',),
    ),
    Fault(
        'order_of_keys_is_that_of_layers',
        what='The first and last layers are guessed from sorted keys.',
        file=_PARTITION,
        old='if is_ordered and model.layers is None and',
        new='if False and',
        tests=(
            f'{_PARTITION_TEST}::test_order_of_layers_is_not_guessed_from_keys',
        ),
    ),
    Fault(
        'merge_swaps_the_parts',
        what='`merge` takes the private part for the global one.',
        file=_PARTITION,
        old='sides = iter(global_weights), iter(private_weights)',
        new='sides = iter(private_weights), iter(global_weights)',
        tests=(
            f'{_PARTITION_TEST}::test_merge_undoes_split_and_keeps_the_order',
        ),
    ),
    Fault(
        'private_model_is_the_global_one',
        what='The model over the private part starts from the global part.',
        file=_PARTITION,
        old='    return self._part(1, lambda part',
        new='    return self._part(0, lambda part',
        tests=(
            f'{_PARTITION_TEST}'
            '::test_each_part_is_a_model_with_the_other_held_constant',
        ),
    ),
    Fault(
        'part_loses_the_penalty',
        what='The model over one part has no L2 regularization.',
        file=_PARTITION,
        old='penalty=model.penalty_by(lambda part: model.penalty(merge(part))),',
        new='penalty=functional.no_penalty,',
        tests=(
            f'{_PARTITION_TEST}'
            '::test_each_part_is_a_model_with_the_other_held_constant',
        ),
    ),
    Fault(
        'factor_is_a_dense_kernel',
        what='A factor of an adaptor is described as a dense kernel.',
        file=_PLAN,
        old="f'adaptors/{entry.weight.layer}', 'adaptor', shape",
        new="f'adaptors/{entry.weight.layer}', 'dense', shape",
        tests=(
            f'{_PARTITION_TEST}::test_a_factor_is_not_taken_for_a_dense_layer',
        ),
    ),
    Fault(
        'factor_is_in_the_layer_of_its_kernel',
        what='A factor has the layer of the kernel that it adapts.',
        file=_PLAN,
        old="f'adaptors/{entry.weight.layer}', 'adaptor', shape",
        new="entry.weight.layer, 'adaptor', shape",
        tests=(
            f'{_PARTITION_TEST}'
            '::test_adapted_models_name_their_factors_as_adaptors',
        ),
    ),
    Fault(
        'adaptor_rank_ignored',
        what='Private adaptors have the rank of the default budget.',
        file=_HYPERPARAMETERS,
        old='rank = self.adaptor_rank or None',
        new='rank = None',
        tests=(
            f'{_PARTITION_TEST}'
            '::test_adaptors_of_the_wanted_rank_beside_other_private_weights',
        ),
    ),
    Fault(
        'half_an_adaptor',
        what='The one private adaptor is mixed in with a share of one half.',
        file=_HYPERPARAMETERS,
        old='.mixed([1.0])',
        new='.mixed([0.5])',
        tests=(
            f'{_PARTITION_TEST}'
            '::test_private_adaptors_act_with_their_whole_weight',
        ),
    ),
    Fault(
        'new_clients_are_the_old_ones',
        what='Clients that took part are trained once more, new ones are not.',
        file=_TRAINING,
        old="data['index'] < num_clients, epochs",
        new="data['index'] > num_clients, epochs",
        tests=(
            f'{_TRAINING_TEST}'
            '::test_a_client_that_may_take_part_deploys_what_it_has',
        ),
    ),
    Fault(
        'new_client_deploys_its_first_weights',
        what='A new client learns its private weights and forgets them.',
        file=_TRAINING,
        old='    return parts.merge(theta, own)',
        new='    return parts.merge(theta, parts.initial_weights(0)[1])',
        tests=(
            f'{_TRAINING_TEST}'
            '::test_a_new_client_takes_gradient_steps_of_its_private_weights',
        ),
    ),
    Fault(
        'new_client_without_weight_decay',
        what='A new client takes plain steps, whatever those of training are.',
        file=_TRAINING,
        old='        local=local_step.build(hyperparameters),\n',
        new='        local=local_step.PLAIN,\n',
        tests=(
            f'{_TRAINING_TEST}'
            '::test_a_new_client_takes_gradient_steps_of_its_private_weights',
        ),
    ),
)
