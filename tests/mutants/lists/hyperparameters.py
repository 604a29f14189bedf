"""Planted faults of hyperparameters: flags without effect, conditions."""

from tests.mutants.faults import Fault

_BATTERY = 'tests/contracts/hyperparameters_test.py'
_ACTS = f'{_BATTERY}::test_another_value_changes_a_run_of_some_variant'
_READ = f'{_BATTERY}::test_what_no_line_reads_is_refused'
_DITTO = 'baselines/ditto.py'
_FLORAL = 'tff_pers/algorithms/floral/floral_hyperparameters.py'
_USAGE = 'tests/binaries/usage_test.py'

FAULTS = (
    Fault(
        'ditto_own_rate_never_read',
        what='The personal models of Ditto have the step size of the shared.',
        file=_DITTO,
        old='return self.personal_learning_rate or self.learning_rate',
        new='return self.learning_rate',
        tests=(f'{_READ}[ditto]',),
    ),
    Fault(
        'finetuned_rate_never_read',
        what='Fine-tuning has the step size of training.',
        file='baselines/fedavg_finetuned.py',
        old='return self.lr or self.learning_rate',
        new='return self.learning_rate',
        tests=(
            'tests/baselines/fedavg_finetuned_test.py'
            '::test_losses_after_fine_tuning',
        ),
    ),
    Fault(
        'pfedme_warm_start_never_read',
        what='theta starts at u, whatever the flag.',
        file='baselines/pfedme.py',
        old='theta_0 = theta if hyperparameters.warm_start else u',
        new='theta_0 = u',
        tests=(f'{_READ}[pfedme]',),
    ),
    Fault(
        'fedem_adapt_epochs_in_vain',
        what='New clients take five E-steps, whatever the flag.',
        file='baselines/fedem.py',
        old='tf.where(is_new, hyperparameters.adapt_epochs, 1)',
        new='tf.where(is_new, 5 + 0 * hyperparameters.adapt_epochs, 1)',
        tests=(f'{_ACTS}[fedem-adapt_epochs]',),
    ),
    Fault(
        'step_cap_in_vain',
        what='The cap of the step is too high to matter.',
        file='tff_pers/algorithms/perm/visit_schedule.py',
        old='    if not isinstance(self.step_cap',
        new='    if 0 and not isinstance(self.step_cap',
        tests=(f'{_ACTS}[uniform_shuffling-step_cap]',),
    ),
    Fault(
        'router_noise_in_vain',
        what='The noise of the router is multiplied by zero.',
        file='tff_pers/algorithms/floral/floral_routers.py',
        old='hyperparameters.router_noise, hyperparameters.min_mix_prob',
        new='0 * hyperparameters.router_noise, hyperparameters.min_mix_prob',
        tests=(f'{_ACTS}[floral-router_noise]',),
    ),
    Fault(
        'solver_steps_never_read',
        what='projected_gradient takes ten steps, whatever the flag.',
        file='tff_pers/algorithms/perm/perm_mixing.py',
        old='start(), hyperparameters.solver_steps',
        new='start(), 10',
        tests=(f'{_READ}[perm]',),
    ),
    Fault(
        'stage1_without_condition',
        what='Rounds of a first stage are taken in silence without stages.',
        file='tff_pers/algorithms/perm/perm_hyperparameters.py',
        old="when='variant=two_stage'",
        new="when=''",
        tests=(f'{_READ}[perm]',),
    ),
    Fault(
        'conditions_are_not_checked',
        what='What has no effect is accepted.',
        file='tff_pers/config/hyperparameters.py',
        old='if not acts(spec, values) and value != spec.default:',
        new='if not acts(spec, values) and value is None:',
        tests=(
            'tests/config/hyperparameters_test.py'
            '::test_what_has_no_effect_must_be_left_at_its_default',
        ),
    ),
    Fault(
        'or_is_and',
        what='All alternatives of a condition must hold.',
        file='tff_pers/config/conditions.py',
        old='return any(alternatives)',
        new='return all(alternatives)',
        tests=('tests/config/conditions_test.py::test_holds',),
    ),
    Fault(
        'settings_without_effect_are_kept',
        what='What a task suggests refuses a variant in which it does not act.',
        file='tff_pers/config/hyperparameters.py',
        old='  if idle.isdisjoint(kept):\n',
        new='  if kept is not None:\n',
        tests=(f'{_USAGE}::test_settings_of_the_task_without_effect_are_dropped',),
    ),
    Fault(
        'compare_takes_flags_of_no_variant',
        what='compare drops a flag that acts in none of its variants.',
        file='tff_pers/experiments/sweep.py',
        old='      if not any(own[name] == value for',
        new='      if not any(True for',
        tests=(f'{_USAGE}::test_compare_refuses',),
    ),
    Fault(
        'help_without_inherited_fields',
        what='help() of hyperparameters leaves out the fields of the bases.',
        file='tff_pers/config/hyperparameters.py',
        old='for base in reversed(kind.__mro__):',
        new='for base in (kind,):',
        tests=(
            'tests/config/hyperparameters_test.py'
            '::test_help_says_what_every_field_is',
        ),
    ),
    Fault(
        'method_without_docstring',
        what='A property of hyperparameters has no docstring.',
        file='tff_pers/algorithms/perm/perm_hyperparameters.py',
        old='    """gamma, the step size of the global model w."""\n',
        new='',
        tests=(
            'tests/docstrings_test.py'
            '::test_every_public_object_has_a_docstring',
        ),
    ),
    Fault(
        'function_hides_an_error',
        what='A partitioner does not say when it raises.',
        file='tff_pers/data/partitioners.py',
        old="""

  Raises:
    DataError: If the data name no clients, or fewer than `num_clients`.
  """,
        new='',
        tests=(
            'tests/docstrings_test.py'
            '::test_every_public_function_that_raises_says_so',
        ),
    ),
    Fault(
        'builder_hides_an_argument',
        what='build_perm does not say what an argument is.',
        file='tff_pers/algorithms/perm/perm.py',
        old=(
            '    client_weighting: Weights of the mean in (a), in stage 1 and in the'
            ' warm-up.\n'
        ),
        new='',
        tests=(
            'tests/docstrings_test.py'
            '::test_an_exported_name_says_arguments_results_and_errors',
        ),
    ),
)
