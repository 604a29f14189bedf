"""Planted faults of readers of tables: what would be wrong in silence."""

from tests.mutants.faults import Fault

_COLUMNAR = 'tff_pers/data/columnar.py'
_FORMS = 'tff_pers/data/csv_forms.py'
_FILES = 'tff_pers/data/arrow_files.py'
_NEW = 'tff_pers/data/new_data.py'
_REMARKS = 'tff_pers/data/table_remarks.py'
_FORM = 'tests/data/table_forms_test.py::test_a_form_gives'
_LATER = 'tests/data/new_data_test.py::'
_AFTER = 'tests/binaries/after_training_test.py::'

FAULTS = (
    Fault(
        'seconds_that_are_alike',
        what='Times in seconds become float32 as they are.',
        file=_COLUMNAR,
        old='    return values - self._offsets[name]\n',
        new='    return values\n',
        tests=(f'{_FORM}[seconds since 1970]',),
    ),
    Fault(
        'offset_is_lost',
        what='The mean of a column is that of its differences.',
        file='tff_pers/data/features.py',
        old='float(moments.mean[number]) + column.offset,',
        new='float(moments.mean[number]),',
        tests=(
            'tests/data/table_forms_test.py'
            '::test_scaled_seconds_keep_their_differences',
        ),
    ),
    Fault(
        'offset_of_later_tables',
        what='A later table is scaled without the offsets of its columns.',
        file='tff_pers/data/features.py',
        old='x[rows, places].astype(np.float64) + offsets, codes',
        new='x[rows, places].astype(np.float64), codes',
        tests=(
            f'{_LATER}test_rows_like_those_of_training_need_no_remark',
            'tests/data/table_forms_test.py'
            '::test_scaled_seconds_keep_their_differences',
        ),
    ),
    Fault(
        'empty_y_is_zero',
        what='Rows without y train as if it were 0.',
        file='tff_pers/data/tables.py',
        old='  empty = np.flatnonzero(is_missing)\n  if not',
        new='  empty = np.flatnonzero(is_missing)[:0]\n  if not',
        tests=(f'{_FORM}[rows with y]', f'{_FORM}[empty y]'),
    ),
    Fault(
        'thousands_are_decimals',
        what='1.234,5 is 1.234 and a half thousandth.',
        file=_FILES,
        old="          compute.replace_substring(column, '.', ''), ',', '.'\n",
        new="          compute.replace_substring(column, '.', '.'), ',', ''\n",
        tests=(f'{_FORM}[points of thousands]',),
    ),
    Fault(
        'commas_of_thousands_are_decimals',
        what='"1,000" is 1.',
        file=_FORMS,
        old='      or not all(_THOUSANDS.fullmatch(cell) for cell in commas)\n',
        new='      or bool(commas)\n',
        tests=(f'{_FORM}[commas of thousands]',),
    ),
    Fault(
        'broken_utf_8_is_another_encoding',
        what='One broken byte makes other letters of all.',
        file=_FORMS,
        old='  if valid > 2 * invalid:\n',
        new='  if valid < 0:\n',
        tests=(f'{_FORM}[UTF-8 with a broken byte]',),
    ),
    Fault(
        'first_cut_is_taken',
        what='Commas in names cut a line with semicolons.',
        file=_FORMS,
        old='    return len(lines) < 2 or len(lines[1]) == width > 1, width\n',
        new='    return width\n',
        tests=(f'{_FORM}[semicolons and commas in names]',),
    ),
    Fault(
        'columns_by_place',
        what='Columns of a second file are taken in the order of the first.',
        file=_FILES,
        old='      places = [file.names.index(name) for name in self._files[0].names]',
        new='      places = range(len(file.names))',
        tests=(f'{_FORM}[files of another order]',),
    ),
    Fault(
        'splits_are_clients',
        what='train.csv and test.csv are two clients.',
        file=_FILES,
        old='    if self._clients and _PARTS.issuperset(',
        new='    if not self._clients and _PARTS.issuperset(',
        tests=(f'{_FORM}[files of a split]',),
    ),
    Fault(
        'typing_errors_are_categories',
        what='A typing error makes categories of a column of numbers.',
        file=_COLUMNAR,
        old='      if len(there) and np.mean(is_text) < 1 - _MOSTLY:',
        new='      if len(there) and np.mean(is_text) < 0:',
        tests=(f'{_FORM}[a typing error, one-hot]',),
    ),
    Fault(
        'spelling_in_silence',
        what='Names that differ in capitals are not named.',
        file=_REMARKS,
        old='.casefold().split())',
        new='.split())',
        tests=(f'{_FORM}[clients in capitals]', f'{_FORM}[classes in capitals]'),
    ),
    Fault(
        'identifiers_in_silence',
        what='A number that differs in every row is a feature like others.',
        file=_REMARKS,
        old='      and len(np.unique(values)) == len(values)\n',
        new='      and len(np.unique(values)) > len(values)\n',
        tests=(f'{_FORM}[identifiers]',),
    ),
    Fault(
        'codes_in_silence',
        what='Codes are numbers, and nobody is asked.',
        file=_REMARKS,
        old='      elif _are_codes(there):\n',
        new='      elif not len(there):\n',
        tests=(f'{_FORM}[codes]',),
    ),
    Fault(
        'days_and_months',
        what='31.01.2024 is read from the back.',
        file='tff_pers/data/cells.py',
        old="r'\\3-\\2-\\1'",
        new="r'\\3-\\1-\\2'",
        tests=(f'{_FORM}[dates of Germany]',),
    ),
    Fault(
        'test_examples_of_leaf_train',
        what='The examples of the folder train are held out.',
        file='tff_pers/data/leaf_tables.py',
        old='np.repeat([False, True], sizes)',
        new='np.repeat([True, False], sizes)',
        tests=(
            'tests/data/leaf_tables_test.py::test_folders_of_a_split_are_read',
        ),
    ),
    Fault(
        'classes_are_clients',
        what='The outer folder is the class of an image.',
        file='tff_pers/data/image_folders.py',
        old='  clients, classes, _ = map(',
        new='  classes, clients, _ = map(',
        tests=(
            'tests/data/image_folders_test.py'
            '::test_images_have_clients_and_classes_of_their_folders',
        ),
    ),
    Fault(
        'far_columns_in_silence',
        what='A column in other units is scaled as if nothing was.',
        file=_NEW,
        old="          moved.append(f'{feature.name} from",
        new="          gaps.append(f'{feature.name} from",
        tests=(f'{_LATER}test_what_is_not_as_in_training_is_said',),
    ),
    Fault(
        'deviations_of_one',
        what='How far is far does not depend on the training data.',
        file=_NEW,
        old='            _MOVED * feature.scale, 1e-6',
        new='            _MOVED, 1e-6',
        tests=(
            f'{_LATER}test_five_deviations_are_not_far',
            f'{_LATER}test_rows_like_those_of_training_need_no_remark',
        ),
    ),
    Fault(
        'gaps_in_silence',
        what='A gap in a column that had none is filled without a word.',
        file=_NEW,
        old='      if number and not feature.indicator:\n',
        new='      if number and feature.indicator:\n',
        tests=(f'{_LATER}test_what_is_not_as_in_training_is_said',),
    ),
    Fault(
        'other_rules_than_training',
        what='A later table is read by the default options.',
        file=_NEW,
        old='  options = {} if fitted is None else fitted.reading\n',
        new='  options = {}\n',
        tests=(f'{_LATER}test_dates_are_made_as_in_training',),
    ),
    Fault(
        'second_evaluation_over_the_first',
        what='An evaluation on other data writes over that before it.',
        file='tff_pers/experiments/resume_flags.py',
        old='      if not os.path.exists(path) or read(path) == given\n',
        new='      if given or os.path.exists(path)\n',
        tests=(
            f'{_AFTER}test_a_second_evaluation_has_a_folder_of_its_own',
        ),
    ),
    Fault(
        'tested_on_what_it_adapts_to',
        what='Who adapts is tested on the rows that it adapted to, too.',
        file='tff_pers/experiments/reload_run.py',
        old='      np.array_equal(a, b)\n',
        new='      np.shape(a) == np.shape(b)\n',
        tests=(f'{_AFTER}test_who_does_not_adapt_is_tested_on_all_rows',),
    ),
    Fault(
        'new_clients_have_the_model_of_another',
        what='Rows of a client that never trained are predicted by ann.',
        file='tff_pers/experiments/predictions.py',
        old='dict.fromkeys(strangers, path)',
        new='dict.fromkeys(strangers, list(known.values())[0])',
        tests=(
            _AFTER
            + 'test_new_clients_are_predicted_in_a_folder_of_their_own',
        ),
    ),
)
