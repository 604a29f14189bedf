"""Planted faults of what PERM deploys at clients that never trained."""

from tests.mutants.faults import Fault

_MIXING = 'tff_pers/algorithms/perm/perm_mixing.py'
_NEW = 'tff_pers/algorithms/perm/perm_new_clients.py'
_NEW_TEST = 'tests/algorithms/perm/perm_new_clients_test.py'
_MIXTURE = (
    f'{_NEW_TEST}'
    '::test_a_new_client_gets_the_models_whose_mixtures_make_up_its_row',
)

FAULTS = (
    Fault(
        'new_clients_at_another_w',
        what='New clients show their gradient at w, after the comparison.',
        file=_NEW,
        old='round=state.round, weights=state.anchor',
        new='round=state.round, weights=state.weights',
        tests=_MIXTURE,
    ),
    Fault(
        'new_clients_like_the_first',
        what='All new clients deploy the mixture of the first.',
        file=_NEW,
        old='lambda table: table[place[0]], found',
        new='lambda table: table[0 * place[0]], found',
        tests=_MIXTURE,
    ),
    Fault(
        'clients_that_trained_are_new',
        what='Clients that trained go on from their models, too.',
        file=_NEW,
        old='      tf.cond(is_new, train, lambda: weights), data',
        new='      train(), data',
        tests=(f'{_NEW_TEST}::test_only_new_clients_adapt',),
    ),
    Fault(
        'new_clients_mixed_twice',
        what='A new client deploys the models combined by its row itself.',
        file=_NEW,
        old="    beta = combinations(state['mixing'], alpha)\n",
        new='    beta = alpha\n',
        tests=_MIXTURE,
    ),
    Fault(
        'new_clients_row_without_itself',
        what='The row of a new client is solved as if it had no examples.',
        file=_MIXING,
        old='  shared = row(tf.logical_or(has_trained, itself))',
        new='  shared = row(has_trained)',
        tests=_MIXTURE,
    ),
    Fault(
        'combinations_not_descended',
        what='The combination of models is where the descent starts.',
        file=_NEW,
        old='lambda k, *_: k < _NUM_STEPS, descend',
        new='lambda k, *_: k < 0, descend',
        tests=(f'{_NEW_TEST}::test_combinations_are_the_least_squares',),
    ),
    Fault(
        'new_clients_do_not_adapt',
        what='adapt_epochs has no effect.',
        file=_NEW,
        old='  if not hyperparameters.adapt_epochs:\n',
        new='  if True:\n',
        tests=(f'{_NEW_TEST}::test_only_new_clients_adapt',),
    ),
    Fault(
        'new_clients_spoil_one_another',
        what='A new client whose gradient is NaN is compared all the same.',
        file=_NEW,
        old='return perm_client.rows(found, message, data, is_sent, hyperp',
        new='return perm_client.rows(found, message, data, is_new, hyperp',
        tests=(
            f'{_NEW_TEST}::test_a_new_client_whose_gradient_is_no_number'
            '_deploys_the_shared_model',
        ),
    ),
    Fault(
        'gradients_at_two_w',
        what='New clients are compared with gradients at an earlier w, too.',
        file='tff_pers/algorithms/perm/perm_server.py',
        old="table=after_solving(kept, table) if old['table']",
        new="table=kept if old['table']",
        tests=(f'{_NEW_TEST}::test_new_clients_are_compared_at_one_w',),
    ),
)
