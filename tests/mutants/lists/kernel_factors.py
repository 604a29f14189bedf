"""Planted faults of kernels that clients hold as factors."""

from tests.mutants.faults import Fault

_RULE = 'tff_pers/client_works/kernel_factors.py'
_TRAINING = 'tff_pers/client_works/factored_sgd.py'
_TABLE = 'tff_pers/data/batch_tables.py'
_MEAN = 'tff_pers/aggregators/factor_mean.py'
_ADDING = 'tff_pers/runtime/fused/adding.py'
_RULE_TEST = 'tests/client_works/kernel_factors_test.py::'
_TRAINING_TEST = 'tests/client_works/factored_sgd_test.py::'
_DENSE = _TRAINING_TEST + 'test_weights_and_loss_are_those_of_dense_kernels'
_TABLE_TEST = (
    'tests/data/batch_tables_test.py'
    '::test_it_begins_with_the_batches_of_the_client'
)
_MEAN_TEST = 'tests/aggregators/factor_mean_test.py::'
_ADDING_TEST = 'tests/runtime/adding_test.py::'

FAULTS = (
    Fault(
        'steps_without_rows',
        what='Where a client has no row at all, steps are taken on filler.',
        file=_TABLE,
        old='num_steps * tf.cast(capacity > 0, tf.int32)',
        new='num_steps',
        tests=(
            'tests/data/batch_tables_test.py'
            '::test_where_there_is_no_row_there_is_no_step',
            f'{_DENSE}[visited-no row]',
        ),
    ),
    Fault(
        'products_not_looked_at',
        what='Factors that are finite pass, whatever their product is.',
        file=_TRAINING,
        old='[p.bound(m) for p, m in zip(products, moves)]',
        new='[]',
        tests=(
            _TRAINING_TEST + 'test_clients_whose_factors_are_finite_but_no_'
            'product_are_dropped',
        ),
    ),
    Fault(
        'factors_of_other_rows_pass',
        what='A message whose factors have no product reaches the sum.',
        file='tff_pers/attacks/screening.py',
        old=' or factor_mean.fits(update)',
        new=' or True',
        tests=(
            'tests/attacks/screening_test.py'
            '::test_factors_without_a_product_are_refused',
        ),
    ),
    Fault(
        'factors_of_events',
        what='Messages that are under way hold the examples of clients.',
        file='tff_pers/experiments/processes.py',
        old='allowed=not in_flight',
        new='allowed=True',
        tests=('tests/experiments/timing_test.py::test_events_keep_kernels_dense',),
    ),
    Fault(
        'as_many_rows_as_a_side',
        what='Factors are taken that are no smaller than the kernel.',
        file=_RULE,
        old='rows < min(weight.shape)',
        new='rows <= min(weight.shape)',
        tests=(_RULE_TEST + 'test_rows_must_be_fewer_than_each_side',),
    ),
    Fault(
        'always_the_visited_rows',
        what='Rows are counted that the steps visit, where examples are fewer.',
        file=_RULE,
        old='if rows is None or visited < rows:',
        new='if True:',
        tests=(_RULE_TEST + 'test_rows_must_be_fewer_than_each_side',),
    ),
    Fault(
        'kernels_of_any_input',
        what='A kernel may meet what a model makes of the data.',
        file=_RULE,
        old='if tensor.op.type not in _KEEPS_ROWS:',
        new='if False:',
        tests=(
            _RULE_TEST
            + 'test_what_plain_products_with_the_data_are_not_stays_dense',
        ),
    ),
    Fault(
        'kernels_used_twice',
        what='A kernel may be used several times.',
        file=_RULE,
        old='if len(inputs) == 1 and',
        new='if len(inputs) >= 1 and',
        tests=(
            _RULE_TEST
            + 'test_what_plain_products_with_the_data_are_not_stays_dense',
        ),
    ),
    Fault(
        'penalties_are_forgotten',
        what='A model with a penalty holds kernels as factors.',
        file=_RULE,
        old='model.takes_factors and model.penalty is functional.no_penalty',
        new='model.takes_factors',
        tests=(
            _RULE_TEST
            + 'test_what_plain_products_with_the_data_are_not_stays_dense',
        ),
    ),
    Fault(
        'first_product_only',
        what='Later steps do not see the moves of earlier ones.',
        file=_TRAINING,
        old='return tf.gather(self._first, places) - tf.matmul(',
        new='return tf.gather(self._first, places) - 0 * tf.matmul(',
        tests=(_DENSE,),
    ),
    Fault(
        'places_of_the_examples',
        what='Visited rows are looked up where the examples lie.',
        file=_TRAINING,
        old='places = tf.reshape(tf.range(tf.size(rows)), tf.shape(rows))',
        new='pass',
        tests=(_DENSE,),
    ),
    Fault(
        'mean_over_all_steps_of_the_table',
        what='The loss is a mean over steps that a client does not take.',
        file=_TRAINING,
        old='tf.cast(tf.maximum(taken, 1), total.dtype)',
        new='tf.cast(tf.shape(rows)[0], total.dtype)',
        tests=(_DENSE,),
    ),
    Fault(
        'moves_without_rate',
        what='The moves of a kernel leave the step size out.',
        file=_TRAINING,
        old='tf.cast(rate, pull.dtype) * pull, places,',
        new='pull, places,',
        tests=(_DENSE,),
    ),
    Fault(
        'moves_are_not_looked_at',
        what='A client whose last step overflows is not dropped.',
        file=_TRAINING,
        old='          dense, moves, [p.bound(m) for p, m in zip(products, moves)]\n',
        new='',
        tests=(_TRAINING_TEST + 'test_clients_whose_only_step_overflows_are_dropped',),
    ),
    Fault(
        'momentum_by_factors',
        what='Steps with momentum hold kernels as factors.',
        file='tff_pers/client_works/factored_sgd.py',
        old='if local != local_step.PLAIN:',
        new='if local.weight_decay or local.clip_norm:',
        tests=(
            _TRAINING_TEST + 'test_steps_that_are_not_plain_keep_kernels_dense',
        ),
    ),
    Fault(
        'bytes_of_factors',
        what='The bytes that a client sends are those of its factors.',
        file='tff_pers/client_works/factored_sgd.py',
        old='bytes_up=round_metrics.payload_bytes(initial)',
        new='bytes_up=round_metrics.payload_bytes(trained)',
        tests=(_TRAINING_TEST + 'test_an_update_by_factors_is_that_of_the_work',),
    ),
    Fault(
        'rules_get_factors',
        what='Robust rules get factors.',
        file='tff_pers/composition/composer.py',
        old='work.summed is not None and aggregator is None and factory is plain',
        new='work.summed is not None and factory is plain',
        tests=(
            'tests/contracts/kernel_factors_test.py'
            '::test_rules_other_than_the_mean_get_dense_updates',
        ),
    ),
    Fault(
        'table_of_one_pass',
        what='All passes over the data have the order of the first.',
        file=_TABLE,
        old='cell += tf.minimum(step // per_epoch, most_epochs - 1)[:, None]',
        new='cell += 0',
        tests=(_TABLE_TEST,),
    ),
    Fault(
        'table_masks_no_step',
        what='A client takes the steps of one with more examples.',
        file=_TABLE,
        old='(position < num_examples) & (step < taken)[:, None]',
        new='position < num_examples',
        tests=(_TABLE_TEST,),
    ),
    Fault(
        'both_factors_weighted',
        what='Both factors are multiplied by the weight, so it counts squared.',
        file=_MEAN,
        old="u=scaled(pair['u']), v=pair['v']",
        new="u=scaled(pair['u']), v=scaled(pair['v'])",
        tests=(_MEAN_TEST + 'test_it_is_the_mean_of_the_products',),
    ),
    Fault(
        'accumulators_only_add',
        what='An accumulator that is scaled counts as one that only adds.',
        file=_ADDING,
        old='if state.name != names[position] or term',
        new='if term',
        tests=(
            _ADDING_TEST
            + 'test_the_accumulator_is_that_of_message_after_message',
        ),
    ),
    Fault(
        'products_of_any_kind',
        what='Factors that are not transposed are multiplied as if they were.',
        file=_ADDING,
        old="if not term.op.get_attr('transpose_a') or",
        new='if',
        tests=(
            _ADDING_TEST
            + 'test_the_accumulator_is_that_of_message_after_message[turned]',
        ),
    ),
    Fault(
        'factors_in_loops',
        what='Clients that send factors run in a loop, however many.',
        file='tff_pers/runtime/fused/choosing.py',
        old='if num_clients >= _SOME_CLIENTS and self._sends_factors(stage):',
        new='if False:',
        tests=(
            'tests/runtime/choosing_test.py'
            '::test_clients_that_send_factors_run_together',
        ),
    ),
)
