"""Planted faults of FLoRAL's ranks, of the bound of steps, of private adaptors."""

from tests.mutants.faults import Fault

_HYPERPARAMETERS = 'tff_pers/algorithms/floral/floral_hyperparameters.py'
_PRIVATE = 'tff_pers/algorithms/floral/floral_private.py'
_LOW_RANK = 'tff_pers/numerics/low_rank.py'
_RANK = (
    'tests/algorithms/floral/floral_test.py'
    '::test_least_rank_has_a_direction_for_every_class_but_one',
)
_SHARE = (
    'tests/numerics/low_rank_test.py'
    '::test_step_of_both_factors_is_no_longer_than_the_two_together',
)
_PRIVATE_TEST = 'tests/algorithms/floral/floral_private_test.py'
_SENT = (f'{_PRIVATE_TEST}::test_it_is_never_sent',)
_ROUND = (f'{_PRIVATE_TEST}::test_a_round_is_that_of_numpy',)

FAULTS = (
    Fault(
        'unbounded_steps',
        what='Steps next to a zero factor are taken as they are.',
        file='tff_pers/client_works/router_training.py',
        old=(
            '      g_adaptors = adapted.bounded(\n'
            "          w['adaptors'],"
            " adapted.precondition(w['adaptors'], g_adaptors),\n"
            '          rates.adaptors,\n'
            '      )\n'
        ),
        new=(
            "      g_adaptors = adapted.precondition(w['adaptors'], g_adaptors)\n"
        ),
        tests=(
            'tests/baselines/local_adaptor_test.py'
            '::test_steps_next_to_a_zero_factor_are_bounded',
        ),
    ),
    Fault(
        'second_order_forgotten',
        what='The change by both steps together is not in the bound.',
        file=_LOW_RANK,
        old='tf.concat([u_step, u + u_step], axis=1)',
        new='tf.concat([u_step, u], axis=1)',
        tests=_SHARE,
    ),
    Fault(
        'lengthened_steps',
        what='Short steps are lengthened up to the bound.',
        file=_LOW_RANK,
        old='divide_no_nan(longest, tf.maximum(longest, change))',
        new='divide_no_nan(longest, change)',
        tests=_SHARE,
    ),
    Fault(
        'rank_of_the_budget',
        what='The least rank has no effect.',
        file='tff_pers/models/adaptor_plan.py',
        old=(
            'rank = max(\n          self.min_rank,'
            ' adaptor_forms.budget_rank(form, self.rho, rank_rule)\n      )'
        ),
        new='rank = adaptor_forms.budget_rank(form, self.rho, rank_rule)',
        tests=_RANK,
    ),
    Fault(
        'direction_for_every_class',
        what='m classes are taken for m directions.',
        file='tff_pers/models/labels.py',
        old='own.num_classes - 1',
        new='own.num_classes',
        tests=(
            'tests/models/labels_test.py'
            '::test_gradients_have_a_direction_less_than_there_are_classes',
        ),
    ),
    Fault(
        'scaled_rate_of_given_ranks',
        what='The rate is scaled with ranks that are given.',
        file=_HYPERPARAMETERS,
        old='if self.rank or self.min_rank or rank is None:',
        new='if rank is None:',
        tests=_RANK,
    ),
    Fault(
        'private_adaptor_is_sent',
        what='The server receives the private adaptors.',
        file=_PRIVATE,
        old="output.update, adaptors=moved['shared']",
        new='output.update, adaptors=moved',
        tests=_SENT,
    ),
    Fault(
        'private_adaptor_is_forgotten',
        what='A client keeps its private adaptor as it was before the round.',
        file=_PRIVATE,
        old="                tf.subtract, private, moved['private']\n",
        new='                tf.identity, private\n',
        tests=_ROUND,
    ),
    Fault(
        'private_adaptor_starts_as_a_shared_one',
        what='Its random factor is that of the first shared adaptor.',
        file=_PRIVATE,
        old='self.private.drawn(random.fold_in(key, _PRIVATE_USE))',
        new='self.private.drawn(key)',
        tests=_SENT,
    ),
    Fault(
        'new_clients_have_no_private_adaptor',
        what='A client that never trains learns its router alone.',
        file=_PRIVATE,
        old='tf.where(is_unseen, hyperparameters.adapt_epochs, 0)',
        new='tf.where(is_unseen, 0, 0)',
        tests=(
            f'{_PRIVATE_TEST}::test_without_shared_adaptors_it_is_local_adaptor',
        ),
    ),
    Fault(
        'private_adaptor_lost_by_a_split',
        what='A client that follows a split drops its private adaptor.',
        file='tff_pers/algorithms/floral/floral_splits.py',
        old='      client_state, router=theta, looks',
        new='      router=theta, looks',
        tests=(f'{_PRIVATE_TEST}::test_a_split_leaves_it_alone',),
    ),
)
