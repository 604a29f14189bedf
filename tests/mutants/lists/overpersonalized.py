"""Planted faults of the tasks with overpersonalized least squares."""

from tests.mutants.faults import Fault

_MODEL = 'tff_pers/models/least_squares.py'
_SYSTEMS = 'tff_pers/data/least_squares.py'
_TASK = 'tff_pers/data/tasks/overpersonalized.py'
_TEST = 'tests/data/tasks/overpersonalized_test.py'
_FORMULA = (
    f'{_TEST}::test_loss_and_gradients_are_those_of_the_formula',
)
_TERMS = (f'{_TEST}::test_all_rows_are_the_two_terms_of_the_paper',)
_REDUCED = (
    f'{_TEST}::test_reduced_rows_have_the_loss_and_gradients_of_all_rows',
)
_OPERATOR = (f'{_TEST}::test_operator_is_the_oracles',)
_CONTROL = (
    f'{_TEST}::test_tiny_control_shifts_theta_and_that_of_the_paper_draws_new_ones',
)

FAULTS = (
    Fault(
        'mixtures_pass_for_examples',
        what='The fewest rows count as examples, some of which are held out.',
        file=_TASK,
        old='rows_are_examples=not options.reduces',
        new='rows_are_examples=True',
        tests=(f'{_TEST}::test_rows_are_examples_unless_they_are_mixed',),
    ),
    Fault(
        'mean_instead_of_sum',
        what='f_m is the mean over rows of half the squared residuals.',
        file=_MODEL,
        old='num_rows / 2 * tf.square',
        new='1 / 2 * tf.square',
        tests=_FORMULA,
    ),
    Fault(
        'without_the_half',
        what='The squared residuals count whole.',
        file=_MODEL,
        old='num_rows / 2 * tf.square',
        new='num_rows * tf.square',
        tests=_FORMULA,
    ),
    Fault(
        'factor_of_all_rows',
        what='The factor of the loss is the number of rows before reduction.',
        file=_TASK,
        old='generator.w_dim, len(systems[0].y)',
        new='generator.w_dim, 2 * generator.examples',
        tests=_REDUCED,
    ),
    Fault(
        'targets_are_not_rotated',
        what='The reduced rows have the first targets instead of mixed ones.',
        file=_SYSTEMS,
        old='x=joint[:, :-1], y=joint[:, -1]',
        new='x=joint[:, :-1], y=system.y[:len(joint)]',
        tests=_REDUCED,
    ),
    Fault(
        'reduced_without_the_last_row',
        what='The row of what no theta and w can fit is dropped.',
        file=_SYSTEMS,
        old='x=joint[:, :-1], y=joint[:, -1]',
        new='x=joint[:-1, :-1], y=joint[:-1, -1]',
        tests=_REDUCED,
    ),
    Fault(
        'w_in_both_terms',
        what='The personal unknown is in the first term, too.',
        file=_SYSTEMS,
        old='np.block([[h, np.zeros_like(b)], [a, b]])',
        new='np.block([[h, b], [a, b]])',
        tests=_TERMS,
    ),
    Fault(
        'no_personal_part_of_the_targets',
        what='Targets of the second term follow theta alone.',
        file=_SYSTEMS,
        old='a @ truths[1] + b @ w',
        new='a @ truths[1]',
        tests=_TERMS,
    ),
    Fault(
        'normal_entries_by_columns',
        what='Normal entries are divided by the root of the columns.',
        file=_SYSTEMS,
        old='np.sqrt(self.examples)',
        new='np.sqrt(columns)',
        tests=(f'{_TEST}::test_tiny_scale_has_the_sheets_constants',),
    ),
    Fault(
        'uniform_entries_by_rows',
        what='Uniform entries are divided by the number of rows.',
        file=_SYSTEMS,
        old='rng.random(shape) / columns',
        new='rng.random(shape) / self.examples',
        tests=(f'{_TEST}::test_sizes_of_a_scale_can_be_chosen',),
    ),
    Fault(
        'operator_without_the_projector',
        what='F_m is the gradient at w = 0 instead of the best response.',
        file=_SYSTEMS,
        old='  rest = rest - private @ np.linalg.lstsq(private, rest, rcond=None)'
            '[0]  # P.\n',
        new='',
        tests=_OPERATOR,
    ),
    Fault(
        'optimum_is_the_theta_of_the_first',
        what='The optimum of the control is what generated the first client.',
        file=_TASK,
        old="  if generator.truths == 'shared':",
        new='  if True:',
        tests=(f'{_TEST}::test_optimum_is_the_root_of_the_mean_operator',),
    ),
    Fault(
        'w_has_an_optimum',
        what='The personal w counts in the distance.',
        file=_TASK,
        old='(len(systems), 1)), None',
        new='(len(systems), 1)), np.zeros((len(systems), generator.w_dim))',
        tests=(
            f'{_TEST}::test_optimum_is_the_root_of_the_mean_operator'
            '[tiny-overpersonalized]',
        ),
    ),
    Fault(
        'control_of_the_paper_shares_a_theta',
        what='The control of the paper shifts a theta, as the tiny one does.',
        file=_TASK,
        old="control='independent'",
        new="control='shifted'",
        tests=_CONTROL,
    ),
    Fault(
        'one_shift_for_each_term',
        what='The terms of a client in the tiny control have thetas apart.',
        file=_SYSTEMS,
        old='theta + draws[0], theta + draws[0]',
        new='theta + draws[0], theta + draws[1]',
        tests=_CONTROL,
    ),
    Fault(
        'control_has_matrices_of_its_own',
        what='Drawing the truths of the control changes the matrices.',
        file=_SYSTEMS,
        old='truths = self._truths(theta, own)',
        new='truths = self._truths(theta, entries)',
        tests=(f'{_TEST}::test_control_differs_in_the_targets_alone',),
    ),
    Fault(
        'rows_are_held_out',
        what='Rows may be held out, and the optimum is that of all rows.',
        file=_TASK,
        old="      'validation_fraction',\n",
        new='',
        tests=(f'{_TEST}::test_raises_on_foreign_request',),
    ),
    Fault(
        'weighted_by_examples',
        what='Clients weigh by their rows.',
        file=_TASK,
        old="client_weighting='uniform'",
        new="client_weighting='examples'",
        tests=(f'{_TEST}::test_task_is_as_the_sheet_says',),
    ),
    Fault(
        'theta_is_the_last_layer',
        what='The split after the output layer makes theta private.',
        file=_MODEL,
        old="(('theta', theta_dim), ('w', w_dim))",
        new="(('w', theta_dim), ('theta', w_dim))",
        tests=(
            f'{_TEST}::test_splits_make_one_of_the_vectors_private[w/*-private2]',
        ),
    ),
)
