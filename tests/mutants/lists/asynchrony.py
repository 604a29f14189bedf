"""Planted faults of asynchronous training."""

from tests.mutants.faults import Fault

_SCHEDULE = 'tff_pers/simulation/asynchrony.py'
_DELAYS = 'tff_pers/simulation/asynchrony_delays.py'
_CLOCKS = 'tff_pers/simulation/asynchrony_clocks.py'
_FLIGHT = 'tff_pers/simulation/asynchrony_flight.py'
_PROGRAM = 'tff_pers/simulation/asynchrony_program.py'
_STALE = 'baselines/stale_messages.py'
_FEDASYNC = 'baselines/fedasync.py'
_FEDBUFF = 'baselines/fedbuff.py'
_FFGG = 'tff_pers/algorithms/ffgg/ffgg_hyperparameters.py'
_TIMES = 'tff_pers/evaluation/times.py'
_SCHEDULE_TEST = 'tests/simulation/asynchrony_test.py'
_PROGRAM_TEST = 'tests/simulation/asynchrony_program_test.py'
_FEDASYNC_TEST = 'tests/baselines/fedasync_test.py'
_FEDBUFF_TEST = 'tests/baselines/fedbuff_test.py'
_FFGG_TEST = 'tests/algorithms/ffgg/async_ffgg_test.py'
_TIMES_TEST = 'tests/evaluation/times_test.py'
_TWO_CLIENTS = (f'{_SCHEDULE_TEST}::test_two_clients_of_durations_1_and_4',)
_PLAYED = (
    f'{_PROGRAM_TEST}'
    '::test_messages_are_applied_once_each_as_computed_at_what_was_sent',
)
_RECORDED = (
    f'{_PROGRAM_TEST}::test_recorded_staleness_is_that_of_the_versions',
)
_RESUMED = (
    f'{_PROGRAM_TEST}'
    '::test_a_run_goes_on_from_its_checkpoint_with_the_same_bits[4-kinds0]',
)
_OWN_STATE = (f'{_PROGRAM_TEST}::test_a_client_goes_on_from_its_own_state',)
_DROPPED = (
    f'{_PROGRAM_TEST}::test_what_is_not_finite_stops_the_run_or_is_dropped',
)
_WEIGHTS = (f'{_FEDASYNC_TEST}::test_weights_of_stale_messages',)
_STEP = (
    f'{_FEDBUFF_TEST}::test_step_of_three_stale_updates[buffer-1.304738]',
)

FAULTS = (
    Fault(
        'staleness_ignored',
        what='Every message counts as if it were fresh.',
        file=_STALE,
        old="    return arrive(state, arrived, state['version'] - arrived['version'])",
        new="    return arrive(state, arrived, 0 * arrived['version'])",
        tests=_STEP,
    ),
    Fault(
        'staleness_inverted',
        what='The older a message, the more it counts.',
        file=_STALE,
        old='    return (one + late) ** -tf.constant(hyperparameters.exponent, dtype)',
        new='    return (one + late) ** tf.constant(hyperparameters.exponent, dtype)',
        tests=_WEIGHTS,
    ),
    Fault(
        'hinge_without_one',
        what='The hinge is 1 / (a (tau - h + 1)), as in some public code.',
        file=_STALE,
        old=' * beyond + one)',
        new=' * (beyond + one))',
        tests=_WEIGHTS,
    ),
    Fault(
        'version_off_by_one',
        what='A client says the version after the one it was sent.',
        file=_STALE,
        old="            weights=sent, version=message['version']",
        new="            weights=sent, version=message['version'] + 1",
        tests=_RECORDED,
    ),
    Fault(
        'arrivals_raise_the_version',
        what='Also a message that only enters the buffer is a server update.',
        file=_FEDBUFF,
        old="            weights=state['weights'], version=state['version'], **filled",
        new="            weights=state['weights'], version=state['version'] + 1, **filled",
        tests=_STEP,
    ),
    Fault(
        'buffer_kept',
        what='What was applied stays in the buffer.',
        file=_FEDBUFF,
        old="        version=state['version'] + 1, **init(state['weights']),",
        new="        version=state['version'] + 1, **filled,",
        tests=_STEP,
    ),
    Fault(
        'buffer_full_too_late',
        what='It takes one message more to fill the buffer.',
        file=_FEDBUFF,
        old="filled['count'] >= hyperparameters.buffer_size",
        new="filled['count'] > hyperparameters.buffer_size",
        tests=_STEP,
    ),
    Fault(
        'divided_by_weights',
        what='The buffer is always divided by the sum of the weights.',
        file=_FEDBUFF,
        old="    if hyperparameters.normalize == 'buffer':",
        new='    if False:',
        tests=_STEP,
    ),
    Fault(
        'mean_weight_left_out',
        what='Examples count as they are, not relative to their mean.',
        file=_FEDBUFF,
        old='    scale /= tf.constant(mean_weight, dtype)',
        new='    scale /= tf.constant(1.0, dtype)',
        tests=(f'{_FEDBUFF_TEST}::test_examples_are_relative_to_their_mean',),
    ),
    Fault(
        'model_added',
        what='A model is added to the server\'s without making room for it.',
        file=_FEDASYNC,
        old='lambda w, total: (1 - share) * w + share',
        new='lambda w, total: w + share',
        tests=(f'{_FEDASYNC_TEST}::test_alone_with_alpha_1_it_is_local_sgd',),
    ),
    Fault(
        'pull_left_out',
        what='Local steps are not pulled towards the received model.',
        file=_FEDASYNC,
        old='      if hyperparameters.rho:',
        new='      if False:',
        tests=(
            f'{_FEDASYNC_TEST}'
            '::test_a_round_mixes_with_the_mean_model_and_is_one_update',
        ),
    ),
    Fault(
        'sent_before_the_ties',
        what='Of messages of one time, the second is applied after the client'
        ' of the first was sent something.',
        file=_SCHEDULE,
        old='    while self._under_way and self._under_way[0][0] == now:',
        new='    for _ in range(1):',
        tests=_TWO_CLIENTS,
    ),
    Fault(
        'staleness_in_messages',
        what='Staleness counts messages, not server updates.',
        file=_SCHEDULE,
        old='    return applied - self.sent_after[self.order] // self.messages_per_update',
        new='    return applied - self.sent_after[self.order]',
        tests=(
            f'{_SCHEDULE_TEST}'
            '::test_staleness_counts_updates_and_not_messages',
        ),
    ),
    Fault(
        'delay_without_dispatch',
        what='tau_max does not count the update that applies the message.',
        file=_SCHEDULE,
        old='    delays = [1, *(self.staleness[:applied] + 1)]',
        new='    delays = [1, *self.staleness[:applied]]',
        tests=_TWO_CLIENTS,
    ),
    Fault(
        'delay_of_arrivals_alone',
        what='tau_max forgets what is still under way.',
        file=_SCHEDULE,
        old='    return int(max([*delays, *(num_updates - sent)]))',
        new='    return int(max(delays))',
        tests=(
            f'{_SCHEDULE_TEST}'
            '::test_what_never_arrives_counts_with_the_updates_it_missed',
        ),
    ),
    Fault(
        'finished_is_not_idle',
        what='Who has just sent a message is not drawn.',
        file=_SCHEDULE,
        old='      events.idle += clients\n',
        new='      pass\n',
        tests=(
            f'{_SCHEDULE_TEST}::test_who_works_next_is_uniform_over_the_idle',
        ),
    ),
    Fault(
        'light_tail',
        what='The heavy-tailed delays are exponential.',
        file=_DELAYS,
        old='    return self.scale * (1.0 + generator.pareto(self.shape))',
        new=(
            '    return self.scale * ('
            '1.0 + generator.standard_exponential() / (self.shape - 1.0))'
        ),
        tests=(f'{_SCHEDULE_TEST}::test_the_tail_of_pareto_is_heavy',),
    ),
    Fault(
        'network_forgotten',
        what='The network takes no time.',
        file=_DELAYS,
        old='        for model in self._models\n',
        new='        for model in self._models[:1]\n',
        tests=(f'{_SCHEDULE_TEST}::test_slow_clients_and_the_network',),
    ),
    Fault(
        'round_of_mean_time',
        what='A round does not wait for its slowest client.',
        file=_CLOCKS,
        old='      slowest = max(slowest, self._delays.draw(generator, client, visit))',
        new='      slowest = self._delays.draw(generator, client, visit)',
        tests=(
            f'{_SCHEDULE_TEST}::test_a_round_lasts_as_long_as_its_slowest_client',
        ),
    ),
    Fault(
        'computed_at_the_newest',
        what='A stale message is recomputed at the weights of its arrival.',
        file=_PROGRAM,
        old='    answer = self._flight.answer(task)\n',
        new=(
            '    self._flight.send(self._state, [task], [client])\n'
            '    answer = self._flight.answer(task)\n'
        ),
        tests=_PLAYED,
    ),
    Fault(
        'stale_message_applied_twice',
        what='A message that was applied stays under way, and is applied again'
        ' instead of the next.',
        file=_FLIGHT,
        old='    return self._answers.pop(task)',
        new='    return self._answers[min(self._answers)]',
        tests=_PLAYED,
    ),
    Fault(
        'state_of_another_client_stored',
        what='A client\'s state is stored under the client of another task.',
        file=_PROGRAM,
        old="      self._states.put(client, answer['client_state'])",
        new='      other = int(self._schedule.client[number])\n'
        "      self._states.put(other, answer['client_state'])",
        tests=_OWN_STATE,
    ),
    Fault(
        'state_of_another_client_sent',
        what='A client continues from the state of another one under way.',
        file=_PROGRAM,
        old='    return self._client_states(clients), self._reader.take(clients)',
        new='    return (\n'
        '        self._client_states(clients[::-1]), self._reader.take(clients)\n'
        '    )',
        tests=_OWN_STATE,
    ),
    Fault(
        'sent_too_late',
        what='Who is due is sent the weights after the next message.',
        file=_PROGRAM,
        old="applied, 'right'))\n    tasks",
        new="applied, 'left'))\n    tasks",
        tests=(
            *_PLAYED, f'{_FFGG_TEST}'
            '::test_10_what_is_under_way_is_the_way_to_the_virtual_iterate',
        ),
    ),
    Fault(
        'flight_not_saved',
        what='The checkpoint leaves out the messages that are computed.',
        file=_FLIGHT,
        old=(
            '        **{2 * task + 1: answer for task, answer in'
            ' self._answers.items()},\n'
        ),
        new='',
        tests=_RESUMED,
    ),
    Fault(
        'other_events_accepted',
        what='A run continues with other events than it began with.',
        file=_PROGRAM,
        old='    if known != due or now != self.position.virtual_time:',
        new='    if False:',
        tests=(
            f'{_PROGRAM_TEST}'
            '::test_other_events_than_those_of_the_checkpoint_are_refused',
        ),
    ),
    Fault(
        'dropped_uncounted',
        what='Messages that were dropped are not counted.',
        file=_PROGRAM,
        old='done.with_dropped(sorted({*bad, *refused}))._replace(',
        new='done._replace(',
        tests=_DROPPED,
    ),
    Fault(
        'step_without_the_root',
        what='The step of Theorem 7 falls with P tau_max, not with its root.',
        file=_FFGG,
        old='math.sqrt(2.0 * in_flight * max_delay)',
        new='(2.0 * in_flight * max_delay)',
        tests=(f'{_FFGG_TEST}::test_step_of_theorem_7',),
    ),
    Fault(
        'last_time_that_is_good',
        what='The time of a target is that of the last row that is as good.',
        file=_TIMES,
        old='  return int(np.argmax(good)) if good.any() else None',
        new='  return int(np.flatnonzero(good)[-1]) if good.any() else None',
        tests=(f'{_TIMES_TEST}::test_time_of_the_first_row_that_is_as_good',),
    ),
)
