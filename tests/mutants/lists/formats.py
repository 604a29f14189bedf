"""Planted faults of the readers of published data sets."""

from tests.mutants.faults import Fault

_FORMATS = 'tff_pers/data/formats'
_READERS = 'tests/data/formats/readers_test.py'
_FOUND = 'tests/data/formats/published_test.py'
_FETCHED = 'tests/data/formats/download_test.py'
_TEXTS = 'tests/data/formats/texts_test.py'
_TASK = 'tests/data/tasks/emnist_test.py'
_WRITTEN = (f'{_READERS}::test_records_are_those_that_were_written',)

FAULTS = (
    Fault(
        'rows_of_others',
        what='Without an index, rows between those of a client are its own.',
        file=f'{_FORMATS}/sqlite.py',
        old="""      ' WHERE client_id=? AND split_name=?'
  )""",
        new="""      ' WHERE (client_id=? OR 1) AND split_name=?'
  )""",
        tests=_WRITTEN,
    ),
    Fault(
        'rows_of_all_splits',
        what='Clients have the records of all splits of the file.',
        file=f'{_FORMATS}/sqlite.py',
        old=" AND split_name=?'\n  )",
        new=" AND (split_name=? OR 1)'\n  )",
        tests=_WRITTEN,
    ),
    Fault(
        'any_index_will_do',
        what='An index of other columns is taken for one of clients.',
        file=f'{_FORMATS}/sqlite.py',
        old="    if columns[:1] == ['client_id'] or",
        new="    if columns[:1] != ['client_id'] or",
        tests=(f'{_READERS}::test_clients_are_found_by_an_index',),
    ),
    Fault(
        'database_is_made',
        what='Reading a file that is not there makes an empty one.',
        file=f'{_FORMATS}/sqlite.py',
        old='?mode=ro',
        new='?mode=rwc',
        tests=(f'{_READERS}::test_reading_makes_no_database',),
    ),
    Fault(
        'clients_in_order_of_the_file',
        what='Clients are not sorted by their names.',
        file=f'{_FORMATS}/records.py',
        old='clients = sorted(sizes)',
        new='clients = list(sizes)[::-1]',
        tests=_WRITTEN,
    ),
    Fault(
        'other_encodings_pass',
        what='Bytes that are not UTF-8 are left out of the text.',
        file=f'{_FORMATS}/records.py',
        old="value.decode('utf-8')",
        new="value.decode('utf-8', 'ignore')",
        tests=(f'{_READERS}::test_text_that_is_not_utf8_is_named',),
    ),
    Fault(
        'leaf_counts_unread',
        what='Users of LEAF may have fewer examples than the file says.',
        file=f'{_FORMATS}/leaf.py',
        old='    if sizes != [expected, expected]:',
        new='    if sizes[0] != sizes[1]:',
        tests=(f'{_READERS}::test_bad_files_of_leaf_are_named',),
    ),
    Fault(
        'rest_written_over',
        what='The result of an earlier attempt is overwritten by the rest.',
        file=f'{_FORMATS}/download.py',
        old="'ab' if done else 'wb'",
        new="'wb'",
        tests=(f'{_FETCHED}::test_what_was_cut_short_goes_on',),
    ),
    Fault(
        'whole_file_appended',
        what='A whole file that is sent again goes behind what there is.',
        file=f'{_FORMATS}/download.py',
        old='    if answer.status != 206:',
        new='    if answer.status == 206:',
        tests=(f'{_FETCHED}::test_what_was_cut_short_goes_on',),
    ),
    Fault(
        'cut_short_is_whole',
        what='A download that is cut short counts as the whole file.',
        file=f'{_FORMATS}/download.py',
        old='  if total is not None and size < total:',
        new='  if total is not None and size < 0:',
        tests=(f'{_FETCHED}::test_what_was_cut_short_goes_on',),
    ),
    Fault(
        'sum_not_compared',
        what='Any file is what the server sent.',
        file=f'{_FORMATS}/download.py',
        old='  if found.hexdigest() != expected:',
        new='  if not found.hexdigest():',
        tests=(f'{_FETCHED}::test_a_wrong_sum_is_named_and_the_file_removed',),
    ),
    Fault(
        'damaged_file_left',
        what='Half a file that is unpacked is taken for the whole later.',
        file=f'{_FORMATS}/download.py',
        old="  part = f'{target}.part'",
        new='  part = target',
        tests=(
            f'{_FETCHED}::test_a_file_is_fetched_once_and_unpacked',
            f'{_FETCHED}::test_a_damaged_file_leaves_nothing_that_looks_whole',
        ),
    ),
    Fault(
        'all_fetch_at_once',
        what='Nobody waits for another who fetches the same file.',
        file=f'{_FORMATS}/download.py',
        old='    with locks.held(folder):\n      yield',
        new='    yield',
        tests=(
            f'{_FETCHED}::test_of_several_one_fetches_and_the_others_wait',
        ),
    ),
    Fault(
        'those_who_waited_fetch_again',
        what='Who has waited for another fetches what that one has fetched.',
        file=f'{_FORMATS}/download.py',
        old='      if os.path.exists(target):\n        return target',
        new='      pass',
        tests=(
            f'{_FETCHED}::test_of_several_one_fetches_and_the_others_wait',
        ),
    ),
    Fault(
        'file_of_another_form_stays_open',
        what='A file that is of another form is not closed.',
        file=f'{_FORMATS}/hdf5.py',
        old='until_read.enter_context(h5py.File(path, \'r\'))',
        new='h5py.File(path, \'r\')',
        tests=(f'{_READERS}::test_a_file_of_another_form_is_closed',),
    ),
    Fault(
        'clients_by_position',
        what='The test data of a client are those of another one.',
        file=f'{_FORMATS}/clients.py',
        old='[places[name] for name in names]',
        new='range(len(names))',
        tests=(f'{_FOUND}::test_clients_are_matched_by_name',),
    ),
    Fault(
        'enough_in_one_part',
        what='Clients are kept that have enough records in one part.',
        file=f'{_FORMATS}/clients.py',
        old='kept & names',
        new='kept | names',
        tests=(
            f'{_FOUND}::test_clients_with_enough_in_both_parts_are_kept',
        ),
    ),
    Fault(
        'published_paper_is_one',
        what='Ink is 0 and paper is 1, as in the files of TFF.',
        file=f'{_FORMATS}/emnist.py',
        old='return 1 - pixels[..., None], y',
        new='return pixels[..., None], y',
        tests=(f'{_FOUND}::test_ink_is_one_and_labels_are_checked',),
    ),
    Fault(
        'papers_filter_of_the_sample',
        what='Writers of the whole release need 10 test images, not 25.',
        file='tff_pers/data/tasks/emnist.py',
        old='options.fewest(_FEWEST))),',
        new='options.fewest(_FEWEST_SAMPLE))),',
        tests=(
            f'{_TASK}::test_published_writers_are_tested_on_25_images_as_in_'
            'the_papers',
        ),
    ),
    Fault(
        'letters_among_digits',
        what='Letters of the sample stay where digits are asked for.',
        file='tff_pers/data/tasks/emnist.py',
        old='images.y < options.num_classes',
        new='images.y >= 0',
        tests=(f'{_TASK}::test_digits_have_ten_classes',),
    ),
    Fault(
        'tested_texts_are_trained_on',
        what='Texts of the test part are trained on.',
        file=f'{_FORMATS}/texts.py',
        old='[part == published.TEST] * len(own)',
        new='[False] * len(own)',
        tests=(f'{_TEXTS}::test_plays_of_tff_keep_their_split',),
    ),
    Fault(
        'windows_run_on',
        what='Windows of LEAF that do not fit are one text.',
        file=f'{_FORMATS}/texts.py',
        old='      if window == expected:',
        new='      if found:',
        tests=(f'{_TEXTS}::test_plays_of_leaf_are_put_together',),
    ),
    Fault(
        'every_window_a_text',
        what='Every window of LEAF is a text of its own.',
        file=f'{_FORMATS}/texts.py',
        old='      if window == expected:',
        new='      if window is None:',
        tests=(f'{_TEXTS}::test_plays_of_leaf_are_put_together',),
    ),
    Fault(
        'users_with_few_posts',
        what='Users with few test posts take part.',
        file=f'{_FORMATS}/texts.py',
        old='dict(zip((published.TRAIN, published.TEST), minima))',
        new='dict(zip((published.TRAIN,), minima))',
        tests=(
            f'{_TEXTS}::test_posts_are_those_of_users_with_enough_of_them',
        ),
    ),
    Fault(
        'counts_in_alphabetical_order',
        what='Words are in the order of the file.',
        file=f'{_FORMATS}/texts.py',
        old='return sorted(counts, key=lambda entry: -counts[entry])',
        new='return sorted(counts)',
        tests=(f'{_TEXTS}::test_counts_of_tff_are_taken_where_they_are',),
    ),
    Fault(
        'folder_made_in_vain',
        what='An address that does not answer leaves an empty folder.',
        file=f'{_FORMATS}/download.py',
        old='        os.rmdir(folder)',
        new='        pass',
        tests=(f'{_FETCHED}::test_an_address_that_does_not_answer_is_named',),
    ),
)
