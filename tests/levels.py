"""Which tests are slow, and which take a while: measured, not guessed.

    make test-all ARGS=--slowest              # Measures, on a quiet machine.
    .venv/bin/python -m tests.levels          # Writes levels.txt from that.

`levels.txt` has a line for every test that takes more than a moment: its level,
CPU seconds without set-up, and name, without brackets if all of its cases are
of one level. Tests that were not measured keep their lines. `make test-quick`
leaves out both levels, `make test` those that are `slow`, `make test-all` none.
A test is slow if it takes `_SLOW` CPU seconds, unless

* it is the cheapest test of a planted fault (`tests/mutants/lists`) and takes at
  most `_MOST`: no fault that the tests know gets past `make test` for seconds;
* it is the one test of a feature, `_ONE_TEST`, or the cheapest of its file.

A test that no line names is quick, until it is measured; of the contracts of
methods, whose time is that of building each method, `make test-quick` runs those
of `_QUICK_METHODS`.
"""

import json
import pathlib
import re
from typing import Optional

import pytest

LIST = pathlib.Path(__file__).with_name('levels.txt')
MEASURED = pathlib.Path('build/test_seconds.json')
LEVELS = ('medium', 'slow')
_MEDIUM, _SLOW, _MOST = 0.3, 0.4, 6.0
_CONTRACTS = 'tests/contracts/methods_test.py'
_QUICK_METHODS = ('fedavg', 'fedhm', 'ffgg', 'floral', 'local_update')
_ONE_TEST = (
    'tests/algorithms/ffgg/async_ffgg_test.py'
    '::test_the_path_is_that_of_the_numpy_program[uniform]',
    'tests/algorithms/floral/floral_private_test.py'
    '::test_a_round_is_that_of_numpy',
    'tests/algorithms/local_update/local_update_test.py'
    '::test_with_default_flags_it_is_fedavg[examples]',
    'tests/algorithms/perm/perm_clusters_test.py'
    '::test_new_clients_get_the_model_of_the_nearest_cluster',
    'tests/algorithms/perm/perm_devices_test.py'
    '::test_clients_deploy_the_models_of_their_tiers',
    'tests/algorithms/perm/perm_lambda_test.py::test_losses_follow_numpy',
    'tests/algorithms/perm/perm_new_clients_test.py'
    '::test_a_new_client_gets_the_models_whose_mixtures_make_up_its_row',
    'tests/algorithms/perm/perm_new_clients_test.py'
    '::test_only_new_clients_adapt',
    'tests/algorithms/perm/perm_test.py'
    '::test_local_step_of_stage_1_is_that_of_fedavg',
    'tests/algorithms/perm/perm_test.py::test_local_step_of_the_single_loop',
    'tests/algorithms/perm/perm_test.py::test_matching_visits_the_support',
    'tests/baselines/fedfomo_test.py::test_a_round_is_that_of_numpy',
    'tests/baselines/reductions_test.py::test_it_is_fedavg[ditto]',
    'tests/baselines/split_methods_test.py'
    '::test_a_client_that_trains_learns_its_private_weights_once_more',
    'tests/binaries/after_training_test.py'
    '::test_a_fork_starts_where_the_run_is',
    'tests/binaries/after_training_test.py'
    '::test_tensorflow_alone_scores_raw_rows_as_predict_does',
    'tests/binaries/compare_test.py::test_tables_plots_and_no_run_twice',
    'tests/binaries/on_demand_test.py'
    '::test_nobody_but_cohorts_and_evaluated_clients_is_read',
    'tests/binaries/train_test.py'
    '::test_what_is_compiled_is_kept_in_the_folder_of_the_flag',
    'tests/binaries/tune_test.py::test_kill_at_any_moment_loses_no_trial',
    'tests/conformance/map_reduce_test.py'
    '::test_a_round_is_compiled_unless_it_has_two_exchanges[fedavg]',
    'tests/contracts/hyperparameters_test.py::test_another_value_changes_a_run',
    'tests/contracts/methods_test.py::test_rounds_give_the_recorded_values',
    'tests/contracts/options_test.py::test_a_flag_of_train_changes_what_runs',
    'tests/contracts/options_test.py'
    '::test_an_option_of_a_rule_changes_its_result',
    'tests/contracts/options_test.py'
    '::test_an_option_of_an_attack_changes_what_is_sent',
    'tests/contracts/options_test.py'
    '::test_every_flag_arrives_at_the_body_of_its_program',
    'tests/contracts/rates_test.py'
    '::test_inputs_give_the_bits_of_constants[fedavg]',
    'tests/docs_test.py::test_every_python_snippet_runs',
    'tests/end_to_end/kill_test.py'
    '::test_kill_at_a_chosen_moment[server state in the transaction-2]',
    'tests/experiments/auto_rounds_test.py'
    '::test_ends_when_validation_data_say_so',
    'tests/experiments/processes_test.py'
    '::test_a_run_of_a_comparison_is_a_run_alone',
    'tests/models/keras_outputs_test.py'
    '::test_masked_steps_are_left_out_as_in_keras[on_fused]',
    'tests/models/keras_outputs_test.py'
    '::test_metrics_with_a_state_are_those_of_keras',
    'tests/plugins_test.py::test_an_installed_plugin_is_in_the_programs',
    'tests/readme_test.py::test_its_flags_are_in_the_help_and_are_checked',
    'tests/readme_test.py::test_one_file_is_a_method_of_all_programs',
    'tests/result_tables_test.py::test_a_page_has_the_tables_of_its_rows',
    'tests/runtime/kept_test.py::test_an_edited_loss_gives_its_own_numbers',
    'tests/runtime/kept_test.py'
    '::test_rounds_are_the_same_bit_for_bit_without_tracing[fedavg]',
    'tests/runtime/native_test.py::test_nobody_else_reaches_the_worker',
)


def mark(items: list) -> None:
  """Marks the tests that are not quick."""
  levels = read()
  for item in items:
    level = of(item.nodeid, levels)
    if level is not None:
      item.add_marker(getattr(pytest.mark, level))


def of(name: str, levels: dict) -> Optional[str]:
  """Returns the level of a test; None: it is quick."""
  test, _, case = name.partition('[')
  level = levels.get(name, levels.get(test))
  method = re.match(r'\w+', case)
  if level or not method or not test.startswith(_CONTRACTS):
    return level
  return None if method[0] in _QUICK_METHODS else 'medium'


def read() -> dict:
  """Returns the levels by the names of tests, or of their cases."""
  found = {}
  for line in LIST.read_text(encoding='utf-8').splitlines():
    level, _, name = line.split(maxsplit=2)
    found[name] = level
  return found


def chosen(seconds: dict, rows: list) -> dict:
  """Returns the levels of tests, by name; quick ones have none.

  Args:
    seconds: CPU seconds by the names of all cases.
    rows: The names of the tests of each planted fault.
  """
  totals = dict(seconds)
  for name, value in seconds.items():
    test = name.partition('[')[0]
    if test != name:
      totals[test] = totals.get(test, 0.0) + value
  kept = set(_ONE_TEST)
  rows = [[name for name in row if name in totals] for row in rows]
  rows += _by_file(totals)
  # Rows with no cheap test first: the others may be caught by the same tests.
  for row in sorted(
      filter(None, rows), key=lambda row: -min(totals[name] for name in row)
  ):
    best = min(row, key=lambda name: (name not in kept, totals[name]))
    if totals[best] <= _MOST:
      kept.add(best)
  found = {}
  for name, value in seconds.items():
    is_kept = name in kept or name.partition('[')[0] in kept
    if value >= _SLOW and not is_kept:
      found[name] = 'slow'
    elif value >= _MEDIUM:
      found[name] = 'medium'
  return found


def _by_file(names) -> list:
  """Returns the tests of each file, as if they were those of a fault."""
  files = {}
  for name in names:
    files.setdefault(name.partition('::')[0], []).append(name)
  return list(files.values())


def lines(seconds: dict, levels: dict) -> list:
  """Returns the lines of `levels.txt`, sorted by the names of tests."""
  cases = {}
  for name in seconds:
    cases.setdefault(name.partition('[')[0], []).append(name)
  found = []
  for test, names in cases.items():
    own = {levels.get(name) for name in names}
    if len(own) == 1:
      total = sum(seconds[name] for name in names)
      found += [(test, own.pop(), total)]
    else:
      found += [(name, levels.get(name), seconds[name]) for name in names]
  return [
      f'{level} {value:.1f} {name}' for name, level, value in sorted(found)
      if level is not None
  ]


def unmeasured(before: list, seconds: dict) -> list:
  """Returns the lines of tests, or of single cases, that were not measured."""
  measured = {name.partition('[')[0] for name in seconds}

  def is_stale(name):
    test, bracket, _ = name.partition('[')
    # Cases of a test that stays in `make test` are not slow, measured or not.
    if bracket:
      return name in seconds or test in _ONE_TEST
    return name in measured

  return [line for line in before if not is_stale(line.split(maxsplit=2)[2])]


def main() -> None:
  from tests.mutants import faults  # pylint: disable=g-import-not-at-top
  seconds = json.loads(MEASURED.read_text(encoding='utf-8'))
  rows = [
      fault.tests for family in faults.load(faults.LISTS).values()
      for fault in family
  ]
  levels = chosen(seconds, rows)
  before = LIST.read_text(encoding='utf-8').splitlines()
  made = lines(seconds, levels) + unmeasured(before, seconds)
  made.sort(key=lambda line: line.split(maxsplit=2)[2])
  LIST.write_text('\n'.join(made) + '\n', encoding='utf-8')
  for level in (None, *LEVELS):
    own = [s for name, s in seconds.items() if levels.get(name) == level]
    print(f'{level or "quick"}: {len(own)} tests, {sum(own):.0f} CPU s')


if __name__ == '__main__':
  main()
