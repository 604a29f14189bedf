"""Planted faults of comparisons whose values validation data choose."""

from tests.mutants.faults import Fault

_TUNING = 'tff_pers/evaluation/tuning.py'
_GRIDS = 'tff_pers/evaluation/grids.py'
_GROWTH = 'tff_pers/evaluation/grid_growth.py'
_PROGRAM = 'tff_pers/experiments/tuned_sweep.py'
_TEST = 'tests/evaluation/tuning_test.py'
_GRIDS_TEST = 'tests/evaluation/grids_test.py'
_GROWTH_TEST = 'tests/evaluation/grid_growth_test.py'
_PROGRAM_TEST = 'tests/binaries/compare_tuned_test.py'
_ROWS = (
    f'{_TEST}::test_rows_are_means_over_clients_and_over_their_examples',
)
_RUN_ON_ALL_SEEDS = (
    f'{_PROGRAM_TEST}::test_the_chosen_value_is_run_on_all_seeds',
)
_BESIDE = (
    'tests/binaries/real_data_test.py::test_numbers_stand_beside_the_paper_s'
)

FAULTS = (
    Fault(
        'chosen_by_test_accuracy',
        what='The value is chosen by the accuracy on test data.',
        file=_TUNING,
        old="return float(row[f'{metric}_validation'])",
        new="return float(row[f'{metric}_mean'])",
        tests=(
            f'{_TEST}'
            '::test_the_best_validation_accuracy_is_chosen_whatever_test_data'
            '_say',
        ),
    ),
    Fault(
        'validation_data_are_test_data',
        what='Validation data are the test data, in the columns of metrics.',
        file='tff_pers/simulation/program.py',
        old="validation = self._evaluate_honest('validation')",
        new="validation = self._evaluate_honest('test')",
        tests=(f'{_PROGRAM_TEST}::test_test_data_choose_nothing',),
    ),
    Fault(
        'first_evaluation_decides',
        what='The score is that of the first evaluated round.',
        file=_TUNING,
        old='{name: column[-1] for name',
        new='{name: column[0] for name',
        tests=(
            f'{_TEST}'
            '::test_the_best_validation_accuracy_is_chosen_whatever_test_data'
            '_say',
        ),
    ),
    Fault(
        'accuracy_beside_a_loss_of_nan',
        what='A run is chosen by its accuracy though its loss is not finite.',
        file=_TUNING,
        old="if metric != 'loss' and not math.isfinite(",
        new="if metric == 'loss' and not math.isfinite(",
        tests=(
            f'{_TEST}'
            '::test_an_accuracy_beside_a_loss_that_is_not_finite_is_not_chosen',
        ),
    ),
    Fault(
        'largest_loss_wins',
        what='On regression tasks the largest validation loss is chosen.',
        file=_TUNING,
        old='best = max if summary.is_higher_better(metric) else min',
        new='best = max',
        tests=(
            f'{_TEST}'
            '::test_on_regression_tasks_the_smallest_validation_loss_is_chosen',
        ),
    ),
    Fault(
        'diverged_values_may_win',
        what='A score of infinity or NaN takes part in the choice.',
        file=_TUNING,
        old='if math.isfinite(score)}',
        new='if score is not None}',
        tests=(f'{_TEST}::test_a_diverged_value_loses',),
    ),
    Fault(
        'no_borders',
        what='The largest value of a grid does not count as its border.',
        file=_TUNING,
        old='chosen in (tried[0], tried[-1])',
        new='chosen == tried[0]',
        tests=(
            f'{_TEST}::test_the_border_is_that_of_numbers_in_any_order',
        ),
    ),
    Fault(
        'border_of_the_first_alone',
        what='A combination is at the border if its first value is.',
        file=_TUNING,
        old="            self.value.split(';'), grids_lib.numbers",
        new="            self.value.split(';')[:1], grids_lib.numbers",
        tests=(
            f'{_TEST}::test_the_border_is_that_of_numbers_in_any_order',
        ),
    ),
    Fault(
        'single_values_are_a_border',
        what='With a hyperparameter of one value every choice is at a border.',
        file=_TUNING,
        old='if len(tried) > 1]',
        new='if len(tried) > 0]',
        tests=(
            f'{_TEST}::test_the_border_is_that_of_numbers_in_any_order',
        ),
    ),
    Fault(
        'diverged_ends_grow',
        what='A grid grows beyond its best value though what is there diverged.',
        file=_GROWTH,
        old='numbers(choice.scores))',
        new='numbers(v for v, s in choice.scores.items() if s == s))',
        tests=(f'{_GROWTH_TEST}::test_a_diverged_end_is_no_border',),
    ),
    Fault(
        'more_trials_at_the_border',
        what='Only variants whose best value is at an end have more trials.',
        file=_GROWTH,
        old='value or first(v, _elsewhere) for v, value in more.items()}\n',
        new='value for v, value in more.items() if value}\n',
        tests=(f'{_GROWTH_TEST}::test_other_variants_have_as_many_trials',),
    ),
    Fault(
        'grids_grow_out_of_range',
        what='A grid grows to values that the hyperparameter cannot have.',
        file=_GROWTH,
        old='  return text if _is_allowed(spec, text) else None\n\n\ndef between',
        new='  return text\n\n\ndef between',
        tests=(f'{_GROWTH_TEST}::test_a_grid_grows_by_its_own_ratio',),
    ),
    Fault(
        'better_neighbour_is_the_smaller',
        what='The trial more is below the best value, whatever is better there.',
        file=_GROWTH,
        old='key=lambda n: -worth.get(n, -math.inf)',
        new='key=lambda n: n',
        tests=(f'{_GROWTH_TEST}::test_other_variants_have_as_many_trials',),
    ),
    Fault(
        'one_hyperparameter_grows',
        what='Of several at whose ends the best is, the first alone grows.',
        file=_GROWTH,
        old='key=lambda axis: axis.gained',
        new='key=lambda axis: axis.column',
        tests=(f'{_GROWTH_TEST}::test_several_hyperparameters_take_turns',),
    ),
    Fault(
        'grids_do_not_grow_twice',
        what='A grid grows once, however often it may.',
        file=_PROGRAM,
        old='  for _ in range(times):\n',
        new='  for _ in range(min(times, 1)):\n',
        tests=(
            f'{_PROGRAM_TEST}::test_every_variant_has_a_trial_more_where_one_is'
            '_at_the_border',
        ),
    ),
    Fault(
        'grids_grow_to_what_cannot_be_built',
        what='A comparison ends with a grid that grew out of a method\'s bounds.',
        file=_PROGRAM,
        old='        processes.build(experiment)\n',
        new='        pass\n',
        tests=(
            f'{_PROGRAM_TEST}'
            '::test_a_grid_ends_where_a_method_cannot_be_built',
        ),
    ),
    Fault(
        'figure_6_grows',
        what='The grid of figure 6 is not the one that is declared.',
        file='binaries/pareto.py',
        old="'--extensions=0', folder",
        new='folder',
        tests=(
            'tests/binaries/pareto_test.py'
            '::test_the_grid_of_figure_6_stays_as_declared',
        ),
    ),
    Fault(
        'last_of_several_alone',
        what='Of a combination only the last hyperparameter is set.',
        file=_GRIDS,
        old='variant = with_option(variant, name, own)\n  return variant',
        new='last = with_option(variant, name, own)\n  return last',
        tests=(f'{_GRIDS_TEST}::test_a_grid_of_several_has_all_combinations',),
    ),
    Fault(
        'own_hyperparameters_of_everybody',
        what='What one method alone has is tried with all of them.',
        file=_GRIDS,
        old="if name.rpartition('.')[0] in ('', method)",
        new='if method',
        tests=(
            f'{_GRIDS_TEST}::test_a_method_has_its_own_hyperparameters_beside'
            '_the_common_ones',
        ),
    ),
    Fault(
        'unequal_grids',
        what='Variants may have grids of different size.',
        file=_GRIDS,
        old='if len(set(sizes.values())) > 1:',
        new='if len(set(sizes.values())) > 9:',
        tests=(
            f'{_GRIDS_TEST}::test_unequal_grids_and_methods_that_are_not'
            '_compared_are_refused',
        ),
    ),
    Fault(
        'pooled_is_the_mean_over_clients',
        what='Pooled accuracy does not weight clients by their examples.',
        file=_TUNING,
        old="f'pooled_{metric}': 'weighted_mean'",
        new="f'pooled_{metric}': 'mean'",
        tests=_ROWS,
    ),
    Fault(
        'new_clients_among_the_others',
        what='Clients that never train count among those that do.',
        file=_TUNING,
        old="    which = clients['seen'] == seen",
        new="    which = clients['seen'] >= seen",
        tests=_ROWS,
    ),
    Fault(
        'trials_on_other_seeds',
        what='Values are chosen on the last seed.',
        file=_PROGRAM,
        old='variant: {v: tried_runs[name, seeds[0]] for',
        new='variant: {v: steps.run([(name, seeds[-1])])[name, seeds[-1]] for',
        tests=_RUN_ON_ALL_SEEDS,
    ),
    Fault(
        'first_value_on_other_seeds',
        what='The other seeds run with the first value of the grid.',
        file=_PROGRAM,
        old='      variant: trials[variant][choice.value]\n',
        new='      variant: next(iter(trials[variant].values()))\n',
        tests=_RUN_ON_ALL_SEEDS,
    ),
    Fault(
        'flags_of_methods_that_are_not_compared',
        what='A comparison gets the flags of methods that it does not have.',
        file='binaries/benchmark.py',
        old='or table[name].owner in compared',
        new='or True',
        tests=(
            'tests/binaries/benchmark_fedhm_test.py'
            '::test_all_variants_can_be_built',
        ),
    ),
    Fault(
        'data_dir_for_embedded_data',
        what='Comparisons on the digits get --data_dir.',
        file='binaries/benchmark.py',
        old='  if benchmark.parts[part].embedded:\n',
        new='  if not benchmark.parts:\n',
        tests=(
            'tests/binaries/benchmark_fedhm_test.py'
            '::test_comparisons_have_their_own_partition_tiers_and_methods',
        ),
    ),
    Fault(
        'plots_of_every_seed',
        what='Every run of a comparison is plotted, not those of one seed.',
        file='tff_pers/experiments/sweep.py',
        old='{p: draw if p[1] == first else None for p in points}',
        new='{p: draw for p in points}',
        tests=(
            'tests/binaries/compare_test.py'
            '::test_tables_plots_and_no_run_twice',
        ),
    ),
    Fault(
        'plots_of_trials',
        what='Trials that were not chosen are plotted.',
        file=_PROGRAM,
        old='draw = dict.fromkeys(new)',
        new='draw = dict.fromkeys(new, plots.plot_run)',
        tests=_RUN_ON_ALL_SEEDS,
    ),
    Fault(
        'first_lane_alone',
        what='Runs of other processes are those of the first.',
        file='tff_pers/experiments/worker_pool.py',
        old='return [future.result() for future in running]',
        new='return [running[0].result() for future in running]',
        tests=(
            'tests/binaries/compare_test.py'
            '::test_runs_side_by_side_are_those_of_one_process',
        ),
    ),
    Fault(
        'beside_the_paper_by_client',
        what='Means over clients are compared with a paper\'s over all examples.',
        file='tff_pers/experiments/benchmark_pages.py',
        old="examples='pooled_accuracy_mean'",
        new="examples='accuracy_mean'",
        tests=(_BESIDE,),
    ),
    Fault(
        'smallest_model_beside_the_largest',
        what='The last tier is compared with the paper\'s largest model.',
        file='tff_pers/experiments/benchmark_pages.py',
        old="found.setdefault(row['algo'], row['accuracy'])",
        new="found[row['algo']] = row['accuracy']",
        tests=(_BESIDE,),
    ),
    Fault(
        'goes_on_after_bad_flags',
        what='The next comparison runs after one that had bad flags.',
        file='binaries/benchmark.py',
        old='    if code > 1:\n',
        new='    if code > 2:\n',
        tests=(
            'tests/binaries/benchmark_fedhm_test.py'
            '::test_bad_flags_end_it_at_once',
        ),
    ),
    Fault(
        'diverged_value_kept',
        what='A value with which a later seed diverges stays chosen.',
        file=_PROGRAM,
        old='if run is None and choices[variant].value is not None',
        new='if False',
        tests=(
            f'{_PROGRAM_TEST}'
            '::test_a_value_that_diverges_with_a_later_seed_is_given_up',
        ),
    ),
    Fault(
        'offset_of_a_claim_ignored',
        what='local_only+0.1<perm is checked as local_only<perm.',
        file='tff_pers/experiments/orderings.py',
        old='values[term.variant][seed] + term.offset',
        new='values[term.variant][seed]',
        tests=(
            'tests/binaries/check_orderings_test.py'
            '::test_exit_code_says_whether_all_claims_hold',
        ),
    ),
    Fault(
        'exponents_of_claims',
        what='a-1e-1<b is read as a variant of that name.',
        file='tff_pers/experiments/orderings.py',
        old=r"(?:e[+-]?\d+)?)')",
        new=")')",
        tests=(
            'tests/binaries/check_orderings_test.py'
            '::test_exit_code_says_whether_all_claims_hold',
        ),
    ),
    Fault(
        'numbers_are_variants',
        what='4e-1 is read as the variant 4e, less 1.',
        file='tff_pers/experiments/orderings.py',
        old='if not star and grids.number(text) is not None:',
        new='if not star and not offset and grids.number(text) is not None:',
        tests=(
            'tests/binaries/check_orderings_test.py'
            '::test_exit_code_says_whether_all_claims_hold',
        ),
    ),
    Fault(
        'runs_of_compare_tuned_are_looked_for',
        what='Another metric of a folder of compare_tuned is a trace.',
        file='tff_pers/experiments/orderings.py',
        old='  if not os.path.exists(os.path.join(path, results.CONFIG)):\n',
        new='  if False:\n',
        tests=(
            'tests/binaries/check_orderings_test.py'
            '::test_other_metrics_need_the_runs_of_compare',
        ),
    ),
    Fault(
        'a_hyperparameter_in_two_grids',
        what='The grid of all and that of one method may have one name.',
        file=_GRIDS,
        old="if owner and name.rpartition('.')[2] in table:",
        new='if False:',
        tests=(
            f'{_GRIDS_TEST}::test_unequal_grids_and_methods_that_are_not'
            '_compared_are_refused',
        ),
    ),
    Fault(
        'more_trials_for_perm',
        what='PERM has more trials than what it is compared with.',
        file='binaries/benchmarks/perm.yaml',
        old='- perm.warmup_rounds:5,10\n',
        new='- perm.warmup_rounds:5,10,20\n',
        tests=(
            'tests/binaries/benchmarks_test.py'
            '::test_every_variant_can_be_built_and_has_as_many_trials',
        ),
    ),
    Fault(
        'values_of_benchmarks_as_yaml_reads_them',
        what='100:150 in a file of a benchmark is 6150.',
        file='tff_pers/experiments/benchmarks.py',
        old='Loader=_Loader',
        new='Loader=yaml.SafeLoader',
        tests=(
            'tests/experiments/benchmarks_test.py'
            '::test_texts_are_kept_as_they_are_typed',
        ),
    ),
    Fault(
        'scales_go_before_parts',
        what='The flags of a scale win over those of a part.',
        file='tff_pers/experiments/benchmarks.py',
        old='**self.scales[scale], **own.flags, **own.scales.get(scale, {}),',
        new='**own.flags, **own.scales.get(scale, {}), **self.scales[scale],',
        tests=(
            'tests/experiments/benchmarks_test.py'
            '::test_texts_are_kept_as_they_are_typed',
        ),
    ),
    Fault(
        'fedem_guesses_the_number_of_clusters',
        what='FedEM has three components, whatever the task knows.',
        file='baselines/fedem.py',
        old='num_models=model_table.num_clusters(task, 3),',
        new='num_models=3,',
        tests=(
            'tests/baselines/fedem_test.py'
            '::test_has_as_many_components_as_the_task_has_clusters',
        ),
    ),
    Fault(
        'idle_rounds_are_not_seen',
        what='A round without a visit is good as well.',
        file='binaries/default_claims.py',
        old="['visits_idle'][begun[0]:] >= 1",
        new="['visits_idle'][begun[0]:] > 1",
        tests=('tests/binaries/benchmark_defaults_test.py::test_rounds',),
    ),
    Fault(
        'runs_without_visits_are_good',
        what='A run that had no visits at all is good.',
        file='binaries/default_claims.py',
        old='  if not begun.size:\n    return True\n',
        new='  if not begun.size:\n    return False\n',
        tests=('tests/binaries/benchmark_defaults_test.py::test_rounds',),
    ),
    Fault(
        'nan_of_a_log_is_not_seen',
        what='NaN is looked for in the columns alone.',
        file='binaries/default_claims.py',
        old="return 'nan' in cells or",
        new="return 'nan' in cells and",
        tests=('tests/binaries/benchmark_defaults_test.py::test_rounds',),
    ),
    Fault(
        'new_clients_have_no_bound',
        what='New clients may be as bad as they like.',
        file='binaries/default_claims.py',
        old="holds='yes' if trained - margin <= new else 'no'",
        new="holds='yes'",
        tests=('tests/binaries/benchmark_defaults_test.py::test_new_clients',),
    ),
    Fault(
        'claims_hold_in_the_mean_alone',
        what='FLoRAL may be bad in one of ten seeds.',
        file='binaries/default_claims.py',
        old='metric=claim.metric, in_seeds=claim.in_seeds',
        new='metric=claim.metric',
        tests=(
            'tests/binaries/benchmark_defaults_test.py'
            '::test_every_seed_counts_for_floral',
        ),
    ),
    Fault(
        'claims_are_not_counted',
        what='Its exit code is 0 whatever holds.',
        file='binaries/benchmark_defaults.py',
        old='return int(not holds)',
        new='return 0',
        tests=(
            'tests/binaries/benchmark_defaults_test.py'
            '::test_runs_a_setting_and_says_what_holds',
        ),
    ),
    Fault(
        'old_table_of_a_failure',
        what='The table of an older command is read when a run failed.',
        file='binaries/benchmark_defaults.py',
        old='    os.remove(table)\n',
        new='    pass\n',
        tests=(
            'tests/binaries/benchmark_defaults_test.py'
            '::test_no_table_is_taken_for_that_of_a_command_that_failed',
        ),
    ),
    Fault(
        'floral_is_hardly_above_the_local_adaptor',
        what='On MNIST FLoRAL is to be 0.05 above the local adaptor.',
        file='binaries/benchmarks/settings/defaults.yaml',
        old='local_adaptor+0.15<=floral',
        new='local_adaptor+0.05<=floral',
        tests=(
            'tests/binaries/benchmark_defaults_test.py'
            '::test_floral_is_above_the_local_adaptor',
        ),
    ),
    Fault(
        'only_some_rounds_are_looked_at',
        what='Settings of visits are evaluated in every tenth round.',
        file='binaries/benchmarks/settings/defaults.yaml',
        old='    seeds: *seeds\n    eval_every: 1\n',
        new='    seeds: *seeds\n    eval_every: 10\n',
        tests=(
            'tests/binaries/benchmark_defaults_test.py'
            '::test_settings_are_run_on_seeds_that_nothing_was_tuned_to',
        ),
    ),
)
