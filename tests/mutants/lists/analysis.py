"""Planted faults of the analysis of local updates."""

from tests.mutants.faults import Fault

_THETAS = 'tff_pers/numerics/thetas.py'
_UPDATES = 'tff_pers/analysis/local_updates.py'
_RATES = 'tff_pers/analysis/rates.py'
_SURROGATE = 'tff_pers/analysis/surrogate.py'
_QUADRATIC = 'tff_pers/analysis/quadratic.py'
_BOUNDS = 'tff_pers/analysis/bounds.py'
_FRONTIERS = 'tff_pers/analysis/frontiers.py'
_RECOMMEND = 'tff_pers/analysis/recommend.py'
_CURVATURE = 'tff_pers/analysis/curvature.py'
_PROMISES = '::test_no_promise_is_broken_and_none_is_empty'
_TESTS = 'tests/analysis/'
_CLIENTS_SEND = (
    f'{_TESTS}surrogate_test.py'
    '::test_local_steps_send_the_gradient_of_the_surrogate',
)
_REFERENCE = (f'{_TESTS}frontiers_test.py::test_reference_values',)
_RADIUS = (f'{_TESTS}rates_test.py::test_rate_is_the_spectral_radius',)

FAULTS = (
    Fault(
        'last_gradient_off_by_one',
        what='Theta_K takes K effective steps, not K - 1.',
        file=_THETAS,
        old='return (1 - np.asarray(s, np.float64)) ** (self.num_steps - 1)',
        new='return (1 - np.asarray(s, np.float64)) ** self.num_steps',
        tests=('tests/numerics/thetas_test.py::test_closed_form_is_the_sum',),
    ),
    Fault(
        'maml_counts_as_fomaml',
        what='MAML with J steps is Theta_{J+1}, which is FOMAML.',
        file=_THETAS,
        old='LastGradient(2 * num_adaptation_steps + 1)',
        new='LastGradient(num_adaptation_steps + 1)',
        tests=(
            'tests/numerics/thetas_test.py'
            '::test_maml_is_the_last_of_two_j_and_one',
        ),
    ),
    Fault(
        'proximal_term_in_the_first_gradient',
        what='A + alpha I, not A, multiplies x - c.',
        file=_SURROGATE,
        old='mapped(lambda a: a * self.update.q(a))',
        new='mapped(lambda a: (a + self.update.alpha) * self.update.q(a))',
        tests=_CLIENTS_SEND,
    ),
    Fault(
        'proximal_sign',
        what='The proximal term pushes away from the broadcast model.',
        file=_UPDATES,
        old='(np.asarray(eigenvalues, np.float64) + self.alpha)',
        new='(np.asarray(eigenvalues, np.float64) - self.alpha)',
        tests=_CLIENTS_SEND,
    ),
    Fault(
        'interior_maximum_forgotten',
        what='psi is taken at the ends of [mu, L], also where it turns inside.',
        file=_UPDATES,
        old='np.array([spectrum.mu, spectrum.L, *inside])',
        new='np.array([spectrum.mu, spectrum.L, *inside[:0]])',
        tests=(
            f'{_TESTS}local_updates_test.py'
            '::test_range_of_the_last_gradient_has_its_interior_maximum',
        ),
    ),
    Fault(
        'stability_of_gradient_descent',
        what='gamma may be up to 2 / (L + alpha), where Q is indefinite.',
        file=_UPDATES,
        old='if self.gamma * (largest + self.alpha) >= 1:',
        new='if self.gamma * (largest + self.alpha) >= 2:',
        tests=(
            f'{_TESTS}local_updates_test.py'
            '::test_raises_where_the_surrogate_may_not_be_convex',
        ),
    ),
    Fault(
        'cancellation_at_small_steps',
        what='1 - (1 - s)^K is computed as it is written.',
        file=_THETAS,
        old='s < 0.5, -np.expm1(num_steps * np.log1p(-inside)),',
        new='s < 0.5, 1 - (1 - inside) ** num_steps,',
        tests=('tests/numerics/thetas_test.py::test_sum_of_a_million_powers',),
    ),
    Fault(
        'heavy_ball_rate_of_gd',
        what='The rate of the heavy ball has kappa for its root.',
        file=_RATES,
        old='return np.tanh(log_kappa / 4)',
        new='return np.tanh(log_kappa / 2)',
        tests=_REFERENCE,
    ),
    Fault(
        'step_of_the_true_loss',
        what='The step of GD is 1 / L, not 2 / (L + mu).',
        file=_RATES,
        old='return ServerStep(2 / (smoothness + strong_convexity), 0.0)',
        new='return ServerStep(1 / smoothness, 0.0)',
        tests=_RADIUS,
    ),
    Fault(
        'nesterov_step_of_heavy_ball',
        what='Nesterov has the step size 4 / (L + 3 mu).',
        file=_RATES,
        old='4 / (3 * smoothness + strong_convexity)',
        new='4 / (smoothness + 3 * strong_convexity)',
        tests=_RADIUS,
    ),
    Fault(
        'momentum_not_squared',
        what='The momentum of the heavy ball is the rate, not its square.',
        file=_RATES,
        old='((high - low) / (high + low)) ** 2)',
        new='((high - low) / (high + low)))',
        tests=_RADIUS,
    ),
    Fault(
        'nesterov_without_lookahead',
        what='The server of Nesterov is that of the heavy ball.',
        file=_SURROGATE,
        old="q + step.beta * momentum if server == 'nesterov' else momentum",
        new='momentum',
        tests=(
            f'{_TESTS}rates_test.py'
            '::test_momentum_has_its_rate_up_to_a_linear_factor[nesterov]',
        ),
    ),
    Fault(
        'surrogate_optimum_of_the_true_loss',
        what='Local work does not move the optimum.',
        file=_SURROGATE,
        old="pulls = np.einsum('nij,nj->ni', self.hessians, self.federation.opt"
        'ima)\n    return np.linalg.solve(self.hessian, self.federation.mean(pull'
        's))',
        new='return self.federation.optimum',
        tests=(
            f'{_TESTS}surrogate_test.py'
            '::test_many_steps_average_the_client_optima',
        ),
    ),
    Fault(
        'weights_of_clients_ignored',
        what='All clients have equal weights.',
        file=_QUADRATIC,
        old='return np.tensordot(self.weights, values, 1)',
        new='return np.mean(values, axis=0)',
        tests=(f'{_TESTS}quadratic_test.py::test_weights_of_clients_count',),
    ),
    Fault(
        'adaptation_counted_once',
        what='The loss after s steps has (I - gamma A)^s, not its square.',
        file=_QUADRATIC,
        old='a * (1 - learning_rate * a) ** (2 * num_steps)',
        new='a * (1 - learning_rate * a) ** num_steps',
        tests=(
            f'{_TESTS}quadratic_test.py'
            '::test_post_adaptation_loss_is_that_of_clients_that_adapt',
        ),
    ),
    Fault(
        'heterogeneity_bound_too_small',
        what='(V1) has half of its constant.',
        file=_BOUNDS,
        old='(high - low) / (2 * strong_convexity)',
        new='(high - low) / (4 * strong_convexity)',
        tests=(
            f'{_TESTS}bounds_test.py'
            '::test_heterogeneity_bound_is_attained_by_two_scalar_clients',
        ),
    ),
    Fault(
        'scalar_bound_too_small',
        what='(V3) is C Delta.',
        file=_BOUNDS,
        old='return 2 * federation.radius * delta_of_distortion(',
        new='return 1 * federation.radius * delta_of_distortion(',
        tests=(
            f'{_TESTS}bounds_test.py::test_tight_example_of_one_dimension',
        ),
    ),
    Fault(
        'commuting_bound_in_the_wrong_basis',
        what='(V2) takes coordinates as they are.',
        file=_BOUNDS,
        old='coordinates = surrogate.federation.optima @ basis',
        new='coordinates = surrogate.federation.optima @ basis.T',
        tests=(
            f'{_TESTS}bounds_test.py'
            '::test_commuting_bound_is_never_violated_in_any_basis',
        ),
    ),
    Fault(
        'paper_bound_without_warning',
        what='The bound of the paper passes for a bound in two dimensions.',
        file=_BOUNDS,
        old='  if federation.dim > 1:\n',
        new='  if federation.dim > 2:\n',
        tests=(
            f'{_TESTS}bounds_test.py'
            '::test_paper_bound_fails_for_two_clients_in_the_plane',
        ),
    ),
    Fault(
        'simulated_delta_of_kappa',
        what='Delta of a simulation is that of Eq. 17, on the curve without end.',
        file=_FRONTIERS,
        old='delta=bounds.delta_of_distortion(q),',
        new='delta=float(np.tanh((np.log(spectrum.kappa0) - h.width) / 4)),',
        tests=(
            f'{_TESTS}frontiers_test.py'
            '::test_simulated_frontier_leaves_the_curve_and_turns',
        ),
    ),
    Fault(
        'kappa_overflows',
        what='The rate is computed from kappa, which may be infinite.',
        file=_RATES,
        old='  if server == \'gd\':\n    return np.tanh(log_kappa / 2)\n',
        new='  if server == \'gd\':\n    kappa = np.exp(log_kappa)\n'
        '    return (kappa - 1) / (kappa + 1)\n',
        tests=(
            f'{_TESTS}frontiers_test.py'
            '::test_simulated_frontier_leaves_the_curve_and_turns',
        ),
    ),
    Fault(
        'figure_10_without_the_pull',
        what='The simulated clients of figure 10 have alpha = 0.',
        file='tff_pers/analysis/paper_figures.py',
        old='      largest, server, dim, alpha\n  ))',
        new='      largest, server, dim\n  ))',
        tests=(
            f'{_TESTS}paper_figures_test.py'
            '::test_figure_10_simulates_the_pull',
        ),
    ),
    Fault(
        'curvature_with_dropout',
        what='The curvature is that of the model while it is trained.',
        file=_CURVATURE,
        old='batch, training=False)',
        new='batch, training=True)',
        tests=(
            f'{_TESTS}curvature_test.py::test_curvature_is_that_of_inference',
        ),
    ),
    Fault(
        'recommends_without_the_bias',
        what='The expected error has C Delta, not 2 C Delta.',
        file=_RECOMMEND,
        old='bias = 2 * bounds.delta(kappa0, kappa)',
        new='bias = bounds.delta(kappa0, kappa)',
        tests=(f'{_TESTS}recommend_test.py{_PROMISES}',),
    ),
    Fault(
        'promises_the_rate_of_a_long_run',
        what='The error is promised from rho^T, also with momentum.',
        file=_RECOMMEND,
        old='fading = rates.contraction(kappa, server, num_rounds)',
        new='fading = rates.rate(kappa, server) ** num_rounds',
        tests=(f'{_TESTS}recommend_test.py{_PROMISES}',),
    ),
    Fault(
        'nesterov_as_heavy_ball',
        what='What rounds of Nesterov leave is that of plain momentum.',
        file=_RATES,
        old="  if server == 'nesterov':\n    after, ahead =",
        new='  if False:\n    after, ahead =',
        tests=(f'{_TESTS}recommend_test.py{_PROMISES}',),
    ),
    Fault(
        'kappa_beyond_kappa0',
        what='Rounding takes kappa beyond kappa0, and errors below 0.',
        file=_RECOMMEND,
        old='kappa0, np.minimum(np.exp(log_kappa), kappa0), server,',
        new='kappa0, np.exp(log_kappa), server,',
        tests=(f'{_TESTS}recommend_test.py::test_no_error_is_below_zero',),
    ),
    Fault(
        'promises_what_local_steps_break',
        what='An error that is proven in one dimension is promised in all.',
        file='tff_pers/experiments/pareto_tables.py',
        old="'an error of at most' if best.num_steps == 1",
        new="'an error of at most' if best.num_steps",
        tests=(
            'tests/binaries/pareto_test.py'
            '::test_recommendation_names_a_setting',
        ),
    ),
    Fault(
        'recommends_a_gamma_that_is_not_attained',
        what='gamma stays the largest, whatever kappa K steps of it have.',
        file=_RECOMMEND,
        old='  return update(high, gamma)\n',
        new='  return update(high)\n',
        tests=(
            f'{_TESTS}recommend_test.py'
            '::test_no_other_setting_is_expected_to_be_better',
        ),
    ),
    Fault(
        'curvature_without_penalty',
        what='The L2 penalty is in no Hessian.',
        file=_CURVATURE,
        old='return loss + self._l2 * tf.nn.l2_loss(vector)',
        new='return loss + 0 * self._l2 * tf.nn.l2_loss(vector)',
        tests=(
            f'{_TESTS}curvature_test.py'
            '::test_eigenvalues_are_those_of_the_hessians',
        ),
    ),
    Fault(
        'smallest_eigenvalue_of_the_shift',
        what='The eigenvalue of L I - A is not shifted back.',
        file=_CURVATURE,
        old='return shift - largest(lambda v: shift * np.ravel(v) - product(v)),'
        ' high',
        new='return largest(lambda v: shift * np.ravel(v) - product(v)), high',
        tests=(
            f'{_TESTS}curvature_test.py'
            '::test_extreme_eigenvalues_of_any_spectrum',
        ),
    ),
    Fault(
        'capital_flags_unnamed',
        what='Sentences name no flag with a capital letter.',
        file='tff_pers/experiments/flags.py',
        old="re.sub(r'`([a-zA-Z]\\w*)`', flag",
        new="re.sub(r'`([a-z]\\w*)`', flag",
        tests=('tests/binaries/pareto_test.py::test_raises_on_bad_flags',),
    ),
)
