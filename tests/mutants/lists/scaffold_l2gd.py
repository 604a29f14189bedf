"""Planted faults of Scaffold and L2GD."""

from tests.mutants.faults import Fault

_SCAFFOLD = 'baselines/scaffold.py'
_SCAFFOLD_TEST = 'tests/baselines/scaffold_test.py'
_BOX = (f'{_SCAFFOLD_TEST}::test_client_work_follows_the_box',)
_INVARIANT = (
    f'{_SCAFFOLD_TEST}'
    '::test_cohorts_of_two_converge_and_keep_the_invariant',
)
_DISTANCES = (f'{_SCAFFOLD_TEST}::test_distances_with_all_clients',)
_AGREE = (
    f'{_SCAFFOLD_TEST}::test_options_agree_for_one_step_of_all_examples',
)
_L2GD = 'baselines/l2gd.py'
_L2GD_TEST = 'tests/baselines/l2gd_test.py'
_STEPS = (f'{_L2GD_TEST}::test_steps_of_the_sheet',)
_CHAIN = (
    f'{_L2GD_TEST}'
    '::test_rounds_are_the_chain_which_approaches_the_minimizer',
)
_COINS = (f'{_L2GD_TEST}::test_coins_are_fair_and_rarely_communicate',)
_IS_LOCAL = (
    f'{_L2GD_TEST}::test_without_penalty_it_is_local_training_bit_for_bit',
)

FAULTS = (
    Fault(
        'correction_of_the_wrong_sign',
        what='Local steps of Scaffold add c_i and subtract c.',
        file=_SCAFFOLD,
        old='correction = local_sgd.difference(c, c_i)',
        new='correction = local_sgd.difference(c_i, c)',
        tests=_BOX,
    ),
    Fault(
        'no_correction',
        what='Scaffold takes the steps of FedAvg.',
        file=_SCAFFOLD,
        old='tf.add, local.direction(sgd.weights, gradient), correction',
        new=(
            'lambda d, _: d, local.direction(sgd.weights, gradient),'
            ' correction'
        ),
        tests=_BOX,
    ),
    Fault(
        'variate_by_the_mean_of_the_cohort',
        what='c moves by the mean of the cohort, without |S| / N.',
        file=_SCAFFOLD,
        old='else tff.aggregators.SumFactory()',
        new='else tff.aggregators.UnweightedMeanFactory()',
        tests=_INVARIANT,
    ),
    Fault(
        'variate_by_the_sum_of_the_cohort',
        what='c moves by the sum over the cohort, not divided by N.',
        file=_SCAFFOLD,
        old="state['variate'], aggregate['variate'], 1 / num_clients",
        new="state['variate'], aggregate['variate'], 1.0",
        tests=_INVARIANT,
    ),
    Fault(
        'variates_are_forgotten',
        what='Clients of Scaffold never write their variates back.',
        file=_SCAFFOLD,
        old='        client_state=renewed,',
        new='        client_state=c_i,',
        tests=_INVARIANT,
    ),
    Fault(
        'new_c_in_option_2',
        what='The step of option 2 leaves out that c was added to it.',
        file=_SCAFFOLD,
        old='    return c_i - c + (x - y) / way',
        new='    return c_i + (x - y) / way',
        tests=_BOX,
    ),
    Fault(
        'nominal_number_of_steps',
        what='Option 2 divides by the flag local_steps, not the steps taken.',
        file=_SCAFFOLD,
        old='_mean_gradient(x, y, c, c_i, eta, num_steps)\n    # A',
        new=(
            '_mean_gradient(x, y, c, c_i, eta,'
            ' hyperparameters.local_steps or 1)\n    # A'
        ),
        tests=_BOX,
    ),
    Fault(
        'nominal_step_size',
        what='Option 2 divides by the step size of round 0.',
        file=_SCAFFOLD,
        old='_mean_gradient(x, y, c, c_i, eta, num_steps)\n    # A',
        new=(
            '_mean_gradient(x, y, c, c_i, hyperparameters.learning_rate,'
            ' num_steps)\n    # A'
        ),
        tests=_BOX,
    ),
    Fault(
        'option_1_at_the_final_point',
        what='Option 1 takes the gradient at y, not at the model received.',
        file=_SCAFFOLD,
        old='local_gradient.compute(model, x, data',
        new='local_gradient.compute(model, y, data',
        tests=_DISTANCES,
    ),
    Fault(
        'option_1_without_weight_decay',
        what='The variate of option 1 lacks the penalty that steps have.',
        file=_SCAFFOLD,
        old='      renewed = local.direction(x, at_x)',
        new='      renewed = at_x',
        tests=_AGREE,
    ),
    Fault(
        'correction_is_clipped',
        what='Clipping acts on the corrected gradient.',
        file=_SCAFFOLD,
        old=(
            '          tf.add, local.direction(sgd.weights, gradient),'
            ' correction\n      )'
        ),
        new=(
            '          tf.add, gradient, correction\n      )\n'
            '      direction = local.direction(sgd.weights, direction)'
        ),
        tests=_AGREE,
    ),
    Fault(
        'scaffold_by_examples',
        what='Clients of Scaffold are weighted by examples.',
        file=_SCAFFOLD,
        old="            'uniform', data, hyperparameters.batch_size",
        new="            'examples', data, hyperparameters.batch_size",
        tests=_DISTANCES,
    ),
    Fault(
        'momentum_in_option_2',
        what='Option 2 takes momentum for a gradient.',
        file=_SCAFFOLD,
        old="    if self.option == '2' and self.momentum:",
        new='    if False:',
        tests=(f'{_SCAFFOLD_TEST}::test_momentum_is_for_option_1',),
    ),
    Fault(
        'local_step_without_1_minus_p',
        what='Local steps of known smoothness are not divided by 1 - p.',
        file=_L2GD,
        old='return Steps(p, share / (1 - p), share * self.lambda_ / p)',
        new='return Steps(p, share, share * self.lambda_ / p)',
        tests=_STEPS,
    ),
    Fault(
        'averaging_without_p',
        what='Averaging steps of known smoothness are not divided by p.',
        file=_L2GD,
        old='return Steps(p, share / (1 - p), share * self.lambda_ / p)',
        new='return Steps(p, share / (1 - p), share * self.lambda_)',
        tests=_STEPS,
    ),
    Fault(
        'averaging_without_the_step_size',
        what='th is lambda / p whatever the step size, as in public code.',
        file=_L2GD,
        old='min(0.5, share * self.lambda_ / p)',
        new='min(0.5, self.lambda_ / p)',
        tests=_STEPS,
    ),
    Fault(
        'averaging_overshoots',
        what='th may exceed 1/2.',
        file=_L2GD,
        old='min(0.5, share * self.lambda_ / p)',
        new='share * self.lambda_ / p',
        tests=(
            f'{_L2GD_TEST}'
            '::test_unknown_smoothness_takes_the_learning_rate',
        ),
    ),
    Fault(
        'sum_of_the_bounds',
        what='alpha follows from the sum of both bounds, not from the larger.',
        file=_L2GD,
        old='0.5 / max(smoothness / (1 - p), self.lambda_ / p)',
        new='0.5 / (smoothness / (1 - p) + self.lambda_ / p)',
        tests=_STEPS,
    ),
    Fault(
        'one_coin_per_client',
        what='Clients do not take the same number of local steps.',
        file=_L2GD,
        old="        num_steps=message['local_steps'],",
        new="        num_steps=message['local_steps'] + data['index'] % 2,",
        tests=_IS_LOCAL,
    ),
    Fault(
        'same_coins_every_iteration',
        what='The key of a coin does not hold the iteration.',
        file=_L2GD,
        old='random.key(seed, _COIN_USE, iteration)',
        new='random.key(seed, _COIN_USE, iteration // 2)',
        tests=_COINS,
    ),
    Fault(
        'coin_of_the_other_side',
        what='Iterations average with probability 1 - p.',
        file=_L2GD,
        old='  return draw < p\n',
        new='  return draw > p\n',
        tests=_COINS,
    ),
    Fault(
        'averages_once_per_round',
        what='Several averagings in a row count as one.',
        file=_L2GD,
        old='pull=1 - (1 - tf.cast(rate, dtype)) ** tf.cast(num, dtype),',
        new='pull=tf.cast(rate, dtype),',
        tests=_CHAIN,
    ),
    Fault(
        'averaging_pushes',
        what='Models move away from their mean.',
        file=_L2GD,
        old="x + message['pull'] * (mean - x), mean",
        new="x - message['pull'] * (mean - x), mean",
        tests=_CHAIN,
    ),
    Fault(
        'coins_are_used_twice',
        what='A round begins at the coins of the averagings before it.',
        file=_L2GD,
        old="**coming_round(state['seed'], first + num),",
        new="**coming_round(state['seed'], first),",
        tests=_CHAIN,
    ),
    Fault(
        'new_clients_deploy_the_first_model',
        what='A client that never trained deploys w^0, moved to the mean.',
        file=_L2GD,
        old="          own['trained'], x + message",
        new='          True, x + message',
        tests=(
            f'{_L2GD_TEST}'
            '::test_a_client_that_never_trained_deploys_the_mean',
        ),
    ),
    Fault(
        'mean_after_averaging',
        what='A client trains on from x_i as it was before it averaged.',
        file=_L2GD,
        old='        model, averaged(message, own), data,',
        new="        model, own['weights'], data,",
        tests=_CHAIN,
    ),
)
