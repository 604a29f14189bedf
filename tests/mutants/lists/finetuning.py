"""Planted faults of fine-tuning for evaluation, and of where heads start."""

from tests.mutants.faults import Fault

_CHOICE = 'baselines/fedavg_finetuned.py'
_CHOICE_TEST = 'tests/baselines/fedavg_finetuned_choice_test.py'
_BEST = (
    f'{_CHOICE_TEST}'
    '::test_clients_share_the_epochs_that_are_best_on_what_they_hold_out',
)
_STEPS = 'tff_pers/composition/finetuning.py'
_STEPS_TEST = 'tests/composition/finetuning_test.py'
_AFTER = (
    f'{_STEPS_TEST}::test_after_s_steps_it_is_what_fine_tuned_fedavg_deploys',
)
_ROWS = 'tff_pers/evaluation/finetuning.py'
_ROWS_TEST = 'tests/evaluation/finetuning_test.py'
_ONCE_MORE = (
    'tests/baselines/split_methods_test.py'
    '::test_a_client_that_trains_learns_its_private_weights_once_more',
)
_HEADS = (
    'tests/baselines/fedsim_test.py'
    '::test_all_heads_start_alike_unless_each_client_draws_its_own',
)
_SPAN = (
    'tests/baselines/fedrep_test.py'
    '::test_the_representation_is_orthonormal_and_spans_what_was_averaged',
)

FAULTS = (
    Fault(
        'worst_epoch',
        what='The number of epochs with the largest loss is chosen.',
        file=_CHOICE,
        old="metrics.get('accuracy', -metrics['loss']), model.dtype",
        new="metrics.get('accuracy', metrics['loss']), model.dtype",
        tests=_BEST,
    ),
    Fault(
        'chosen_on_training_examples',
        what='Epochs are chosen by the examples that they are trained on.',
        file=_CHOICE,
        old='v = epoch(number, message, v, kept)',
        new='v = epoch(number, message, v, data)',
        tests=_BEST,
    ),
    Fault(
        'measured_one_epoch_late',
        what='The score of e epochs is that of e + 1.',
        file=_CHOICE,
        old='scores + measured(v, number + 1)',
        new='scores + measured(v, number)',
        tests=_BEST,
    ),
    Fault(
        'deployed_without_held_out_examples',
        what='After the choice, v is made without every fifth example.',
        file=_CHOICE,
        old='lambda number, v: (number + 1, epoch(number, message, v, data)),',
        new=(
            'lambda number, v: (number + 1, epoch(number, message, v,'
            ' hold_out(data)[0])),'
        ),
        tests=_BEST,
    ),
    Fault(
        'no_say_is_not_a_number',
        what='A client without held-out examples spoils the sum.',
        file=_CHOICE,
        old="return tf.where(held_out['num_examples'] > 0, scores, 0)",
        new='return scores',
        tests=_BEST,
    ),
    Fault(
        'held_out_rows_are_kept',
        what='Every fifth example is measured on and trained on.',
        file=_CHOICE,
        old='tf.gather(rows, kept + kept // 4)',
        new='tf.gather(rows, kept)',
        tests=(f'{_CHOICE_TEST}::test_every_fifth_example_is_held_out',),
    ),
    Fault(
        'each_client_its_own_choice',
        what='Clients deploy no epochs, whatever was chosen.',
        file='tff_pers/composition/deployment.py',
        old='lambda scores: tf.argmax(scores, output_type=tf.int32),',
        new='lambda scores: tf.argmin(scores, output_type=tf.int32),',
        tests=_BEST,
    ),
    Fault(
        'steps_with_the_training_rate',
        what='--finetune_learning_rate has no effect.',
        file='tff_pers/experiments/runner.py',
        old=(
            "experiment.flag('finetune_learning_rate')\n"
            '      or experiment.hyperparameters'
        ),
        new='experiment.hyperparameters',
        tests=(
            'tests/binaries/train_test.py'
            '::test_the_global_model_is_evaluated_after_local_steps',
        ),
    ),
    Fault(
        'tuned_on_test_data',
        what='The steps are taken on test data.',
        file=_STEPS,
        old="adapt, metrics = data['adapt'], collections.OrderedDict()",
        new="adapt, metrics = data['test'], collections.OrderedDict()",
        tests=_AFTER,
    ),
    Fault(
        'plain_steps',
        what='Fine-tuning has no momentum.',
        file=_STEPS,
        old='local=local,',
        new='local=local_step.PLAIN,',
        tests=_AFTER,
    ),
    Fault(
        'steps_in_epochs',
        what='s counts epochs.',
        file=_STEPS,
        old='num_steps=number,',
        new='num_epochs=number,',
        tests=_AFTER,
    ),
    Fault(
        'hurt_are_the_helped',
        what='share_hurt counts the clients that are better off.',
        file=_ROWS,
        old="metrics[name], untouched[name], higher_is_better=name == 'accuracy'",
        new="untouched[name], metrics[name], higher_is_better=name == 'accuracy'",
        tests=(
            f'{_ROWS_TEST}'
            '::test_rows_are_means_over_clients_with_test_examples',
        ),
    ),
    Fault(
        'no_final_epochs',
        what='final_epochs has no effect.',
        file='tff_pers/client_works/split_training.py',
        old="theta, epochs = message['weights'], hyperparameters.final_epochs",
        new="theta, epochs = message['weights'], 0",
        tests=_ONCE_MORE,
    ),
    Fault(
        'heads_alike',
        what='Random heads are the same at all clients.',
        file='tff_pers/composition/composer.py',
        old="random.seed(state['seed'], index)",
        new="random.seed(state['seed'], 0)",
        tests=_HEADS,
    ),
    Fault(
        'heads_without_the_seed',
        what='Random heads do not depend on the seed of the run.',
        file='tff_pers/composition/composer.py',
        old="random.seed(state['seed'], index)",
        new="random.seed(0, index)",
        tests=_HEADS,
    ),
    Fault(
        'not_orthonormal',
        what='FedRep scales theta instead of making it orthonormal.',
        file='baselines/fedrep.py',
        old='  q *= tf.cast(signs, q.dtype)',
        new='  q = q @ r * tf.cast(signs, q.dtype)',
        tests=_SPAN,
    ),
    Fault(
        'linear_schedule_without_warm_up',
        what='The linear schedule starts at its highest rate.',
        file='tff_pers/client_works/local_step.py',
        old='tf.minimum((t + 1) / (rounds[0] / 10), left / (0.9 * rounds[0])), 1.0',
        new='left / (0.9 * rounds[0]), 1.0',
        tests=(
            'tests/client_works/local_step_test.py'
            '::test_the_linear_schedule_warms_up_for_a_tenth_of_its_rounds',
        ),
    ),
)
