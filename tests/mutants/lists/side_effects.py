"""Planted faults of the fused runtime: state that leaks, loops, tracing."""

from tests.mutants.faults import Fault

_OPERATIONS = 'tff_pers/runtime/fused/operations.py'
_SEQUENCES = 'tff_pers/runtime/fused/values/sequences.py'
_COMPILED_TEST = 'tests/runtime/compiled_test.py'
_OPERATIONS_TEST = 'tests/runtime/operations_test.py'
_REFUSED = (
    f'{_OPERATIONS_TEST}::test_graphs_whose_calls_may_affect_each_other',
)
_TRACED = (
    f'{_COMPILED_TEST}::test_what_cannot_be_traced_runs_natively[loop]',
)
_RAISED = (
    f'{_COMPILED_TEST}::test_what_is_no_fault_of_the_computation_is_raised',
)

FAULTS = (
    Fault(
        'shared_state_is_fused',
        what='Clients and rounds share the queues of their graphs.',
        file='tff_pers/runtime/fused/graphs/graph.py',
        old='    if shared:\n',
        new='    if False:\n',
        tests=(
            'tests/conformance/state_test.py'
            '::test_a_queue_of_every_client',
        ),
    ),
    Fault(
        'accumulators_are_variables',
        what='An accumulator of gradients passes for a variable.',
        file=_OPERATIONS,
        old="    'ResourceApply', 'ResourceCountUpTo',",
        new="    'Resource', 'ResourceApply', 'ResourceCountUpTo',",
        tests=_REFUSED,
    ),
    Fault(
        'python_is_safe',
        what='A Python function that TensorFlow calls stateless is fused.',
        file=_OPERATIONS,
        old="'PyFuncStateless', ",
        new='',
        tests=_REFUSED,
    ),
    Fault(
        'misspelt_operation',
        what='The list of safe operations names one that does not exist.',
        file=_OPERATIONS,
        old="'MakeIterator',",
        new="'MakesIterator',",
        tests=(
            f'{_OPERATIONS_TEST}'
            '::test_lists_name_operations_of_tensorflow',
        ),
    ),
    Fault(
        'shapes_of_the_step',
        what='The state of a loop has the shapes that the step returns.',
        file=_SEQUENCES,
        old='      t if t.shape.is_subtype_of(s) else tf.ensure_shape(t, s)\n',
        new='      t\n',
        tests=(
            'tests/conformance/state_test.py'
            '::test_a_state_whose_shape_is_lost',
        ),
    ),
    Fault(
        'loops_start_early',
        what='A loop reads variables before one of its inputs has come.',
        file='tff_pers/runtime/fused/graphs/graph.py',
        old='      _wait_for_inputs(node)\n',
        new='',
        tests=(
            'tests/conformance/state_test.py'
            '::test_a_loop_starts_after_all_of_its_inputs',
        ),
    ),
    Fault(
        'tracing_ends_the_program',
        what='What fails while tracing is raised.',
        file=_SEQUENCES,
        old='  except Exception as error:  # pylint',
        new='  except ZeroDivisionError as error:  # pylint',
        tests=_TRACED,
    ),
    Fault(
        'interrupts_are_swallowed',
        what='A computation that is interrupted goes on natively.',
        file=_SEQUENCES,
        old='  except Exception as error:  # pylint',
        new='  except BaseException as error:  # pylint',
        tests=_RAISED,
    ),
    Fault(
        'lack_of_memory_runs_natively',
        what='Where memory runs out, a process that needs more takes over.',
        file=_SEQUENCES,
        old='  except (Unsupported, MemoryError, ',
        new='  except (Unsupported, ',
        tests=_RAISED,
    ),
    Fault(
        'racing_kernels_overlap',
        what='Clients with a batch normalization of oneDNN overlap.',
        file='tff_pers/runtime/fused/mapping.py',
        old='    parallel = 1\n',
        new='    pass\n',
        tests=(
            f'{_COMPILED_TEST}'
            '::test_clients_overlap_unless_their_kernels_would_race',
        ),
    ),
    Fault(
        'secure_sums_stay',
        what='Secure sums are not replaced by the sums that they mean.',
        file='tff_pers/runtime/line.py',
        old="block.uri.startswith('federated_secure_')",
        new="block.uri.startswith('secure_')",
        tests=(
            'tests/runtime/line_test.py'
            '::test_the_only_aggregation_is_federated_aggregate',
        ),
    ),
    Fault(
        'every_proto_twice',
        what='Computations without secure sums take the detour, too.',
        file='tff_pers/runtime/line.py',
        old='  if tree_analysis.contains(block, _is_secure):\n',
        new='  if True:\n',
        tests=(
            'tests/runtime/line_test.py'
            '::test_only_secure_sums_are_converted_twice',
        ),
    ),
)
