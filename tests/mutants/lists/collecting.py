"""Planted faults of what a server collects and its runtime leaves out."""

from tests.mutants.faults import Fault

_SINGLES = 'tff_pers/runtime/fused/singles.py'
_MERGING = 'tff_pers/runtime/fused/merging.py'
_SINGLES_TEST = 'tests/runtime/singles_test.py::'
_RESULT = _SINGLES_TEST + 'test_the_result_is_that_of_all_accumulators'
_TABLE = 'tff_pers/algorithms/perm/fingerprints.py'
_TABLE_TEST = (
    'tests/algorithms/perm/perm_cohorts_test.py'
    '::test_where_nobody_is_known_the_rows_of_a_round_are_the_table'
)
_TRAINING = 'tff_pers/client_works/factored_sgd.py'
_DENSE = (
    'tests/client_works/factored_sgd_test.py'
    '::test_weights_and_loss_are_those_of_dense_kernels'
)

FAULTS = (
    Fault(
        'moved_is_unchanged',
        what='A tensor of another place passes for what was here before.',
        file=_SINGLES,
        old='return Source(False, leaf) if leaf == place else None',
        new='return Source(False, leaf)',
        tests=(f'{_SINGLES_TEST}test_sources[swapped]',),
    ),
    Fault(
        'other_branch',
        what='The branch that is not taken says where a tensor is from.',
        file=_SINGLES,
        old='[0 if is_true else 1]',
        new='[1 if is_true else 0]',
        tests=(
            f'{_RESULT}[by_count-0-loop]', f'{_SINGLES_TEST}test_sources[by_count]',
        ),
    ),
    Fault(
        'unknown_branch_is_the_first',
        what='Where the branch depends on the message the first is taken.',
        file=_SINGLES,
        old='''      if is_true is None:
        return None
''',
        new='''      if is_true is None:
        is_true = True
''',
        tests=(f'{_RESULT}[by_choice-0-loop]',),
    ),
    Fault(
        'assertions_are_passed_by',
        what='A tensor that waits for an assertion is taken from before it.',
        file=_SINGLES,
        old="""    if tensor.op.control_inputs:
      return None
""",
        new='',
        tests=(
            f'{_SINGLES_TEST}test_assertions_hold[_asserted-loop]',
            f'{_SINGLES_TEST}test_assertions_hold[_asserted_in_a_branch-loop]',
        ),
    ),
    Fault(
        'rows_of_before_count_once',
        what='Rows that were there before any client count once, not for each.',
        file=_MERGING,
        old='return join == _CONCATENATE and has_no_rows',
        new='return join == _CONCATENATE',
        tests=(f'{_RESULT}[by_count-20-loop]',),
    ),
    Fault(
        'some_are_all',
        what='The rows of a part of the clients pass for the table.',
        file=_TABLE,
        old='      tf.equal(tf.size(keys), num_clients),\n',
        new='      True,\n',
        tests=(f'{_TABLE_TEST}[[0, 1]]',),
    ),
    Fault(
        'any_order_is_in_order',
        what='Rows in another order are taken for the table as they are.',
        file=_TABLE,
        old='tf.reduce_all(tf.equal(keys, tf.range(tf.size(keys)))),',
        new='True,',
        tests=(f'{_TABLE_TEST}[[2, 0, 1]]',),
    ),
    Fault(
        'no_products_for_two_steps',
        what='Two steps take no Gram matrix either.',
        file=_TRAINING,
        old='num_steps > 1, lambda',
        new='num_steps > 2, lambda',
        tests=(f'{_DENSE}[two steps-10]',),
    ),
    Fault(
        'norms_of_one_step_are_zero',
        what='Factors of a single step are finite, whatever their product is.',
        file=_TRAINING,
        old='tf.reduce_sum(tf.square(rows), axis=1),',
        new='tf.zeros([number], rows.dtype),',
        tests=(
            'tests/client_works/factored_sgd_test.py::test_clients_whose_'
            'factors_are_finite_but_no_product_are_dropped',
        ),
    ),
    Fault(
        'overflowing_steps_pass',
        what='PERM does not look at what local steps made of w.',
        file='tff_pers/algorithms/perm/perm_client.py',
        old='    return update, loss, round_metrics.all_finite(update)\n',
        new='    return update, loss, tf.constant(True)\n',
        tests=(
            'tests/algorithms/perm/perm_test.py'
            '::test_steps_that_overflow_are_dropped_though_their_loss_is_finite',
        ),
    ),
    Fault(
        'overflowing_decay_passes',
        what='PERM does not look at what decay makes of a gradient.',
        file='tff_pers/algorithms/perm/perm_client.py',
        old='tf.constant(True) if update is found.gradient\n',
        new='tf.constant(True) if True\n',
        tests=(
            'tests/algorithms/perm/perm_test.py::test_a_decay_that_overflows_is_'
            'dropped_though_the_gradient_is_finite',
        ),
    ),
    Fault(
        'all_rows_are_copied',
        what='Rows of everybody are gathered, too.',
        file='tff_pers/numerics/distances.py',
        old='  return np.array_equal(known, np.arange(number))\n',
        new='  return False\n',
        tests=(
            'tests/numerics/distances_test.py'
            '::test_all_rows_are_not_copied[owners1-False]',
        ),
    ),
    Fault(
        'everybody_by_number',
        what='As many rows as there are pass for all rows in order.',
        file='tff_pers/numerics/distances.py',
        old='np.array_equal(known, np.arange(number))',
        new='len(known) == number',
        tests=(
            'tests/numerics/distances_test.py'
            '::test_rows_in_another_order',
        ),
    ),
)
