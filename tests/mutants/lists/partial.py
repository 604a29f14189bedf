"""Planted faults of FedSim, FedPer, FedAlt, FedRep and FedRecon."""

from tests.mutants.faults import Fault

_TRAINING = 'tff_pers/client_works/split_training.py'
_FEDSIM = 'baselines/fedsim.py'
_FEDSIM_TEST = 'tests/baselines/fedsim_test.py'
_FEDALT = 'baselines/fedalt.py'
_FEDALT_TEST = 'tests/baselines/fedalt_test.py'
_FEDRECON = 'baselines/fedrecon.py'
_FEDRECON_TEST = 'tests/baselines/fedrecon_test.py'
_ALL_TEST = 'tests/baselines/split_methods_test.py'
_IS_FEDAVG = (
    f'{_FEDSIM_TEST}::test_without_private_weights_it_is_fedavg_bit_for_bit',
)
_IS_LOCAL = (
    f'{_FEDSIM_TEST}'
    '::test_without_global_weights_it_is_local_training_bit_for_bit',
)
_OLD_POINT = (
    f'{_FEDSIM_TEST}::test_both_gradients_are_taken_at_the_old_point',
)
_PHASES = (
    f'{_FEDALT_TEST}'
    '::test_a_phase_holds_the_other_part_at_its_newest_value',
)
_STATELESS = (
    f'{_FEDALT_TEST}'
    '::test_stateless_clients_start_from_the_initial_value_every_time',
)
_FEDALT_IS_FEDAVG = (
    f'{_FEDALT_TEST}::test_without_private_weights_it_is_fedavg_bit_for_bit',
)
_HALVES = (
    f'{_FEDRECON_TEST}::test_each_half_of_the_data_is_for_one_part',
)
_ONE_EXAMPLE = (
    f'{_FEDRECON_TEST}'
    '::test_a_client_of_one_example_has_no_say_in_the_shared_weights',
)

FAULTS = (
    Fault(
        'fedsim_without_momentum',
        what='The local step of FedSim is plain SGD, whatever the flags.',
        file=_FEDSIM,
        old='local = local_step.build(hyperparameters)',
        new='local = local_step.PLAIN',
        tests=_IS_FEDAVG,
    ),
    Fault(
        'shared_rate_without_schedule',
        what='The step sizes of split methods do not follow the schedule.',
        file=_TRAINING,
        old='      local_step.scheduled(hyperparameters, message, rate) for rate in',
        new='      rate for rate in',
        tests=_IS_FEDAVG,
    ),
    Fault(
        'private_rate_ignored',
        what='Private weights move by the step size of the shared ones.',
        file=_FEDSIM,
        old='return self.private_learning_rate or self.learning_rate',
        new='return self.learning_rate',
        tests=_OLD_POINT,
    ),
    Fault(
        'private_gradient_at_the_new_point',
        what='FedSim takes the gradient of w after the step of theta.',
        file=_TRAINING,
        old='    gradients = dict(zip(rate, parts.split(gradient)))\n',
        new=(
            '    gradients = dict(zip(rate, parts.split(gradient)))\n'
            "    moved = local.apply(states['theta'], gradients['theta'],"
            " rate['theta'])\n"
            "    late = parts.merge(moved.weights, states['own'].weights)\n"
            "    gradients['own'] = parts.split("
            'parts.model.loss_and_gradient(late, batch)[1])[1]\n'
        ),
        tests=_OLD_POINT,
    ),
    Fault(
        'fedsim_forgets_private_weights',
        what='A client of FedSim keeps the private weights it came with.',
        file=_FEDSIM,
        old='    shared, own, loss = split_training',
        new='    shared, _, loss = split_training',
        tests=_IS_LOCAL,
    ),
    Fault(
        'fedsim_starts_private_weights_anew',
        what='Private weights of FedSim are initialized again in every round.',
        file=_FEDSIM,
        old='parts, theta, own, data, local=local,',
        new='parts, theta, parts.initial_weights(0)[1], data, local=local,',
        tests=_IS_LOCAL,
    ),
    Fault(
        'private_weights_of_another_seed',
        what='Private weights do not start from the w^0 of the run.',
        file=_FEDSIM,
        old='init_client=lambda seed: parts.initial_weights(seed)[1]',
        new='init_client=lambda seed: parts.initial_weights(seed + 1)[1]',
        tests=_IS_LOCAL,
    ),
    Fault(
        'fedsim_averages_private_weights',
        what='All weights of FedSim are global, whatever the split.',
        file=_FEDSIM,
        old='      hyperparameters.partition(task.model), hyperparameters,',
        new=(
            '      partition.by_predicate(task.model, lambda w: False),'
            ' hyperparameters,'
        ),
        tests=(f'{_ALL_TEST}::test_only_global_weights_travel[fedsim-options0]',),
    ),
    Fault(
        'private_weights_are_sent',
        what='The update of FedSim holds the private weights as well.',
        file=_FEDSIM,
        old='        update=local_sgd.difference(theta, shared),',
        new='        update=(*local_sgd.difference(theta, shared), *own),',
        tests=(f'{_ALL_TEST}::test_only_global_weights_travel[fedsim-options0]',),
    ),
    Fault(
        'server_rate_of_splits_ignored',
        what='The server step of split methods is plain averaging.',
        file=_FEDSIM,
        old='1.0 if server_optimizer else hyperparameters.server_learning_rate',
        new='1.0',
        tests=_IS_FEDAVG,
    ),
    Fault(
        'fedsim_weighs_clients_alike',
        what='Clients of FedSim are weighted alike, whatever the flag.',
        file=_FEDSIM,
        old='            client_weighting, data, hyperparameters.batch_size',
        new="            'uniform', data, hyperparameters.batch_size",
        tests=_IS_FEDAVG,
    ),
    Fault(
        'exports_first_private_weights',
        what='The model of a client is exported with initial private weights.',
        file=_FEDSIM,
        old='combine=parts.merge, deploy',
        new=(
            'combine=lambda w, _: parts.merge(w, parts.initial_weights(0)[1]),'
            ' deploy'
        ),
        tests=(f'{_FEDSIM_TEST}::test_client_deploys_global_and_own_weights',),
    ),
    Fault(
        'fedsim_new_clients_do_not_adapt',
        what='FedSim does not know which clients are new.',
        file=_FEDSIM,
        old='num_clients=task.num_clients, client',
        new='client',
        tests=(
            f'{_ALL_TEST}::test_a_new_client_learns_its_private_weights_alone'
            '[fedsim-options0]',
        ),
    ),
    Fault(
        'new_clients_by_the_shared_rate',
        what='A new client learns by the step size of the shared weights.',
        file=_TRAINING,
        old='        learning_rate=hyperparameters.private_rate,',
        new='        learning_rate=hyperparameters.learning_rate,',
        tests=(
            f'{_ALL_TEST}::test_a_new_client_learns_its_private_weights_alone'
            '[fedalt-options2]',
        ),
    ),
    Fault(
        'theta_phase_at_the_old_w',
        what="FedAlt's second phase holds w at its value before the first.",
        file=_FEDALT,
        old='        parts, theta, own, data, learning_rate=rates.theta, seed=seed,',
        new='        parts, theta, kept, data, learning_rate=rates.theta, seed=seed,',
        tests=_PHASES,
    ),
    Fault(
        'w_phase_for_the_time_of_theta',
        what="FedAlt's first phase lasts as long as the second.",
        file=_FEDALT,
        old='        local=local, **hyperparameters.private_budget(data),',
        new='        local=local, **hyperparameters.budget(),',
        tests=_PHASES,
    ),
    Fault(
        'w_phase_by_the_shared_rate',
        what="FedAlt's first phase has the step size of the shared weights.",
        file=_FEDALT,
        old='learning_rate=rates.own, seed',
        new='learning_rate=rates.theta, seed',
        tests=_PHASES,
    ),
    Fault(
        'stale_private_part',
        what='A client of FedAlt keeps the private weights it came with.',
        file=_FEDALT,
        old='client_state=kept if stateless else own,',
        new='client_state=kept,',
        tests=_PHASES,
    ),
    Fault(
        'heads_initialized_in_every_round',
        what='Private weights start from w^0 in every round of FedAlt, FedRep.',
        file=_FEDALT,
        old='own = split_training.initial_private(parts, message) if stateless else kept',
        new='own = split_training.initial_private(parts, message)',
        tests=_STATELESS,
    ),
    Fault(
        'phases_on_other_batches',
        what="FedAlt's second phase draws under a key of its own.",
        file=_FEDALT,
        old='parts, theta, own, data, learning_rate=rates.theta, seed=seed,',
        new='parts, theta, own, data, learning_rate=rates.theta, seed=seed + 1,',
        tests=_FEDALT_IS_FEDAVG,
    ),
    Fault(
        'epochs_win_over_steps',
        what='The limit of steps is ignored where epochs are given.',
        file=_FEDALT,
        old='tf.minimum(steps, epochs * per_epoch)',
        new='epochs * per_epoch',
        tests=(
            f'{_FEDALT_TEST}::test_private_phase_lasts_as_long_as_asked_for',
        ),
    ),
    Fault(
        'fedrep_with_few_head_epochs',
        what='FedRep trains its heads as long as FedAlt does.',
        file='baselines/fedrep.py',
        old="'private_epochs', default=10",
        new="'private_epochs', default=1",
        tests=(
            f'{_FEDALT_TEST}'
            '::test_fedrep_trains_heads_for_ten_epochs_by_default',
        ),
    ),
    Fault(
        'stateless_clients_deploy_the_first_w',
        what='Stateless clients do not learn w when they are evaluated.',
        file=_FEDSIM,
        old='0 if stateless else num_clients',
        new='num_clients',
        tests=(
            f'{_ALL_TEST}::test_stateless_clients_are_all_evaluated_as_new_ones',
        ),
    ),
    Fault(
        'reconstruction_counts_in_the_weight',
        what='Examples that w was reconstructed on count in the weight.',
        file=_FEDRECON,
        old='            client_weighting, query, hyperparameters.batch_size',
        new='            client_weighting, data, hyperparameters.batch_size',
        tests=_HALVES,
    ),
    Fault(
        'theta_sees_the_reconstruction_set',
        what='theta is trained on the examples that w was learned on.',
        file=_FEDRECON,
        old='every_other(data, first=0), every_other(data, first=1)',
        new='every_other(data, first=0), every_other(data, first=0)',
        tests=_HALVES,
    ),
    Fault(
        'odd_example_in_both_halves',
        what='The half of the odd rows counts one example too many.',
        file=_FEDRECON,
        old="(data['num_examples'] + 1 - first) // 2",
        new="(data['num_examples'] + 1) // 2",
        tests=_HALVES,
    ),
    Fault(
        'joint_moves_theta_alone',
        what='With joint the private weights stay where they are.',
        file=_FEDRECON,
        old='    if hyperparameters.joint:\n',
        new='    if False:\n',
        tests=_HALVES,
    ),
    Fault(
        'yogi_from_epsilon_squared',
        what="FedRecon's Yogi starts v at epsilon squared.",
        file=_FEDRECON,
        old='hyperparameters.server_learning_rate, initial_v=0.0',
        new='hyperparameters.server_learning_rate',
        tests=(
            f'{_FEDRECON_TEST}'
            '::test_yogi_takes_the_mean_update_for_a_gradient',
        ),
    ),
)
