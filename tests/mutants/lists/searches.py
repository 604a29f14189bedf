"""Planted faults of searches within a budget, and of what they recommend."""

from tests.mutants.faults import Fault

_TRIALS = 'tff_pers/evaluation/trials.py'
_PAIRED = 'tff_pers/evaluation/paired.py'
_DECISION = 'tff_pers/evaluation/decision.py'
_STUDIES = 'tff_pers/experiments/studies.py'
_SEARCH = 'tff_pers/experiments/variant_search.py'
_TUNE_TEST = 'tests/binaries/tune_test.py::'
_CHOOSE_TEST = 'tests/binaries/choose_test.py::'
_STUDIES_TEST = 'tests/experiments/studies_test.py::'
_TRIALS_TEST = 'tests/evaluation/trials_test.py::'
_PAIRED_TEST = 'tests/evaluation/paired_test.py::'
_DECISION_TEST = 'tests/evaluation/decision_test.py::'

FAULTS = (
    Fault(
        'near_ends_without_logarithms',
        what='Rates are near the end of their range unless they are large.',
        file='tff_pers/config/search_spaces.py',
        old='math.log(low), math.log(high), math.log(own)',
        new='low, high, own',
        tests=(
            'tests/config/search_spaces_test.py'
            '::test_the_tenth_of_a_range_at_its_end_is_near_it',
        ),
    ),
    Fault(
        'trials_chosen_on_test_data',
        what='A trial is worth its accuracy on test data.',
        file='tff_pers/experiments/trial_runs.py',
        old='self.value = tuning.score(row, self._metric)',
        new="self.value = float(row[f'{self._metric}_mean'])",
        tests=(_TUNE_TEST + 'test_test_data_choose_nothing',),
    ),
    Fault(
        'recommended_by_test_data',
        what='What is recommended is decided by test data.',
        file='tff_pers/experiments/choice_page.py',
        old='v: method.validation for v, method',
        new='v: method.test for v, method',
        tests=(_CHOOSE_TEST + 'test_test_data_decide_nothing',),
    ),
    Fault(
        'pruned_trials_may_win',
        what='A trial is chosen by an early round, after which it was pruned.',
        file=_TRIALS,
        old="MAY_WIN = ('complete', 'stopped')",
        new="MAY_WIN = ('complete', 'stopped', 'pruned')",
        tests=(
            _TRIALS_TEST
            + 'test_the_best_are_first_and_of_equal_ones_the_earlier',
        ),
    ),
    Fault(
        'best_is_worst',
        what='The trial with the smallest accuracy is chosen.',
        file=_TRIALS,
        old='sign = -1 if summary.is_higher_better(metric) else 1',
        new='sign = 1 if summary.is_higher_better(metric) else -1',
        tests=(
            _TRIALS_TEST
            + 'test_the_best_are_first_and_of_equal_ones_the_earlier',
        ),
    ),
    Fault(
        'tuner_seeks_the_largest_loss',
        what='On regression tasks the tuner seeks, and spares, large losses.',
        file=_STUDIES,
        old="'maximize' if summary.is_higher_better(metric) else 'minimize'",
        new="'maximize'",
        tests=(
            _STUDIES_TEST
            + 'test_pruning_is_below_the_median_in_the_direction_of_the_metric',
        ),
    ),
    Fault(
        'pruned_from_the_first_round',
        what='A trial that starts slowly is pruned at once.',
        file=_STUDIES,
        old='n_warmup_steps=self._unpruned',
        new='n_warmup_steps=0',
        tests=(
            _STUDIES_TEST
            + 'test_nothing_is_pruned_in_the_first_fifth_of_the_rounds',
        ),
    ),
    Fault(
        'the_hopeless_are_trained_to_the_end',
        what='A trial that is far behind goes on while there are few others.',
        file=_STUDIES,
        old='self._trial.should_prune() or self._is_hopeless()',
        new='self._trial.should_prune()',
        tests=(
            _STUDIES_TEST
            + 'test_what_is_not_half_as_good_as_another_is_pruned',
        ),
    ),
    Fault(
        'a_limit_for_each_process',
        what='Trials of other processes do not count.',
        file=_STUDIES,
        old='if limit is not None and len(found) >= limit:',
        new='if limit is not None and len(found) > limit:',
        tests=(_STUDIES_TEST + 'test_a_limit_counts_trials_of_all_processes',),
    ),
    Fault(
        'a_killed_trial_is_lost',
        what='What a killed process had begun is not resumed.',
        file=_STUDIES,
        old='        if frozen.state != optuna.trial.TrialState.RUNNING:\n',
        new='        if frozen.state != optuna.trial.TrialState.FAIL:\n',
        tests=(
            _STUDIES_TEST
            + 'test_a_trial_that_was_let_go_is_the_next_one_with_its_values',
        ),
    ),
    Fault(
        'a_running_trial_is_taken',
        what='Two processes work on one trial.',
        file=_STUDIES,
        old='          if lock is not None:\n',
        new='          if True:\n',
        tests=(_STUDIES_TEST + 'test_two_at_work_never_have_the_same_trial',),
    ),
    Fault(
        'half_a_line_stays',
        what='Behind half a line of a killed process nobody can read.',
        file='tff_pers/experiments/study_locks.py',
        old='os.ftruncate(descriptor, start + tail.rfind',
        new='os.lseek(descriptor, 0, start + tail.rfind',
        tests=(
            'tests/experiments/budgets_test.py'
            '::test_only_what_stands_behind_the_last_line_is_cut_off',
        ),
    ),
    Fault(
        'time_before_a_kill_is_free',
        what='A program that was killed has its whole budget again.',
        file='tff_pers/experiments/budgets.py',
        old="self._before = float(json.load(file)['seconds'])",
        new="self._before = 0.0 * float(json.load(file)['seconds'])",
        tests=(
            'tests/experiments/budgets_test.py'
            '::test_a_clock_goes_on_where_it_was',
        ),
    ),
    Fault(
        'a_budget_each_of_the_whole',
        what='Every method has the whole budget of a search.',
        file='tff_pers/experiments/search.py',
        old='share = seconds / math.ceil(len(variants) / number)',
        new='share = seconds / math.ceil(1 / number)',
        tests=(_TUNE_TEST + 'test_a_budget_is_the_same_for_each_method',),
    ),
    Fault(
        'trials_within_the_default_budget',
        what='A number of trials is cut short by the default budget.',
        file='tff_pers/experiments/choice.py',
        old='  return math.inf\n',
        new='  return budgets.parse(BUDGET)\n',
        tests=(
            _CHOOSE_TEST
            + 'test_every_method_has_as_many_trials_however_long_they_take',
        ),
    ),
    Fault(
        'slow_methods_have_less',
        what='A slow method gets no time for its search but the plan\'s.',
        file='tff_pers/experiments/choice.py',
        old='variant, self._trials, trial.seconds + plan.seconds)',
        new='variant, self._trials, plan.seconds / trial.number / 2)',
        tests=(
            _CHOOSE_TEST
            + 'test_every_method_has_as_much_time_and_the_budget_is_kept',
        ),
    ),
    Fault(
        'final_seeds_are_the_first_one',
        what='The chosen values are trained with one seed alone.',
        file='tff_pers/experiments/search.py',
        old='[search.train(trial, seed) for seed in seeds]',
        new='[search.train(trial, seeds[0]) for _ in seeds]',
        tests=(
            _TUNE_TEST + 'test_the_chosen_values_are_trained_with_all_seeds',
        ),
    ),
    Fault(
        'final_runs_of_the_defaults',
        what='With the other seeds the defaults are trained.',
        file=_SEARCH,
        old='self._variant, studies.options(trial.number, trial.values)\n',
        new='self._variant, studies.options(1, trial.values)\n',
        tests=(
            _TUNE_TEST + 'test_the_chosen_values_are_trained_with_all_seeds',
        ),
    ),
    Fault(
        'a_diverged_seed_is_kept',
        what='Values with which another seed diverges stay chosen.',
        file='tff_pers/experiments/choice.py',
        old='    if None not in [search.train(trial, seed) for seed in seeds]:\n',
        new='    if [search.train(trial, seed) for seed in seeds]:\n',
        tests=(
            _CHOOSE_TEST
            + 'test_values_with_which_another_seed_diverges_are_exchanged',
        ),
    ),
    Fault(
        'intervals_of_unpaired_differences',
        what='The interval is that of two independent groups of clients.',
        file=_PAIRED,
        old='  return one - two if summary',
        new='  one, two = np.sort(one), np.sort(two)[::-1]\n'
        '  return one - two if summary',
        tests=(_PAIRED_TEST + 'test_a_difference_is_of_pairs',),
    ),
    Fault(
        'a_test_of_one_side',
        what='The p value is half of what it is.',
        file=_PAIRED,
        old='p_value = 2 * float(',
        new='p_value = float(',
        tests=(_PAIRED_TEST + 'test_a_difference_is_of_pairs',),
    ),
    Fault(
        'splits_make_no_noise',
        what='Intervals of repeated splits are those of one.',
        file=_PAIRED,
        old='  return float(np.std(means, ddof=1) / math.sqrt(len(means)))',
        new='  return 0.0',
        tests=(
            _PAIRED_TEST + 'test_the_noise_of_splitting_widens_an_interval',
            _CHOOSE_TEST + 'test_splits_are_seeds_whose_noise_counts',
        ),
    ),
    Fault(
        'splits_without_seeds',
        what='--splits=3 --seeds=0 has one split.',
        file='tff_pers/experiments/choice.py',
        old="lacking = max(given.get('splits', 1) - len(seeds), 0)",
        new='lacking = 0',
        tests=(_CHOOSE_TEST + 'test_splits_are_seeds_whose_noise_counts',),
    ),
    Fault(
        'more_loss_is_better',
        what='The method with the larger loss is said to be better.',
        file=_PAIRED,
        old='one - two if summary.is_higher_better(metric) else two - one',
        new='one - two',
        tests=(_PAIRED_TEST + 'test_less_loss_is_better',),
    ),
    Fault(
        'an_interval_of_the_normal',
        what='Few clients have an interval that is too narrow.',
        file=_PAIRED,
        old='stats.t.ppf((1 + CONFIDENCE) / 2, count - 1)',
        new='stats.norm.ppf((1 + CONFIDENCE) / 2)',
        tests=(_PAIRED_TEST + 'test_the_mean_has_the_interval_of_student',),
    ),
    Fault(
        'a_deviation_for_an_error',
        what='The interval does not shrink with the number of clients.',
        file=_PAIRED,
        old='values.std(ddof=1) / math.sqrt(count)',
        new='values.std(ddof=1)',
        tests=(_PAIRED_TEST + 'test_the_mean_has_the_interval_of_student',),
    ),
    Fault(
        'the_first_of_all_is_recommended',
        what='The simplest method is recommended however far behind it is.',
        file=_DECISION,
        old='gain.error is not None and gain.mean <= gain.error',
        new='gain.error is not None',
        tests=(
            _DECISION_TEST
            + 'test_the_simplest_within_a_standard_error_is_recommended',
        ),
    ),
    Fault(
        'noise_is_called_a_difference',
        what='An interval that holds 0 counts as a difference.',
        file=_PAIRED,
        old='low <= 0 <= high',
        new='low == 0 == high',
        tests=(_PAIRED_TEST + 'test_it_is_scipy_s_paired_test',),
    ),
)
