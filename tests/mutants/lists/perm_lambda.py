"""Planted faults of how PERM chooses lambda."""

from tests.mutants.faults import Fault

_LAMBDA = 'tff_pers/algorithms/perm/perm_lambda.py'
_LAMBDA_TEST = 'tests/algorithms/perm/perm_lambda_test.py'
_LOSSES = (f'{_LAMBDA_TEST}::test_losses_follow_numpy',)
_ROWS = (
    f'{_LAMBDA_TEST}::test_rows_of_the_choice_are_those_of_the_rounds',
)

FAULTS = (
    Fault(
        'kappa_sees_what_is_held_out',
        what='lambda is chosen by models that saw the held-out examples.',
        file=_LAMBDA,
        old='          weights, kept, local=local_step',
        new='          weights, data, local=local_step',
        tests=_LOSSES,
    ),
    Fault(
        'kappa_by_whole_gradients',
        what='Rows of the choice know the gradient of the held-out examples.',
        file=_LAMBDA,
        old='self.gradient(message, kept)',
        new='self.gradient(message, data)',
        tests=_LOSSES,
    ),
    Fault(
        'kappa_of_whole_epochs',
        what='The choice does not know how few visits are left.',
        file=_LAMBDA,
        old='tf.logical_and(2 * of_all > self.num_visits, total > 0)',
        new='tf.zeros_like(total, tf.bool)',
        tests=(
            f'{_LAMBDA_TEST}'
            '::test_of_too_few_visits_a_model_remembers_two_hosts',
        ),
    ),
    Fault(
        'kappa_of_one_scale',
        what='Mixtures are judged without going on.',
        file=_LAMBDA,
        old='tf.gather(_SCALES, pair[1])',
        new='tf.gather(_SCALES, 0 * pair[1])',
        tests=_LOSSES,
    ),
    Fault(
        'kappa_of_the_largest_loss',
        what='The worst kappa is taken.',
        file=_LAMBDA,
        old='tf.argmin(tf.reduce_min(losses, axis=1))',
        new='tf.argmax(tf.reduce_min(losses, axis=1))',
        tests=(f'{_LAMBDA_TEST}::test_kappa_fits_the_clients',),
    ),
    Fault(
        'kappa_chosen_anew',
        what='kappa is chosen in every round.',
        file=_LAMBDA,
        old="tf.equal(message['round'], hyperparameters.first_measure)",
        new="message['round'] >= hyperparameters.first_measure",
        tests=(f'{_LAMBDA_TEST}::test_kappa_is_chosen_once',),
    ),
    Fault(
        'kappa_by_another_lambda',
        what='The choice takes gradients of M examples for those of all.',
        file=_LAMBDA,
        old='        table, tf.constant(self._kappas)',
        new="        {**table, 'rows': table['sizes']}, tf.constant(self._kappas)",
        tests=_ROWS,
    ),
    Fault(
        'kappa_without_debias',
        what='The choice compares gradients with their noise.',
        file='tff_pers/algorithms/perm/perm_mixing.py',
        old='self.denoised(d, owners), clients, tf.gather',
        new='d, clients, tf.gather',
        tests=_ROWS,
    ),
    Fault(
        'kappa_of_few',
        what='Many clients have the candidates of few.',
        file='tff_pers/algorithms/perm/perm_hyperparameters.py',
        old='largest = max(_FEW_CLIENTS, num_clients)',
        new='largest = _FEW_CLIENTS',
        tests=(f'{_LAMBDA_TEST}::test_many_clients_may_have_a_larger_kappa',),
    ),
    Fault(
        'choice_built_for_nobody',
        what='The choice is built where kappa is given, too.',
        file='tff_pers/algorithms/perm/perm.py',
        old='    if hyperparameters.chooses_scale:',
        new='    if perm_lambda.Trial.choose_scale:',
        tests=(
            f'{_LAMBDA_TEST}::test_no_choice_is_built_where_kappa_is_given',
        ),
    ),
)
