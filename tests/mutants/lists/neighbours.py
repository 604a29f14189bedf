"""Planted faults of FedAMP, FedFomo and pFedGraph."""

from tests.mutants.faults import Fault

_FEDAMP = 'baselines/fedamp.py'
_FEDAMP_TEST = 'tests/baselines/fedamp_test.py'
_FEDAMP_ROUND = (f'{_FEDAMP_TEST}::test_a_round_is_that_of_numpy[own]',)
_FEDFOMO = 'baselines/fedfomo.py'
_FEDFOMO_TEST = 'tests/baselines/fedfomo_test.py'
_FEDFOMO_ROUND = (f'{_FEDFOMO_TEST}::test_a_round_is_that_of_numpy',)
_CHOICE = (
    f'{_FEDFOMO_TEST}'
    '::test_choice_takes_the_preferred_ones_and_explores',
)
_PFEDGRAPH = 'baselines/pfedgraph.py'
_PFEDGRAPH_TEST = 'tests/baselines/pfedgraph_test.py'
_PFEDGRAPH_ROUND = (f'{_PFEDGRAPH_TEST}::test_a_round_is_that_of_numpy[0.3]',)
_SOLVED = (f'{_PFEDGRAPH_TEST}::test_rows_solve_the_problem',)

FAULTS = (
    Fault(
        'fedamp_slope_without_sigma',
        what="A' lacks the factor 1 / sigma, so that lambda / alpha is wrong.",
        file=_FEDAMP,
        old='tf.exp(-x / hyperparameters.sigma) / hyperparameters.sigma, 0',
        new='tf.exp(-x / hyperparameters.sigma), 0',
        tests=(
            f'{_FEDAMP_TEST}'
            '::test_server_step_is_along_the_gradient_of_attraction',
        ),
    ),
    Fault(
        'fedamp_unit_of_all_distances',
        what='The unit is the largest nearest distance, not the median.',
        file=_FEDAMP,
        old='unit = robust.median(tf.reduce_min(others, axis=1, keepdims=True))',
        new='unit = tf.reduce_max(tf.reduce_min(others, axis=1, keepdims=True), 0)',
        tests=_FEDAMP_ROUND,
    ),
    Fault(
        'fedamp_rows_not_limited',
        what='alpha is `pull` by the mean row sum: rows may exceed it.',
        file=_FEDAMP,
        old='tf.reduce_max(tf.reduce_sum(slopes, axis=1))',
        new='tf.reduce_mean(tf.reduce_sum(slopes, axis=1))',
        tests=(f'{_FEDAMP_TEST}::test_groups_far_apart_do_not_mix',),
    ),
    Fault(
        'fedamp_pull_by_lambda_alone',
        what='The strength of the pull is lambda, not lambda / alpha.',
        file=_FEDAMP,
        old='strength = values.lambda_ * tf.math.reciprocal_no_nan(alpha)',
        new='strength = values.lambda_ * tf.ones_like(alpha)',
        tests=_FEDAMP_ROUND,
    ),
    Fault(
        'fedamp_explicit_steps',
        what='Steps are not implicit in the pull, and diverge if it is strong.',
        file=_FEDAMP,
        old='lambda g, w: local_sgd.pulled(g, w, u, s), implicit=s,',
        new='lambda g, w: local_sgd.pulled(g, w, u, s),',
        tests=_FEDAMP_ROUND,
    ),
    Fault(
        'fedamp_short_steps_without_a_pull',
        what='Steps are of size eta / (1 + eta), whatever pulls.',
        file='baselines/client_models.py',
        old='eta / (1 + eta * implicit)',
        new='eta / (1 + eta)',
        tests=(
            f'{_FEDAMP_TEST}'
            '::test_without_lambda_it_is_local_training_bit_for_bit',
        ),
    ),
    Fault(
        'fedamp_itself_among_the_others',
        what='Weights of the others count the own model, which is nearest.',
        file=_FEDAMP,
        old='  slopes = tf.where(is_other, slopes, 0)\n',
        new='',
        tests=_FEDAMP_ROUND,
    ),
    Fault(
        'fedfomo_losses_the_wrong_way',
        what='Models are preferred that are worse on the data held out.',
        file=_FEDFOMO,
        old='own - tf.stack(others)',
        new='tf.stack(others) - own',
        tests=(f'{_FEDFOMO_TEST}::test_preferences_follow_the_formula',),
    ),
    Fault(
        'fedfomo_squared_distance',
        what='w_n is divided by the squared distance.',
        file=_FEDFOMO,
        old='tf.norm(steps, axis=1)',
        new='tf.norm(steps, axis=1) ** 2',
        tests=(f'{_FEDFOMO_TEST}::test_preferences_follow_the_formula',),
    ),
    Fault(
        'fedfomo_weights_do_not_sum_to_1',
        what='The positive w_n mix as they are.',
        file=_FEDFOMO,
        old='v = tf.math.divide_no_nan(positive, tf.reduce_sum(positive))',
        new='v = positive',
        tests=(
            f'{_FEDFOMO_TEST}'
            '::test_the_one_model_that_is_better_replaces_the_own',
        ),
    ),
    Fault(
        'fedfomo_clipped_preferences',
        what='P adds the clipped w_n: a bad model is never forgotten.',
        file=_FEDFOMO,
        old="dict(chosen=message['chosen'], preferences=w)",
        new="dict(chosen=message['chosen'], preferences=positive)",
        tests=_FEDFOMO_ROUND,
    ),
    Fault(
        'fedfomo_trains_on_what_it_validates',
        what='Local training uses the examples held out, too.',
        file=_FEDFOMO,
        old='model, theta, kept, learning_rate',
        new='model, theta, data, learning_rate',
        tests=(
            f'{_FEDFOMO_TEST}::test_what_is_held_out_is_never_trained_on',
        ),
    ),
    Fault(
        'fedfomo_never_explores',
        what='Clients get the preferred models in every round.',
        file=_FEDFOMO,
        old='epsilon = 0.3 - 0.05',
        new='epsilon = 0.0 - 0.05',
        tests=_CHOICE,
    ),
    Fault(
        'fedfomo_receives_its_own_model',
        what='The own model is one of the M, from which nothing is learned.',
        file=_FEDFOMO,
        old='tf.equal(tf.range(p.shape[0]), i), p.dtype.min, worth',
        new='tf.equal(tf.range(p.shape[0]), -1), p.dtype.min, worth',
        tests=_CHOICE,
    ),
    Fault(
        'pfedgraph_half_of_the_cosines',
        what='The projection is of p + cos / lambda.',
        file=_PFEDGRAPH,
        old='alike / (2 * lambda_)',
        new='alike / lambda_',
        tests=_SOLVED,
    ),
    Fault(
        'pfedgraph_cosines_of_models',
        what='Cosines are of the models, not of what has moved from theta_0.',
        file=_PFEDGRAPH,
        old='distances.cosines(distances.flatten_rows(moved))',
        new='distances.cosines(distances.flatten_rows(models))',
        tests=_PFEDGRAPH_ROUND,
    ),
    Fault(
        'pfedgraph_shares_alike',
        what='p is 1 / m whatever the numbers of examples are.',
        file=_PFEDGRAPH,
        old='tf.where(teaches, q, 0), 1.0)',
        new='tf.where(teaches, 1.0 + 0.0 * q, 0), 1.0)',
        tests=_SOLVED,
    ),
    Fault(
        'pfedgraph_away_from_its_neighbours',
        what='The cosine to the neighbours is punished.',
        file=_PFEDGRAPH,
        old='local_sgd.descend(gradient, toward, values.mu)',
        new='local_sgd.descend(gradient, toward, -values.mu)',
        tests=_PFEDGRAPH_ROUND,
    ),
    Fault(
        'pfedgraph_direction_of_long_models',
        what='c_i sums the models, not their directions.',
        file=_PFEDGRAPH,
        old='tf.math.divide_no_nan(a, tf.cast(norms, a.dtype)), models',
        new='a + 0.0 * tf.cast(norms, a.dtype), models',
        tests=_PFEDGRAPH_ROUND,
    ),
    Fault(
        'pfedgraph_learns_from_who_has_not_trained',
        what='Initial models of clients that never trained are mixed in.',
        file=_PFEDGRAPH,
        old="tf.where(q > 0, p + alike / (2 * lambda_), -float('inf'))",
        new='p + alike / (2 * lambda_)',
        tests=(
            f'{_PFEDGRAPH_TEST}::test_who_has_not_trained_teaches_nobody',
        ),
    ),
    Fault(
        'numbers_from_0',
        what='Client 0 counts as dropped, and others write the row before theirs.',
        file='baselines/client_models.py',
        old="number=data['index'] + 1",
        new="number=data['index'] + 0",
        tests=_FEDAMP_ROUND,
    ),
)
