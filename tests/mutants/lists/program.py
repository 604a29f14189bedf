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
)
