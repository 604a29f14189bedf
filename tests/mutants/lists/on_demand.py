"""Planted faults of clients whose data are read when they are asked for."""

from tests.mutants.faults import Fault

_ON_DEMAND = 'tff_pers/data/on_demand.py'
_ON_DEMAND_TEST = 'tests/data/on_demand_test.py'
_VALIDATION = 'tff_pers/data/validation.py'
_PREFETCH = 'tff_pers/simulation/prefetch.py'
_PREFETCH_TEST = 'tests/simulation/prefetch_test.py'
_PROGRAM = 'tff_pers/simulation/program.py'
_PROGRAM_TEST = 'tests/simulation/program_test.py'
_STORE = 'tff_pers/simulation/store.py'
_STORE_TEST = 'tests/simulation/store_test.py'
_COHORT = 'tff_pers/simulation/cohort.py'
_COHORT_TEST = 'tests/simulation/cohort_test.py'
_EXPERIMENT = 'tff_pers/experiments/experiment.py'
_RUNNER = 'tff_pers/experiments/runner.py'
_RUNS = 'tests/binaries/on_demand_test.py'
_IS_LAZY_CUT = (
    'tests/data/validation_test.py'
    '::test_clients_on_demand_are_cut_as_lists_without_being_read',
)
_FEW_ARE_READ = (
    f'{_RUNS}::test_nobody_but_cohorts_and_evaluated_clients_is_read',
)

FAULTS = (
    Fault(
        'picks_are_renumbered',
        what='Clients that should keep their indices are renumbered.',
        file=_ON_DEMAND,
        old='indices=self._indices[chosen] if first is None else None,',
        new='indices=None,',
        tests=(
            f'{_ON_DEMAND_TEST}::test_picks_keep_their_indices_if_asked_to',
        ),
    ),
    Fault(
        'validation_reads_everybody',
        what='All clients are read to cut out the validation rows.',
        file=_VALIDATION,
        old='  if isinstance(clients, on_demand.OnDemand):\n    kept',
        new='  if not clients:\n    kept',
        tests=_IS_LAZY_CUT,
    ),
    Fault(
        'validation_forgets_half_draws',
        what='The half of a draw that the last client left over is lost.',
        file=_VALIDATION,
        old='has_uint32=has_uint32,',
        new='has_uint32=0,',
        tests=(
            'tests/data/validation_test.py'
            '::test_the_rows_are_those_of_one_generator_client_by_client',
        ),
    ),
    Fault(
        'validation_part_is_the_training_part',
        what='Clients on demand validate on the rows that they train on.',
        file=_VALIDATION,
        old='draws(client).held)',
        new='draws(client).kept)',
        tests=_IS_LAZY_CUT,
    ),
    Fault(
        'class_counts_read_everybody',
        what='All clients are read to count classes.',
        file=_VALIDATION,
        old='or isinstance(train, on_demand.OnDemand):',
        new='or not train:',
        tests=(
            'tests/data/validation_test.py'
            '::test_classes_of_clients_on_demand_are_not_counted',
        ),
    ),
    Fault(
        'nothing_is_read_ahead',
        what='The next cohort is read when its round begins.',
        file=_PREFETCH,
        old='if self._pool is not None and len(cohort):',
        new='if False:',
        tests=(
            f'{_PREFETCH_TEST}'
            '::test_the_next_cohort_is_read_before_it_is_asked_for',
        ),
    ),
    Fault(
        'whatever_was_begun_is_taken',
        what='A round trains on the data of the cohort that was read ahead.',
        file=_PREFETCH,
        old='if begun is not None and begun[0] == cohort:',
        new='if begun is not None:',
        tests=(
            f'{_PREFETCH_TEST}'
            '::test_another_cohort_than_was_begun_is_read_itself',
        ),
    ),
    Fault(
        'the_thread_stays',
        what='The thread that reads ahead outlives the run.',
        file=_PREFETCH,
        old='self._pool.shutdown(cancel_futures=True)',
        new='globals().setdefault("left", []).append(self._pool)',
        tests=(f'{_PREFETCH_TEST}::test_no_thread_is_left',),
    ),
    Fault(
        'waiting_counts_for_nothing',
        what='The time spent waiting for data stays 0.',
        file=_PREFETCH,
        old='self.seconds_waiting += time.monotonic() - started',
        new='self.seconds_waiting += 0.0',
        tests=(f'{_PREFETCH_TEST}::test_waiting_is_measured',),
    ),
    Fault(
        'the_cohort_after_next_is_read',
        what='What is read ahead is the cohort of another round.',
        file=_PROGRAM,
        old='in sampler(self._seed, round_num)',
        new='in sampler(self._seed, round_num + 1)',
        tests=(
            f'{_PROGRAM_TEST}::test_the_next_cohort_is_read_while_a_round_runs',
        ),
    ),
    Fault(
        'all_clients_are_read_at_the_start',
        what='The program makes a list of clients on demand.',
        file=_PROGRAM,
        old='    return clients  # Read-only as they are read.',
        new='    return list(clients)',
        tests=_FEW_ARE_READ,
    ),
    Fault(
        'all_clients_are_read_after_the_build',
        what='An experiment makes a list of clients on demand.',
        file=_EXPERIMENT,
        old='if clients is None or isinstance(clients, on_demand.OnDemand):',
        new='if clients is None:',
        tests=_FEW_ARE_READ,
    ),
    Fault(
        'everybody_is_evaluated',
        what='--eval_clients has no effect on evaluations.',
        file=_PROGRAM,
        old='    data = self._data.pick(self._evaluated.tolist())',
        new='    data = self._data.pick(\n'
        '        np.flatnonzero(~self._byzantine).tolist()\n    )',
        tests=(f'{_PROGRAM_TEST}::test_only_the_sample_is_evaluated',),
    ),
    Fault(
        'the_sample_has_byzantine_clients',
        what='Byzantine clients may be in the sample that is evaluated.',
        file=_EXPERIMENT,
        old='''      task.honest, number, given.get('seed',''',
        new='''      np.arange(task.num_clients), number, given.get('seed',''',
        tests=(f'{_RUNS}::test_more_than_there_are_is_one_sentence',),
    ),
    Fault(
        'the_sample_is_that_of_seed_0',
        what='Runs of all seeds evaluate the same clients.',
        file=_COHORT,
        old='np.random.default_rng([_EVALUATED, seed])',
        new='np.random.default_rng([_EVALUATED, 0])',
        tests=(
            f'{_COHORT_TEST}'
            '::test_the_evaluated_sample_is_of_the_seed_and_of_all_honest_clients',
        ),
    ),
    Fault(
        'the_sample_is_drawn_as_held_out_clients_are',
        what='The evaluated clients are those that --holdout_clients would draw.',
        file=_COHORT,
        old='_EVALUATED = 5',
        new='_EVALUATED = 2',
        tests=(
            f'{_COHORT_TEST}::test_the_evaluated_sample_has_draws_of_its_own',
        ),
    ),
    Fault(
        'clients_csv_has_other_clients',
        what='The rows of clients.csv name honest clients in order.',
        file=_RUNNER,
        old='numbers = [*experiment.clients[task.evaluated], *',
        new='numbers = [*experiment.clients[task.honest], *',
        tests=(
            f'{_RUNS}'
            '::test_the_sample_is_honest_and_the_same_in_every_round_and_run',
        ),
    ),
    Fault(
        'states_keep_their_cohort_alive',
        what='A stored state is a view of the states of its whole cohort.',
        file=_STORE,
        old='    return leaf.copy()\n',
        new='    return leaf\n',
        tests=(
            f'{_STORE_TEST}'
            '::test_a_state_keeps_no_array_of_its_whole_cohort_alive',
        ),
    ),
    Fault(
        'a_full_cache_makes_room_for_one',
        what='Every state that is put waits for the disk once the cache is full.',
        file=_STORE,
        old='_LEFT_SHARE = 0.75',
        new='_LEFT_SHARE = 1.0',
        tests=(f'{_STORE_TEST}::test_a_full_cache_makes_room_for_many_at_once',),
    ),
    Fault(
        'a_cohort_is_no_reason_to_stay',
        what='States of a large cohort go to the disk in every round.',
        file=_STORE,
        old='    self._at_least = max(number, 1)\n',
        new='    self._at_least = 1\n',
        tests=(
            f'{_STORE_TEST}'
            '::test_the_states_of_a_cohort_stay_in_memory_however_large',
        ),
    ),
)
