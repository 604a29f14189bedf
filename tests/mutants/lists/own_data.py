"""Planted faults of users' data: features, names, rounds, rates."""

from tests.mutants.faults import Fault

_FEATURES = 'tff_pers/data/features.py'
_FEATURES_TEST = 'tests/data/features_test.py'
_FITTING = 'tff_pers/data/fitting.py'
_OUTLIERS = (
    'tests/data/fitting_test.py'
    '::test_outliers_count_where_clients_train_alone'
)
_EXPERIMENT = 'tff_pers/experiments/experiment.py'
_RUNNER = 'tff_pers/experiments/runner.py'
_OWN_TEST = 'tests/binaries/own_data_test.py'
_STAYS = (f'{_OWN_TEST}::test_what_was_made_of_the_columns_stays_with_the_run',)
_WORSE = (f'{_OWN_TEST}::test_training_that_made_it_worse_is_said',)
_NAMES = (
    'tests/binaries/client_names_test.py'
    '::test_names_of_an_experiment_follow_numbers_of_the_whole_task',
    'tests/binaries/client_names_test.py'
    '::test_files_have_the_names_in_order_of_the_data',
)
_STOPPING = 'tff_pers/evaluation/stopping.py'
_STOPPING_TEST = 'tests/evaluation/stopping_test.py'
_PATIENCE = (
    f'{_STOPPING_TEST}::test_ends_after_as_many_evaluations_as_patience',
)
_CADENCE = 'tff_pers/config/cadence.py'
_AUTO = 'tff_pers/experiments/auto_rounds.py'
_AUTO_TEST = 'tests/experiments/auto_rounds_test.py'
_RESUMED = (f'{_AUTO_TEST}::test_a_resumed_run_ends_in_the_same_round',)
_RATE = 'tff_pers/simulation/rate_check.py'
_RATE_TEST = 'tests/simulation/rate_check_test.py'
_PROGRESS = 'tff_pers/simulation/progress.py'
_PROGRESS_TEST = 'tests/simulation/progress_test.py'

FAULTS = (
    Fault(
        'statistics_of_test_rows',
        what='Features are scaled to training and test rows together.',
        file=_FITTING,
        old='  rows = in_training(task.train)\n',
        new='  rows = in_training([*task.train, *task.test])\n',
        tests=(_OUTLIERS,),
    ),
    Fault(
        'statistics_of_held_out_clients',
        what='Clients that never train take part in the statistics.',
        file=_FITTING,
        old='      if client not in held_out\n',
        new='      if client is not None\n',
        tests=(_OUTLIERS,),
    ),
    Fault(
        'statistics_of_validation_rows',
        what='Features are fitted before validation rows are cut out.',
        file='tff_pers/data/tasks/registry.py',
        old='''          build(request, options), request.validation_fraction, request.seed
''',
        new='''          fitting.fit(build(request, options), request.holdout_clients,
                      request.seed),
          request.validation_fraction, request.seed
''',
        tests=(_OUTLIERS,),
    ),
    Fault(
        'categories_of_test_rows',
        what='Texts that only test rows have become features.',
        file=_FEATURES,
        old='for code, text in enumerate(column.categories) if code in used',
        new='for code, text in enumerate(column.categories)',
        tests=(
            f'{_FEATURES_TEST}'
            '::test_texts_are_one_hot_over_those_of_the_training_rows',
        ),
    ),
    Fault(
        'missing_count_as_zeros',
        what='The mean of a column counts its missing values.',
        file=_FEATURES,
        old='      count += (~missing).sum(axis=0)\n',
        new='      count += len(x)\n',
        tests=(f'{_FEATURES_TEST}::test_any_table_is_as_numpy_says',),
    ),
    Fault(
        'missing_are_zero',
        what='A missing value is 0, not the mean.',
        file=_FEATURES,
        old='np.where(missing, [f.mean for f in self.features], x)',
        new='np.where(missing, 0.0, x)',
        tests=(
            f'{_FEATURES_TEST}'
            '::test_without_standardize_numbers_stay_and_missing_take_the_mean',
        ),
    ),
    Fault(
        'divided_by_the_variance',
        what='Features are divided by their variance.',
        file=_FEATURES,
        old='np.where(low < high, np.sqrt(squares / count), 0)',
        new='np.where(low < high, squares / count, 0)',
        tests=(
            f'{_FEATURES_TEST}'
            '::test_numbers_have_mean_0_and_variance_1_over_all_parts',
        ),
    ),
    Fault(
        'features_are_not_stored',
        what='The folder of a run does not say what was made of the columns.',
        file=_RUNNER,
        old='          results.write_features(folder, experiment.task.features)\n',
        new='          pass\n',
        tests=_STAYS,
    ),
    Fault(
        'standardize_is_not_recorded',
        what='The record of a run has the default of --standardize.',
        file=_EXPERIMENT,
        old="    record['standardize'] = full.features.standardize\n",
        new="    record['standardize'] = None\n",
        tests=_STAYS,
    ),
    Fault(
        'names_of_other_clients',
        what='Clients that train have names of those that were held out.',
        file=_EXPERIMENT,
        old='    names = [names[client] for client in everybody]\n',
        new='    names = [names[client] for client in sorted(everybody)]\n',
        tests=_NAMES,
    ),
    Fault(
        'rows_of_other_clients',
        what='Rows of clients.csv have the names in another order.',
        file=_RUNNER,
        old='[rows[row] for row in np.argsort(numbers)]',
        new='rows',
        tests=_NAMES,
    ),
    Fault(
        'index_is_a_feature',
        what='An unnamed column, an index, is a feature.',
        file='tff_pers/data/readings.py',
        old="  return not name or name.startswith((",
        new="  return name.startswith((",
        tests=(
            'tests/data/columnar_test.py'
            '::test_raises_on_bad_csv_and_names_file_and_line',
        ),
    ),
    Fault(
        'a_worse_loss_is_not_said',
        what='A final loss above that of the untrained model is not said.',
        file='tff_pers/experiments/outputs.py',
        old='if first is None or last <= first * (1 + _ROUNDING)',
        new='if first is None or last >= first * (1 + _ROUNDING)',
        tests=_WORSE,
    ),
    Fault(
        'patience_off_by_one',
        what='A run ends one evaluation late.',
        file=_STOPPING,
        old='        self._waited >= self._rule.patience\n',
        new='        self._waited > self._rule.patience\n',
        tests=_PATIENCE,
    ),
    Fault(
        'stopped_by_test_data',
        what='Test data say when a run ends.',
        file=_STOPPING,
        old='    self.last = tuning.score(row, self._rule.metric)\n',
        new="    self.last = row[f'{self._rule.metric}_mean']\n",
        tests=_PATIENCE,
    ),
    Fault(
        'loss_rises_to_be_better',
        what='A larger loss is an improvement.',
        file=_STOPPING,
        old='    return score < self.best - LEAST * abs(self.best)\n',
        new='    return score > self.best + LEAST * abs(self.best)\n',
        tests=(
            f'{_STOPPING_TEST}::test_losses_fall_and_a_share_of_them_is_noise',
        ),
    ),
    Fault(
        'noise_is_an_improvement',
        what='Any accuracy that is higher is an improvement.',
        file=_STOPPING,
        old='      return score > self.best + LEAST\n',
        new='      return score > self.best\n',
        tests=(
            f'{_STOPPING_TEST}'
            '::test_an_improvement_within_noise_is_none_but_small_ones_add_up',
        ),
    ),
    Fault(
        'clients_without_a_turn',
        what='A run ends though some clients had no turn since the best round.',
        file=_STOPPING,
        old='        and round_num - self.best_round >= self._rule.cadence.cycle\n',
        new='        and True\n',
        tests=(
            f'{_STOPPING_TEST}::test_every_client_has_its_turn_before_the_end',
        ),
    ),
    Fault(
        'warm_up_is_compared',
        what='One model for all is compared with personal ones.',
        file=_CADENCE,
        old='    return since > 0 and not',
        new='    return not',
        tests=(
            f'{_STOPPING_TEST}::test_rounds_of_another_stage_are_not_compared',
        ),
    ),
    Fault(
        'compared_within_epochs',
        what='Models are compared while some were trained more than others.',
        file=_CADENCE,
        old='not (self.at_ends and since % self.cycle)',
        new='True',
        tests=(
            f'{_STOPPING_TEST}::test_models_are_compared_at_ends_of_cycles',
        ),
    ),
    Fault(
        'resumed_runs_forget',
        what='A resumed run has not seen the rounds before.',
        file=_RUNNER,
        old='saved_runs.rows(folder, start), is_enough',
        new='[], is_enough',
        tests=_RESUMED,
    ),
    Fault(
        'resumed_runs_train_on',
        what='A run that was over trains on when it is resumed.',
        file=_RUNNER,
        old='rounds=start if ending.is_over else task.rounds,',
        new='rounds=task.rounds,',
        tests=_RESUMED,
    ),
    Fault(
        'nothing_to_choose_on',
        what='--rounds=auto has no validation data by default.',
        file=_AUTO,
        old="{'validation_fraction': _VALIDATION_FRACTION, **given}",
        new="{'validation_fraction': 0.0, **given}",
        tests=(f'{_AUTO_TEST}::test_choices_have_validation_data',),
    ),
    Fault(
        'rounds_for_few_clients',
        what='Default rounds do not grow with the clients.',
        file='tff_pers/data/fitting_rounds.py',
        old='  rounds: float = max(_LEAST, _PER_CLIENT * num_clients)\n',
        new='  rounds: float = _LEAST\n',
        tests=(
            'tests/data/fitting_rounds_test.py'
            '::test_rounds_grow_with_clients_examples_and_small_cohorts',
        ),
    ),
    Fault(
        'healthy_runs_are_warned',
        what='A loss that falls is said to be too large.',
        file=_RATE,
        old='    if loss > self._limit:\n',
        new='    if loss < self._limit:\n',
        tests=(
            f'{_RATE_TEST}'
            '::test_a_loss_above_that_of_the_untrained_model_is_said_once',
        ),
    ),
    Fault(
        'rate_check_never_ends',
        what='Later rounds are a warm-up, too.',
        file=_RATE,
        old='round_num > _ROUNDS or ',
        new='',
        tests=(f'{_RATE_TEST}::test_later_rounds_are_no_warm_up',),
    ),
    Fault(
        'loss_nan_in_a_healthy_run',
        what='A round in which nobody trained shows a loss of NaN.',
        file=_PROGRESS,
        old='    if not math.isnan(loss):\n',
        new='    if True:\n',
        tests=(
            f'{_PROGRESS_TEST}'
            '::test_a_round_in_which_nobody_trained_shows_the_last_loss',
        ),
    ),
    Fault(
        'clock_with_first_results',
        what='The time to go counts the first release of results.',
        file='tff_pers/simulation/program.py',
        old='''          row = self._row(measured, metrics)
          releases''',
        new='''          row = self._row(measured, metrics)
          progress.evaluated(row['accuracy_mean'])
          releases''',
        tests=(
            'tests/simulation/program_test.py'
            '::test_the_clock_leaves_out_what_comes_after_an_evaluation',
        ),
    ),
    Fault(
        'softmax_of_probabilities',
        what='Probabilities of an own model are predicted as if logits.',
        file='tff_pers/experiments/predictions.py',
        old="record.get('are_probabilities', False)",
        new='False',
        tests=(
            'tests/binaries/own_arrays_test.py'
            '::test_probabilities_of_an_own_model_are_predicted_as_they_are',
        ),
    ),
    Fault(
        'rows_of_one_array_alone',
        what='Which rows are tested depends on the order of their arrays.',
        file='tff_pers/data/tasks/own_arrays.py',
        old='row_keys=split.content_keys(named_arrays.contents(table)),',
        new='row_keys=None,',
        tests=(
            'tests/binaries/own_arrays_test.py'
            '::test_rows_are_split_by_what_they_hold',
        ),
    ),
)
