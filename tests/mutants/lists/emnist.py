"""Planted faults of the task `emnist`."""

from tests.mutants.faults import Fault

_READER = 'tff_pers/data/emnist.py'
_TASK = 'tff_pers/data/tasks/emnist.py'
_TEST = 'tests/data/tasks/emnist_test.py'
_KEPT = (f'{_TEST}::test_writers_with_enough_images_are_kept',)
_SPLIT = (f'{_TEST}::test_clients_are_writers_with_the_split_of_the_file',)
_DRAWN = (f'{_TEST}::test_train_fraction_draws_a_split_instead',)

FAULTS = (
    Fault(
        'copies_are_kept',
        what='Exact copies stay, some of them trained and tested on.',
        file=_READER,
        old="    kept = arrays['duplicate'] == 0",
        new="    kept = arrays['duplicate'] >= 0",
        tests=(f'{_TEST}::test_exact_copies_are_left_out',),
    ),
    Fault(
        'split_of_the_file_ignored',
        what='The split of the files is unknown, so that one is drawn.',
        file=_READER,
        old="split = arrays['split'].astype(np.int8)",
        new='pass',
        tests=_SPLIT,
    ),
    Fault(
        'train_and_test_exchanged',
        what='Clients train on the test images and are tested on the others.',
        file=_READER,
        old='TRAIN, TEST, UNKNOWN = 0, 1, -1',
        new='TRAIN, TEST, UNKNOWN = 1, 0, -1',
        tests=_SPLIT,
    ),
    Fault(
        'paper_is_one',
        what='Ink is 0 and paper is 1, as in the files.',
        file=_TASK,
        old='(255 - images.x[..., None])',
        new='images.x[..., None]',
        tests=(f'{_TEST}::test_ink_is_one_and_paper_zero',),
    ),
    Fault(
        'standardized_over_clients_that_never_train',
        what='Pixels are standardized over all clients.',
        file='tff_pers/data/fitting.py',
        old='      if client not in held_out',
        new='',
        tests=(
            f'{_TEST}::test_standardized_pixels_are_so_over_what_is_trained_on',
        ),
    ),
    Fault(
        'pixels_as_they_are',
        what='Pixels are ink whatever was asked for.',
        file=_TASK,
        old="recipe=_STANDARDIZED if options.pixels == 'standardized' else None",
        new='recipe=None',
        tests=(
            f'{_TEST}::test_standardized_pixels_are_so_over_what_is_trained_on',
        ),
    ),
    Fault(
        'digits_need_as_many_images',
        what='Writers of digits need as many images as those of all characters.',
        file=_TASK,
        old="_FEWEST_DIGITS if self.characters == 'digits' else usual",
        new='usual',
        tests=(f'{_TEST}::test_of_digits_fewer_images_are_enough',),
    ),
    Fault(
        'fewest_test_images_ignored',
        what='Writers with few test images are kept.',
        file=_TASK,
        old=' & (test >= min_test)',
        new='',
        tests=_KEPT,
    ),
    Fault(
        'undivided_writers_by_training_images',
        what='Partial writers are kept with training images enough alone.',
        file=_TASK,
        old='undivided >= min_train + min_test',
        new='undivided >= min_train',
        tests=_KEPT,
    ),
    Fault(
        'partial_writers_train_on_everything',
        what='Partial writers get no test images of their own.',
        file=_TASK,
        old='    is_test[own[split.test]] = True',
        new='    is_test[own[split.test]] = False',
        tests=_KEPT,
    ),
    Fault(
        'train_fraction_ignored',
        what='The split of the files is kept, whatever --train_fraction.',
        file=_TASK,
        old=" == 'by_client' and not request.train_fraction",
        new=" == 'by_client'",
        tests=_DRAWN,
    ),
    Fault(
        'everybody_takes_part',
        what='All writers take part in every round.',
        file=_TASK,
        old='clients_per_round=DECLARATION.cohort(num_clients)',
        new='clients_per_round=0',
        tests=(
            f'{_TEST}::test_ten_take_part_in_a_round_where_there_are_more',
        ),
    ),
)
