"""Planted faults of what y is taken for, and of metrics beside accuracy."""

from tests.mutants.faults import Fault

_OWN, _OWN_TEST = (
    'tff_pers/data/tasks/own_data.py', 'tests/data/tasks/own_data_test.py::'
)
_SPLITS_TEST = (
    _OWN_TEST
    + 'test_names_and_order_of_clients_do_not_decide_who_is_tested'
)
_QUALITY, _QUALITY_TEST = (
    'tff_pers/evaluation/quality.py', 'tests/evaluation/quality_test.py::'
)
_RARE_TEST = 'tests/binaries/rare_outcome_test.py::'

FAULTS = (
    Fault(
        'names_of_labels_are_lost',
        what='Labels 1 to 3 are called 0 to 2 in tables and predictions.',
        file=_OWN,
        old='return (*labels, None if names == usual else names)',
        new='return (*labels, None)',
        tests=(_OWN_TEST + 'test_what_y_is_taken_for',),
    ),
    Fault(
        'many_whole_numbers_are_labels',
        what='A count of hundreds of values is classified.',
        file=_OWN,
        old='      and (table.spelling is not None or options.num_classes > 0)',
        new='',
        tests=(_OWN_TEST + 'test_many_whole_numbers_are_a_quantity',),
    ),
    Fault(
        'rows_of_others_after_small_clients',
        what='With a small client left out, test rows are those of others.',
        file='tff_pers/data/tables.py',
        old='x=pick(self.x), y=pick(self.y),',
        new='x=self.x[:len(rows)], y=pick(self.y),',
        tests=(
            _OWN_TEST
            + 'test_clients_with_too_few_rows_are_left_out_and_counted',
        ),
    ),
    Fault(
        'splits_hang_on_the_order_of_clients',
        what='With other names of clients other rows are tested.',
        file='tff_pers/data/tasks/assembly.py',
        old='if examples.row_keys is not None:',
        new='if False:',
        tests=(_SPLITS_TEST,),
    ),
    Fault(
        'numbers_of_texts_split_rows',
        what='Where texts come in another order, other rows are tested.',
        file=_OWN,
        old='_of_texts(values, column.categories).astype(np.float32)',
        new='values.astype(np.float32)',
        tests=(_SPLITS_TEST,),
    ),
    Fault(
        'places_of_clients_hold_them_out',
        what='With other names of clients others are held out.',
        file='tff_pers/data/holdout.py',
        old='  if keys is not None:\n',
        new='  if False:\n',
        tests=(_SPLITS_TEST,),
    ),
    Fault(
        'first_rows_validate',
        what='Of a file sorted by time the earliest rows are validated on.',
        file='tff_pers/data/tasks/assembly.py',
        old='np.arange(len(split.train))[::-1]',
        new='np.arange(len(split.train))',
        tests=(_SPLITS_TEST,),
    ),
    Fault(
        'old_splits_go_on',
        what='A run that was split otherwise is tested on what it trained on.',
        file='tff_pers/experiments/continuing.py',
        old="if saved.get('splits', '') != config['splits']:",
        new='if False:',
        tests=(
            'tests/binaries/own_data_test.py'
            '::test_a_run_that_was_split_otherwise_does_not_go_on',
        ),
    ),
    Fault(
        'labels_of_later_tables_are_mixed_up',
        what='evaluate takes the labels 10, 2, 9 in the order of numbers.',
        file='tff_pers/data/new_data.py',
        old='return order[places].astype(np.int32)',
        new='return places.astype(np.int32)',
        tests=('tests/data/new_data_test.py::test_labels_are_those_of_training',),
    ),
    Fault(
        'auc_of_the_first_class',
        what='AUC of two classes is that of the wrong one.',
        file=_QUALITY,
        old='roc_auc_score(found.y, probabilities[:, 1])',
        new='roc_auc_score(found.y, probabilities[:, 0])',
        tests=(_QUALITY_TEST + 'test_two_classes_by_hand',),
    ),
    Fault(
        'recall_of_classes_that_are_not_there',
        what='A client of one class has half its balanced accuracy.',
        file=_QUALITY,
        old='there = np.unique(found.y)',
        new='there = np.arange(found.outputs.shape[1])',
        tests=(
            _QUALITY_TEST
            + 'test_a_client_of_one_class_has_no_auc_and_does_not_count',
        ),
    ),
    Fault(
        'rare_outcomes_by_accuracy',
        what='--rounds=auto stops on the constant answer.',
        file='tff_pers/experiments/auto_rounds.py',
        old='min(counts) >= _RARE * sum(counts)',
        new='min(counts) >= 0',
        tests=(_RARE_TEST + 'test_rounds_end_by_auc',),
    ),
    Fault(
        'metric_of_test_data',
        what='What validation data choose by is measured on test data.',
        file='tff_pers/simulation/program.py',
        old='parts = dict(mean=test, validation=held_out)',
        new='parts = dict(mean=held_out, validation=test)',
        tests=(_RARE_TEST + 'test_rounds_end_by_auc',),
    ),
    Fault(
        'pages_by_accuracy',
        what='Pages sort and draw by accuracy, whatever was chosen by.',
        file='tff_pers/evaluation/report/members.py',
        old="metric for metric in (*asked[:1], 'accuracy')",
        new="metric for metric in ('accuracy',)",
        tests=(_RARE_TEST + 'test_choose_ranks_by_auc',),
    ),
    Fault(
        'any_command_goes_on',
        what='A command with other flags trains on in the folder of a run.',
        file='tff_pers/experiments/runner.py',
        old='if not resume and not experiment_lib.is_same_command(given, saved):',
        new='if False:',
        tests=(
            'tests/binaries/usage_test.py'
            '::test_a_folder_that_holds_another_run_needs_resume',
        ),
    ),
)
