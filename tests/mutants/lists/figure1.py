"""Planted faults of Figure 1: the curves, their files, and how they are drawn."""

from tests.mutants.faults import Fault

_CURVES = 'binaries/ffgg_benchmark/curves.py'
_RUNNING = 'binaries/ffgg_benchmark/running.py'
_PLOTS = 'tff_pers/evaluation/error_plots.py'
_TEST = 'tests/binaries/benchmark_ffgg_test.py'
_PLOTS_TEST = 'tests/evaluation/error_plots_test.py'
_ALGORITHMS = (f'{_TEST}::test_curves_follow_the_algorithms_of_the_paper',)
_STEPS = (f'{_TEST}::test_step_sizes_of_l2gd_are_those_of_the_sheet',)
_BAND = (f'{_PLOTS_TEST}::test_line_is_the_mean_and_band_the_range_over_seeds',)

FAULTS = (
    Fault(
        'smallest_constant',
        what='L is that of the client with the smallest.',
        file=_CURVES,
        old='np.linalg.eigvalsh(self._g).max()',
        new='np.linalg.eigvalsh(self._g)[:, -1].min()',
        tests=(f'{_TEST}::test_constants_are_the_oracles',),
    ),
    Fault(
        'private_smoothness_of_theta',
        what='gamma_w follows the smoothness in theta.',
        file=_CURVES,
        old="row['x'][:, theta_dim:], 2)",
        new="row['x'][:, :theta_dim], 2)",
        tests=(f'{_TEST}::test_constants_are_the_oracles',),
    ),
    Fault(
        'mean_of_norms',
        what='The norm of F is the mean of the norms of F_m.',
        file=_CURVES,
        old='np.linalg.norm(each.mean(axis=0))',
        new='np.linalg.norm(each, axis=1).mean()',
        tests=_ALGORITHMS,
    ),
    Fault(
        'step_does_not_shrink',
        what='The step of Local GD and Scaffold is 1 / L_f whatever tau is.',
        file=_CURVES,
        old='careful = 1 / (operator.joint * tau)',
        new='careful = 1 / operator.joint',
        tests=_ALGORITHMS,
    ),
    Fault(
        'scaffold_with_a_whole_step',
        what='The outer step of Scaffold is 1.',
        file=_CURVES,
        old='server_learning_rate=0.5',
        new='server_learning_rate=1.0',
        tests=_ALGORITHMS,
    ),
    Fault(
        'scaffold_with_mean_gradients',
        what='Scaffold renews variates after option 2.',
        file=_CURVES,
        old="option='1'",
        new="option='2'",
        tests=_ALGORITHMS,
    ),
    Fault(
        'small_step_is_m_times_too_large',
        what='The small step of L2GD is divided by M once only.',
        file=_CURVES,
        old='small = 0.5 / operator.num_clients ** 2 / max(',
        new='small = 0.5 / operator.num_clients / max(',
        tests=_STEPS,
    ),
    Fault(
        'coin_for_local_steps',
        what='The coin of L2GD averages as seldom as it should step.',
        file=_CURVES,
        old='p = 1 / tau',
        new='p = 1 - 1 / tau',
        tests=_STEPS,
    ),
    Fault(
        'w_is_taken_for_theta',
        what='The norm is taken at the last of the global weights.',
        file=_RUNNING,
        old="state['weights'][0]",
        new="state['weights'][-1][:10]",
        tests=_ALGORITHMS,
    ),
    Fault(
        'client_states_stay',
        what='Clients start every round from their first states.',
        file=_RUNNING,
        old="state, own = output['state'], output['client_states']",
        new="state = output['state']",
        tests=_ALGORITHMS,
    ),
    Fault(
        'curves_run_again',
        what='Curves that are finished run again.',
        file=_RUNNING,
        old='if not os.path.exists(path):',
        new='if True:',
        tests=(f'{_TEST}::test_finished_curves_are_not_run_again',),
    ),
    Fault(
        'calibrated_for_every_task',
        what='The calibrated numbers are next to those of the control.',
        file=_RUNNING,
        old="(task_name, given['scale']) == ('overpersonalized', 'paper')",
        new="given['scale'] == 'paper'",
        tests=(
            f'{_TEST}'
            '::test_calibrated_numbers_stand_beside_those_of_the_papers_scale',
        ),
    ),
    Fault(
        'curves_of_other_flags',
        what='A folder with curves of other flags is taken.',
        file='binaries/benchmark_ffgg.py',
        old='  resume_flags.check(path, config)\n',
        new='',
        tests=(f'{_TEST}::test_bad_flags_are_a_sentence',),
    ),
    Fault(
        'linear_axis',
        what='Errors are drawn on a linear axis.',
        file=_PLOTS,
        old="axis.set_yscale('log')",
        new="axis.set_yscale('linear')",
        tests=_BAND,
    ),
    Fault(
        'line_is_the_highest',
        what='The line is the worst seed.',
        file='tff_pers/evaluation/figures.py',
        old='draw_line(axis, label, number, x, mean,',
        new='draw_line(axis, label, number, x, highest,',
        tests=_BAND,
    ),
    Fault(
        'one_nan_ends_the_line',
        what='A round where one seed has no value is not drawn.',
        file=_PLOTS,
        old='some = drawn.any(axis=0)',
        new='some = drawn.all(axis=0)',
        tests=(f'{_PLOTS_TEST}::test_what_a_logarithm_lacks_is_left_out',),
    ),
    Fault(
        'colours_by_panel',
        what='A variant has another colour in every panel.',
        file=_PLOTS,
        old='variant, curve, variants.index(variant))',
        new='variant, curve, list(curves).index(variant))',
        tests=(
            f'{_PLOTS_TEST}::test_a_variant_has_one_colour_in_all_panels',
        ),
    ),
)
