"""Planted faults of what leads into `tff.program`."""

from tests.mutants.faults import Fault

_PROCESS = 'tff_pers/simulation/learning_process.py'
_ROUNDS = (
    'tests/simulation/learning_process_test.py'
    '::test_rounds_are_those_of_the_process[fused-ditto]',
)
_SOURCE = 'tff_pers/simulation/data_source.py'
_SOURCE_TEST = 'tests/simulation/data_source_test.py'
_CONTEXT = 'tff_pers/runtime/context.py'

FAULTS = (
    Fault(
        'program_forgets_client_states',
        what='Every client starts from its initial state in every round.',
        file=_PROCESS,
        old='tf.where(is_known[index], rows[index], new)',
        new='tf.where(False, rows[index], new)',
        tests=_ROUNDS,
    ),
    Fault(
        'program_takes_unknown_states',
        what='A client that is new has zeros for a state.',
        file=_PROCESS,
        old='tf.where(is_known[index], rows[index], new)',
        new='tf.where(True, rows[index], new)',
        tests=_ROUNDS,
    ),
    Fault(
        'program_ignores_the_seed',
        what='The run has the seed 0, whatever the argument.',
        file=_PROCESS,
        old='return tf.constant(seed, tf.int64)',
        new='return tf.constant(0, tf.int64)',
        tests=_ROUNDS,
    ),
    Fault(
        'program_tests_on_what_clients_adapt_to',
        what='Evaluation takes the first data set twice.',
        file=_PROCESS,
        old='_build_first(process, skip=1)',
        new='_build_first(process)',
        tests=(
            'tests/simulation/learning_process_test.py'
            '::test_evaluation_is_the_mean_over_clients',
        ),
    ),
    Fault(
        'source_repeats_its_cohort',
        what='Every selection gives the same cohort.',
        file=_SOURCE,
        old='    self._position += 1',
        new='    self._position += 0',
        tests=(
            f'{_SOURCE_TEST}'
            '::test_cohorts_are_those_of_the_sampler_and_go_on_from_bytes',
        ),
    ),
    Fault(
        'source_ignores_the_seed',
        what='Cohorts are those of seed 0, whatever the argument.',
        file=_SOURCE,
        old='        self._source.seed, self._position\n    )',
        new='        0, self._position\n    )',
        tests=(
            f'{_SOURCE_TEST}'
            '::test_cohorts_are_those_of_the_sampler_and_go_on_from_bytes',
        ),
    ),
    Fault(
        'source_copies_share_a_position',
        what='A copy of an iterator is the iterator.',
        file=_SOURCE,
        old='    return ClientDataIterator(self._source, self._position)',
        new='    return self',
        tests=(
            f'{_SOURCE_TEST}'
            '::test_cohorts_are_those_of_the_sampler_and_go_on_from_bytes',
        ),
    ),
    Fault(
        'block_leaves_the_context_of_another_as_default',
        what="The context of somebody's block becomes the default for good.",
        file=_CONTEXT,
        old='self._before = stack._stack[0]',
        new='self._before = stack.current',
        tests=(
            'tests/runtime/context_test.py'
            '::test_a_block_within_somebody_elses_block',
        ),
    ),
    Fault(
        'a_replaced_client_changes_as_much_as_an_absent_one',
        what='With cohorts the sensitivity is the clipping norm, not twice it.',
        file='tff_pers/analysis/privacy.py',
        old='dp_accounting.GaussianDpEvent(self.noise_multiplier / 2)',
        new='dp_accounting.GaussianDpEvent(self.noise_multiplier)',
        tests=(
            'tests/analysis/privacy_test.py::'
            'test_with_cohorts_it_is_for_a_client_that_is_replaced',
        ),
    ),
    Fault(
        'epsilon_of_one_round',
        what='Rounds do not add up.',
        file='tff_pers/analysis/privacy.py',
        old='    accountant.compose(event, rounds)\n',
        new='    accountant.compose(event)\n',
        tests=(
            'tests/analysis/privacy_test.py::'
            'test_with_all_clients_it_is_little_above_the_exact_one',
        ),
    ),
    Fault(
        'noise_on_a_part_of_the_message',
        what='Methods that send more than the mean takes are promised epsilon.',
        file='tff_pers/aggregators/private_mean.py',
        old="      state.aggregator, 'is_init_state'\n",
        new="      state, 'aggregator'\n",
        tests=(
            'tests/aggregators/private_mean_test.py::'
            'test_a_method_whose_mean_is_not_all_that_is_sent_is_known',
        ),
    ),
    Fault(
        'a_norm_that_was_given_is_ignored',
        what='The norm follows the median whatever --dp_clip says.',
        file='tff_pers/experiments/processes.py',
        old="privacy.rule(promised, experiment.flag('dp_clip'))",
        new='privacy.rule(promised, 0.0)',
        tests=(
            'tests/binaries/privacy_test.py'
            '::test_epsilon_grows_and_is_said_with_what_it_covers',
        ),
    ),
)
