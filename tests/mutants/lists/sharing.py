"""Planted faults of what runs of several seeds share."""

from tests.mutants.faults import Fault

_PROCESSES = 'tff_pers/experiments/processes.py'
_TEST = 'tests/experiments/processes_test.py'
_ALONE = (f'{_TEST}::test_a_run_of_a_comparison_is_a_run_alone',)
_COMPILED = 'tff_pers/runtime/fused/compiled.py'

FAULTS = (
    Fault(
        'sharing_whatever_the_groups',
        what='A process is shared though the method looked at other groups.',
        file=_PROCESSES,
        old='one.dtype == other.dtype and np.array_equal(one, other)',
        new='one.dtype == other.dtype',
        tests=(f'{_TEST}::test_what_a_method_looks_at_counts',),
    ),
    Fault(
        'sharing_what_nobody_noted',
        what='What a method looks at is not noted.',
        file=_PROCESSES,
        old='      reads[name] = value\n',
        new='      pass\n',
        tests=(f'{_TEST}::test_what_a_method_looks_at_counts',),
    ),
    Fault(
        'sharing_whatever_the_attack',
        what='Clients attack as in an earlier run.',
        file=_PROCESSES,
        old="        experiment.flag('attack'),",
        new="        'none',",
        tests=(f'{_TEST}::test_clients_that_attack_differ',),
    ),
    Fault(
        'sharing_whatever_the_hyperparameters',
        what='A method keeps the hyperparameters of an earlier run.',
        file=_PROCESSES,
        old='if _last is not None and _last.key == key and',
        new='if _last is not None and _last.key[0] == key[0] and',
        tests=(f'{_TEST}::test_what_differs_is_built_anew',),
    ),
    Fault(
        'sharing_nothing',
        what='Every run builds its process.',
        file=_PROCESSES,
        old='  _last = _Last(key, reads, built)\n',
        new='',
        tests=(f'{_TEST}::test_seeds_share_a_process',),
    ),
    Fault(
        'choices_of_an_earlier_run',
        what='The choices of a run are not written if it shares a process.',
        file=_COMPILED,
        old='    self._traces.clear()\n',
        new='',
        tests=_ALONE,
    ),
    Fault(
        'traced_again_for_each_run',
        what='Every run traces its rounds.',
        file=_COMPILED,
        old='    if earlier is not None:',
        new='    if False:',
        tests=_ALONE,
    ),
    Fault(
        'programs_leave_nobody_out',
        what='Programs count Byzantine clients in the training loss.',
        file=_PROCESSES,
        old='leaving_out(task.byzantine)',
        new='leaving_out(None)',
        tests=(
            'tests/binaries/task_knowledge_test.py'
            '::test_byzantine_clients_are_no_rows',
        ),
    ),
)
