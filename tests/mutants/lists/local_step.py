"""Planted faults of the local step, and of the server optimizers."""

from tests.mutants.faults import Fault

FAULTS = (
    Fault(
        'momentum_of_the_difference',
        what='Momentum is an average and not the heavy ball.',
        file='tff_pers/client_works/local_step.py',
        old=(
            'lambda m, d: tf.constant(self.momentum, d.dtype) * m + '
            'd,'
        ),
        new=(
            'lambda m, d: tf.constant(self.momentum, d.dtype) * (m -'
            ' d) + d,'
        ),
        tests=(
            'tests/client_works/local_step_test.py'
            '::test_momentum_is_the_heavy_ball',
        ),
    ),
    Fault(
        'weight_decay_grows',
        what='The penalty pushes the weights away from 0.',
        file='tff_pers/client_works/local_step.py',
        old=(
            'lambda g, w: g + tf.constant(self.weight_decay, g.dtype'
            ') * w,'
        ),
        new=(
            'lambda g, w: g - tf.constant(self.weight_decay, g.dtype'
            ') * w,'
        ),
        tests=(
            'tests/client_works/local_step_test.py'
            '::test_weight_decay_is_an_l2_penalty',
        ),
    ),
    Fault(
        'clipping_lengthens',
        what='Short gradients are scaled up to the limit.',
        file='tff_pers/client_works/local_step.py',
        old=(
            'tf.math.is_finite(norm), limit / tf.maximum(norm, limit'
            '),'
        ),
        new='tf.math.is_finite(norm), limit / norm,',
        tests=(
            'tests/client_works/local_step_test.py'
            '::test_clipping_bounds_the_norm_over_all_tensors',
        ),
    ),
    Fault(
        'clipping_hides_infinity',
        what='A gradient that is not finite counts as a client that stands still.',
        file='tff_pers/client_works/local_step.py',
        old=(
            'tf.math.is_finite(norm), limit / tf.maximum(norm, limit'
            '),'
        ),
        new='norm > 0, limit / tf.maximum(norm, limit),',
        tests=(
            'tests/client_works/local_step_test.py'
            '::test_clipping_does_not_hide_what_is_not_finite',
        ),
    ),
    Fault(
        'steps_a_round_late',
        what='A step of the schedule comes one round too late.',
        file='tff_pers/client_works/local_step.py',
        old='passed = tf.constant(rounds, tf.float64) <= t',
        new='passed = tf.constant(rounds, tf.float64) < t',
        tests=(
            'tests/client_works/local_step_test.py'
            '::test_schedule',
            'tests/client_works/local_step_test.py'
            '::test_schedule_leaves_constants_and_frozen_parts_as_they_are',
        ),
    ),
    Fault(
        'cosine_rises_again',
        what='The cosine continues after its last round.',
        file='tff_pers/client_works/local_step.py',
        old='angle = math.pi * tf.minimum(t / rounds[0], 1.0)',
        new='angle = math.pi * t / rounds[0]',
        tests=(
            'tests/client_works/local_step_test.py'
            '::test_schedule',
            'tests/client_works/local_step_test.py'
            '::test_schedule_leaves_constants_and_frozen_parts_as_they_are',
        ),
    ),
    Fault(
        'frozen_part_counts_in_norm',
        what='A frozen part has a share in the norm that is clipped.',
        file='tff_pers/client_works/joint_step.py',
        old='gradients = {name: gradients[name] for name in moving}',
        new='gradients = dict(gradients)',
        tests=(
            'tests/client_works/local_step_test.py'
            '::test_a_frozen_part_has_no_gradient_no_momentum_and_no_decay',
            'tests/client_works/local_step_test.py'
            '::test_schedule_leaves_constants_and_frozen_parts_as_they_are',
        ),
    ),
    Fault(
        'everything_is_clipped',
        what='A part whose steps have no scale is shortened too.',
        file='tff_pers/client_works/joint_step.py',
        old='for n, g in gradients.items() if n not in unclipped}',
        new='for n, g in gradients.items()}',
        tests=(
            'tests/client_works/local_step_test.py'
            '::test_an_unclipped_part_keeps_its_length_and_does_not_count',
        ),
    ),
    Fault(
        'everything_decays',
        what='Parts that are no weights decay too.',
        file='tff_pers/client_works/joint_step.py',
        old='local.momentum, 0.0 if name in undecayed else local.weight_decay',
        new='local.momentum, local.weight_decay',
        tests=(
            'tests/client_works/local_step_test.py'
            '::test_a_part_that_is_no_weight_of_a_model_does_not_decay',
        ),
    ),
    Fault(
        'yogi_sign',
        what='Yogi moves its second moment away from the square.',
        file='tff_pers/composition/server_optimizers.py',
        old=(
            'return v - (1 - beta2) * squared * tf.sign(v - squared)'
        ),
        new=(
            'return v - (1 - beta2) * squared * tf.sign(squared - v)'
        ),
        tests=(
            'tests/composition/server_optimizers_test.py'
            '::test_scalar_trajectory',
        ),
    ),
    Fault(
        'epsilon_inside_the_root',
        what='Epsilon stands inside of the square root.',
        file='tff_pers/composition/server_optimizers.py',
        old=(
            "return w - rate * m / (tf.sqrt(v) + tf.cast(state['epsi"
            "lon'], w.dtype))"
        ),
        new=(
            "return w - rate * m / tf.sqrt(v + tf.cast(state['epsilo"
            "n'], w.dtype))"
        ),
        tests=(
            'tests/composition/server_optimizers_test.py'
            '::test_scalar_trajectory',
        ),
    ),
    Fault(
        'first_moment_without_factor',
        what="The first moment is the heavy ball's.",
        file='tff_pers/composition/server_optimizers.py',
        old='return beta1 * m + (1 - beta1) * g',
        new='return beta1 * m + g',
        tests=(
            'tests/composition/server_optimizers_test.py'
            '::test_scalar_trajectory',
        ),
    ),
    Fault(
        'second_moment_from_zero',
        what='The second moment starts at 0 and not at epsilon squared.',
        file='tff_pers/composition/server_optimizers.py',
        old=(
            "hparams['epsilon'] ** 2 if initial_v is None else initi"
            'al_v'
        ),
        new='0.0 if initial_v is None else initial_v',
        tests=(
            'tests/composition/server_optimizers_test.py'
            '::test_scalar_trajectory',
        ),
    ),
    Fault(
        'server_ascends',
        what='The server goes up the gradient.',
        file='tff_pers/composition/server_optimizers.py',
        old='return w - rate * m / (',
        new='return w + rate * m / (',
        tests=(
            'tests/composition/server_optimizers_test.py'
            '::test_scalar_trajectory',
        ),
    ),
    Fault(
        'report_of_the_last_step',
        what='The loss of a client is that of its last step.',
        file='tff_pers/data/client_data.py',
        old='return state, total + report, count + 1',
        new='return state, report, count + 1',
        tests=(
            'tests/data/client_data_test.py'
            '::test_mean_of_what_the_steps_report',
            'tests/data/client_data_test.py'
            '::test_mean_without_steps_is_zero_of_the_type_of_the_state',
            'tests/data/client_data_test.py'
            '::test_mean_over_a_dataset_is_that_over_dense_data',
        ),
    ),
    Fault(
        'mean_of_no_step',
        what='A client without examples reports 0 / 0.',
        file='tff_pers/data/client_data.py',
        old=(
            'return state, total / tf.cast(tf.maximum(count, 1), tot'
            'al.dtype)'
        ),
        new='return state, total / tf.cast(count, total.dtype)',
        tests=(
            'tests/data/client_data_test.py'
            '::test_mean_of_what_the_steps_report',
            'tests/data/client_data_test.py'
            '::test_mean_without_steps_is_zero_of_the_type_of_the_state',
            'tests/data/client_data_test.py'
            '::test_mean_over_a_dataset_is_that_over_dense_data',
        ),
    ),
    Fault(
        'routers_decay',
        what='Weight decay pulls routers to the uniform mixture.',
        file='tff_pers/client_works/router_training.py',
        old="states, found, rate, undecayed=('router',), unclipped=unclipped",
        new='states, found, rate, unclipped=unclipped',
        tests=(
            'tests/client_works/router_training_test.py'
            '::test_models_decay_and_routers_do_not',
        ),
    ),
    Fault(
        'mfl_plain_step',
        what='Momentum and clipping do nothing with objective=mfl.',
        file='tff_pers/client_works/mfl.py',
        old='return joint_step.apply(local, states, found, rate), loss',
        new=(
            'return joint_step.apply(local_step.PLAIN, states, found, rate)'
            ', loss'
        ),
        tests=(
            'tests/client_works/mfl_test.py'
            '::test_a_step_is_clipped_decays_and_has_momentum',
        ),
    ),
    Fault(
        'pfedme_clips_the_envelope',
        what='The clipped norm is that of u - theta and not of the gradient.',
        file='baselines/pfedme.py',
        old='clip_norm=local.clip_norm / lam,',
        new='clip_norm=local.clip_norm,',
        tests=(
            'tests/baselines/local_step_test.py'
            '::test_pfedme_clips_the_gradient_of_the_envelope',
        ),
    ),
    Fault(
        'pfedme_decays_lam_times',
        what='Weight decay is lam times too strong.',
        file='baselines/pfedme.py',
        old='local, weight_decay=local.weight_decay / lam,',
        new='local, weight_decay=local.weight_decay,',
        tests=(
            'tests/baselines/local_step_test.py'
            '::test_pfedme_descends_the_penalized_envelope',
        ),
    ),
    Fault(
        'ditto_without_pull',
        what='The personal model is not pulled.',
        file='baselines/ditto.py',
        old='return local.apply(sgd, pulled, rate), loss',
        new='return local.apply(sgd, gradient, rate), loss',
        tests=(
            'tests/baselines/ditto_test.py'
            '::test_pull_is_towards_the_received_model',
        ),
    ),
    Fault(
        'ditto_plain_personal_step',
        what='Clipping does nothing for the personal model.',
        file='baselines/ditto.py',
        old=(
            'pull, local = hyperparameters.lambda_, local_step.build'
            '(hyperparameters)'
        ),
        new=(
            'pull, local = hyperparameters.lambda_, local_step.PLAIN'
        ),
        tests=(
            'tests/baselines/local_step_test.py'
            '::test_ditto_clips_what_v_descends_with_the_pull_in_it',
        ),
    ),
    Fault(
        'ifca_unclipped_gradient',
        what='Clipping does nothing with average=gradient.',
        file='baselines/ifca.py',
        old='direction = local.direction(weights, found.gradient)',
        new='direction = found.gradient',
        tests=(
            'tests/baselines/local_step_test.py'
            '::test_ifca_clips_and_decays_the_one_gradient',
        ),
    ),
    Fault(
        'fine_tuning_scheduled',
        what='Fine-tuning takes the step size that is left after training.',
        file='baselines/fedavg_finetuned.py',
        old='learning_rate=hyperparameters.fine_tuning_rate,',
        new=(
            'learning_rate=local_step.scheduled(hyperparameters,'
            ' dict(round=tf.constant(2)), hyperparameters.fine_tuning_rate),'
        ),
        tests=(
            'tests/baselines/local_step_test.py'
            '::test_a_schedule_does_not_reach_what_clients_do_when_they_deploy',
        ),
    ),
    Fault(
        'perm_unclipped_global_step',
        what='w descends the gradient as it is.',
        file='tff_pers/algorithms/perm/perm_client.py',
        old='update = local.direction(weights, found.gradient)',
        new='update = found.gradient',
        tests=(
            'tests/algorithms/perm/perm_test.py'
            '::test_local_step_of_the_single_loop',
        ),
    ),
    Fault(
        'perm_compares_clipped_gradients',
        what='Distances are between clipped gradients.',
        file='tff_pers/algorithms/perm/perm_client.py',
        old='row(self.fingerprint(message, found.gradient)),',
        new=(
            'row(self.fingerprint(message, local_step.build(self.hyperparamet'
            "ers).direction(message['weights'], found.gradient))),"
        ),
        tests=(
            'tests/algorithms/perm/perm_test.py'
            '::test_local_step_of_the_single_loop',
        ),
    ),
    Fault(
        'perm_plain_stage_one',
        what='The local step does nothing in stage 1.',
        file='tff_pers/algorithms/perm/perm_client.py',
        old='weights, data, local=local,',
        new='weights, data,',
        tests=(
            'tests/algorithms/perm/perm_test.py'
            '::test_local_step_of_stage_1_is_that_of_fedavg',
        ),
    ),
    Fault(
        'visits_plain_step',
        what='The local step does nothing in visits.',
        file='tff_pers/algorithms/perm/visits.py',
        old=(
            'local=local_step.build(hyperparameters), **hyperparamet'
            'ers.budget(),'
        ),
        new='**hyperparameters.budget(),',
        tests=(
            'tests/algorithms/perm/fixed_mixing_test.py'
            '::test_local_steps_of_a_visit_match_numpy',
        ),
    ),
)
