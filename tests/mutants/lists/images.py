"""Planted faults of augmented images and of the partition `pachinko`."""

from tests.mutants.faults import Fault

_MODEL = 'tff_pers/models/augmented.py'
_PARTITION = 'tff_pers/data/pachinko.py'
_TEST = 'tests/models/augmented_test.py'
_DEALT = 'tests/data/partition_test.py'
_TASK = 'tests/data/tasks/cifar_test.py'
_WINDOW = (f'{_TEST}::test_every_example_is_a_window_of_its_own_image',)

FAULTS = (
    Fault(
        'one_draw_for_a_batch',
        what='All images of a batch are shifted alike.',
        file=_MODEL,
        old='[size, 1], random',
        new='[1, 1], random',
        tests=_WINDOW,
    ),
    Fault(
        'one_flip_for_a_batch',
        what='All images of a batch are flipped, or none.',
        file=_MODEL,
        old='[tf.shape(x)[0], 1, 1, 1], random',
        new='[1, 1, 1, 1], random',
        tests=_WINDOW,
    ),
    Fault(
        'flipped_upside_down',
        what='Images are flipped from top to bottom.',
        file=_MODEL,
        old='x[:, :, ::-1]',
        new='x[:, ::-1]',
        tests=_WINDOW,
    ),
    Fault(
        'rows_and_columns_alike',
        what='Images are shifted along the diagonal alone.',
        file=_MODEL,
        old='_FLIP, _ROWS, _COLUMNS = -1, -2, -3',
        new='_FLIP, _ROWS, _COLUMNS = -1, -2, -2',
        tests=_WINDOW,
    ),
    Fault(
        'grey_frame',
        what='The frame is 0, the mean colour, not black.',
        file=_MODEL,
        old='_flip(x, seed) - black, frame) + black',
        new='_flip(x, seed), frame)',
        tests=_WINDOW,
    ),
    Fault(
        'last_places_never',
        what='No window is at the right or at the bottom.',
        file=_MODEL,
        old='room - extent + 1, tf.int32',
        new='room - extent, tf.int32',
        tests=(f'{_TEST}::test_windows_of_training_are_anywhere',),
    ),
    Fault(
        'random_tests',
        what='Test images are flipped and shifted, too.',
        file=_MODEL,
        old='seen = train(x, seed) if training else test(x)',
        new='seen = train(x, seed)',
        tests=(f'{_TEST}::test_nothing_is_changed_outside_of_training',),
    ),
    Fault(
        'corner_in_tests',
        what='The window of a test image is in its corner.',
        file=_MODEL,
        old='top, left = (height - size) // 2, (width - size) // 2',
        new='top, left = 0, 0',
        tests=(
            f'{_TEST}::test_windows_are_standardized_and_in_the_middle_in_tests',
        ),
    ),
    Fault(
        'narrower_models_see_all',
        what='Narrower models of devices see images as they are.',
        file=_MODEL,
        old="""      lambda width, rounding='round': _wrap(
          model.slim(width, rounding), x_spec, train, test
      )""",
        new="""      lambda width, rounding='round': model.slim(width, rounding)""",
        tests=(f'{_TEST}::test_gradients_and_narrower_models_see_it_too',),
    ),
    Fault(
        'augment_without_effect',
        what='The flag changes nothing.',
        file='tff_pers/data/tasks/cifar.py',
        old="  if augment == 'flip_crop':",
        new="  if augment == 'flip':",
        tests=(f'{_TASK}::test_models_see_what_the_flag_says',),
    ),
    Fault(
        'alpha_of_classes',
        what='Coarse classes are drawn as equally as classes.',
        file=_PARTITION,
        old='np.full(_NUM_COARSE, options.alpha)',
        new='np.full(_NUM_COARSE, options.beta)',
        tests=(
            f'{_DEALT}::test_pachinko_is_as_unequal_as_asked_for',
        ),
    ),
    Fault(
        'classes_without_weights',
        what='All classes of a coarse one are drawn alike.',
        file=_PARTITION,
        old='_draw(theta_of[coarse], of_class, rng)',
        new='_draw(np.ones(5), of_class, rng)',
        tests=(f'{_DEALT}::test_pachinko_is_as_unequal_as_asked_for',),
    ),
    Fault(
        'empty_classes_are_drawn',
        what='Classes without examples stay.',
        file=_PARTITION,
        old='      some[y] = bool(left[y])\n',
        new='',
        tests=(f'{_DEALT}::test_pachinko_deals_out_all_examples_equally',),
    ),
    Fault(
        'test_clients_train',
        what='Images of clients that only test are trained on.',
        file='tff_pers/data/tasks/cifar.py',
        old='for part in (published.TRAIN, published.TEST)\n    )\n    train',
        new='for part in (published.TEST, published.TRAIN)\n    )\n    train',
        tests=(f'{_TASK}::test_cifar100_by_client_has_the_clients_of_tff',),
    ),
)
