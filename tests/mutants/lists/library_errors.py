"""Planted faults of what users of the library are told."""

from tests.mutants.faults import Fault

_INPUTS = 'tests/core/inputs_test.py::'
_BUILDERS = 'tests/composition/builders_test.py::'
_PROCESS = _INPUTS + 'test_a_process_looks_at_what_it_is_given'
_COHORT = _INPUTS + 'test_raises_on_another_cohort'
_LABELS = 'tests/models/labels_test.py::test_first_label_that_a_model_does_not_have'
_KIND = _INPUTS + 'test_raises_on_data_of_another_kind'

FAULTS = (
    Fault(
        'labels_cut_to_size',
        what='A label that is no int32 becomes another one.',
        file='tff_pers/core/arrays.py',
        old='  same = cast == found\n',
        new='  same = cast == cast\n',
        tests=(_KIND,),
    ),
    Fault(
        'copies_what_fits',
        what='Data that fit are copied, so that no runtime knows them again.',
        file='tff_pers/core/inputs.py',
        old='    return client\n  return collections',
        new='    return dict(client)\n  return collections',
        tests=(_INPUTS + 'test_what_fits_stays_the_same_object',),
    ),
    Fault(
        'batches_as_examples',
        what='The sentence on batches does not say what to do.',
        file='tff_pers/core/arrays.py',
        old='  elif shape[2:] == tuple(expected.shape[1:]):',
        new='  elif shape[1:] == tuple(expected.shape[1:]):',
        tests=(_KIND,),
    ),
    Fault(
        'indices_from_one',
        what='An index may be N.',
        file='tff_pers/core/inputs.py',
        old='if not 0 <= index < self.num_clients:',
        new='if not 0 <= index <= self.num_clients:',
        tests=(_COHORT,),
    ),
    Fault(
        'some_of_all_clients',
        what='A round that needs everybody is run with some.',
        file='tff_pers/core/inputs.py',
        old='    if self.is_whole and len(indices) < self.num_clients:',
        new='    if self.is_whole and not indices:',
        tests=(_COHORT,),
    ),
    Fault(
        'a_client_twice',
        what='A client may be in a round twice.',
        file='tff_pers/core/inputs.py',
        old='for i, n in collections.Counter(indices).items() if n > 1',
        new='for i, n in collections.Counter(indices).items() if n > 2',
        tests=(_COHORT,),
    ),
    Fault(
        'evaluation_unchecked',
        what='`evaluate` leaves casts to the runtime.',
        file='tff_pers/core/process.py',
        old="return self._looks(_built('evaluate', ",
        new="return (_built('evaluate', ",
        tests=(_PROCESS,),
    ),
    Fault(
        'built_later_unchecked',
        what='A type is not checked where a computation is built later.',
        file='tff_pers/core/process.py',
        old='  _check_parameters(name, computation, expected)\n  return',
        new=(
            '  if computation is given:\n'
            '    _check_parameters(name, computation, expected)\n  return'
        ),
        tests=('tests/core/process_test.py::test_what_is_built_later_is_checked_then',),
    ),
    Fault(
        'evaluation_built_for_nobody',
        what='`compose` builds what nobody has asked for.',
        file='tff_pers/core/process.py',
        old='      if isinstance(given, tff.Computation):\n        getattr',
        new='      if given is not None:\n        getattr',
        tests=('tests/composition/composer_test.py::test_evaluation_is_built_when_asked_for',),
    ),
    Fault(
        'weights_of_tiers_unchecked',
        what='A tier whose weights are not of its model is found late.',
        file='tff_pers/composition/composer.py',
        old='    deployment.check_tiers(tiers, state_type)\n',
        new='    pass\n',
        tests=('tests/composition/composer_test.py::test_raises_on_weights_of_a_tier',),
    ),
    Fault(
        'new_clients_refused',
        what='Who never trains is not evaluated.',
        file='tff_pers/core/process.py',
        old='    def looks(computation, cohort=inputs.Cohort):',
        new='    def looks(computation, cohort=lambda: self._cohort):',
        tests=(_PROCESS,),
    ),
    Fault(
        'states_of_others',
        what='Fewer states than clients are left to the runtime.',
        file='tff_pers/core/inputs.py',
        old='    if len(client_states) != len(data):',
        new='    if len(client_states) > len(data):',
        tests=(_PROCESS,),
    ),
    Fault(
        'names_unchecked',
        what='Arguments by name are not looked at.',
        file='tff_pers/core/inputs.py',
        old='      if sorted(kwargs) == sorted(names):',
        new='      if sorted(kwargs) == names:',
        tests=(_INPUTS + 'test_arguments_may_be_named',),
    ),
    Fault(
        'builder_unchecked',
        what='A builder does not look at its arguments.',
        file='baselines/ditto.py',
        old='@builders.checked\n',
        new='',
        tests=(_BUILDERS + 'test_raises_on_no_hyperparameters',),
    ),
    Fault(
        'no_clients_at_all',
        what='A method is built for no clients.',
        file='tff_pers/composition/builders.py',
        old='  if num_clients < 1:',
        new='  if num_clients < 0:',
        tests=(_BUILDERS + 'test_raises_on_no_clients',),
    ),
    Fault(
        'clients_forgotten',
        what='A process does not know for how many clients it was built.',
        file='tff_pers/composition/builders.py',
        old="  num_clients = given.get('num_clients')\n",
        new='  num_clients = None\n',
        tests=(_BUILDERS + 'test_a_process_knows_its_clients',),
    ),
    Fault(
        'tff_models_unknown',
        what='Who has a model of TFF is not told how it becomes ours.',
        file='tff_pers/composition/builders.py',
        old="      found, tip = name_of_kind, f' Tip: {way}.'",
        new="      found, tip = name_of_kind, ''",
        tests=(_BUILDERS + 'test_raises_on_other_models',),
    ),
    Fault(
        'padding_must_have_labels',
        what='Labels in rows of padding are refused.',
        file='tff_pers/core/inputs.py',
        old='labels.first_wrong(np.asarray(y)[:num_examples])',
        new='labels.first_wrong(np.asarray(y))',
        tests=(_INPUTS + 'test_labels_in_rows_of_padding_do_not_count',),
    ),
    Fault(
        'one_label_more',
        what='A label may be C.',
        file='tff_pers/models/labels.py',
        old='np.maximum.reduce(unsigned, None) < self.num_classes',
        new='np.maximum.reduce(unsigned, None) <= self.num_classes',
        tests=(_LABELS,),
    ),
    Fault(
        'skipped_labels_refused',
        what='A label that marks what the loss skips is refused.',
        file='tff_pers/models/keras_losses.py',
        old='      return bool(tf.reduce_all(tf.math.is_finite(loss_of_one)))',
        new='      return False',
        tests=(_LABELS,),
    ),
    Fault(
        'binary_labels_unchecked',
        what='A binary cross-entropy takes label 2.',
        file='tff_pers/models/keras_losses.py',
        old='    return labels.Labels(2)\n',
        new='    return labels.Labels(3)\n',
        tests=(_LABELS,),
    ),
    Fault(
        'names_as_numbers',
        what="A client '7' is client 7.",
        file='tff_pers/core/arrays.py',
        old='  number = np.asarray(value)\n',
        new='  number = np.asarray(int(value))\n',
        tests=(
            'tests/data/client_data_test.py'
            '::test_raises_on_an_index_that_is_no_integer',
        ),
    ),
)
