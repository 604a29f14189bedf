"""Planted faults of what methods and runs cost, and of ResNets."""

from tests.mutants.faults import Fault

_COST = 'tff_pers/analysis/cost.py'
_COSTS = 'tff_pers/evaluation/costs.py'
_MACS = 'tff_pers/models/macs.py'
_RESNET = 'tff_pers/models/resnet.py'
_ZOO = 'tff_pers/models/zoo.py'
_COST_TEST = 'tests/analysis/cost_test.py'
_COSTS_TEST = 'tests/evaluation/costs_test.py'
_MACS_TEST = 'tests/models/macs_test.py'
_RESNET_TEST = 'tests/models/resnet_test.py'
_PROGRAM_TEST = 'tests/binaries/cost_test.py'
_KEPT = (f'{_COSTS_TEST}::test_kept_from',)
_REACHED = (f'{_COSTS_TEST}::test_first_reached_and_kept',)
_TIERS = (f'{_COSTS_TEST}::test_a_row_per_tier',)
_SIZES = (f'{_RESNET_TEST}::test_published_sizes',)
_FULL_RANK = (f'{_RESNET_TEST}::test_full_rank_layers',)
_NORM = (f'{_RESNET_TEST}::test_group_normalization',)

FAULTS = (
    Fault(
        'shortcut_without_a_norm',
        what='A projected shortcut is not normalized.',
        file=_RESNET,
        old="        norm(f'{name}/shortcut/norm'),\n",
        new='',
        tests=_SIZES,
    ),
    Fault(
        'same_padding',
        what='Stride 2 pads even sizes at the end only.',
        file=_RESNET,
        old='weights[0], stride, padding)',
        new="weights[0], stride, 'SAME')",
        tests=(f'{_RESNET_TEST}::test_stride_two_pads_both_sides',),
    ),
    Fault(
        'no_input_beside_the_path',
        what='A block is its path alone.',
        file=_RESNET,
        old='          + zl.apply_all(projection, rest, x, training, seed)\n',
        new='          + 0 * zl.apply_all(projection, rest, x, training, seed)\n',
        tests=(f'{_RESNET_TEST}::test_block_adds_its_input',),
    ),
    Fault(
        'one_group',
        what='All channels are one group.',
        file=_RESNET,
        old='g for g in range(1, _MAX_GROUPS + 1)\n',
        new='g for g in range(1, 2)\n',
        tests=_NORM,
    ),
    Fault(
        'offset_is_a_factor',
        what='The offset of a normalization multiplies.',
        file=_RESNET,
        old='return normalized * scale + offset',
        new='return normalized * scale * offset',
        tests=_NORM,
    ),
    Fault(
        'shortcuts_are_factorised',
        what='Shortcuts do not stay whole.',
        file=_RESNET,
        old=" or '/shortcut/' in layer\n",
        new='\n',
        tests=_FULL_RANK,
    ),
    Fault(
        'all_of_stage_one_is_whole',
        what='ResNet-18 keeps all of its first stage.',
        file=_RESNET,
        old="('stage1/block0/',)",
        new="('stage1/',)",
        tests=_FULL_RANK,
    ),
    Fault(
        'channels_are_not_scaled',
        what='The width of a ResNet has no effect.',
        file=_RESNET,
        old='channels = [scaled(count) for count in CHANNELS]',
        new='channels = CHANNELS',
        tests=_SIZES,
    ),
    Fault(
        'variance_by_outputs',
        what='Kernels of ResNets start too small.',
        file='tff_pers/models/initial_weights.py',
        old='return _gaussian(weight.shape, 2 / inputs, seed, dtype)',
        new='return _gaussian(weight.shape, 1 / inputs, seed, dtype)',
        tests=(f'{_RESNET_TEST}::test_initial_weights',),
    ),
    Fault(
        'scales_start_at_zero',
        what='Scales of normalizations start at 0.',
        file='tff_pers/models/initial_weights.py',
        old='(tf.ones if is_one else tf.zeros)',
        new='(tf.zeros if is_one else tf.zeros)',
        tests=(f'{_RESNET_TEST}::test_initial_weights',),
    ),
    Fault(
        'windows_without_channels',
        what='The MACs of a convolution leave out its inputs.',
        file=_MACS,
        old='math.prod(kernel[:-1])',
        new='math.prod(kernel[:2])',
        tests=(f'{_MACS_TEST}::test_layers_of_a_cnn',),
    ),
    Fault(
        'depthwise_as_convolution',
        what='A depthwise convolution counts all pairs of channels.',
        file=_MACS,
        old='math.prod(kernel[:2])',
        new='math.prod(kernel[:3])',
        tests=(f'{_MACS_TEST}::test_keras_model',),
    ),
    Fault(
        'products_of_weights_count',
        what='Products of weights alone count for every example.',
        file=_MACS,
        old='      return  # A product of only weights.\n',
        new='      pass\n',
        tests=(
            f'{_MACS_TEST}'
            '::test_products_of_weights_alone_are_not_per_example',
        ),
    ),
    Fault(
        'calls_are_skipped',
        what='What a called function computes is not counted.',
        file=_MACS,
        old='    yield from self.visit(body, inner)\n',
        new='    list(self.visit(body, inner))\n',
        tests=(f'{_MACS_TEST}::test_functions_that_are_called_count',),
    ),
    Fault(
        'loops_count_once',
        what='A loop is no error.',
        file=_MACS,
        old='if operation.type in _LOOPS:',
        new='if False:',
        tests=(f'{_MACS_TEST}::test_raises_on_loops',),
    ),
    Fault(
        'clients_in_order_of_tiers',
        what='Bytes of a tier are those of a client of another.',
        file=_COST,
        old='  return [tiers.index(name) for name in names]\n',
        new='  return list(range(len(names)))\n',
        tests=(f'{_COST_TEST}::test_tiers_of_fedhm',),
    ),
    Fault(
        'first_round',
        what='Traffic is that of the first round, whatever is asked.',
        file=_COST,
        old="'round': np.int32(round_num)}",
        new="'round': np.int32(0)}",
        tests=(f'{_COST_TEST}::test_stages_are_over',),
    ),
    Fault(
        'stand_in_always_computes',
        what='A stand-in is the model itself.',
        file=_COST,
        old="    return interception.changed(\n        'prediction', constant,\n",
        new="    return _Computing().prediction(\n        constant,\n",
        tests=(f'{_COST_TEST}::test_stand_in_computes_only_if_asked',),
    ),
    Fault(
        'macs_of_the_stand_in',
        what='MACs are those of the stand-in.',
        file=_COST,
        old='  with interception.computing():\n    try:',
        new='  if True:\n    try:',
        tests=(f'{_COST_TEST}::test_tiers_of_fedhm',),
    ),
    Fault(
        'needs_are_ignored',
        what='A method that needs more than the model has is built.',
        file=_COST,
        old='in methods.missing_needs(method, task.traits, hyperparameters):',
        new='in ():',
        tests=(
            f'{_COST_TEST}::test_model_that_lacks_what_the_method_needs',
        ),
    ),
    Fault(
        'last_reached',
        what='Costs are those until the accuracy was kept.',
        file=_COSTS,
        old='first = int(np.argmax(is_good))',
        new='first = int(np.flatnonzero(is_good)[-1])',
        tests=_REACHED,
    ),
    Fault(
        'above_the_target',
        what='The target itself does not count as reached.',
        file=_COSTS,
        old='is_good = _accuracies(run) >= accuracy',
        new='is_good = _accuracies(run) > accuracy',
        tests=_KEPT,
    ),
    Fault(
        'kept_too_early',
        what='The last bad round counts as kept.',
        file=_COSTS,
        old='kept = int(bad[-1]) + 1 if bad.size else 0',
        new='kept = int(bad[-1]) if bad.size else 0',
        tests=_KEPT,
    ),
    Fault(
        'bytes_up_only',
        what='What clients receive costs nothing.',
        file=_COSTS,
        old="(metrics['bytes_down'] + metrics['bytes_up'])",
        new="metrics['bytes_up']",
        tests=(f'{_COSTS_TEST}::test_published_traffic',),
    ),
    Fault(
        'macs_of_one_example',
        what='The MACs of a run are those of one example a round.',
        file=_COSTS,
        old="* cost['macs'] * cost['examples']",
        new="* cost['macs']",
        tests=_REACHED,
    ),
    Fault(
        'tiers_cost_the_mean',
        what='Every tier has the MACs of the mean.',
        file=_COSTS,
        old="macs=rounds[first] * tier['macs'] * examples",
        new="macs=float(macs[first])",
        tests=_TIERS,
    ),
    Fault(
        'bytes_of_one_round',
        what='The bytes of a tier are those of one round.',
        file=_COSTS,
        old='bytes=float(rounds[first] * both)',
        new='bytes=float(both)',
        tests=_TIERS,
    ),
    Fault(
        'whole_last_minibatch',
        what='The short last minibatch of a pass counts as a whole one.',
        file='tff_pers/config/hyperparameters.py',
        old='return passes * num_examples + steps * size',
        new='return self.local_steps * size',
        tests=(
            'tests/config/hyperparameters_test.py'
            '::test_examples_that_a_client_visits',
        ),
    ),
    Fault(
        'flags_win_over_brackets',
        what='Options in brackets do not act.',
        file='tff_pers/experiments/experiment.py',
        old='  _open_brackets(given, method, options, table, brackets_win=True)\n',
        new='',
        tests=(f'{_PROGRAM_TEST}::test_flags_of_methods_and_brackets',),
    ),
    Fault(
        'accuracy_out_of_reach_is_a_table',
        what='A target that no run reached gives an empty table.',
        file='tff_pers/experiments/method_costs.py',
        old="if all(row['rounds'] is None for row in rows):",
        new='if False:',
        tests=(f'{_PROGRAM_TEST}::test_bad_flags_are_a_sentence',),
    ),
)
