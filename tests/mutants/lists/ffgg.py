"""Planted faults of FFGG, Local FFGG and their fine-tuners."""

from tests.mutants.faults import Fault

_FFGG = 'tff_pers/algorithms/ffgg/ffgg.py'
_LOCAL = 'tff_pers/algorithms/ffgg/local_ffgg.py'
_PRIVATE = 'tff_pers/algorithms/ffgg/ffgg_private.py'
_STAGES = 'tff_pers/algorithms/ffgg/ffgg_stages.py'
_HYPERPARAMETERS = 'tff_pers/algorithms/ffgg/ffgg_hyperparameters.py'
_TUNERS = 'tff_pers/client_works/fine_tuners.py'
_TRAINING = 'tff_pers/client_works/split_training.py'
_TEST = 'tests/algorithms/ffgg/ffgg_test.py'
_TUNERS_TEST = 'tests/client_works/fine_tuners_test.py'
_QUADRATICS = 'tests/algorithms/ffgg/ffgg_least_squares_test.py'
_SENT = (
    f'{_TEST}::test_ffgg_sends_the_gradient_at_the_fine_tuned_private_weights',
)
_TRAVELS = (f'{_TEST}::test_only_global_weights_travel',)
_ALTERNATES = (
    f'{_TEST}'
    '::test_local_ffgg_alternates_and_theta_moves_at_the_new_private_weights',
)
_ANEW = (f'{_TEST}::test_clients_start_anew_unless_they_are_stateful',)
_STARTS = (f'{_TEST}::test_where_private_weights_start',)
_EVALUATED = (f'{_TEST}::test_clients_fine_tune_before_they_are_evaluated',)
_PRETRAINING = (
    f'{_TEST}::test_pretraining_is_fedavg_then_private_weights_start_from_it',
)
_NORMS = (
    f'{_TEST}'
    '::test_norms_are_of_gradients_and_weighted_alike_in_every_stage',
)
_IS_FEDAVG = (
    f'{_TEST}'
    '::test_local_ffgg_without_private_weights_is_fedavg_bit_for_bit',
)

FAULTS = (
    Fault(
        'gradient_before_the_fine_tuning',
        what='The global gradient is taken at w^0, as if tuned afterwards.',
        file=_FFGG,
        old='        parts.global_model(own), theta, data,',
        new=(
            '        parts.global_model(private.start(message, kept, data)),'
            ' theta, data,'
        ),
        tests=_SENT,
    ),
    Fault(
        'gradient_through_the_private_part',
        what='The gradient of the fine-tuning steps is added: w is no constant.',
        file=_FFGG,
        old='        parts.global_model(own), theta, data,',
        new=(
            '        __import__("dataclasses").replace('
            'parts.global_model(own), predict=lambda part, *rest:'
            ' parts.model.predict(parts.merge(part, private.tune('
            'dict(message, weights=part), kept, data,'
            ' use=ffgg_private.FINE_TUNING)), *rest)), theta, data,'
        ),
        tests=(f'{_TEST}::test_ffgg_adds_no_gradient_through_the_fine_tuning',),
    ),
    Fault(
        'private_part_sent',
        what='The private weights of FFGG are in the update.',
        file=_FFGG,
        old='update=collections.OrderedDict(weights=delta.gradient)',
        new='update=collections.OrderedDict(own=own, weights=delta.gradient)',
        tests=_TRAVELS,
    ),
    Fault(
        'local_private_part_sent',
        what='The private weights of Local FFGG are in the update.',
        file=_LOCAL,
        old='update=collections.OrderedDict(weights=delta)',
        new='update=collections.OrderedDict(own=own, weights=delta)',
        tests=_TRAVELS,
    ),
    Fault(
        'stale_private_part',
        what='Stateful clients keep what they had before the round.',
        file=_PRIVATE,
        old='    return own if self._hyperparameters.stateful else kept',
        new='    return kept',
        tests=_ANEW,
    ),
    Fault(
        'stateful_clients_start_anew',
        what='Stateful clients fine-tune from the initial value.',
        file=_PRIVATE,
        old='    if self._hyperparameters.stateful:\n      return kept\n',
        new='',
        tests=_ANEW,
    ),
    Fault(
        'wrong_tau',
        what='In the rounds clients fine-tune as long as before an evaluation.',
        file=_PRIVATE,
        old='        **hyperparameters.fine_tuning_budget(),',
        new='        **hyperparameters.final_budget(),',
        tests=_SENT,
    ),
    Fault(
        'batches_of_the_alternating_steps',
        what='The fine-tuning visits the batches of the main line.',
        file=_PRIVATE,
        old='FINE_TUNING = 1',
        new='FINE_TUNING = 0',
        tests=(f'{_TEST}::test_fine_tuning_has_batches_of_its_own',),
    ),
    Fault(
        'step_size_twice',
        what='What Local FFGG sends is scaled by the step size once more.',
        file=_LOCAL,
        old='    delta = local_sgd.difference(theta, shared)\n',
        new=(
            '    delta = tuple(d * hyperparameters.learning_rate'
            ' for d in local_sgd.difference(theta, shared))\n'
        ),
        tests=_IS_FEDAVG,
    ),
    Fault(
        'theta_moves_at_the_old_w',
        what='Both half-steps are taken at the old point, as in FedSim.',
        file=_TRAINING,
        old='      model = parts.global_model(own.weights)\n',
        new='      model = parts.global_model(lines[1].weights)\n',
        tests=_ALTERNATES,
    ),
    Fault(
        'private_rate_of_theta',
        what='The private half-steps have the step size of theta.',
        file=_TRAINING,
        old='own = local.of(model).apply(own, gradient, rates.own)',
        new='own = local.of(model).apply(own, gradient, rates.theta)',
        tests=_ALTERNATES,
    ),
    Fault(
        'random_start_without_the_round',
        what='A random start is the same in every round and at every client.',
        file=_PRIVATE,
        old=(
            '      key = client_work.key(message, data, _RANDOM_START)\n'
            '      return self._parts.split(self._parts.model.init(key))[1]'
        ),
        new=(
            '      from tff_pers import random\n'
            "      key = random.key(message['seed'], _RANDOM_START)\n"
            '      return self._parts.split(self._parts.model.init(key))[1]'
        ),
        tests=_STARTS,
    ),
    Fault(
        'zeros_are_the_initial_value',
        what='private_init=zeros does nothing.',
        file=_PRIVATE,
        old="    if how == 'zeros':",
        new="    if how == 'nothing':",
        tests=_STARTS,
    ),
    Fault(
        'final_steps_follow_the_schedule',
        what='Before an evaluation the step size has fallen with the rounds.',
        file=_PRIVATE,
        old='        learning_rate=hyperparameters.private_rate, **budget,',
        new=(
            '        learning_rate=local_step.scheduled(hyperparameters,'
            ' message, hyperparameters.private_rate), **budget,'
        ),
        tests=_EVALUATED,
    ),
    Fault(
        'no_final_fine_tuning',
        what='Clients deploy w^0 without fine-tuning.',
        file=_STAGES,
        old='    own = private.tune_finally(message, kept, data)\n',
        new='    own = private.start(message, kept, data)\n',
        tests=_EVALUATED,
    ),
    Fault(
        'pretraining_too_long',
        what='Stage 1 takes one round more than asked for.',
        file=_STAGES,
        old=(
            "        message['round'] < hyperparameters.pretrain_rounds,\n"
            '        lambda: pretrain(message'
        ),
        new=(
            "        message['round'] <= hyperparameters.pretrain_rounds,\n"
            '        lambda: pretrain(message'
        ),
        tests=_PRETRAINING,
    ),
    Fault(
        'pretrained_private_part_forgotten',
        what='After stage 1 private weights start from the first weights.',
        file=_PRIVATE,
        old="  if 'private' in state_or_message:",
        new="  if 'nothing' in state_or_message:",
        tests=_PRETRAINING,
    ),
    Fault(
        'norms_of_the_step_not_of_the_gradients',
        what='The metrics of Local FFGG shrink with the step size.',
        file=_LOCAL,
        old='      scale=lambda message: rates(message).theta,',
        new='      scale=lambda message: 1.0,',
        tests=_ALTERNATES,
    ),
    Fault(
        'adam_ignores_adapt_epochs',
        what='Before an evaluation Adam fine-tunes as long as in a round.',
        file=_PRIVATE,
        old="    if hyperparameters.tuner in ('sgd', 'adam'):",
        new="    if hyperparameters.tuner == 'sgd':",
        tests=(
            f'{_TEST}'
            '::test_adam_fine_tunes_for_its_epochs_before_an_evaluation',
        ),
    ),
    Fault(
        'random_start_that_nothing_draws',
        what='private_init=random is taken where it has no effect.',
        file=_PRIVATE,
        old="    if hyperparameters.private_init == 'random':\n      first",
        new='    if False:\n      first',
        tests=(
            f'{_TEST}::test_raises_on_a_random_start_that_nothing_draws',
        ),
    ),
    Fault(
        'norms_by_the_unscheduled_rate',
        what='Local FFGG divides what it sends by the step size of round 0.',
        file=_LOCAL,
        old='      scale=lambda message: rates(message).theta,',
        new='      scale=lambda message: hyperparameters.learning_rate,',
        tests=_NORMS,
    ),
    Fault(
        'norms_of_pretraining_by_the_rate_of_stage_2',
        what='In stage 1 the metrics are divided by the scale of stage 2.',
        file=_STAGES,
        old='    if not pretrains:\n      return later\n',
        new='    return later\n',
        tests=_NORMS,
    ),
    Fault(
        'norms_of_the_clients_not_weighted',
        what='What clients report has equal weights in its mean.',
        file='tff_pers/core/round_metrics.py',
        old='    return counted * tf.cast(tf.reduce_sum(weight), tf.float32)',
        new='    return counted',
        tests=_NORMS,
    ),
    Fault(
        'fine_tuning_ignores_the_schedule',
        what='In the rounds private weights are tuned at the rate of round 0.',
        file=_PRIVATE,
        old=(
            '        learning_rate=hyperparameters.scheduled(\n'
            '            message, hyperparameters.private_rate\n'
            '        ),\n'
        ),
        new='        learning_rate=hyperparameters.private_rate,\n',
        tests=_NORMS,
    ),
    Fault(
        'schedule_goes_on_after_pretraining',
        what='The schedule of stage 2 counts the rounds of stage 1, too.',
        file=_HYPERPARAMETERS,
        old="    since = dict(round=message['round'] - self.pretrain_rounds)",
        new="    since = dict(round=message['round'])",
        tests=(f'{_TEST}::test_each_stage_has_a_schedule_of_its_own',),
    ),
    Fault(
        'gradient_of_all_examples',
        what='The gradient is always that of all examples.',
        file=_FFGG,
        old='        num_rows=hyperparameters.gradient_examples,\n',
        new='',
        tests=(f'{_TEST}::test_gradient_of_a_few_examples',),
    ),
    Fault(
        'betas_of_adam_swapped',
        what="The server's Adam takes beta1 for beta2.",
        file=_HYPERPARAMETERS,
        old='learning_rate, dtype, self.server_beta1, self.server_beta2,',
        new='learning_rate, dtype, self.server_beta2, self.server_beta1,',
        tests=(f'{_TEST}::test_server_optimizer_is_adam',),
    ),
    Fault(
        'conjugate_gradient_turns_the_wrong_way',
        what='The ratio of the residuals is upside down.',
        file=_TUNERS,
        old='_quotient(_dot(residual, residual), squared)',
        new='_quotient(squared, _dot(residual, residual))',
        tests=(f'{_TUNERS_TEST}::test_conjugate_gradient_is_that_of_scipy',),
    ),
    Fault(
        'exact_solution_uphill',
        what='The exact solve goes away from the solution.',
        file=_TUNERS,
        old='_moved(own, -tf.linalg.matvec(',
        new='_moved(own, tf.linalg.matvec(',
        tests=(
            f'{_TUNERS_TEST}::test_exact_solution_is_the_nearest_minimizer',
        ),
    ),
    Fault(
        'solve_sees_padding',
        what='Rows of padding count in the exact solve.',
        file='tff_pers/data/client_data.py',
        old="tf.range(size) < data['num_examples'], seed",
        new='tf.range(size) < size, seed',
        tests=(f'{_TUNERS_TEST}::test_padding_does_not_move_the_solution',),
    ),
    Fault(
        'optimizer_keeps_its_own_step_size',
        what='A fine-tuner of an optimizer ignores the step size.',
        file=_TUNERS,
        old='            rate: tf.cast(',
        new="            'unknown': tf.cast(",
        tests=(
            f'{_TUNERS_TEST}'
            '::test_optimizer_takes_the_step_size_and_the_local_step',
        ),
    ),
    Fault(
        'any_loss_is_quadratic',
        what='An exact solve of a network is accepted.',
        file=_TUNERS,
        old='<= 1e-3 * size:',
        new='<= 1e3 * size:',
        tests=(
            f'{_TUNERS_TEST}::test_a_loss_that_is_not_quadratic_is_refused',
        ),
    ),
)
