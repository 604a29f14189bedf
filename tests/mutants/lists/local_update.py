"""Planted faults of the family of local update methods."""

from tests.mutants.faults import Fault

_WORK = 'tff_pers/client_works/local_update.py'
_THETAS = 'tff_pers/numerics/thetas.py'
_WORK_TEST = 'tests/client_works/local_update_test.py'
_MAML = 'tff_pers/client_works/maml.py'
_MAML_TEST = 'tests/client_works/maml_test.py'
_FAMILY = 'tff_pers/algorithms/local_update/local_update.py'
_FAMILY_TEST = 'tests/algorithms/local_update/local_update_test.py'
_SIGN = (f'{_WORK_TEST}::test_the_pull_shortens_the_way[1.0-0.988471]',)
_LINEAR = (f'{_WORK_TEST}::test_updates_are_linear_in_theta',)
_WAY = (f'{_WORK_TEST}::test_gamma_times_the_sum_is_the_way_of_local_sgd',)
_ZERO_RATE = (
    f'{_WORK_TEST}'
    '::test_a_rate_of_zero_takes_all_gradients_at_the_model_received',
)
_PATH = (f'{_MAML_TEST}::test_on_quadratics_it_is_a_gradient_of_the_path[2]',)
_PULLS = (f'{_MAML_TEST}::test_the_three_ways_to_differentiate_the_pull',)
_DIFFERENCES = (
    f'{_MAML_TEST}::test_gradient_is_that_of_the_loss_after_the_steps',
)
_RECURSION = (f'{_FAMILY_TEST}::test_rounds_are_a_linear_recursion',)

FAULTS = (
    Fault(
        'pull_away_from_the_anchor',
        what='The proximal gradient has the sign of TFF\'s FedProx.',
        file=_WORK,
        old='local_sgd.pulled(gradient, sgd.weights, x, alpha)',
        new='local_sgd.pulled(gradient, x, sgd.weights, alpha)',
        tests=_SIGN,
    ),
    Fault(
        'pull_towards_the_last_point',
        what='The anchor of the pull is the current model, so it never pulls.',
        file=_WORK,
        old='local_sgd.pulled(gradient, sgd.weights, x, alpha)',
        new='local_sgd.pulled(gradient, sgd.weights, sgd.weights, alpha)',
        tests=_SIGN,
    ),
    Fault(
        'pull_is_not_sent',
        what='The proximal gradient moves the client but is not in its sum.',
        file=_WORK,
        old='    total = _add(total, direction,',
        new=(
            '    pull = local_sgd.difference(sgd.weights, x)\n'
            '    plain = local_sgd.descend(direction, pull, alpha)\n'
            '    total = _add(total, plain,'
        ),
        tests=(
            f'{_WORK_TEST}'
            '::test_update_is_the_gradient_of_the_surrogate[5.0-0.05]',
        ),
    ),
    Fault(
        'theta_off_by_one',
        what='Gradient k has the weight of gradient k - 1.',
        file=_WORK,
        old='tf.constant(theta, tf.float64), k)',
        new='tf.constant(theta, tf.float64), tf.maximum(k - 1, 0))',
        tests=_LINEAR,
    ),
    Fault(
        'theta_without_its_zeros',
        what='Zeros at the beginning of Theta are left out with those at the end.',
        file=_THETAS,
        old="kept = np.trim_zeros(theta, 'b')",
        new='kept = theta[theta > 0]',
        tests=_LINEAR,
    ),
    Fault(
        'zeros_at_the_end_are_computed',
        what='A client takes the steps of zeros at the end of Theta, too.',
        file=_THETAS,
        old="kept = np.trim_zeros(theta, 'b')",
        new='kept = theta',
        tests=(f'{_WORK_TEST}::test_zeros_at_the_end_take_no_steps',),
    ),
    Fault(
        'mean_in_the_place_of_the_sum',
        what='What is sent is divided by the number of gradients.',
        file=_WORK,
        old='  return Path(total, sgd.weights, loss)',
        new=(
            '  mean = tf.nest.map_structure(\n'
            '      lambda t: t / (len(theta) if theta else\n'
            "                     budget['num_steps']), total)\n"
            '  return Path(mean, sgd.weights, loss)'
        ),
        tests=_WAY,
    ),
    Fault(
        'gamma_times_the_sum',
        what='What is sent is a difference of models, not a sum of gradients.',
        file=_WORK,
        old='  return Path(total, sgd.weights, loss)',
        new=(
            '  return Path(\n'
            '      local_sgd.difference(x, sgd.weights), sgd.weights, loss)'
        ),
        tests=_WAY,
    ),
    Fault(
        'gradient_after_the_last_step_counts',
        what='The sum has the gradient of the next point in place of its own.',
        file=_WORK,
        old='    loss, gradient = model.loss_and_gradient(sgd.weights, batch)\n',
        new=(
            '    loss, gradient = model.loss_and_gradient(sgd.weights, batch)\n'
            '    ahead = local_sgd.descend(sgd.weights, gradient, gamma)\n'
            '    loss, gradient = model.loss_and_gradient(ahead, batch)\n'
        ),
        tests=(
            f'{_WORK_TEST}'
            '::test_update_is_the_gradient_of_the_surrogate[0.0-0.05]',
        ),
    ),
    Fault(
        'rate_of_zero_still_moves',
        what='With gamma = 0 the client takes steps of a small size.',
        file=_WORK,
        old='if local_step.moves(gamma):',
        new='if local_step.moves(gamma := gamma or 0.01):',
        tests=_ZERO_RATE,
    ),
    Fault(
        'momentum_is_not_summed',
        what='The sum has the gradients where the steps follow momentum.',
        file=_WORK,
        old='    direction, momentum = local.direction_and_momentum(sgd, gradient)\n'
            '    total = _add(total, direction,',
        new='    direction, momentum = local.direction_and_momentum(sgd, gradient)\n'
            '    total = _add(total, gradient,',
        tests=_WAY,
    ),
    Fault(
        'batches_of_another_use',
        what='The batches are not those of FedAvg.',
        file=_WORK,
        old='        seed=client_work.key(message, data), **budget,\n',
        new='        seed=client_work.key(message, data, 1), **budget,\n',
        tests=_WAY,
    ),
    Fault(
        'drift_is_that_of_the_sum',
        what='The metric drift is the norm of what is sent.',
        file=_WORK,
        old='drift=tf.linalg.global_norm(tf.nest.flatten(way))',
        new='drift=tf.linalg.global_norm(tf.nest.flatten(path.total))',
        tests=_WAY,
    ),
    Fault(
        'clients_have_equal_weights',
        what='Clients of the family have equal weights by default.',
        file=_FAMILY,
        old="    client_weighting: str = 'examples',",
        new="    client_weighting: str = 'uniform',",
        tests=(
            f'{_FAMILY_TEST}'
            '::test_the_sum_of_all_gradients_with_eta_gamma_is_fedavg',
        ),
    ),
    Fault(
        'weighting_of_the_family_ignored',
        what='Clients have equal weights, whatever the builder is told.',
        file=_FAMILY,
        old='independent=independent, client_weighting=client_weighting,\n',
        new='independent=independent,\n',
        tests=(
            f'{_FAMILY_TEST}::test_rounds_are_a_linear_recursion[examples]',
        ),
    ),
    Fault(
        'batches_are_always_of_epochs',
        what='Independent minibatches are those of epochs.',
        file='tff_pers/data/client_data.py',
        old='  if independent:\n',
        new='  if independent and num_steps is None:\n',
        tests=(
            'tests/data/client_data_test.py'
            '::test_independent_batches_are_drawn_with_replacement',
            f'{_WORK_TEST}::test_only_independent_batches_have_the_expectation'
            '_of_the_theory[True]',
        ),
    ),
    Fault(
        'server_steps_by_gamma',
        what='The server descends with the rate of the clients.',
        file=_FAMILY,
        old='    eta = gamma if eta is None else eta\n',
        new='    eta = gamma or eta\n',
        tests=_RECURSION,
    ),
    Fault(
        'alpha_of_the_family_ignored',
        what='The proximal strength does not reach the clients.',
        file=_FAMILY,
        old='model, gamma=gamma, theta=theta, alpha=alpha,',
        new='model, gamma=gamma, theta=theta,',
        tests=_RECURSION,
    ),
    Fault(
        'outer_step_without_gamma',
        what='Reptile\'s sum of gradients is not scaled by gamma.',
        file=_FAMILY,
        old='(outer(state) if callable(outer) else outer) * gamma(state)',
        new='(outer(state) if callable(outer) else outer)',
        tests=(
            'tests/baselines/reptile_test.py'
            '::test_reptile_with_an_outer_step_of_one_trains_as_fedavg',
        ),
    ),
    Fault(
        'jacobian_dropped',
        what='MAML sends the gradient after the steps, as FOMAML does.',
        file=_MAML,
        old='      _, gradient = model.loss_and_gradient(adapted, batch)\n',
        new=(
            '      _, gradient = model.loss_and_gradient(adapted, batch)\n'
            '      gradient = tf.nest.map_structure('
            'tf.stop_gradient, gradient)\n'
        ),
        tests=_PATH,
    ),
    Fault(
        'query_is_a_support_batch',
        what='MAML\'s outer loss is of the batch of the first step.',
        file=_MAML,
        old='  uses = [*support_uses(num_adaptation_steps), _QUERY]',
        new='  uses = [*support_uses(num_adaptation_steps), 0]',
        tests=_DIFFERENCES,
    ),
    Fault(
        'same_support_batch_in_all_steps',
        what='All steps of MAML see the same batch.',
        file=_MAML,
        old='[k if k < _QUERY else k + 1 for k in range(num_steps)]',
        new='[0 for k in range(num_steps)]',
        tests=_DIFFERENCES,
    ),
    Fault(
        'anchor_is_differentiated',
        what='The anchor of MAML\'s pull is not held constant.',
        file=_MAML,
        old='anchor = tf.nest.map_structure(tf.stop_gradient, x)',
        new='anchor = x',
        tests=_PULLS,
    ),
    Fault(
        'outer_loss_without_the_pull',
        what='The loss after adaptation never has the proximal term.',
        file=_MAML,
        old='    if alpha and proximal_outer:',
        new='    if alpha and not proximal_outer:',
        tests=_PULLS,
    ),
    Fault(
        'outer_pull_twice_as_strong',
        what='The proximal term of the outer loss lacks its half.',
        file=_MAML,
        old='tf.constant(alpha / 2, squared.dtype)',
        new='tf.constant(alpha, squared.dtype)',
        tests=_PULLS,
    ),
    Fault(
        'fomaml_one_step_short',
        what='FOMAML with J steps sends gradient J, not J + 1.',
        file='baselines/maml.py',
        old='thetas.LastGradient(hyperparameters.adaptation_steps + 1)',
        new='thetas.LastGradient(hyperparameters.adaptation_steps)',
        tests=('tests/baselines/maml_test.py::test_flags_give_j_plus_one',),
    ),
    Fault(
        'adapts_as_long_as_in_training',
        what='The number of adaptation steps at evaluation is ignored.',
        file='baselines/maml.py',
        old='hyperparameters.steps or hyperparameters.adaptation_steps',
        new='hyperparameters.adaptation_steps',
        tests=(
            'tests/baselines/maml_test.py'
            '::test_clients_deploy_after_as_many_steps_as_asked',
        ),
    ),
    Fault(
        'mime_statistics_at_the_new_model',
        what='The gradients of Mime Lite\'s momentum are taken at u.',
        file='baselines/mime_lite.py',
        old='                model, w, data, seed=seed',
        new='                model, u, data, seed=seed',
        tests=(
            'tests/baselines/mime_lite_test.py'
            '::test_clients_use_momentum_and_do_not_change_it',
        ),
    ),
    Fault(
        'mime_momentum_as_a_sum',
        what='Mime Lite\'s momentum is g + beta m.',
        file='baselines/mime_lite.py',
        old='tf.constant(1 - beta, g.dtype) * g +',
        new='g +',
        tests=(
            'tests/baselines/mime_lite_test.py'
            '::test_clients_use_momentum_and_do_not_change_it',
        ),
    ),
    Fault(
        'mime_statistics_by_client',
        what='The gradients of Mime Lite\'s momentum have equal weights.',
        file='baselines/mime_lite.py',
        old='momentum=entry_weight.EntryWeightFactory(1, mean)',
        new='momentum=entry_weight.EntryWeightFactory(0, mean)',
        tests=(
            'tests/baselines/mime_lite_test.py'
            '::test_one_step_of_all_is_one_machine_with_momentum',
        ),
    ),
    Fault(
        'pull_after_the_local_step',
        what='The pull is added after clipping, decay and momentum.',
        file='tff_pers/client_works/local_update.py',
        old=(
            '      gradient = local.with_statistics(pulled, gradient)\n'
            '    direction, momentum = local.direction_and_momentum(sgd, gradient)\n'
        ),
        new=(
            '    direction, momentum = local.direction_and_momentum(sgd, gradient)\n'
            '    if alpha:\n'
            '      direction = local_sgd.pulled('
            'direction, sgd.weights, x, alpha)\n'
        ),
        tests=(
            'tests/baselines/fedprox_test.py::test_the_pull_is_in_the_gradient'
            '_before_clipping_decay_and_momentum',
        ),
    ),
    Fault(
        'stragglers_are_always_the_same',
        what='The epochs of FedProx are not drawn again in each round.',
        file='baselines/fedprox.py',
        old='[], client_work.key(message, data, _EPOCHS_USE), fewest',
        new=(
            "[], client_work.key(dict(message, round=0), data, _EPOCHS_USE),"
            ' fewest'
        ),
        tests=(
            'tests/baselines/fedprox_test.py'
            '::test_epochs_are_drawn_for_every_client_and_round',
        ),
    ),
    Fault(
        'epochs_never_reach_the_end_of_the_range',
        what='FedProx draws epochs below the upper end of the range.',
        file='baselines/fedprox.py',
        old='fewest, most + 1,',
        new='fewest, most,',
        tests=(
            'tests/baselines/fedprox_test.py'
            '::test_epochs_are_drawn_for_every_client_and_round',
        ),
    ),
    Fault(
        'nesterov_does_not_look_ahead',
        what='Nesterov\'s step is that of the heavy ball.',
        file='tff_pers/composition/server_optimizers.py',
        old='* (g + beta(g) * m),',
        new='* m,',
        tests=('tests/composition/server_optimizers_test.py::test_nesterov_looks_ahead',),
    ),
    Fault(
        'dispersion_about_zero',
        what='The dispersion does not subtract the norm of the mean.',
        file='tff_pers/aggregators/dispersion.py',
        old='tf.maximum(mean_square - _squared_norm(center), 0)',
        new='tf.maximum(mean_square, 0)',
        tests=(
            'tests/aggregators/dispersion_test.py'
            '::test_it_is_the_mean_squared_distance_from_the_mean',
        ),
    ),
)
