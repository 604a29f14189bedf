"""Planted faults of adaptors of Keras layers, and of frozen weights."""

from tests.mutants.faults import Fault

_ADAPTORS = 'tff_pers/models/adaptors.py'
_ADAPTED = 'tff_pers/models/adapted_model.py'
_FORMS = 'tff_pers/models/adaptor_forms.py'
_PLAN = 'tff_pers/models/adaptor_plan.py'
_LAYERS = 'tff_pers/models/keras_layers.py'
_NETWORK = 'tff_pers/models/keras_network.py'
_HYPERPARAMETERS = 'tff_pers/algorithms/floral/floral_hyperparameters.py'
_MODELS_TEST = 'tests/models/keras_adaptors_test.py'
_FLORAL_TEST = 'tests/algorithms/floral/floral_keras_test.py'
_EINSUM = (
    f'{_MODELS_TEST}'
    '::test_einsum_with_factors_is_that_with_the_merged_kernel',
)
_STAY = (f'{_MODELS_TEST}::test_frozen_kernels_have_adaptors_and_stay',)
_MOVE = (f'{_MODELS_TEST}::test_raises_where_frozen_weights_would_have_to_move',)
_WARNS = (
    f'{_MODELS_TEST}'
    '::test_warns_where_the_budget_is_more_because_of_rank_one',
)
_DEPLOYS = (
    f'{_FLORAL_TEST}'
    '::test_client_deploys_all_weights_of_a_model_with_frozen_ones',
)
_OPTIONS = (
    f'{_FLORAL_TEST}'
    '::test_raises_on_options_that_do_not_go_with_a_frozen_base',
)
_ADAPT = (
    'tests/algorithms/floral/floral_test.py'
    '::test_hyperparameters_say_what_adaptors_are_like',
)

FAULTS = (
    Fault(
        'axes_of_the_output',
        what='The first factor takes the axes of the output.',
        file=_LAYERS,
        old='if axis not in outputs)',
        new='if axis in outputs)',
        tests=_EINSUM,
    ),
    Fault(
        'first_axis_is_the_input',
        what='Every product is summed over the first axis of its kernel alone.',
        file=_PLAN,
        old='adaptor_forms.product(weight.shape, weight.summed_axes)',
        new='adaptor_forms.product(weight.shape, (0,))',
        tests=_EINSUM,
    ),
    Fault(
        'no_matrix_no_adaptor',
        what='A kernel that is no matrix is cut into factors.',
        file=_PLAN,
        old='if len(weight.summed_axes) in (0, len(weight.shape)):',
        new='if False:',
        tests=(
            f'{_MODELS_TEST}'
            '::test_kernels_that_are_no_matrix_have_full_adaptors',
        ),
    ),
    Fault(
        'windows_of_each_channel',
        what='Every channel of a depthwise convolution has windows of its own.',
        file=_FORMS,
        old='return Form(shape, (_HEIGHT, _WIDTH))',
        new='return Form(shape, (_HEIGHT, _WIDTH, _IN))',
        tests=(
            f'{_MODELS_TEST}'
            '::test_depthwise_windows_are_shared_by_the_channels',
        ),
    ),
    Fault(
        'pointwise_left_alone',
        what='Separable convolutions have no adaptor of their 1 x 1 kernel.',
        file=_LAYERS,
        old="isinstance(layer, _L.SeparableConv2D) and role == 'pointwise_",
        new="isinstance(layer, _L.SeparableConv2D) and role == '",
        tests=(
            f'{_MODELS_TEST}'
            '::test_what_weights_of_attention_and_separable_convolutions_are',
        ),
    ),
    Fault(
        'release_rank_of_projections',
        what="Projections have the rank of the release's convolutions.",
        file=_PLAN,
        old='adaptor_forms.product(weight.shape, weight.summed_axes)\n',
        new=(
            'adaptor_forms.product(weight.shape, weight.summed_axes),\n'
            '          self.rank_rule,\n'
        ),
        tests=(
            f'{_MODELS_TEST}::test_releases_rank_is_for_convolutions_alone',
        ),
    ),
    Fault(
        'frozen_kernels_without_adaptors',
        what='The plan leaves frozen weights out.',
        file=_ADAPTORS,
        old='rules.plan(layers.describe(model.of_all_weights))',
        new='rules.plan(layers.describe(model))',
        tests=_STAY,
    ),
    Fault(
        'frozen_penalty_lost',
        what='A model with frozen weights has no penalty.',
        file=_NETWORK,
        old='self._penalty_of_all if self.regularizers',
        new='functional.no_penalty if self.regularizers',
        tests=_STAY,
    ),
    Fault(
        'trainable_weights_first',
        what='Merged weights come in an order that set_weights does not know.',
        file=_NETWORK,
        old='self._all = list(model.weights)',
        new=(
            'self._all = ['
            '*model.trainable_variables, *model.non_trainable_variables]'
        ),
        tests=(f'{_MODELS_TEST}::test_weights_return_in_the_order_of_keras',),
    ),
    Fault(
        'adaptors_of_other_types',
        what='Frozen weights of another type get adaptors of the wrong one.',
        file=_LAYERS,
        old='    if variable.dtype != dtype:\n',
        new='    if False:\n',
        tests=(
            f'{_MODELS_TEST}::test_frozen_weights_of_other_types_are_left_alone',
        ),
    ),
    Fault(
        'nothing_to_train',
        what='A method without adaptors accepts a frozen model.',
        file='tff_pers/composition/composer.py',
        old='  _check_is_trained(deployed)\n',
        new='',
        tests=_MOVE,
    ),
    Fault(
        'centered_frozen_weights',
        what='Centering drops the mean of adaptors of frozen weights.',
        file=_ADAPTED,
        old='    if self.base.frozen is not None:\n      raise',
        new='    if False:\n      raise',
        tests=_MOVE,
    ),
    Fault(
        'full_adaptors_of_frozen_weights',
        what='Full adaptors forget which weights they are for.',
        file=_ADAPTORS,
        old='  model = dataclasses.replace(model, frozen=None)\n',
        new='',
        tests=(
            f'{_MODELS_TEST}::test_full_adaptors_leave_frozen_weights_alone',
        ),
    ),
    Fault(
        'floral_evaluates_the_trained_part',
        what='FLoRAL reads deployed weights as those that are trained.',
        file='tff_pers/algorithms/floral/floral.py',
        old='      deployed=adapted.merged,\n',
        new='',
        tests=_DEPLOYS,
    ),
    Fault(
        'local_adaptor_evaluates_the_trained_part',
        what='Local adaptors read deployed weights as those that are trained.',
        file='baselines/local_adaptor.py',
        old=', deployed=adapted.merged,\n',
        new=',\n',
        tests=_DEPLOYS,
    ),
    Fault(
        'rate_zero_moves_the_base',
        what='A step size of 0 is taken for the default.',
        file='tff_pers/algorithms/floral/floral.py',
        old='base=hyperparameters.learning_rate,',
        new='base=hyperparameters.learning_rate or 0.1,',
        tests=(f'{_FLORAL_TEST}::test_rate_zero_freezes_the_base_of_floral',),
    ),
    Fault(
        'adaptors_frozen_with_the_base',
        what='With learning_rate=0 and auto nothing is trained at all.',
        file=_HYPERPARAMETERS,
        old="if not self.learning_rate and self.adaptor_learning_rate == 'auto':",
        new='if False:',
        tests=_OPTIONS,
    ),
    Fault(
        'centering_moves_a_frozen_base',
        what='Centering is accepted beside learning_rate=0.',
        file=_HYPERPARAMETERS,
        old='if self.center and not self.learning_rate:',
        new='if False:',
        tests=_OPTIONS,
    ),
    Fault(
        'rules_for_nothing',
        what='A robust rule is accepted for a base that learning_rate=0 freezes.',
        file=_HYPERPARAMETERS,
        old='is_trained = self.learning_rate and adapted',
        new='is_trained = adapted',
        tests=(f'{_FLORAL_TEST}::test_raises_on_a_rule_for_a_frozen_base',),
    ),
    Fault(
        'no_warning',
        what='Nobody is told that rank 1 costs more than the budget.',
        file=_ADAPTORS,
        old='rules.rho is not None and share > rules.rho:',
        new='rules.budget is not None and share > rules.budget:',
        tests=_WARNS,
    ),
    Fault(
        'biases_count',
        what='The warning counts biases, which no budget is for.',
        file=_PLAN,
        old='kernels = [x for x in plan if isinstance(x.adaptor, adaptor_layers.LowRank)]',
        new='kernels = [x for x in plan if x.adaptor is not None]',
        tests=_WARNS,
    ),
    Fault(
        'adapt_embedding_ignored',
        what='Embeddings never have adaptors.',
        file=_HYPERPARAMETERS,
        old='adapt_embedding=self.adapt_embedding, ',
        new='',
        tests=_ADAPT,
    ),
    Fault(
        'zero_factor_ignored',
        what='U is always the factor that is zero.',
        file=_HYPERPARAMETERS,
        old=' zero_factor=self.zero_factor,',
        new='',
        tests=_ADAPT,
    ),
    Fault(
        'merged_by_logits',
        what='Adaptors are merged by the logits of the router.',
        file=_ADAPTED,
        old=(
            "weights['base'], weights['adaptors'], tf.nn.softmax(router)\n"
            '    )\n\n  def center'
        ),
        new=(
            "weights['base'], weights['adaptors'], router\n"
            '    )\n\n  def center'
        ),
        tests=(
            f'{_FLORAL_TEST}::test_merged_transformer_is_the_adapted_one',
        ),
    ),
)
