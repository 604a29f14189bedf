"""Planted faults of what the fused runtime keeps of values, and reads."""

from tests.mutants.faults import Fault

_VALUES = 'tff_pers/runtime/fused/values'
_PAST = 'tests/conformance/past_values_test.py'
_PIPELINES = 'tests/conformance/pipelines_test.py'
_LINES = f'{_PIPELINES}::test_lines'
_TAKEN = f'{_PIPELINES}::test_no_more_is_read_than_what_is_taken'

FAULTS = (
    Fault(
        'arrays_by_identity',
        what='A cohort of arrays is recognised by where it stands.',
        file=f'{_VALUES}/arguments.py',
        old='return self.is_constant or contents.equal(self.arrays, arrays)',
        new='return True',
        tests=(f'{_PAST}::test_arrays_of_clients[_frozen]',),
    ),
    Fault(
        'read_only_is_constant',
        what='An array that is only read-only counts as a constant.',
        file=f'{_VALUES}/contents.py',
        old='  return isinstance(value, bytes)\n',
        new='  return value is None or isinstance(value, bytes)\n',
        tests=(f'{_PAST}::test_arrays_of_clients[_frozen]',),
    ),
    Fault(
        'constants_are_compared',
        what='Arrays that cannot change are compared in every call.',
        file=f'{_VALUES}/arguments.py',
        old='return self.is_constant or contents',
        new='return contents',
        tests=(
            'tests/runtime/fused_test.py'
            '::test_arrays_that_cannot_change_are_not_compared',
        ),
    ),
    Fault(
        'signs_of_zeros',
        what='Arrays that are equal as numbers count as the same.',
        file=f'{_VALUES}/contents.py',
        old='np.array_equal(_bits(a), _bits(b))',
        new='np.array_equal(a, b, equal_nan=True)',
        tests=(
            f'{_PAST}::test_an_array_that_is_not_a_number_everywhere_is_kept',
        ),
    ),
    Fault(
        'results_keep_their_shapes',
        what='A result whose shape the caller has set is taken as it was.',
        file=f'{_VALUES}/results.py',
        old='    return tensor if form == array.__array_interface__ else None',
        new='    return tensor if form else None',
        tests=(f'{_PAST}::test_a_result_whose_shape_is_changed',),
    ),
    Fault(
        'slices_by_identity',
        what='Slices of memory that has changed are not read again.',
        file=f'{_VALUES}/reading.py',
        old='    return segments if contents.equal(now, rows) else None',
        new='    return segments if now else None',
        tests=(f'{_PAST}::test_data_sets[_shared_slices]',),
    ),
    Fault(
        'files_are_constants',
        what='A file that a function of a data set reads counts as content.',
        file='tff_pers/runtime/fused/operations.py',
        old='  if not stateful(operations) <= _CONSTANTS or reads_files(operations):',
        new='  if not stateful(operations) <= _CONSTANTS:',
        tests=(
            'tests/runtime/operations_test.py'
            '::test_data_sets_that_are_the_same_in_every_pass[files]',
        ),
    ),
    Fault(
        'files_read_while_tracing',
        what='A computation that reads a file is fused.',
        file='tff_pers/runtime/fused/graphs/graph.py',
        old='    if operations.reads_files(self.operations):',
        new='    if False:',
        tests=(f'{_PAST}::test_files_that_a_computation_reads',),
    ),
    Fault(
        'seeds_without_effect',
        what='Shuffles with a seed draw like those without one.',
        file=f'{_VALUES}/orders.py',
        old='buffer_size=buffer_size, seed=seed, seed2=seed2,',
        new='buffer_size=buffer_size, seed=0, seed2=0,',
        tests=(f'{_LINES}[shuffle]',),
    ),
    Fault(
        'shuffles_advance',
        what='The second call begins where the shuffle of the first one ended.',
        file=f'{_VALUES}/pipelines.py',
        old="          handle.name = 'no_such_resource'",
        new='          handle.name += str()',
        tests=(
            f'{_PIPELINES}'
            '::test_every_pass_over_a_shuffled_data_set_has_its_order',
        ),
    ),
    Fault(
        'data_sets_in_common',
        what='Computations that take from one data set advance its shuffle.',
        file=f'{_VALUES}/serialized.py',
        old='      number = next(self._numbers)\n',
        new='      number = 0\n',
        tests=(
            f'{_PIPELINES}'
            '::test_two_computations_that_take_from_one_data_set',
        ),
    ),
    Fault(
        'one_order_for_all_passes',
        what='A shuffled data set is read once though there are two passes.',
        file=f'{_VALUES}/reading.py',
        old='    return passes <= 1 or passes < math.inf and self.is_fixed',
        new='    return passes < math.inf',
        tests=(
            f'{_PIPELINES}'
            '::test_every_pass_over_a_shuffled_data_set_has_its_order',
        ),
    ),
    Fault(
        'parts_are_passes',
        what='A data set of which a part is taken is read completely before.',
        file='tff_pers/runtime/fused/graphs/passes.py',
        old='        found[name] += 1 if is_pass else math.inf',
        new='        found[name] += 1',
        tests=(f'{_TAKEN}[large-take]',),
    ),
    Fault(
        'memory_without_bound',
        what='A cohort is read before, however large it is.',
        file=f'{_VALUES}/reading.py',
        old='''      except _TooLargeError:
        pass
    return None, [''',
        new='''      except ZeroDivisionError:
        pass
    return None, [''',
        tests=(
            f'{_PIPELINES}::test_more_than_memory_holds_is_not_read_before',
        ),
    ),
    Fault(
        'the_rest_comes_last',
        what='A last batch that is smaller cannot be shuffled among the others.',
        file=f'{_VALUES}/lines.py',
        old='  is_rest = batch_order == full\n',
        new='  batch_order = np.sort(batch_order)\n  is_rest = batch_order == full\n',
        tests=(f'{_LINES}[rest_among_batches]',),
    ),
    Fault(
        'functions_by_name',
        what='Functions of one name count as the same.',
        file=f'{_VALUES}/element_functions.py',
        old='  return hashlib.sha256(body.SerializeToString(deterministic=True)).digest()',
        new='  return hashlib.sha256(body.signature.SerializeToString()).digest()',
        tests=(
            f'{_PIPELINES}'
            '::test_functions_are_loaded_once_for_all_data_sets_made_anew',
        ),
    ),
)
