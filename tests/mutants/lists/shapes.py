"""Planted faults of how the fused runtime reads fields and shapes."""

from tests.mutants.faults import Fault

_VALUES = 'tff_pers/runtime/fused/values'
_PYTHON_VALUES = f'{_VALUES}/python_values.py'
_ARGUMENTS = f'{_VALUES}/arguments.py'
_PACKING = f'{_VALUES}/packing.py'
_COMPILED = 'tff_pers/runtime/fused/compiled.py'
_CHOOSING_TEST = 'tests/runtime/choosing_test.py'
_CONTAINERS_TEST = 'tests/conformance/containers_test.py'
_SHAPES_TEST = 'tests/runtime/shapes_test.py'

FAULTS = (
    Fault(
        'elements_by_position',
        what='Fields of an element are taken in the order of its dictionary.',
        file=_PYTHON_VALUES,
        old='return [element[name] for name in names]',
        new='return list(element.values())',
        tests=(f'{_CONTAINERS_TEST}::test_names_of_elements_count',),
    ),
    Fault(
        'elements_of_any_names',
        what='An element may have other names than its type.',
        file=_PYTHON_VALUES,
        old='element.keys() == keys',
        new='len(element) == len(keys)',
        tests=(f'{_CONTAINERS_TEST}::test_names_of_elements_count',),
    ),
    Fault(
        'names_of_arguments_do_not_count',
        what='A `Struct` as the argument may have other names than its type.',
        file=_PYTHON_VALUES,
        old='if is_struct and len(names) == len(part) and any(',
        new='if False and any(',
        tests=(f'{_CONTAINERS_TEST}::test_containers[sorted-unplaced]',),
    ),
    Fault(
        'leaves_of_elements_as_arguments',
        what='An int is no float in an element, as it is none in an argument.',
        file=_PYTHON_VALUES,
        old='  kinds = set(map(type, column))\n',
        new=(
            '  column = [as_array(value, tensor_type) for value in column]\n'
            '  kinds = set(map(type, column))\n'
        ),
        tests=(f'{_CONTAINERS_TEST}::test_leaves_of_elements[float32]',),
    ),
    Fault(
        'ambiguous_data_sets',
        what='A data set of unsorted names is taken in the order of the type.',
        file=f'{_VALUES}/datasets.py',
        old='names != sorted(names)',
        new='names is None',
        tests=(f'{_CONTAINERS_TEST}::test_data_sets[unsorted]',),
    ),
    Fault(
        'a_layout_for_every_padding',
        what='Padded batches have a layout for each sequence of shapes.',
        file=_ARGUMENTS,
        old='return any(None in _shape(t)[1:] for t in types) or any(',
        new='return False and any(',
        tests=(f'{_SHAPES_TEST}::test_padded_batches_are_traced_once',),
    ),
    Fault(
        'a_layout_for_every_number_of_shapes',
        what='Batches of many sizes have a layout for each number of sizes.',
        file=_ARGUMENTS,
        old='len(segments) > 2 for segments in read',
        new='len(segments) > 20 for segments in read',
        tests=(
            f'{_SHAPES_TEST}'
            '::test_batches_of_many_shapes_are_traced_once_more',
        ),
    ),
    Fault(
        'elements_from_the_first_client_on',
        what='A client has the elements of all clients before it, too.',
        file=f'{_VALUES}/layout.py',
        old='first, last = self.starts[i], self.starts[i + 1]',
        new='first, last = self.starts[0], self.starts[i + 1]',
        tests=(
            f'{_SHAPES_TEST}'
            '::test_batches_of_many_shapes_are_traced_once_more',
        ),
    ),
    Fault(
        'offsets_of_all_in_a_part',
        what='Pieces that are cut out keep the offsets of the whole.',
        file=_PACKING,
        old='starts - starts[0], self.shape,',
        new='starts, self.shape,',
        tests=(
            f'{_SHAPES_TEST}::test_pieces_are_the_tensors_that_were_packed',
        ),
    ),
    Fault(
        'sum_over_all_clients_for_each',
        what='A piece adds up the sizes of those before it.',
        file=_PACKING,
        old='start = tf.gather(self.starts, tf.reshape(i, [1]))',
        new='start = [tf.reduce_sum(tf.reduce_prod(self.shapes[:i], 1))]',
        tests=(f'{_SHAPES_TEST}::test_a_piece_costs_nothing_for_the_others',),
    ),
    Fault(
        'clients_that_come_to_differ_end_the_run',
        what='A round whose clients can no longer be vectorized fails.',
        file=_COMPILED,
        old='        if not self._may_repeat(schedules):',
        new='        if True:',
        tests=(
            f'{_CHOOSING_TEST}'
            '::test_clients_that_come_to_differ_run_in_a_loop_from_then_on',
        ),
    ),
    Fault(
        'a_loop_for_whatever_fails',
        what='What fails in a loop, too, changes the recorded choice.',
        file=_COMPILED,
        old='        is_new = True  # Is recorded if it works.',
        new='        self._record(argument_layout, schedules)',
        tests=(
            f'{_CHOOSING_TEST}::test_what_fails_in_a_loop_too_leaves_the_choice',
        ),
    ),
)
