"""Planted faults of Keras models: losses, metrics, and what is refused."""

from tests.mutants.faults import Fault

_VALUES = 'tff_pers/models/example_values.py'
_LOSSES = 'tff_pers/models/keras_losses.py'
_CHECKS = 'tff_pers/models/keras_checks.py'
_TEST = 'tests/models/keras_losses_test.py'
_OUTPUTS = 'tests/models/keras_outputs_test.py'
_STATES = f'{_OUTPUTS}::test_metrics_with_a_state_are_those_of_keras'
_RAISES = 'tests/models/keras_test.py::test_raises_on_layer'

FAULTS = (
    Fault(
        'labels_broadcast',
        what='Labels [n] meet predictions [n, 1] as they are, and nobody looks.',
        file=_VALUES,
        old='    if problem is None:\n',
        new='    return forms[-1]\n    if True:\n',
        tests=(f'{_TEST}::test_labels_do_not_broadcast_with_one_output',),
    ),
    Fault(
        'rows_are_not_compared',
        what='A loss may depend on the other rows of a batch.',
        file=_VALUES,
        old='if check and not',
        new='if False and not',
        tests=(
            f'{_TEST}::test_raises_on_a_loss_that_is_none_of_single_examples',
        ),
    ),
    Fault(
        'steps_are_not_averaged',
        what='The accuracy of a sequence is that of its first step.',
        file='tff_pers/models/loss_functions.py',
        old='return tf.reduce_mean(hits, axis=steps) if steps else hits',
        new='return hits[:, 0] if steps else hits',
        tests=(
            f'{_TEST}::test_accuracy_of_a_sequence_is_the_mean_over_its_steps',
        ),
    ),
    Fault(
        'logits_as_probabilities',
        what='The accuracy of one logit asks whether it is above a half.',
        file=_LOSSES,
        old='threshold = 0.5 if predicts_probabilities(loss, output) else 0.0',
        new='threshold = 0.5',
        tests=(f'{_TEST}::test_default_metrics_fit_the_labels',),
    ),
    Fault(
        'logits_as_probabilities_by_name',
        what='The metric accuracy of one logit asks whether it is above a half.',
        file=_LOSSES,
        old='threshold=0.5 if probabilities else 0.0',
        new='threshold=0.5',
        tests=(f'{_TEST}::test_accuracy_is_what_fits_the_labels',),
    ),
    Fault(
        'tensors_of_a_loss_stay_outside',
        what="A loss with a tensor of somebody's cannot be in TFF's graphs.",
        file=_VALUES,
        old='return found.held(form)',
        new='return form',
        tests=(f'{_TEST}::test_a_loss_may_hold_eager_tensors',),
    ),
    Fault(
        'statistics_have_adaptors',
        what='Adaptors move the frozen statistics of batch normalization.',
        file='tff_pers/models/keras_layers.py',
        old="if isinstance(layer, _NORMS) and role in ('gamma', 'beta'):",
        new='if isinstance(layer, _NORMS):',
        tests=(
            'tests/models/keras_state_test.py'
            '::test_frozen_statistics_are_constants_of_the_model',
        ),
    ),
    Fault(
        'added_losses_are_left_out',
        what='What a layer adds to the loss is dropped without a word.',
        file=_CHECKS,
        old='if layer._losses or layer._eager_losses:',
        new='if False:',
        tests=(_RAISES,),
    ),
    Fault(
        'constraints_are_left_out',
        what='Constraints of weights are dropped without a word.',
        file=_CHECKS,
        old='if variable.constraint is not None:',
        new='if False:',
        tests=(_RAISES,),
    ),
    Fault(
        'models_may_mix_rows',
        what='Predictions may depend on the rows that fill a batch up.',
        file=_CHECKS,
        old='together, alone, rtol, atol',
        new='alone, alone, rtol, atol',
        tests=(_RAISES,),
    ),
    Fault(
        'own_steps_are_left_out',
        what="A model's own training step is dropped without a word.",
        file=_CHECKS,
        old="for name in ('train_step', 'compute_loss'):",
        new="for name in ('compute_loss',):",
        tests=(
            'tests/models/keras_test.py'
            '::test_raises_on_a_model_that_trains_in_its_own_way',
        ),
    ),
    Fault(
        'probabilities_as_logits',
        what='Probabilities that Keras models predict are mixed as logits.',
        file='tff_pers/models/mixtures.py',
        old="mix == 'probabilities' and not model.probabilities",
        new="mix == 'probabilities'",
        tests=(
            'tests/models/mixtures_test.py'
            '::test_what_keras_models_predict_is_mixed_as_what_it_is',
        ),
    ),
    Fault(
        'likelihood_of_a_step',
        what="FedEM takes the mean over a sequence's steps for its likelihood.",
        file='baselines/fedem.py',
        old='losses *= tf.cast(labels_each, losses.dtype)',
        new='pass',
        tests=(
            'tests/baselines/fedem_test.py'
            '::test_likelihoods_of_a_sequence_are_of_all_its_steps',
        ),
    ),
    Fault(
        'losses_of_outputs_have_no_weights',
        what='Losses of several outputs are added without their weights.',
        file='tff_pers/models/keras_outputs.py',
        old="of_each('loss_weights', loss_weights, own, 1)",
        new="of_each('loss_weights', None, own, 1)",
        tests=(f'{_OUTPUTS}::test_several_outputs_are_those_of_keras',),
    ),
    Fault(
        'metrics_are_of_the_first_output',
        what='Every output has the metrics of the first.',
        file='tff_pers/models/keras_outputs.py',
        old='tf.nest.flatten(y)[position], tf.nest.flatten(predictions)[position]',
        new='tf.nest.flatten(y)[0], tf.nest.flatten(predictions)[0]',
        tests=(f'{_OUTPUTS}::test_several_outputs_are_those_of_keras',),
    ),
    Fault(
        'masked_steps_count',
        what='Steps that the model masks count in the mean of a text.',
        file=_VALUES,
        old='    total = tf.where(counts, values, tf.zeros_like(values))\n',
        new='    counts = tf.ones_like(counts)\n    total = values\n',
        tests=(
            f'{_OUTPUTS}::test_masked_steps_are_left_out_as_in_keras',
        ),
    ),
    Fault(
        'masked_texts_count_alike',
        what='A text with more masked steps counts as much as another.',
        file='tff_pers/models/keras_outputs.py',
        old='if function.rank > 1',
        new='if False',
        tests=(
            f'{_OUTPUTS}::test_masked_steps_are_left_out_as_in_keras',
        ),
    ),
    Fault(
        'filler_rows_are_in_states',
        what='Rows of filler count in metrics with a state.',
        file='tff_pers/models/keras_metrics.py',
        old='predictions, sample_weight=weight\n',
        new='predictions\n',
        tests=(_STATES,),
    ),
    Fault(
        'metrics_that_do_not_add_up',
        what='A metric whose state is no sum is taken.',
        file='tff_pers/models/keras_metrics.py',
        old='adds = starts_at_zero and _adds(found, examples)',
        new='adds = True',
        tests=(f'{_OUTPUTS}::test_raises_on_a_metric_that_is_no_sum',),
    ),
    Fault(
        'tensors_are_objects',
        what="In TFF's graphs == of tensors in a loss or a layer is False.",
        file='tff_pers/models/comparing.py',
        old='is_on = _IS_ON.get() and other is not None',
        new='is_on = False',
        tests=(f'{_OUTPUTS}::test_tensors_are_compared_in_any_graph',),
    ),
    Fault(
        'comparing_layers_compare_objects',
        what="In TFF's graphs a layer that Keras made of == says False.",
        file='tff_pers/models/comparing.py',
        old="}.get(getattr(layer, 'symbol', ''))",
        new='}.get(None)',
        tests=(f'{_OUTPUTS}::test_tensors_are_compared_in_any_graph',),
    ),
    Fault(
        'traces_keep_the_first_weights',
        what='A method of a layer that is a tf.function runs as its own trace.',
        file='tff_pers/models/keras_network.py',
        old='        *((layer, _untraced(layer)) for layer in layers),\n',
        new='',
        tests=(
            'tests/models/keras_test.py'
            '::test_functions_of_tensorflow_take_the_weights_of_each_call',
        ),
    ),
    Fault(
        'sums_are_means',
        what='A loss that is a sum is taken for a mean.',
        file=_LOSSES,
        old="if getattr(loss, 'reduction', None) ==",
        new='if loss ==',
        tests=(
            'tests/models/keras_test.py'
            '::test_raises_on_a_loss_that_is_a_sum',
        ),
    ),
)
