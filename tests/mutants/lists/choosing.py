"""Planted faults of choices, of errors, and of what is set for a GPU."""

from tests.mutants.faults import Fault

_CHOOSING = 'tests/runtime/choosing_test.py::'
_DEVICES = 'tests/runtime/devices_test.py::'
_FINGERPRINT = 'tests/runtime/fingerprint_test.py::'

FAULTS = (
    Fault(
        'key_without_attributes',
        what='Computations that differ in a constant share a choice.',
        file='tff_pers/runtime/fused/graphs/fingerprint.py',
        old='operation, *self._attributes(node), *_in_order(node.input, done)',
        new='operation, *_in_order(node.input, done)',
        tests=(_FINGERPRINT + 'test_another_function',),
    ),
    Fault(
        'key_with_names_of_the_process',
        what='Names that TensorFlow gives functions are part of the key.',
        file='tff_pers/runtime/fused/graphs/fingerprint.py',
        old='found += [self._of_function(f.name) for f in called] or [',
        new='found += [f.name.encode() for f in called] or [',
        tests=(_FINGERPRINT + 'test_other_processes_find_the_same',),
    ),
    Fault(
        'key_without_order',
        what='What is taken from which node is no part of the key.',
        file='tff_pers/runtime/fused/graphs/fingerprint.py',
        old="values = [meant(name) for name in names if name[0] != '^']",
        new="values = sorted(meant(name) for name in names if name[0] != '^')",
        tests=(_FINGERPRINT + 'test_which_value_is_which',),
    ),
    Fault(
        'large_clients_run_together',
        what='The rule does not look at the size of the data.',
        file='tff_pers/runtime/fused/choosing.py',
        old='size = max(data_bytes, *',
        new='size = max(0, *',
        tests=(_CHOOSING + 'test_many_small_clients_run_together',),
    ),
    Fault(
        'large_messages_run_together',
        what='The rule does not look at the size of the messages.',
        file='tff_pers/runtime/fused/choosing.py',
        old='size = max(data_bytes, *(_type_bytes(b.call) for b in stage.clients))',
        new='size = data_bytes',
        tests=(_CHOOSING + 'test_large_messages_are_large_clients',),
    ),
    Fault(
        'auto_measures',
        what='The default strategy depends on the clock.',
        file='tff_pers/runtime/fused/choosing.py',
        old="if self._strategy == 'auto':",
        new="if self._strategy == 'never':",
        tests=(_CHOOSING + 'test_only_measured_takes_time',),
    ),
    Fault(
        'small_rounds_are_not_measured',
        what='`measured` leaves rounds of milliseconds in a loop.',
        file='tff_pers/runtime/fused/measuring.py',
        old='_SECONDS_WORTH_A_CHOICE = 0.002',
        new='_SECONDS_WORTH_A_CHOICE = 0.05',
        tests=(_CHOOSING + 'test_small_rounds_are_measured_too',),
    ),
    Fault(
        'errors_of_tensorflow',
        what='An operation that fails raises an error of TensorFlow.',
        file='tff_pers/runtime/errors.py',
        old='except (tf.errors.OpError, grpc.RpcError, LocatedError) as error:',
        new='except (grpc.RpcError, LocatedError) as error:',
        tests=('tests/conformance/graphs_test.py::test_failing_assertion_raises',),
    ),
    Fault(
        'errors_of_grpc',
        what='An operation that fails natively raises an error of gRPC.',
        file='tff_pers/runtime/errors.py',
        old='except (tf.errors.OpError, grpc.RpcError, LocatedError) as error:',
        new='except (tf.errors.OpError, LocatedError) as error:',
        tests=('tests/conformance/graphs_test.py::test_failing_assertion_raises',),
    ),
    Fault(
        'shared_results_need_a_cohort',
        what='What all clients share is refused without a cohort.',
        file='tff_pers/runtime/fused/values/results.py',
        old='is_known = part.all_equal and num_clients is None',
        new='is_known = False',
        tests=(
            'tests/runtime/fused_test.py'
            '::test_what_all_clients_share_is_known_without_a_cohort',
        ),
    ),
    Fault(
        'empty_cohorts_share_results',
        what='What all clients share is returned for an empty cohort.',
        file='tff_pers/runtime/fused/values/results.py',
        old='is_known = part.all_equal and num_clients is None',
        new='is_known = part.all_equal',
        tests=('tests/conformance/bad_input_test.py::test_both_raise',),
    ),
    Fault(
        'debug_names_the_wrong_stage',
        what='Errors in `debug` count stages from 0.',
        file='tff_pers/runtime/fused/debugging.py',
        old="f'stage {stage + 1}, {self._place}, {step}:'",
        new="f'stage {stage}, {self._place}, {step}:'",
        tests=(
            'tests/runtime/debugging_test.py::test_an_error_names_its_place',
        ),
    ),
    Fault(
        'debug_forgets_accumulators',
        what='`debug` restarts every accumulator.',
        file='tff_pers/runtime/fused/debugging.py',
        old='aggregate.accumulate((state, message))',
        new='aggregate.accumulate((aggregate.zero, message))',
        tests=(
            'tests/runtime/debugging_test.py::test_an_aggregation_is_a_place',
        ),
    ),
    Fault(
        'debug_does_not_fall_back',
        what='What cannot be traced ends the program in `debug`.',
        file='tff_pers/runtime/fused/debugging.py',
        old='with sequences.unsupported_if_it_fails():',
        new='with contextlib.nullcontext():',
        tests=(
            'tests/runtime/debugging_test.py'
            '::test_what_cannot_be_traced_runs_natively_here_too',
        ),
    ),
    Fault(
        'results_on_another_device',
        what='Results go to the default device in every round.',
        file='tff_pers/runtime/fused/compiled.py',
        old='with tf.device(self._compiler.devices[0]):',
        new="with tf.device('/CPU:0'):",
        tests=(_DEVICES + 'test_server_state_stays_on_the_device',),
    ),
    Fault(
        'strings_on_the_device',
        what='Nodes that only a CPU can run are placed with the others.',
        file='tff_pers/runtime/fused/graphs/graph.py',
        old='node.device = _HOST',
        new='pass',
        tests=(_DEVICES + 'test_strings_and_tables_are_of_the_host',),
    ),
    Fault(
        'tf32_as_tensorflow_has_it',
        what='Products are rounded although nobody asked for it.',
        file='tff_pers/runtime/fused/devices.py',
        old='enable_tensor_float_32_execution(tf32)',
        new='enable_tensor_float_32_execution(True)',
        tests=(_DEVICES + 'test_products_are_exact_unless_asked_for',),
    ),
)
