"""Planted faults of models of tokens and tags, and of the tasks of texts."""

from tests.mutants.faults import Fault

_FUNCTIONAL = 'tff_pers/models/functional.py'
_TOKENS = 'tff_pers/models/tokens.py'
_RECURRENT = 'tff_pers/models/recurrent.py'
_STEPS = 'tff_pers/models/lstm_steps.py'
_STEPS_TEST = 'tests/models/lstm_steps_test.py'
_TRANSFORMER = 'tff_pers/models/transformer.py'
_TEXTS = 'tff_pers/data/texts.py'
_CLIENTS = 'tff_pers/data/tasks/text_clients.py'
_POSTS = 'tff_pers/data/tasks/stackoverflow.py'
_UNITS_TEST = 'tests/client_works/units_test.py'
_TOKENS_TEST = 'tests/models/tokens_test.py'
_SEQUENCES_TEST = 'tests/models/sequences_test.py'
_KERAS = ('tests/models/recurrent_test.py::test_outputs',)
_NUMPY = ('tests/models/transformer_test.py::test_outputs_match_numpy',)
_TEXTS_TEST = 'tests/data/texts_test.py'
_TASKS_TEST = 'tests/data/tasks/text_tasks_test.py'
_ACCURACIES = (f'{_TOKENS_TEST}::test_accuracies',)

FAULTS = (
    Fault(
        'mean_over_sequences',
        what='A batch\'s loss counts a short text as much as a long one.',
        file=_FUNCTIONAL,
        old='      values *= self.row_weights(y, values.dtype, name)\n',
        new='      pass\n',
        tests=(f'{_UNITS_TEST}::test_loss_of_a_batch_and_its_gradient',),
    ),
    Fault(
        'accuracy_over_all_tokens',
        what='The evaluation divides the accuracy by the units of the loss.',
        file=_FUNCTIONAL,
        old='(name, self.batch_weight(batch, tf.float32, name))',
        new="(name, self.batch_weight(batch, tf.float32, 'loss'))",
        tests=(f'{_UNITS_TEST}::test_deployed_metrics',),
    ),
    Fault(
        'no_units_are_nan',
        what='The accuracy of a client without any proper word is 0 / 0.',
        file='tff_pers/composition/deployment.py',
        old='return tf.maximum(units, tf.cast(tf.minimum(count, 1), units.dtype))',
        new='return units',
        tests=(f'{_UNITS_TEST}::test_metrics_of_a_client_without_units',),
    ),
    Fault(
        'gradient_weighted_by_rows',
        what='A local gradient weights its halves by their rows.',
        file='tff_pers/client_works/local_gradient.py',
        old='    count = model.batch_weight(batch, dtype)',
        new='    count = tf.reduce_sum(tf.cast(batch.mask, dtype))',
        tests=(f'{_UNITS_TEST}::test_local_gradient',),
    ),
    Fault(
        'ifca_over_examples',
        what='IFCA chooses by the mean over sequences.',
        file='tff_pers/client_works/example_losses.py',
        old='_sum_rows(data, units * losses) / count',
        new='mean_rows(data, losses)',
        tests=(f'{_UNITS_TEST}::test_ifca_chooses_by_the_mean_over_units',),
    ),
    Fault(
        'likelihood_of_one_token',
        what='FedEM takes the mean loss of a text for its log-likelihood.',
        file='baselines/fedem.py',
        old='    losses *= model.row_weights(y, losses.dtype)[:, None]',
        new='    pass',
        tests=(f'{_UNITS_TEST}::test_likelihood_of_fedem_is_that_of_all_units',),
    ),
    Fault(
        'padding_counts',
        what='Losses and metrics count padding.',
        file=_TOKENS,
        old='  return tf.not_equal(y, PAD)',
        new='  return tf.greater_equal(y, PAD)',
        tests=(
            f'{_TOKENS_TEST}'
            '::test_cross_entropy_is_the_mean_over_what_is_no_padding',
        ),
    ),
    Fault(
        'unknown_words_are_proper',
        what='The accuracy over words counts the unknown word.',
        file=_TOKENS,
        old='y <= vocabulary)',
        new='y <= vocabulary + 1)',
        tests=_ACCURACIES,
    ),
    Fault(
        'gates_in_another_order',
        what='The gates are in the order of other libraries: i, f, o, c.',
        file=_STEPS,
        old='i, f, c, o = tf.split(sums',
        new='i, f, o, c = tf.split(sums',
        tests=_KERAS,
    ),
    Fault(
        'steps_gradient_of_the_same_state',
        what='The gradient of the recurrent kernel takes the state of the same'
        ' step, not that of the step before.',
        file=_STEPS,
        old='(_before(states), d_sums)',
        new='(states, d_sums)',
        tests=(f'{_STEPS_TEST}::test_is_what_tensorflow_derives',),
    ),
    Fault(
        'steps_forget_nothing_on_the_way_back',
        what='The gradient of the cell passes forget gates as if open.',
        file=_STEPS,
        old='d_cell * f[step]',
        new='d_cell',
        tests=(f'{_STEPS_TEST}::test_is_that_of_finite_differences',),
    ),
    Fault(
        'keras_lstm_without_its_mask',
        what='An LSTM layer of Keras takes masked tokens for words.',
        file='tff_pers/models/keras_recurrent.py',
        old='if mask is not None or',
        new='if',
        tests=(
            'tests/models/keras_recurrent_test.py'
            '::test_outputs_and_gradients[masked]',
        ),
    ),
    Fault(
        'keras_lstm_that_hides_its_mask',
        what='Keras does not see that an LSTM layer takes a mask.',
        file='tff_pers/models/keras_recurrent.py',
        old='  def call(inputs,',
        new='  @tf.autograph.experimental.do_not_convert\n  def call(inputs,',
        tests=('tests/models/keras_recurrent_test.py::test_outputs_and_gradients',),
    ),
    Fault(
        'keras_lstm_with_any_activation',
        what='An LSTM layer of Keras computes tanh, whatever it was made with.',
        file='tff_pers/models/keras_recurrent.py',
        old='    activation=tf.keras.activations.tanh,\n',
        new='',
        tests=(
            'tests/models/keras_recurrent_test.py'
            '::test_outputs_and_gradients[relu]',
        ),
    ),
    Fault(
        'forget_gates_start_closed',
        what='Biases of forget gates start at 0, or those of others at 1.',
        file=_RECURRENT,
        old='[zeros, tf.ones([units], dtype), zeros, zeros]',
        new='[tf.ones([units], dtype), zeros, zeros, zeros]',
        tests=(f'{_SEQUENCES_TEST}::test_first_weights',),
    ),
    Fault(
        'sees_what_comes',
        what='Attention sees all positions.',
        file=_TRANSFORMER,
        old='np.tril(np.ones([length, length], bool))',
        new='np.ones([length, length], bool)',
        tests=(
            f'{_SEQUENCES_TEST}::test_a_later_token_changes_no_earlier_output',
        ),
    ),
    Fault(
        'scores_by_width',
        what='Scores are divided by the root of the width of all heads.',
        file=_TRANSFORMER,
        old='scores / math.sqrt(size)',
        new='scores / math.sqrt(sizes.width)',
        tests=_NUMPY,
    ),
    Fault(
        'embedding_is_not_scaled',
        what='The embedding is not multiplied by the root of the width.',
        file=_TRANSFORMER,
        old='math.sqrt(sizes.width) * tf.gather(table, x)',
        new='tf.gather(table, x)',
        tests=_NUMPY,
    ),
    Fault(
        'mixture_of_exclusive_tags',
        what='A mixture takes tags for classes of which one is true.',
        file='tff_pers/models/mixtures.py',
        old='one_logit = of_each_label or outputs',
        new='one_logit = outputs',
        tests=(
            'tests/models/tags_test.py'
            '::test_a_mixture_of_probabilities_is_one_for_each_label',
        ),
    ),
    Fault(
        'adapters_beside_adapters',
        what='A model that has adapters gets low-rank ones as well.',
        file='tff_pers/models/split_hyperparameters.py',
        old=' and not _has_adapters(model)',
        new='',
        tests=(f'{_SEQUENCES_TEST}::test_adapters_of_the_model_need_no_others',),
    ),
    Fault(
        'end_of_a_text_that_was_cut',
        what='A text that was cut has the mark of its end all the same.',
        file=_TEXTS,
        old='  if len(row) < length:\n',
        new='  if len(row) < length or row.pop():\n',
        tests=(f'{_TEXTS_TEST}::test_sentences_are_those_of_tff',),
    ),
    Fault(
        'ties_as_they_come',
        what='Of equally frequent words the first ones make the vocabulary.',
        file=_TEXTS,
        old='(-counts[entry], entry)',
        new='-counts[entry]',
        tests=(f'{_TEXTS_TEST}::test_most_frequent_breaks_ties_by_alphabet',),
    ),
    Fault(
        'counts_of_words',
        what='A bag of words counts known words once, not their share.',
        file=_TEXTS,
        old='np.add.at(x[row], own, 1 / max(len(own), 1))',
        new='np.add.at(x[row], own, 1)',
        tests=(f'{_TEXTS_TEST}::test_bags_are_those_of_tff',),
    ),
    Fault(
        'vocabulary_of_test_texts',
        what='Words of test texts are in the vocabulary.',
        file=_CLIENTS,
        old='      client.train[row] for index, client in enumerate(clients)\n',
        new='      [*client.test, *client.train][row]\n'
            '      for index, client in enumerate(clients)\n',
        tests=(
            f'{_TASKS_TEST}::test_vocabulary_is_of_training_texts_alone',
        ),
    ),
    Fault(
        'vocabulary_of_new_clients',
        what='Words of clients that never train are in the vocabulary.',
        file=_CLIENTS,
        old='      if index not in held_out for row',
        new='      for row',
        tests=(
            f'{_TASKS_TEST}'
            '::test_vocabulary_is_without_clients_that_never_train',
        ),
    ),
    Fault(
        'vocabulary_of_validation_texts',
        what='Words of validation texts are in the vocabulary.',
        file=_CLIENTS,
        old='request.validation_fraction,\n      request.seed,',
        new='0.0,\n      request.seed,',
        tests=(f'{_TASKS_TEST}::test_vocabulary_is_without_validation_texts',),
    ),
    Fault(
        'words_cut_again',
        what='Texts that are cut into words already are cut once more.',
        file=_POSTS,
        old='text.split()',
        new='texts.words(text)',
        tests=(
            f'{_TASKS_TEST}'
            '::test_words_stand_between_spaces_where_others_cut_them',
        ),
    ),
    Fault(
        'chosen_clients_chosen_again',
        what='Of clients that come chosen some are left out.',
        file=_CLIENTS,
        old='  if corpus.chosen:',
        new='  if not clients:',
        tests=(
            f'{_TASKS_TEST}'
            '::test_clients_that_come_chosen_are_all_of_them_with_all_texts',
        ),
    ),
    Fault(
        'texts_of_chosen_clients_left_out',
        what='Texts without words of clients that come chosen are left out.',
        file=_CLIENTS,
        old='if corpus.chosen or is_text(text)',
        new='if is_text(text)',
        tests=(
            f'{_TASKS_TEST}'
            '::test_clients_that_come_chosen_are_all_of_them_with_all_texts',
        ),
    ),
    Fault(
        'fewest_training_posts_ignored',
        what='Few training posts are no reason to leave a user out.',
        file=_CLIENTS,
        old='      if len(client.train) >= rules.min_train\n      and',
        new='      if',
        tests=(f'{_TASKS_TEST}::test_who_has_too_few_posts_is_left_out',),
    ),
    Fault(
        'users_train_on_all',
        what='The limit of training posts has no effect.',
        file=_CLIENTS,
        old='client.train[:rules.max_train]',
        new='client.train',
        tests=(
            f'{_TASKS_TEST}'
            '::test_a_user_trains_on_no_more_than_the_first_posts',
        ),
    ),
    Fault(
        'own_tags_ignored',
        what='A source\'s own list of tags is not used.',
        file=_POSTS,
        old='  tags = corpus.tags or texts',
        new='  tags = texts',
        tests=(f'{_TASKS_TEST}::test_a_source_may_bring_its_vocabulary',),
    ),
)
