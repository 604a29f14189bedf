"""Planted faults of the baselines: averaging methods and tables of models."""

from tests.mutants.faults import Fault

_APFL = 'baselines/apfl.py'
_APFL_STEP = ('tests/baselines/apfl_test.py::test_step_uses_old_values_throughout',)
_DITTO = 'baselines/ditto.py'
_DITTO_TEST = 'tests/baselines/ditto_test.py'
_PFEDME = 'baselines/pfedme.py'
_PFEDME_TEST = 'tests/baselines/pfedme_test.py'
_PERFEDAVG = 'baselines/perfedavg.py'
_PERFEDAVG_TEST = 'tests/baselines/perfedavg_test.py'
_FEDEM = 'baselines/fedem.py'
_FEDEM_TEST = 'tests/baselines/fedem_test.py'
_IFCA = 'baselines/ifca.py'
_IFCA_TEST = 'tests/baselines/ifca_test.py'
_ENSEMBLE = 'baselines/ensemble.py'
_ENSEMBLE_TEST = 'tests/baselines/ensemble_test.py'
_ADAPTOR = 'baselines/local_adaptor.py'
_ADAPTOR_TEST = 'tests/baselines/local_adaptor_test.py'
_FINETUNED = 'baselines/fedavg_finetuned.py'
_FINETUNED_TEST = 'tests/baselines/fedavg_finetuned_test.py'

FAULTS = (
    Fault(
        'apfl_no_chain_rule',
        what="The gradient of APFL's v lacks the factor alpha.",
        file=_APFL,
        old='lambda g: alpha * g, gradient',
        new='lambda g: g, gradient',
        tests=_APFL_STEP,
    ),
    Fault(
        'apfl_gradient_at_v',
        what="APFL takes v's gradient at v, not at the mixture.",
        file=_APFL,
        old='model.loss_and_gradient(mix(alpha, v, u), batch)',
        new='model.loss_and_gradient(v, batch)',
        tests=_APFL_STEP,
    ),
    Fault(
        'apfl_mixes_alpha_twice',
        what='APFL mixes with the weights alpha and alpha.',
        file=_APFL,
        old='lambda v, w: alpha * v + (1 - alpha) * w, personal, shared',
        new='lambda v, w: alpha * v + alpha * w, personal, shared',
        tests=(
            'tests/baselines/apfl_test.py'
            '::test_alpha_gradient_is_the_derivative_of_the_loss',
            'tests/baselines/apfl_test.py'
            '::test_client_deploys_the_mixture_with_the_current_server_model',
        ),
    ),
    Fault(
        'apfl_alpha_every_step',
        what='alpha moves in every local step.',
        file=_APFL,
        old='return tf.where(tf.equal(steps, 0), moved, alpha)',
        new='return moved',
        tests=_APFL_STEP,
    ),
    Fault(
        'ditto_pushes',
        what='Ditto pushes personal models away from the federated one.',
        file=_DITTO,
        old='pulled(gradient, sgd.weights, w, pull)',
        new='pulled(gradient, w, sgd.weights, pull)',
        tests=(f'{_DITTO_TEST}::test_closed_form',),
    ),
    Fault(
        'ditto_anchors_at_u',
        what="Ditto's anchor is the iterate u, not the model received.",
        file=_DITTO,
        old='model, client_state, w, data, hyperparameters,\n',
        new='model, client_state, u, data, hyperparameters,\n',
        tests=(f'{_DITTO_TEST}::test_pull_is_towards_the_received_model',),
    ),
    Fault(
        'ditto_sends_v',
        what='Ditto sends the personal model up.',
        file=_DITTO,
        old='update=local_sgd.difference(w, u),',
        new='update=local_sgd.difference(w, v),',
        tests=(f'{_DITTO_TEST}::test_shared_model_is_that_of_fedavg_bit_for_bit',),
    ),
    Fault(
        'pfedme_detached_penalty',
        what='The inner steps of pFedMe lack the pull of the penalty.',
        file=_PFEDME,
        old='pulled(gradient, theta, anchor, hyperparameters.lam)',
        new='pulled(gradient, theta, anchor, 0.0)',
        tests=(f'{_PFEDME_TEST}::test_client_work_follows_the_box',),
    ),
    Fault(
        'pfedme_no_lam_outside',
        what='The step of u lacks the factor lam.',
        file=_PFEDME,
        old='local_step.scheduled(hyperparameters, message, eta * lam)',
        new='local_step.scheduled(hyperparameters, message, eta)',
        tests=(f'{_PFEDME_TEST}::test_client_work_follows_the_box',),
    ),
    Fault(
        'pfedme_beta_ignored',
        what="The server step beta of pFedMe is 1.",
        file=_PFEDME,
        old=(
            'model, work, server_learning_rate=hyperparameters.beta,\n'
            '      deploy=build_recompute'
        ),
        new=(
            'model, work, server_learning_rate=1.0,\n'
            '      deploy=build_recompute'
        ),
        tests=(f'{_PFEDME_TEST}::test_process_equals_simulator_and_deploys_theta',),
    ),
    Fault(
        'perfedavg_one_batch',
        what='Both gradients of Per-FedAvg are of one batch.',
        file=_PERFEDAVG,
        old='loss, v = model.loss_and_gradient(wt, b2)',
        new='loss, v = model.loss_and_gradient(wt, b1)',
        tests=(
            f'{_PERFEDAVG_TEST}'
            '::test_the_three_batches_of_a_step_are_independent',
        ),
    ),
    Fault(
        'perfedavg_at_the_old_point',
        what='Per-FedAvg takes the second gradient before the step.',
        file=_PERFEDAVG,
        old='loss, v = model.loss_and_gradient(wt, b2)',
        new='loss, v = model.loss_and_gradient(u, b2)',
        tests=(
            f'{_PERFEDAVG_TEST}'
            '::test_exact_step_is_the_gradient_of_the_meta_objective',
        ),
    ),
    Fault(
        'perfedavg_plus_hessian',
        what='The Hessian term has the other sign.',
        file=_PERFEDAVG,
        old='local_sgd.descend(v, hessian_product, a)  # (I - a H) v',
        new='local_sgd.descend(v, hessian_product, -a)  # (I - a H) v',
        tests=(
            f'{_PERFEDAVG_TEST}'
            '::test_exact_step_is_the_gradient_of_the_meta_objective',
        ),
    ),
    Fault(
        'hessian_one_sided',
        what='The Hessian product of two gradients is half of what it should be.',
        file='tff_pers/client_works/meta_gradient.py',
        old='lambda plus, minus: (plus - minus) / (2 * e)',
        new='lambda plus, minus: (plus - minus) / (4 * e)',
        tests=(
            'tests/client_works/meta_gradient_test.py'
            '::test_hessian_free_product_is_exact_on_quadratics',
        ),
    ),
    Fault(
        'fedem_normalised_loss',
        what='The M-step divides by the responsibilities, not by the rows.',
        file=_FEDEM,
        old='total += tf.reduce_sum(losses) / count',
        new='total += tf.reduce_sum(losses) / tf.reduce_sum(responsibilities[:, c])',
        tests=(
            f'{_FEDEM_TEST}'
            '::test_gradient_of_the_m_step_is_that_of_the_marginal_loss',
        ),
    ),
    Fault(
        'fedem_by_batch',
        what='Responsibilities are looked up by position in the batch.',
        file=_FEDEM,
        old='q = tf.gather(responsibilities, batch.rows)',
        new='q = responsibilities[:tf.shape(batch.rows)[0]]',
        tests=(
            f'{_FEDEM_TEST}'
            '::test_responsibilities_follow_their_examples_and_are_frozen',
        ),
    ),
    Fault(
        'fedem_without_prior',
        what='The E-step ignores the old mixing weights.',
        file=_FEDEM,
        old='tf.nn.softmax(tf.math.log(mixing) - losses)',
        new='tf.nn.softmax(0 * tf.math.log(mixing) - losses)',
        tests=(f'{_FEDEM_TEST}::test_responsibilities',),
    ),
    Fault(
        'fedem_mixes_logits',
        what='FedEM deploys the mixture of logits.',
        file=_FEDEM,
        old="mixtures.mixture(model, num_models, 'probabilities')",
        new="mixtures.mixture(model, num_models, 'logits')",
        tests=(f'{_FEDEM_TEST}::test_deploys_the_mixture_of_probabilities',),
    ),
    Fault(
        'ifca_chooses_the_worst',
        what='IFCA clients train the model that fits them least.',
        file=_IFCA,
        old='return tf.argmin(losses, output_type=tf.int32), tf',
        new='return tf.argmax(losses, output_type=tf.int32), tf',
        tests=(f'{_IFCA_TEST}::test_choice_is_by_training_data_and_reported',),
    ),
    Fault(
        'ifca_gradient_by_cluster',
        what='Gradient averaging divides by the cluster, not by the cohort.',
        file=_IFCA,
        old='weight, one_hot if by_model else tf.ones_like(one_hot)',
        new='weight, one_hot',
        tests=(f'{_IFCA_TEST}::test_trajectory_of_six_scalar_clients',),
    ),
    Fault(
        'ifca_keeps_the_worst_draw',
        what='Restarts keep the draw of the largest training loss.',
        file=_IFCA,
        old="best = tf.argmin(mean['base'], output_type=tf.int32)",
        new="best = tf.argmax(mean['base'], output_type=tf.int32)",
        tests=(
            f'{_IFCA_TEST}'
            '::test_restarts_keep_the_draw_of_the_smallest_training_loss',
        ),
    ),
    Fault(
        'ensemble_router_before_training',
        what='Models are averaged by the routers of before the round.',
        file=_ENSEMBLE,
        old='            weight, routing.mixing(router)\n',
        new=(
            "            weight, routing.mixing(routing.start(client_state,"
            " data['index']))\n"
        ),
        tests=(
            f'{_ENSEMBLE_TEST}'
            '::test_models_are_averaged_by_the_router_after_training',
        ),
    ),
    Fault(
        'ensemble_router_at_the_rate_of_models',
        what='The router of the ensemble moves by the step size of the models.',
        file=_ENSEMBLE,
        old='hyperparameters.router_learning_rate if self._learned else 0.0',
        new='hyperparameters.learning_rate if self._learned else 0.0',
        tests=(
            f'{_ENSEMBLE_TEST}'
            '::test_one_step_takes_all_gradients_at_the_old_point',
        ),
    ),
    Fault(
        'new_clients_of_ensembles_mix_evenly',
        what='Clients that never train do not learn a router.',
        file=_ENSEMBLE,
        old='num_steps=tf.where(is_new, hyperparameters.adapt_epochs, 0)',
        new='num_steps=0',
        tests=(f'{_ENSEMBLE_TEST}::test_new_clients_learn_a_router',),
    ),
    Fault(
        'fedem_takes_those_who_wait_for_new',
        what='Clients that have not been sampled yet take five E-steps, too.',
        file='baselines/fedem.py',
        old="client_work.is_unseen(data['index'], num_clients)",
        new=(
            "tf.reduce_all(client_state['mixing'] == 1 / num_models)"
        ),
        tests=(
            'tests/baselines/fedem_test.py'
            '::test_new_clients_take_five_e_steps_and_others_one',
        ),
    ),
    Fault(
        'ensemble_skips_nothing',
        what='Models of small weight are deployed, too.',
        file=_ENSEMBLE,
        old='skipped = tf.where(pi < _SKIPPED, tf.zeros_like(pi), pi)',
        new='skipped = tf.where(pi < 0, tf.zeros_like(pi), pi)',
        tests=(
            f'{_ENSEMBLE_TEST}'
            '::test_small_weights_are_skipped_when_a_client_deploys',
        ),
    ),
    Fault(
        'local_adaptor_moves_a_frozen_base',
        what='A client that never trains adapts the base as well.',
        file=_ADAPTOR,
        old='router_training.Rates(0.0, hyperparameters.adaptor_rate(adapted))',
        new='router_training.Rates(0.1, hyperparameters.adaptor_rate(adapted))',
        tests=(
            f'{_ADAPTOR_TEST}'
            '::test_a_client_that_never_trains_learns_its_adaptors_alone',
        ),
    ),
    Fault(
        'local_adaptor_ignores_its_rate',
        what='Private adaptors move by the step size of the base.',
        file=_ADAPTOR,
        old='hyperparameters.learning_rate, hyperparameters.adaptor_rate(adapted)',
        new='hyperparameters.learning_rate, hyperparameters.learning_rate',
        tests=(
            f'{_ADAPTOR_TEST}'
            '::test_adaptors_may_have_their_own_rate',
        ),
    ),
    Fault(
        'fine_tuning_on_other_batches',
        what='Fine-tuning draws under a key of its own.',
        file=_FINETUNED,
        old='key = client_work.key(message, data)\n',
        new='key = client_work.key(message, data, 1)\n',
        tests=(
            f'{_FINETUNED_TEST}'
            '::test_client_deploys_its_iterate_of_the_coming_round',
        ),
    ),
    Fault(
        'fine_tuning_of_all_layers',
        what='layers=last fine-tunes all weights.',
        file=_FINETUNED,
        old='parts = fine_tuned_part(model, hyperparameters.layers)',
        new="parts = fine_tuned_part(model, 'all')",
        tests=(f'{_FINETUNED_TEST}::test_last_layer_alone_is_fine_tuned',),
    ),
    Fault(
        'local_only_starts_at_zero',
        what='Local models do not start at the initial model of the run.',
        file='baselines/local_only.py',
        old='init_client=model.initial_weights,',
        new='init_client=lambda seed: model.initial_weights(seed + 1),',
        tests=(
            'tests/baselines/local_only_test.py'
            '::test_clients_start_at_the_initial_model_of_every_method',
        ),
    ),
    Fault(
        'local_adaptors_have_another_budget',
        what='A client that never trains takes one pass, whatever is asked.',
        file='baselines/local_adaptor.py',
        old="data['index'] < num_clients, 0, hyperparameters.adapt_epochs",
        new="data['index'] < num_clients, 0, 1",
        tests=(
            'tests/baselines/local_adaptor_test.py'
            '::test_a_client_that_never_trains_learns_its_adaptors_alone',
        ),
    ),
)
