"""Planted faults of what comes after training: forks, exports, predictions."""

from tests.mutants.faults import Fault

_AFTER = 'tests/binaries/after_training_test.py::'
_EXPORT = 'tests/models/export_test.py::'
_ALONE = 'tests/binaries/one_writer_test.py::'
_CELLS = (
    'tests/core/files_test.py'
    '::test_no_spreadsheet_takes_a_text_for_a_formula'
)
_ROUNDS = _AFTER + 'test_more_rounds_are_those_of_an_uninterrupted_run'
_FORK = _AFTER + 'test_a_fork_starts_where_the_run_is'
_NEW = _AFTER + 'test_new_clients_are_adapted_evaluated_exported'
_SERVED = 'tests/data/serving_test.py'

FAULTS = (
    Fault(
        'finished_for_ever',
        what='A finished run does not go on for more rounds.',
        file='tff_pers/experiments/continuing.py',
        old='      states.set_position(position._replace(finished=False)._asdict())',
        new='      states.set_position(position._asdict())',
        tests=(_ROUNDS,),
    ),
    Fault(
        'old_number_of_rounds',
        what='config.json keeps the rounds that a run was first asked for.',
        file='tff_pers/experiments/continuing.py',
        old="      part: {**saved[part], name: config['flags'][name]}",
        new='      part: dict(saved[part])',
        tests=(_ROUNDS,),
    ),
    Fault(
        'fork_of_other_data',
        what='A fork may deal the data in another way, and test on what trained.',
        file='tff_pers/experiments/continuing.py',
        old="""    before = saved['flags'].get(name)
    if name in given and given[name] != before:""",
        new="""    before = saved['flags'].get(name)
    if name in given and not given:""",
        tests=(_FORK,),
    ),
    Fault(
        'fork_of_another_method',
        what='The state of one method is taken for that of another.',
        file='tff_pers/experiments/continuing.py',
        old='  if experiment.method.name != method:',
        new='  if not experiment.method.name:',
        tests=(_FORK,),
    ),
    Fault(
        'fork_with_old_flags',
        what='The flags of the source win over those that are given.',
        file='tff_pers/experiments/continuing.py',
        old="""
      **{k: v for k, v in saved['given'].items() if k not in own}, **given
""",
        new="""
      **given, **{k: v for k, v in saved['given'].items() if k not in own}
""",
        tests=(_FORK,),
    ),
    Fault(
        'tip_to_a_spoiled_checkpoint',
        what='After a divergence the tip names a checkpoint that has grown.',
        file='tff_pers/experiments/runner.py',
        old='  if losses and not losses[-1] <= first:',
        new='  if not losses:',
        tests=(_AFTER + 'test_the_tip_after_a_divergence_works',),
    ),
    Fault(
        'new_client_tested_on_all_rows',
        what='A new client is tested on the rows that it adapts to, too.',
        file='tff_pers/experiments/reload_run.py',
        old='    return rows[~is_test], rows[is_test]',
        new='    return rows[~is_test], rows',
        tests=(_NEW,),
    ),
    Fault(
        'known_client_as_new',
        what='A client that trained adapts as if it had not.',
        file='tff_pers/experiments/reload_run.py',
        old='    if name in trained:\n',
        new='    if name not in names:\n',
        tests=(_NEW,),
    ),
    Fault(
        'seen_for_all',
        what='New clients count as clients that trained.',
        file='tff_pers/experiments/reload_run.py',
        old='      dict(row, seen=int(seen)) for row, seen in zip(found, opened.seen)',
        new='      dict(row) for row, seen in zip(found, opened.seen)',
        tests=(_NEW,),
    ),
    Fault(
        'one_model_for_all_rows',
        what='All rows are predicted by the model of the first.',
        file='tff_pers/experiments/predictions.py',
        old='    model = _load(known[name])',
        new='    model = _load(known[owners[0]])',
        tests=(
            _AFTER
            + 'test_each_row_has_the_model_of_its_client_unless_one_is_named',
        ),
    ),
    Fault(
        'probabilities_without_exponentials',
        what='Logits are written as probabilities.',
        file='tff_pers/experiments/predictions.py',
        old='  shifted = np.exp(output - output.max(), dtype=np.float64)',
        new='  shifted = output - output.max() + 1',
        tests=(_NEW,),
    ),
    Fault(
        'export_of_the_wrong_client',
        what='A file holds the weights of another client.',
        file='tff_pers/experiments/exports.py',
        old='      {names[c]: weights[c] for c in clients},\n      files',
        new='      {names[c]: weights[everybody[-1]] for c in clients},\n      files',
        tests=(
            _AFTER + 'test_exported_models_have_the_results_of_the_run',
        ),
    ),
    Fault(
        'export_before_adapting',
        what='The exported model is not the one that is evaluated.',
        file='tff_pers/models/export.py',
        old='      tf.Variable(leaf, name=_name(name)) for name, leaf in named.items()',
        new='      tf.Variable(0.9 * leaf, name=_name(name)) for name, leaf in named.items()',
        tests=(
            _EXPORT
            + 'test_predictions_are_those_that_are_evaluated[fedavg_finetuned]',
        ),
    ),
    Fault(
        'two_writers',
        what='Two processes write to one folder.',
        file='tff_pers/experiments/folders.py',
        old='      if self._lock is None:\n        raise',
        new='      if self._lock is path:\n        raise',
        tests=(_ALONE + 'test_a_folder_is_held_once_and_let_go',),
    ),
    Fault(
        'empty_folders_stay',
        what='A run that could not start leaves folders behind.',
        file='tff_pers/experiments/folders.py',
        old='      for path in self._made:',
        new='      for path in ():',
        tests=(_ALONE + 'test_an_empty_folder_that_was_made_is_taken_away',),
    ),
    Fault(
        'sub_model_by_its_graph',
        what='The tier of exported weights is found while the model runs.',
        file='tff_pers/models/submodels.py',
        old='    if None not in sizes:\n',
        new='    if not sizes:\n',
        tests=(
            _EXPORT + 'test_predictions_are_those_that_are_evaluated[heterofl]',
        ),
    ),
    Fault(
        'factors_for_weights',
        what='Factors are not multiplied before they go back to Keras.',
        file='tff_pers/models/export.py',
        old='  if model is not None and model.to_base is not None:',
        new='  if model is not None and model.to_base is None:',
        tests=(
            _EXPORT + 'test_a_client_of_a_keras_model_is_a_keras_model[fedhm]',
        ),
    ),
    Fault(
        'tip_of_adaptors_for_several_models',
        what='Who has several models is told to merge adaptors.',
        file='tff_pers/models/export.py',
        old='{*shapes, *(shape[1:] for shape in shapes)}',
        new='set(shapes)',
        tests=(_EXPORT + 'test_raises_on_the_weights_of_several_models',),
    ),
    Fault(
        'unknown_categories_in_silence',
        what='`evaluate` does not say which categories training had not.',
        file='tff_pers/experiments/reload_run.py',
        old='  for remark in table.remarks:',
        new='  for remark in ():',
        tests=(_AFTER + 'test_categories_that_training_had_not_are_named',),
    ),
    Fault(
        'rows_of_known_categories',
        what='A category that training had is named as one that it had not.',
        file='tff_pers/data/new_data.py',
        old='in counts if number and text not in known',
        new='in counts if number',
        tests=(_AFTER + 'test_categories_that_training_had_not_are_named',),
    ),
    Fault(
        'two_writers_of_a_table',
        what='Two processes of `robustness` write to one folder.',
        file='tff_pers/experiments/robustness_table.py',
        old='    lock = folders.FolderLock(top)\n',
        new="    lock = folders.FolderLock(top + '_lock')\n",
        tests=(_ALONE + 'test_the_second_program_ends_with_a_sentence',),
    ),
    Fault(
        'written_in_place',
        what='A file of results that is being written is half a file.',
        file='tff_pers/core/files.py',
        old="  temporary = path + '_temp'\n",
        new='  temporary = path\n',
        tests=(
            'tests/core/files_test.py'
            '::test_a_file_is_what_it_was_until_it_is_whole',
        ),
    ),
    Fault(
        'formulas_in_tables',
        what='A client named like a formula is one in a spreadsheet.',
        file='tff_pers/evaluation/results.py',
        old='files.to_cell(row[name]) for name in row',
        new='row[name] for name in row',
        tests=(_CELLS,),
    ),
    Fault(
        'marked_class_of_numbers',
        what='The class -1 is marked as a text.',
        file='tff_pers/core/files.py',
        old='  return value if _NUMBER.fullmatch(value) else',
        new='  return value if not value else',
        tests=(_CELLS,),
    ),
    Fault(
        'marks_stay',
        what='Our own readers take the mark for a part of the name.',
        file='tff_pers/evaluation/damaged.py',
        old='      found.append({name: files.from_cell(row[name]) for name in names})',
        new='      found.append(row)',
        tests=(_CELLS,),
    ),
    Fault(
        'metrics_like_formulas',
        what='A metric named like a formula is one in a spreadsheet.',
        file='tff_pers/simulation/release.py',
        old='{files.to_cell(k): value for k, value in cells.items()}',
        new='cells',
        tests=(
            'tests/simulation/release_test.py'
            '::test_names_of_metrics_are_no_formulas',
        ),
    ),
    Fault(
        'a_line_of_deleted_variables',
        what='The page loads a model in a line that drops its variables.',
        file='docs/after_training.md',
        old='`model = tf.saved_model.load(path)`, then `answers = model.score(columns)`',
        new='`tf.saved_model.load(path).score(columns)`',
        tests=('tests/docs_test.py::test_every_python_snippet_runs',),
    ),
    Fault(
        'a_flag_that_no_program_has',
        what='A command of the documentation has a flag that is gone.',
        file='docs/after_training.md',
        old='--output=both.html',
        new='--page=both.html',
        tests=('tests/docs_test.py::test_every_command_is_one',),
    ),
    Fault(
        'served_gaps_are_nan',
        what='An exported model does not fill gaps.',
        file='tff_pers/data/serving.py',
        old='      column = tf.where(missing, mean, column)\n',
        new='',
        tests=(f'{_SERVED}::test_cells_become_what_the_model_takes',),
    ),
    Fault(
        'served_dates_are_a_day_late',
        what='Days of an exported model begin on the second of January 1970.',
        file='tff_pers/data/serving.py',
        old='+ day - 719469',
        new='+ day - 719470',
        tests=(f'{_SERVED}::test_cells_become_what_the_model_takes',),
    ),
    Fault(
        'served_label_is_of_the_first_class',
        what='Probabilities of one logit are in the order of no file.',
        file='tff_pers/data/serving.py',
        old='    outputs = tf.stack([first, second], 1)\n',
        new='    outputs = tf.stack([second, first], 1)\n',
        tests=(f'{_SERVED}::test_answers_are_names_and_probabilities',),
    ),
    Fault(
        'predictions_without_units',
        what='Regression predicts scaled y.',
        file='tff_pers/models/target_units.py',
        old='    return tf.constant(mean, scaled.dtype) + scale * scaled\n',
        new='    return scaled\n',
        tests=('tests/models/target_units_test.py::test_only_units_differ',),
    ),
    Fault(
        'regression_at_any_curvature',
        what='A client whose features are large diverges at the default rate.',
        file='tff_pers/data/fitting.py',
        old='  return max(1.0, round(math.ceil(scale / digit) * digit, 10))\n',
        new='  return 1.0\n',
        tests=(
            'tests/data/fitting_test.py'
            '::test_default_rates_are_safe_where_a_rare_column_is_constant',
        ),
    ),
    Fault(
        'scale_of_held_out_targets',
        what='Targets of all clients decide on the scale of y.',
        file='tff_pers/data/fitting.py',
        old="[examples['y'] for examples in rows]",
        new="[data['examples']['y'] for data in task.train]",
        tests=(
            'tests/data/fitting_test.py'
            '::test_targets_are_scaled_by_training_rows_alone',
        ),
    ),
    Fault(
        'old_runs_of_unscaled_y_go_on',
        what='Weights for y as it is are taken for those of scaled y.',
        file='tff_pers/experiments/continuing.py',
        old="  if (saved.get('y_is_scaled', False), saved.get('x_scale', 1.0)) != (",
        new='  if (0, 0) == (',
        tests=(
            'tests/binaries/after_training_test.py'
            '::test_runs_of_other_scales_are_not_gone_on_with',
        ),
    ),
    Fault(
        'reading_makes_tables',
        what='Who only reads a checkpoint writes to it.',
        file='tff_pers/simulation/store.py',
        old='      if not read_only or not self._open_to_read():',
        new='      if True:',
        tests=('tests/simulation/store_test.py::test_reading_writes_nothing',),
    ),
    Fault(
        'nan_of_y_is_a_target',
        what='Rows of an .npz without y stop the program.',
        file='tff_pers/data/tables.py',
        old="  if table.y.ndim == 1 and table.y.dtype.kind == 'f':",
        new='  if False:',
        tests=(
            'tests/data/tasks/own_data_test.py'
            '::test_rows_of_an_npz_without_y_are_left_out_and_counted',
        ),
    ),
)
