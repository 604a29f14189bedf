"""Planted faults of registries, declarations and settings."""

from tests.mutants.faults import Fault

_DISCOVERY = 'tff_pers/config/discovery.py'
_METHODS = 'tff_pers/config/methods.py'
_PARTITIONERS = 'tff_pers/data/partitioners.py'
_SETTINGS = 'tff_pers/config/settings.py'
_EXPERIMENT = 'tff_pers/experiments/experiment.py'
_DISCOVERY_TEST = 'tests/config/discovery_test.py'
_METHODS_TEST = 'tests/config/methods_test.py'
_DECLARATIONS_TEST = 'tests/data/tasks/declarations_test.py'
_SETTINGS_TEST = 'tests/config/settings_test.py'
_ORDER_OF_SETTINGS = (
    f'{_SETTINGS_TEST}'
    '::test_the_method_comes_before_all_methods_and_regimes_before_the_task',
)
_REGIME = (
    'tests/binaries/settings_test.py::test_the_regime_of_the_data_counts',
)
_USAGE = 'tests/binaries/usage_test.py'
_MARKS = (
    'tests/experiments/methods_and_tasks_test.py'
    '::test_marks_say_what_is_declared',
)

FAULTS = (
    Fault(
        'halves_of_mixed_rows',
        what='FedRecon halves rows that are no examples.',
        file='baselines/fedrecon.py',
        old='examples=lambda values: values.halves',
        new='examples=lambda values: False',
        tests=(
            'tests/binaries/settings_test.py'
            '::test_mixtures_of_rows_are_not_held_out',
        ),
    ),
    Fault(
        'weights_without_a_use',
        what='Weights of clients are taken where a method has no use for them.',
        file=_EXPERIMENT,
        old="if method.weighs_clients or given.get(name, 'uniform')",
        new="if True or given.get(name, 'uniform')",
        tests=(
            'tests/binaries/settings_test.py'
            '::test_weights_of_clients_are_refused_where_they_have_no_use',
        ),
    ),
    Fault(
        'broken_module_in_disguise',
        what='A method that fails to import does not say which module it is.',
        file=_DISCOVERY,
        old='  except Exception as error:',
        new='  except ZeroDivisionError as error:',
        tests=(f'{_DISCOVERY_TEST}::test_a_module_that_fails_says_so',),
    ),
    Fault(
        'later_builder_wins',
        what='Of two builders of one name the later replaces the earlier.',
        file=_DISCOVERY,
        old='      if name in found:',
        new='      if False:',
        tests=(f'{_DISCOVERY_TEST}::test_raises_on_two_builders_of_one_name',),
    ),
    Fault(
        'second_registration_wins',
        what='A second registration of a name replaces the first.',
        file='tff_pers/config/registry.py',
        old='      if name in self._entries:',
        new='      if False:',
        tests=(
            'tests/config/registry_test.py'
            '::test_raises_on_second_registration_and_keeps_the_first',
        ),
    ),
    Fault(
        'first_need_counts',
        what='Of several needs of a method only the first is checked.',
        file=_METHODS,
        old='      NEEDS[name] for name, applies in method.needs.items()\n',
        new='      NEEDS[name] for name, applies in list(method.needs.items())[:1]\n',
        tests=(f'{_METHODS_TEST}::test_missing_needs_are_sentences',),
    ),
    Fault(
        'needs_of_the_defaults',
        what='A need of some hyperparameters is asked of all.',
        file=_METHODS,
        old='      if applies(hyperparameters) and not',
        new='      if not',
        tests=(
            f'{_METHODS_TEST}'
            '::test_a_need_of_some_hyperparameters_is_no_need_of_others',
        ),
    ),
    Fault(
        'participation_is_groups',
        what='Full participation is taken for known groups.',
        file=_METHODS,
        old='        lambda traits: traits.full_participation,',
        new='        lambda traits: traits.groups,',
        tests=(f'{_METHODS_TEST}::test_missing_needs_are_sentences',),
    ),
    Fault(
        'oracle_without_groups',
        what='Shuffling in the true groups does not ask for groups.',
        file='tff_pers/algorithms/perm/fixed_mixing.py',
        old="    'oracle_groups', ShufflingHyperparameters, needs=('groups',),",
        new="    'oracle_groups', ShufflingHyperparameters,",
        tests=_MARKS,
    ),
    Fault(
        'needs_unchecked',
        what='Programs do not check what a method needs.',
        file=_EXPERIMENT,
        old='  _check_needs(method, missing, family)\n',
        new='',
        tests=(f'{_USAGE}::test_a_method_refuses_a_task_without_its_needs',),
    ),
    Fault(
        'driver_unchecked',
        what='Events drive methods whose rounds cannot be taken apart.',
        file='tff_pers/experiments/events.py',
        old="  if asked == 'events' and not _takes_events(method):",
        new='  if False:',
        tests=(
            f'{_USAGE}::test_events_drive_no_method_of_more_than_weights',
        ),
    ),
    Fault(
        'random_shards_know_groups',
        what='Random shards declare groups that they do not know.',
        file=_PARTITIONERS,
        old="    knows_groups=lambda options: options.order == 'sorted',",
        new='    knows_groups=always,',
        tests=(
            f'{_DECLARATIONS_TEST}'
            '::test_options_of_a_partition_may_decide_what_is_known',
        ),
    ),
    Fault(
        'one_class_without_groups',
        what='Clients of one class each declare no groups, but have them.',
        file=_PARTITIONERS,
        old="'one class per client', knows_groups=always",
        new="'one class per client'",
        tests=(f'{_DECLARATIONS_TEST}::test_partitions_are_as_declared',),
    ),
    Fault(
        'everybody_in_every_round',
        what='All clients of CIFAR-100 take part, against its declaration.',
        file='tff_pers/data/tasks/cifar.py',
        old='      clients_per_round=declares.cohort(request.num_clients or num_clients),',
        new='      clients_per_round=0,',
        tests=(f'{_DECLARATIONS_TEST}::test_defaults_are_as_declared',),
    ),
    Fault(
        'settings_of_all_methods_win',
        what='Settings of all methods replace those of the method.',
        file=_SETTINGS,
        old="  for key in ('', method):",
        new="  for key in (method, ''):",
        tests=_ORDER_OF_SETTINGS,
    ),
    Fault(
        'regimes_ignored',
        what='Settings of a regime have no effect.',
        file=_SETTINGS,
        old='    for row in rows:',
        new='    for row in rows[:1]:',
        tests=_ORDER_OF_SETTINGS,
    ),
    Fault(
        'regime_does_not_reach_the_method',
        what='A program asks for the settings of a task without its regime.',
        file=_EXPERIMENT,
        old='settings.of(task.name, method.name, names, task.regimes)',
        new='settings.of(task.name, method.name, names)',
        tests=_REGIME,
    ),
    Fault(
        'reduced_data_are_not',
        what='Reduced data are not in the regime `reduced`.',
        file='tff_pers/data/tasks/floral_images.py',
        old="      regimes=(*regimes, 'reduced') if reduced else regimes,",
        new='      regimes=regimes,',
        tests=_REGIME,
    ),
)
