"""Planted faults of sub-models: what is cut, averaged, drawn and deployed."""

from tests.mutants.faults import Fault

_SUBMODELS = 'tff_pers/models/submodels.py'
_RESNET = 'tff_pers/models/resnet.py'
_LAYERS = 'tff_pers/models/zoo_layers.py'
_PARTIAL = 'tff_pers/aggregators/partial.py'
_WORK = 'tff_pers/client_works/submodel_sgd.py'
_HETEROFL = 'baselines/heterofl.py'
_FEDROLEX = 'baselines/fedrolex.py'
_FJORD = 'baselines/fjord.py'
_MASKED = 'tff_pers/client_works/masked_sgd.py'
_SPLITMIX = 'baselines/splitmix.py'

_SUBMODELS_TEST = 'tests/models/submodels_test.py'
_PARTIAL_TEST = 'tests/aggregators/partial_test.py'
_HETEROFL_TEST = 'tests/baselines/heterofl_test.py'
_FEDROLEX_TEST = 'tests/baselines/fedrolex_test.py'
_FJORD_TEST = 'tests/baselines/fjord_test.py'
_SPLITMIX_TEST = 'tests/baselines/splitmix_test.py'

FAULTS = (
    Fault(
        'half_up',
        what='Halves are rounded up, not to even.',
        file=_SUBMODELS,
        old='return max(1, round(wanted))',
        new='return max(1, math.floor(wanted + 0.5))',
        tests=(f'{_SUBMODELS_TEST}::test_numbers_become_whole',),
    ),
    Fault(
        'window_rolls_backwards',
        what='The window begins at unit C - t.',
        file=_SUBMODELS,
        old='tf.sort((offset + tf.range(q))',
        new='tf.sort((tf.range(q) - offset)',
        tests=(
            f'{_SUBMODELS_TEST}::test_windows_roll_over_all_units_alike',
        ),
    ),
    Fault(
        'window_jumps',
        what='A window begins where the one before ended.',
        file=_SUBMODELS,
        old='tf.sort((offset + tf.range(q))',
        new='tf.sort((offset * q + tf.range(q))',
        tests=(f'{_FEDROLEX_TEST}::test_window_rolls_one_unit_per_round',),
    ),
    Fault(
        'window_stands_still',
        what='The window is at the seed, not at the round.',
        file=_FEDROLEX,
        old="offset=message['round'],",
        new="offset=0 * message['round'],",
        tests=(f'{_FEDROLEX_TEST}::test_resuming_continues_the_window',),
    ),
    Fault(
        'random_windows_of_the_round',
        what='All clients of a round have one random window.',
        file=_FEDROLEX,
        old='key=client_work.key(message, data, use=_WINDOW_USE)',
        new="key=client_work.key(message, dict(index=0), use=_WINDOW_USE)",
        tests=(
            f'{_FEDROLEX_TEST}::test_random_windows_differ_by_client_and_round',
        ),
    ),
    Fault(
        'tiers_of_the_first_window',
        what='Tiers are evaluated with the first units alone.',
        file=_FEDROLEX,
        old='return [number * largest // _EVALUATED for number',
        new='return [0 * largest // _EVALUATED for number',
        tests=(f'{_FEDROLEX_TEST}::test_tiers_are_means_over_five_windows',),
    ),
    Fault(
        'positions_inside_of_channels',
        what='Flattened pixels of one channel are taken for neighbours.',
        file=_SUBMODELS,
        old=(
            '  starts = units.size * tf.range(units.positions)\n'
            '  return tf.reshape(starts[:, None] + own[None], [-1])\n'
        ),
        new=(
            '  steps = tf.range(units.positions)\n'
            '  return tf.reshape(\n'
            '      units.positions * own[:, None] + steps[None], [-1]\n'
            '  )\n'
        ),
        tests=(
            f'{_SUBMODELS_TEST}'
            '::test_flattened_pixels_stand_outside_of_channels',
        ),
    ),
    Fault(
        'mask_of_channels_repeated',
        what='The mask has the pixels of a channel next to one another.',
        file=_SUBMODELS,
        old='tf.tile(is_kept, [units.positions])',
        new='tf.repeat(is_kept, units.positions)',
        tests=(
            f'{_SUBMODELS_TEST}::test_what_is_put_back_is_what_was_cut_out',
        ),
    ),
    Fault(
        'flatten_forgets_pixels',
        what='A dense kernel after an image has its channels once.',
        file=_LAYERS,
        old='positions=incoming.positions * math.prod(shape[:-1])',
        new='positions=incoming.positions * math.prod(shape[:0])',
        tests=(
            f'{_SUBMODELS_TEST}::test_units_have_the_shapes_of_the_slim_model',
        ),
    ),
    Fault(
        'residual_is_not_tied',
        what='What a block adds has units of its own.',
        file=_RESNET,
        old='axes = zl.renamed(axes, outgoing, added)',
        new='axes = zl.renamed(axes, outgoing, outgoing)',
        tests=(
            f'{_SUBMODELS_TEST}::test_ties_of_a_residual_network',
        ),
    ),
    Fault(
        'shortcut_takes_the_inner_units',
        what='A shortcut starts at the units of the output.',
        file=_RESNET,
        old='shortcut, added = zl.units(projection, incoming)',
        new=(
            'shortcut, added = zl.units(\n'
            '          projection, outgoing if projection else incoming\n'
            '      )'
        ),
        tests=(
            f'{_SUBMODELS_TEST}::test_ties_of_a_residual_network',
        ),
    ),
    Fault(
        'one_value_normalized',
        what='A group of one pixel may be one channel, which becomes 0.',
        file=_RESNET,
        old='channels % g == 0 and height * width * channels > g',
        new='channels % g == 0',
        tests=(
            'tests/models/resnet_test.py'
            '::test_groups_of_one_pixel_have_two_values',
        ),
    ),
    Fault(
        'scaler_in_evaluation',
        what='The scaler acts whatever a model is used for.',
        file=_SUBMODELS,
        old='    if training:\n',
        new='    if training or True:\n',
        tests=(
            f'{_SUBMODELS_TEST}'
            '::test_scaler_divides_before_the_norm_in_training_only',
        ),
    ),
    Fault(
        'scaler_behind_the_norm',
        what='What the norm gives is divided, too.',
        file=_SUBMODELS,
        old="weight.kind != 'norm' and axes[-1] is not None",
        new='axes[-1] is not None',
        tests=(
            f'{_SUBMODELS_TEST}::test_norm_takes_the_scaler_out_again',
        ),
    ),
    Fault(
        'scaler_of_the_logits',
        what='The output layer is divided, too.',
        file=_SUBMODELS,
        old="weight.kind != 'norm' and axes[-1] is not None",
        new="weight.kind != 'norm'",
        tests=(
            f'{_SUBMODELS_TEST}'
            '::test_scaler_divides_before_the_norm_in_training_only',
        ),
    ),
    Fault(
        'scaler_of_the_whole_model',
        what='The scaler divides by the width, not by its share of the largest.',
        file=_HETEROFL,
        old='submodels.scaled(model, width / widest)',
        new='submodels.scaled(model, width / widest**0)',
        tests=(
            f'{_HETEROFL_TEST}::test_scaler_is_relative_to_the_largest_tier',
        ),
    ),
    Fault(
        'mean_over_all',
        what='The mean is over all clients, not over those who have it.',
        file=_PARTIAL,
        old='tf.math.divide_no_nan, tf.nest',
        new='lambda x, y: x, tf.nest',
        tests=(f'{_PARTIAL_TEST}::test_example_of_the_sheet',),
    ),
    Fault(
        'nothing_over_nothing',
        what='A coordinate that nobody has becomes NaN.',
        file=_PARTIAL,
        old='tf.math.divide_no_nan, tf.nest',
        new='tf.math.divide, tf.nest',
        tests=(f'{_PARTIAL_TEST}::test_coordinates_of_nobody_stay',),
    ),
    Fault(
        'mask_of_everything',
        what='Clients say that they have all coordinates.',
        file=_WORK,
        old='), submodels.mask(parts.base, kept),\n',
        new='),\n',
        tests=(f'{_HETEROFL_TEST}::test_example_of_the_sheet',),
    ),
    Fault(
        'rows_of_all_classes',
        what='Clients count in the rows of classes that they do not have.',
        file=_MASKED,
        old='kept=_without_rows(head, owned, kept)',
        new='kept=kept',
        tests=(
            f'{_HETEROFL_TEST}::test_masked_loss_and_rows_are_those_of_numpy',
        ),
    ),
    Fault(
        'decay_of_absent_classes_is_sent',
        what='Rows of absent classes are sent, moved by the decay.',
        file=_MASKED,
        old='update=_without_rows(head, owned, update)',
        new='update=update',
        tests=(
            f'{_HETEROFL_TEST}::test_masked_loss_and_rows_are_those_of_numpy',
        ),
    ),
    Fault(
        'bytes_of_the_whole_model',
        what='All clients are said to get the whole model.',
        file=_WORK,
        old='parts.base.dtype.size * model.num_parameters)',
        new='parts.base.dtype.size * parts.base.num_parameters)',
        tests=(
            f'{_HETEROFL_TEST}::test_bytes_are_those_of_the_sub_models',
        ),
    ),
    Fault(
        'all_deploy_the_first_tier',
        what='Every client deploys the model of the first tier.',
        file=_HETEROFL,
        old='return parts.first_units(weights, tier)',
        new='return parts.first_units(weights, 0 * tier)',
        tests=(
            f'{_HETEROFL_TEST}'
            '::test_clients_deploy_the_first_units_of_their_tiers',
        ),
    ),
    Fault(
        'tiers_share_the_first',
        what='All tiers are evaluated with the first units of the first one.',
        file=_HETEROFL,
        old="parts.base, state['weights'], parts.static(k)",
        new="parts.base, state['weights'], parts.static(0 * k)",
        tests=(
            f'{_HETEROFL_TEST}'
            '::test_clients_deploy_the_first_units_of_their_tiers',
        ),
    ),
    Fault(
        'largest_width_is_never_drawn',
        what='A step never trains all that its client has.',
        file=_FJORD,
        old='if parts.widths[k] <= parts.widths[tier]',
        new='if parts.widths[k] < parts.widths[tier] or parts.widths[k] == min('
            '\n            parts.widths)',
        tests=(f'{_FJORD_TEST}::test_rounds_are_those_of_numpy',),
    ),
    Fault(
        'capacity_does_not_bound',
        what='A client draws among the widths of all tiers.',
        file=_FJORD,
        old='0, len(widths), tf.int32',
        new='0, 1, tf.int32',
        tests=(f'{_FJORD_TEST}::test_rounds_are_those_of_numpy',),
    ),
    Fault(
        'one_draw_per_round',
        what='All steps of a round have one width.',
        file=_FJORD,
        old='random.fold_in(batch.seed, _WIDTH_USE)',
        new='random.fold_in(seed, _WIDTH_USE)',
        tests=(f'{_FJORD_TEST}::test_rounds_are_those_of_numpy',),
    ),
    Fault(
        'momentum_above_the_width_is_lost',
        what='Momentum of units that a step does not train becomes 0.',
        file=_FJORD,
        old=(
            '          submodels.replace(model, all_, new, kept) if new else all_'
            '\n'
        ),
        new=(
            '          submodels.replace(\n'
            '              model, all_ if all_ is sgd.weights else\n'
            '              tf.nest.map_structure(tf.zeros_like, all_), new, kept'
            '\n          ) if new else all_\n'
        ),
        tests=(f'{_FJORD_TEST}::test_rounds_are_those_of_numpy',),
    ),
    Fault(
        'decay_above_the_width',
        what='A step is one of all weights, with gradient 0 above the width.',
        file=_FJORD,
        old=(
            '      moved = local.apply(own, gradient, learning_rate)\n'
            '      return local_step.SgdState(*(\n'
        ),
        new=(
            '      return local.apply(sgd, submodels.expand(\n'
            '          model, gradient, kept\n'
            '      ), learning_rate), loss\n'
            '      moved = own\n'
            '      return local_step.SgdState(*(\n'
        ),
        tests=(f'{_FJORD_TEST}::test_what_a_step_does_not_train_rests',),
    ),
    Fault(
        'teacher_learns_from_its_student',
        what='The target of distillation has a gradient.',
        file=_FJORD,
        old='target = tf.stop_gradient(tf.nn.softmax(z))',
        new='target = tf.nn.softmax(z)',
        tests=(
            f'{_FJORD_TEST}::test_a_student_learns_from_its_teacher_as_it_is',
        ),
    ),
    Fault(
        'teacher_without_labels',
        what='With distillation the largest model does not see the labels.',
        file=_FJORD,
        old='return model.example_loss(y, z) + tf.nn',
        new='return 0 * model.example_loss(y, z) + tf.nn',
        tests=(
            f'{_FJORD_TEST}::test_a_teacher_learns_nothing_from_itself',
        ),
    ),
    Fault(
        'one_order_for_ever',
        what='The cycle is not shuffled again after a pass.',
        file=_SPLITMIX,
        old='seed, number // num_bases, num_bases, _CYCLE_USE',
        new='seed, 0, num_bases, _CYCLE_USE',
        tests=(f'{_SPLITMIX_TEST}::test_draws_cover_all_bases_alike',),
    ),
    Fault(
        'first_base_twice',
        what='The others may be the first base again.',
        file=_SPLITMIX,
        old=(
            '  draws = tf.tensor_scatter_nd_update(draws, [[first]], [-1.0])\n'
            '  return tf.argsort(draws)[:budget]\n'
        ),
        new=(
            '  others = tf.argsort(draws)[:budget - 1]\n'
            '  return tf.concat([[first], others], 0)\n'
        ),
        tests=(
            f'{_SPLITMIX_TEST}'
            '::test_bases_are_distinct_and_the_others_uniform',
        ),
    ),
    Fault(
        'budgets_cut_off',
        what='Numbers of bases are cut off and not rounded.',
        file=_SPLITMIX,
        old='round(size / min(sizes))',
        new='int(size / min(sizes))',
        tests=(f'{_SPLITMIX_TEST}::test_numbers_of_bases_are_rounded',),
    ),
    Fault(
        'split_mix_trains_without_the_mask',
        what='Bases are trained with the logits of all classes.',
        file=_SPLITMIX,
        old='model = masked.masked(base, owned) if head else base',
        new='model = base',
        tests=(
            f'{_SPLITMIX_TEST}'
            '::test_full_budgets_are_independent_runs_of_fedavg[True]',
        ),
    ),
    Fault(
        'fedavg_trains_without_the_mask',
        what='FedAvg trains with the logits of all classes.',
        file=_MASKED,
        old='masked.masked(model, owned), initial, data,',
        new='model, initial, data,',
        tests=(
            'tests/baselines/fedavg_test.py'
            '::test_masked_loss_and_rows_are_those_of_numpy',
        ),
    ),
    Fault(
        'cycle_begins_anew',
        what='Every round takes the first bases of the cycle.',
        file=_SPLITMIX,
        old="position=state['position'] + sums['position']",
        new="position=state['position'] + 0 * sums['position']",
        tests=(
            f'{_SPLITMIX_TEST}'
            '::test_rounds_of_some_clients_cover_all_bases_alike',
        ),
    ),
    Fault(
        'cohort_shares_a_draw',
        what='All clients of a cohort have one place.',
        file='tff_pers/composition/own_messages.py',
        old='tf.cast(everybody < index, tf.int32)',
        new='tf.cast(everybody < 0 * index, tf.int32)',
        tests=(
            'tests/composition/dispatch_test.py'
            '::test_numbers_are_places_in_the_order_of_the_indices',
        ),
    ),
    Fault(
        'one_model_for_all_budgets',
        what='Every client deploys as many bases as the first tier has.',
        file=_SPLITMIX,
        old='lambda table: table[:budgets[k]], models',
        new='lambda table: table[:budgets[0 * k]], models',
        tests=(
            f'{_SPLITMIX_TEST}'
            '::test_clients_deploy_the_mean_of_the_first_bases',
        ),
    ),
    Fault(
        'sum_of_logits',
        what='Bases are summed, not averaged.',
        file=_SPLITMIX,
        old='return lambda weights, *rest: tf.reduce_mean(',
        new='return lambda weights, *rest: tf.reduce_sum(',
        tests=(
            f'{_SPLITMIX_TEST}'
            '::test_clients_deploy_the_mean_of_the_first_bases',
        ),
    ),
    Fault(
        'variants_are_forgotten',
        what='A tier is evaluated with one model where it has several.',
        file='tff_pers/composition/deployment.py',
        old='  if tier.variants is None:\n',
        new='  if tier.variants is None or tier.weights:\n',
        tests=(
            'tests/composition/composer_test.py'
            '::test_metrics_of_a_tier_without_one_model_are_means',
        ),
    ),
)
