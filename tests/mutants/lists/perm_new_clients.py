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
        old="dict(weights=state['anchor'])",
        new="dict(weights=state['weights'])",
        tests=_MIXTURE,
    ),
    Fault(
        'new_clients_like_the_first',
        what='All new clients deploy the mixture of the first.',
        file=_NEW,
        old='lambda row: row[place[0]], found',
        new='lambda row: row[0 * place[0]], found',
        tests=_MIXTURE,
    ),
    Fault(
        'clients_that_trained_are_new',
        what='Clients that trained continue from their models, too.',
        file=_NEW,
        old='lambda: client.deployed(weights, data)',
        new='lambda: client.adapted(weights, data, num_epochs=1)',
        tests=(f'{_NEW_TEST}::test_only_new_clients_adapt',),
    ),
    Fault(
        'new_clients_mixed_twice',
        what='A new client deploys the models combined by its row itself.',
        file=_NEW,
        old="combinations(state['mixing'], problem.rows_of_strangers(rows))",
        new='problem.rows_of_strangers(rows)',
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
        file='tff_pers/numerics/simplex.py',
        old='lambda k, *_: k < _NUM_STEPS, descend',
        new='lambda k, *_: k < 0, descend',
        tests=(f'{_NEW_TEST}::test_combinations_are_the_least_squares',),
    ),
    Fault(
        'new_clients_do_not_adapt',
        what='adapt_epochs has no effect.',
        file=_NEW,
        old='num_epochs=client.hyperparameters.adapt_epochs',
        new='num_epochs=0',
        tests=(f'{_NEW_TEST}::test_only_new_clients_adapt',),
    ),
    Fault(
        'models_deployed_as_their_last_host_left_them',
        what='own_rounds has no effect.',
        file='tff_pers/algorithms/perm/perm_client.py',
        old='weights, data, values.own_rounds * values.local_steps,',
        new='weights, data, 0 * values.local_steps,',
        tests=(
            f'{_NEW_TEST}'
            '::test_who_trained_deploys_after_own_steps_and_the_table_stays',
        ),
    ),
    Fault(
        'new_clients_spoil_one_another',
        what='A new client whose gradient is NaN is compared all the same.',
        file=_NEW,
        old='return client.rows(found, message, data, is_sent)',
        new='return client.rows(found, message, data, is_new)',
        tests=(
            f'{_NEW_TEST}::test_a_new_client_whose_gradient_is_no_number'
            '_deploys_the_shared_model',
        ),
    ),
    Fault(
        'gradients_at_two_w',
        what='New clients are compared with gradients at an earlier w, too.',
        file='tff_pers/algorithms/perm/perm_server.py',
        old='(kept, anchor), (table, old[',
        new='(kept, anchor), (kept, old[',
        tests=(f'{_NEW_TEST}::test_new_clients_are_compared_at_one_w',),
    ),
)
