"""Planted faults of FLoRAL's splits: loads, looks, copies, who learns of it."""

from tests.mutants.faults import Fault

_SPLITS = 'tff_pers/algorithms/floral/floral_splits.py'
_TEST = 'tests/algorithms/floral/floral_splits_test.py'
_WHO = (
    f'{_TEST}::test_a_split_needs_an_overloaded_and_a_left_over_adaptor',
)
_LARGE = (
    f'{_TEST}::test_adaptor_of_a_large_cluster_is_not_shared',
)
_COPY = (
    f'{_TEST}::test_most_loaded_adaptor_is_copied_onto_the_least_used',
)
_LOAD = (
    f'{_TEST}::test_load_is_a_running_mean_over_cohorts_weighted_by_examples',
)
_LOOKS = (
    f'{_TEST}::test_looks_come_every_so_many_rounds_and_then_no_more',
)
_ABSENT = (
    f'{_TEST}::test_absent_client_applies_a_split_when_it_comes_back',
)
_ORDER = (
    f'{_TEST}::test_splits_are_applied_in_order_from_the_first_unknown',
)
_EVALUATION = (
    f'{_TEST}'
    '::test_evaluation_of_a_client_that_was_absent_knows_of_the_split',
)

FAULTS = (
    Fault(
        'least_copied_onto_most',
        what='The left over adaptor is copied onto the overloaded one.',
        file=_SPLITS,
        old='tf.equal(same, least), most, same)',
        new='tf.equal(same, most), least, same)',
        tests=_WHO,
    ),
    Fault(
        'split_without_an_overload',
        what='The most loaded adaptor is split whatever its load.',
        file=_SPLITS,
        old='is_look & (load[most] > _OVERLOADED / num_adaptors)',
        new='is_look',
        tests=_WHO,
    ),
    Fault(
        'used_adaptor_overwritten',
        what='A copy overwrites an adaptor that is in use.',
        file=_SPLITS,
        old='& (load[least] < _LEFT_OVER / num_adaptors)',
        new='',
        tests=_WHO,
    ),
    Fault(
        'large_cluster_split',
        what='The adaptor of a large cluster is split as if two shared it.',
        file=_SPLITS,
        old='& (squares[most] < _DECIDED * load[most])',
        new='',
        tests=_LARGE,
    ),
    Fault(
        'shared_by_the_least_used',
        what='It is the least used adaptor whose users must be undecided.',
        file=_SPLITS,
        old='& (squares[most] < _DECIDED * load[most])',
        new='& (squares[least] < _DECIDED * load[least])',
        tests=_LARGE,
    ),
    Fault(
        'small_cluster_overwritten',
        what='A copy overwrites the adaptor that a small cluster has found.',
        file=_SPLITS,
        old='& (squares[least] < _DECIDED * load[least])',
        new='',
        tests=(
            f'{_TEST}::test_adaptor_of_a_small_cluster_is_not_overwritten',
        ),
    ),
    Fault(
        'focus_of_the_least_used',
        what='The metric is of the least loaded adaptor.',
        file=_SPLITS,
        old="most = tf.argmax(log['load'])",
        new="most = tf.argmin(log['load'])",
        tests=_WHO,
    ),
    Fault(
        'looks_at_what_was_clipped',
        what='Inner sums that clip may stand around what the server looks at.',
        file='tff_pers/algorithms/floral/floral.py',
        old='if hyperparameters.splits and model_aggregator is not None:',
        new='if False:',
        tests=(f'{_TEST}::test_raises_on_what_a_split_cannot_do',),
    ),
    Fault(
        'squares_are_loads',
        what='How much weight its users give an adaptor is not told.',
        file=_SPLITS,
        old='rate * (focus * shares',
        new='rate * (shares',
        tests=_LOAD,
    ),
    Fault(
        'mean_of_means_over_cohorts',
        what='An adaptor counts by its load, not by that of the cohort.',
        file=_SPLITS,
        old='rate * (focus * shares - log',
        new='rate * (focus * load - log',
        tests=_LOAD,
    ),
    Fault(
        'squares_start_at_zero',
        what='Nobody is taken to use an adaptor at first.',
        file=_SPLITS,
        old='tf.fill([num_adaptors], 1 / num_adaptors**2)',
        new='tf.zeros([num_adaptors])',
        tests=_LOAD,
    ),
    Fault(
        'bound_not_relative',
        what='The bound of a load does not depend on how many adaptors there are.',
        file=_SPLITS,
        old='> _OVERLOADED / num_adaptors',
        new='> _OVERLOADED / 2',
        tests=_WHO,
    ),
    Fault(
        'looks_in_every_round',
        what='The server looks in every round.',
        file=_SPLITS,
        old='(rounds >= every) & (looks < num_looks)',
        new='looks < num_looks',
        tests=_LOOKS,
    ),
    Fault(
        'looks_without_an_end',
        what='The server looks more often than `splits` times.',
        file=_SPLITS,
        old=' & (looks < num_looks)',
        new='',
        tests=_LOOKS,
    ),
    Fault(
        'rounds_not_restarted',
        what='After the first look every round has one.',
        file=_SPLITS,
        old='rounds=tf.where(is_look, 0, rounds)',
        new='rounds=rounds',
        tests=_LOOKS,
    ),
    Fault(
        'one_cohort_decides',
        what='The load is that of the last cohort alone.',
        file=_SPLITS,
        old='rate = min(1.0, _MEMORY / every)',
        new='rate = 1.0',
        tests=_LOAD,
    ),
    Fault(
        'load_starts_at_zero',
        what='All adaptors count as left over at first.',
        file=_SPLITS,
        old='tf.fill([num_adaptors], 1 / num_adaptors)',
        new='tf.zeros([num_adaptors])',
        tests=_LOAD,
    ),
    Fault(
        'copied_before_the_server_step',
        what='The copy is of the weights before the round, which are kept.',
        file=_SPLITS,
        old="weights, optimizer = changed['weights']",
        new="weights, optimizer = state['weights']",
        tests=_COPY,
    ),
    Fault(
        'twins',
        what='A copy has no noise, so that no router can tell it apart.',
        file=_SPLITS,
        old='_NOISE = 0.1',
        new='_NOISE = 0.0',
        tests=_COPY,
    ),
    Fault(
        'noise_everywhere',
        what='All adaptors get noise at every look, whether one is split or not.',
        file=_SPLITS,
        old='is_copy = tf.not_equal(source, tf.range(source.shape[0]))',
        new='is_copy = tf.fill([source.shape[0]], True)',
        tests=_COPY,
    ),
    Fault(
        'noise_of_all_adaptors',
        what='The size of the noise is that of all adaptors together.',
        file=_SPLITS,
        old='tf.math.reduce_std(rows, axes, keepdims=True)',
        new='tf.math.reduce_std(rows)',
        tests=_COPY,
    ),
    Fault(
        'equal_noise_of_all_tensors',
        what='Every tensor of an adaptor has the same draws.',
        file=_SPLITS,
        old='random.fold_in(key, position)',
        new='random.fold_in(key, 0)',
        tests=_COPY,
    ),
    Fault(
        'equal_noise_of_all_seeds',
        what='The noise does not depend on the seed of the run.',
        file=_SPLITS,
        old="random.key(state['seed'], state['round'], _NOISE_USE)",
        new="random.key(0, state['round'], _NOISE_USE)",
        tests=_COPY,
    ),
    Fault(
        'optimizer_left_behind',
        what='The copy keeps the moments of the adaptor that it replaced.',
        file=_SPLITS,
        old='if leaf.shape.rank else leaf',
        new='if False else leaf',
        tests=(
            f'{_TEST}'
            '::test_server_optimizer_of_a_copy_goes_on_as_that_of_its_source',
        ),
    ),
    Fault(
        'splits_applied_again',
        what='A client applies all splits whenever it takes part.',
        file=_SPLITS,
        old="is_new = t >= client_state['looks']",
        new='is_new = t >= 0',
        tests=_ABSENT,
    ),
    Fault(
        'first_new_split_missed',
        what='A client misses the first split that it does not know of.',
        file=_SPLITS,
        old="is_new = t >= client_state['looks']",
        new="is_new = t > client_state['looks']",
        tests=_ORDER,
    ),
    Fault(
        'splits_in_reverse_order',
        what='A client applies the last of the splits first.',
        file=_SPLITS,
        old="for t in range(log['sources'].shape[0]):",
        new="for t in reversed(range(log['sources'].shape[0])):",
        tests=_ORDER,
    ),
    Fault(
        'looks_not_kept',
        what='A client forgets how many splits it has applied.',
        file=_SPLITS,
        old="looks=current['looks']",
        new="looks=0 * current['looks']",
        tests=_ABSENT,
    ),
    Fault(
        'training_without_the_splits',
        what='A client that comes back trains with the router that it had.',
        file=_SPLITS,
        old="pieces['work'].update(message, current, data)",
        new="pieces['work'].update(message, client_state, data)",
        tests=_ABSENT,
    ),
    Fault(
        'deployed_without_the_splits',
        what='A client that was absent is evaluated with the router that it had.',
        file=_SPLITS,
        old="message, follow(client_state, message['splits']), data",
        new='message, client_state, data',
        tests=_EVALUATION,
    ),
    Fault(
        'handed_out_without_the_splits',
        what='`client_model` knows of no split.',
        file=_SPLITS,
        old="state, follow(client_state, state['splits']), index",
        new='state, client_state, index',
        tests=_EVALUATION,
    ),
    Fault(
        'every_look_counted_as_a_split',
        what='`router_splits` counts looks.',
        file=_SPLITS,
        old="router_splits=_count(state['splits'])",
        new="router_splits=tf.cast(state['splits']['looks'], tf.float32)",
        tests=_WHO,
    ),
    Fault(
        'one_adaptor_may_be_split',
        what='One adaptor alone is watched without a word.',
        file=_SPLITS,
        old='if num_adaptors < 2:',
        new='if num_adaptors < 1:',
        tests=(f'{_TEST}::test_raises_on_what_a_split_cannot_do',),
    ),
)
