"""Planted faults of the HTML report, and of validation curves in plots."""

from tests.mutants.faults import Fault

_REPORT = 'tff_pers/evaluation/report/'
_PAGE = _REPORT + 'web/'
_TESTS = 'tests/evaluation/report/'
_BROWSER = f'{_TESTS}browser_test.py::'
_RESULTS = f'{_TESTS}result_data_test.py::'
_MAPS = f'{_TESTS}map_data_test.py::'
_CURVE_PLOTS = 'tests/evaluation/curve_plots_test.py::'

FAULTS = (
    Fault(
        'numbers_sorted_as_text',
        what='Numbers of a table are sorted by their letters.',
        file=_PAGE + 'tables.js',
        old='  if (isNumber(a)) return sign * (a - b);\n',
        new='  if (isNumber(a)) return sign * (String(a) < String(b) ? -1 : 1);\n',
        tests=(
            _BROWSER + 'test_numbers_are_sorted_by_size_and_what_is_none_is'
            '_last',
        ),
    ),
    Fault(
        'missing_first',
        what='What is missing comes first if a table is turned round.',
        file=_PAGE + 'tables.js',
        old='return rank(a) - rank(b);',
        new='return sign * (rank(a) - rank(b));',
        tests=(
            _BROWSER + 'test_numbers_are_sorted_by_size_and_what_is_none_is'
            '_last',
        ),
    ),
    Fault(
        'markup_of_names',
        what='Texts of the page are taken for markup.',
        file=_PAGE + 'elements.js',
        old='  element.append(...children.filter(child => child !== null));',
        new=(
            '  for (const child of children) {\n'
            '    if (typeof child === "string") {\n'
            '      element.insertAdjacentHTML("beforeend", child);\n'
            '    } else if (child) {\n      element.append(child);\n    }\n  }'
        ),
        tests=(_BROWSER + 'test_names_are_texts',),
    ),
    Fault(
        'data_end_the_script',
        what='A name with </script> ends the element of the data.',
        file=_REPORT + 'page.py',
        old="  for sign in '<>&':\n",
        new="  for sign in '&':\n",
        tests=(f'{_TESTS}page_test.py::test_names_are_no_markup',),
    ),
    Fault(
        'title_is_markup',
        what='The title is put into the page as it is.',
        file=_REPORT + 'page.py',
        old="html.escape(data['title'])",
        new="data['title']",
        tests=(f'{_TESTS}page_test.py::test_names_are_no_markup',),
    ),
    Fault(
        'validation_for_test',
        what='The button of test data shows validation data.',
        file=_PAGE + 'curves.js',
        old="(state.part === 'test') === (index === 0)",
        new="(state.part === 'test') === (index === 1)",
        tests=(_BROWSER + 'test_test_and_validation_are_told_apart',),
    ),
    Fault(
        'validation_column_of_test',
        what='The column of validation accuracy has that of test data.',
        file=_REPORT + 'result_data.py',
        old='row[name] = _mean_last(own, name)',
        new="row[name] = _mean_last(own, 'accuracy_mean')",
        tests=(_RESULTS + 'test_results_are_means_over_seeds',),
    ),
    Fault(
        'pairs_of_other_seeds',
        what='A client is compared with itself under another seed.',
        file=_PAGE + 'clients.js',
        old='const key = (client, seed) => `${client}/${seed}`;',
        new='const key = (client, seed) => `${client}`;',
        tests=(
            _BROWSER + 'test_who_is_hurt_is_paired_by_client_and_seed',
        ),
    ),
    Fault(
        'larger_losses_help',
        what='A larger loss counts as a gain.',
        file=_PAGE + 'clients.js',
        old='const sign = clients.isHigherBetter ? 1 : -1;',
        new='const sign = 1;',
        tests=(_BROWSER + 'test_a_larger_loss_hurts',),
    ),
    Fault(
        'unseen_clients_count',
        what='Clients that never train are among those that do.',
        file=_PAGE + 'clients.js',
        old='isNumber(value) && !unseen.has(client)',
        new='isNumber(value)',
        tests=(
            _BROWSER + 'test_who_is_hurt_is_paired_by_client_and_seed',
            _BROWSER + 'test_every_client_is_a_spot',
        ),
    ),
    Fault(
        'bytes_in_other_order',
        what='The bytes of a cell are read in the wrong order.',
        file=_PAGE + 'maps.js',
        old='bytes.charCodeAt(i) + 256 * bytes.charCodeAt(i + 1)',
        new='256 * bytes.charCodeAt(i) + bytes.charCodeAt(i + 1)',
        tests=(
            _BROWSER + 'test_the_map_has_the_cells_of_the_file_by_group',
        ),
    ),
    Fault(
        'map_cell_transposed',
        what='The value under the pointer is that of the mirrored cell.',
        file=_PAGE + 'maps.js',
        old='const value = values[row * columns + column];',
        new='const value = values[column * columns + row];',
        tests=(
            _BROWSER + 'test_the_map_has_the_cells_of_the_file_by_group',
        ),
    ),
    Fault(
        'map_columns_not_ordered',
        what='Only the rows of the mixing weights are ordered by group.',
        file=_REPORT + 'map_data.py',
        old='[rows.order][:, columns.order]',
        new='[rows.order]',
        tests=(
            _MAPS + 'test_mixing_weights_are_those_of_the_file_by_group',
        ),
    ),
    Fault(
        'map_names_not_ordered',
        what='Rows of a map are ordered by group, their names are not.',
        file=_REPORT + 'map_data.py',
        old='names = [axis.names[i] for i in axis.order]',
        new='names = list(axis.names)',
        tests=(_MAPS + 'test_names_of_clients_are_those_of_the_data',),
    ),
    Fault(
        'blocks_are_sums',
        what='Neighbours of large maps are added, not averaged.',
        file=_REPORT + 'map_data.py',
        old='return sums / np.expand_dims(counts, 1 - axis)',
        new='return sums / size',
        tests=(_MAPS + 'test_many_clients_are_averaged_over_neighbours',),
    ),
    Fault(
        'byzantine_rows_are_zero',
        what='A row of a map that is not known is zero.',
        file=_REPORT + 'map_data.py',
        old='* _STEPS, _STEPS + 1\n',
        new='* _STEPS, 0\n',
        tests=(_MAPS + 'test_rows_of_byzantine_clients_are_not_known',),
    ),
    Fault(
        'last_round_thinned_away',
        what='Long curves are thinned from their start, and lose their end.',
        file=_REPORT + 'curve_data.py',
        old='np.arange(number - 1, -1, -step)',
        new='np.arange(0, number, step)',
        tests=(
            f'{_TESTS}curve_data_test.py'
            '::test_thinned_keeps_both_ends_and_equal_steps',
        ),
    ),
    Fault(
        'bytes_of_one_round',
        what='Curves against bytes have those of a round, not the sum.',
        file=_REPORT + 'curve_data.py',
        old='at(run, costs.cumulative_bytes(run))',
        new="at(run, run.metrics['bytes_down'] + run.metrics['bytes_up'])",
        tests=(
            f'{_TESTS}curve_data_test.py'
            '::test_curves_are_means_and_ranges_over_seeds',
        ),
    ),
    Fault(
        'diverged_seeds_forgotten',
        what='A diverged seed is left out of the means in silence.',
        file=_REPORT + 'result_data.py',
        old='        runs[label, member.seed] = None\n',
        new='        continue\n',
        tests=(_RESULTS + 'test_a_diverged_seed_is_no_number',),
    ),
    Fault(
        'unfinished_seeds_count',
        what='Means of the finished seeds take in those under way.',
        file=_REPORT + 'members.py',
        old='  return finished or [m for m in',
        new='  return [m for m in',
        tests=(
            _RESULTS + 'test_an_unfinished_seed_does_not_count_beside_finished'
            '_ones',
        ),
    ),
    Fault(
        'settings_merged',
        what='One variant with two settings is one method with two seeds.',
        file=_REPORT + 'members.py',
        old='names = differences([settings_of(run) for run in runs])',
        new='names = []',
        tests=(
            f'{_TESTS}members_test.py'
            '::test_settings_that_differ_are_part_of_the_label',
        ),
    ),
    Fault(
        'other_data_compared',
        what='Runs on other data are compared.',
        file=_REPORT + 'members.py',
        old='found.setdefault(_key(_data_flags(run)), [])',
        new="found.setdefault(run.config['flags']['task'], [])",
        tests=(
            f'{_TESTS}members_test.py::test_runs_on_other_data_are_another'
            '_group',
        ),
    ),
    Fault(
        'rise_from_the_lowest',
        what='A run is blamed for a loss above its lowest.',
        file=_REPORT + 'findings.py',
        old='first, when = losses[0],',
        new='first, when = min(losses) / 2,',
        tests=(f'{_TESTS}findings_test.py::test_good_runs_need_no_word',),
    ),
    Fault(
        'trials_are_methods',
        what='All trials of a search are shown as methods.',
        file=_REPORT + 'folder_data.py',
        old="    if entry is None or run.variant != entry['variant']:\n",
        new='    if entry is None:\n',
        tests=(
            f'{_TESTS}folder_data_test.py'
            '::test_of_a_search_only_what_was_chosen_is_a_method',
            f'{_TESTS}folder_data_test.py::test_another_variant_in_the_folder',
        ),
    ),
    Fault(
        'all_are_recommended',
        what='Every method of choice.csv is recommended.',
        file=_REPORT + 'folder_data.py',
        old="in ('1', 'true', 'yes')",
        new="in ('0', '1', 'true', 'yes')",
        tests=(f'{_TESTS}folder_data_test.py::test_the_choice',),
    ),
    Fault(
        'page_ticks_anywhere',
        what='Ticks of the page stand at rounds that nobody evaluated.',
        file=_PAGE + 'axes.js',
        old='  if (rounds.length <= count) return rounds;\n',
        new='  if (rounds.length <= count) return ticksOf(scale, count);\n',
        tests=(_BROWSER + 'test_axes',),
    ),
    Fault(
        'plot_validation_from_test',
        what='The dots of validation in plots are of test data.',
        file='tff_pers/evaluation/curve_plots.py',
        old='held_out = curves.common_rounds(members, validation)',
        new='held_out = curves.common_rounds(members, validation and name)',
        tests=(
            _CURVE_PLOTS + 'test_validation_is_drawn_beside_test_in_the_same'
            '_colour',
        ),
    ),
    Fault(
        'plot_ticks_anywhere',
        what='Plots tick rounds that nobody evaluated.',
        file='tff_pers/evaluation/figures.py',
        old='  if len(rounds) > _MAX_TICKS:\n',
        new='  if len(rounds) > 2:\n',
        tests=('tests/evaluation/figures_test.py::test_ticks_are_evaluated'
               '_rounds',),
    ),
    Fault(
        'divergence_stays',
        what='A run that goes on still has the sentence of its divergence.',
        file='tff_pers/evaluation/results.py',
        old='    os.remove(path)\n\n\ndef _read_diverged',
        new='    pass\n\n\ndef _read_diverged',
        tests=(
            'tests/evaluation/results_test.py'
            '::test_a_diverged_run_has_its_sentence_until_it_goes_on',
        ),
    ),
)
