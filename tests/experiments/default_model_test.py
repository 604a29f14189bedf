"""A method that the default model does not fit gets one that does, in `train`."""

import pytest

from tff_pers.evaluation import results
from tff_pers.experiments import experiment
from tff_pers.experiments import flags
from tff_pers.experiments import method_costs
from tff_pers.experiments import runner

_TABLE = flags.all_flags(flags.own_flag('algo', '', ''))


def _prepared(folder, **given):
  given = dict(dict(task='digits', num_clients=4), **given)
  return runner.prepare(given, _TABLE, str(folder), resume=False)


@pytest.mark.parametrize('algo, model', [
    ('ffgg', 'mlp'), ('fedper[learning_rate=0.1]', 'mlp'), ('fedbn', 'mlp_bn'),
    ('heterofl', 'mlp'), ('fedhm', 'mlp'),
])
def test_the_model_has_what_the_method_needs(algo, model, tmp_path):
  found = _prepared(tmp_path, algo=algo)
  assert found.task.model.name == found.flag('model') == model
  assert f'This run has --model={model}.' in found.remark
  # The same command resumes the run.
  assert experiment.is_same_command(
      dict(algo=algo, task='digits', num_clients=4), found.config
  )


def test_a_model_that_fits_stays(tmp_path):
  assert _prepared(tmp_path, algo='ffgg', model='mlp_small').remark == ''
  found = _prepared(tmp_path, algo='fedavg')
  assert (found.remark, found.flag('model')) == ('', 'logistic_regression')
  found = _prepared(tmp_path, algo='fedhm', model='logistic_regression')
  assert found.flag('model') == 'logistic_regression'


def test_a_model_that_was_given_is_refused(tmp_path):
  with pytest.raises(flags.UsageError, match='Tip: --model=mlp'):
    _prepared(tmp_path, algo='fedper', model='logistic_regression')


def test_its_cost_is_that_of_its_model(tmp_path):
  found = _prepared(tmp_path, algo='heterofl')
  run = results.Run(str(tmp_path), found.config, {}, {}, None, None, None)
  assert len(method_costs.of_run(run)) > 1


def test_a_task_without_other_models_is_refused(tmp_path):
  with pytest.raises(flags.UsageError, match='oracle_groups needs'):
    _prepared(tmp_path, algo='oracle_groups', task='overpersonalized')


def test_a_comparison_keeps_one_model_for_all():
  with pytest.raises(flags.UsageError, match='fedper needs .* hidden layers'):
    experiment.build(
        dict(algo='fedper', task='digits', num_clients=4), _TABLE,
        brackets_win=True,
    )


def test_the_same_command_with_brackets_resumes_its_run(tmp_path):
  """What brackets set is not taken for a flag that was typed."""
  given = dict(algo='fedavg[learning_rate=0.1]', task='digits', num_clients=4)
  found = _prepared(tmp_path, **given)
  assert found.config['given'] == given
  assert experiment.is_same_command(given, found.config)
  other = dict(given, algo='fedavg[learning_rate=0.2]')
  assert not experiment.is_same_command(other, found.config)


@pytest.mark.parametrize('algo, flag', [
    ('fedavg[learning_rate=0.3]', dict(fedavg_learning_rate=0.1)),
    ('scaffold', dict(client_weighting='examples')),
])
def test_a_run_of_a_comparison_can_be_built_alone(algo, flag):
  """`evaluate`, `--fork` and `--config` build it from what it records."""
  given = dict(task='digits', num_clients=4, algo=algo, **flag)
  compared = experiment.build(given, _TABLE, brackets_win=True)
  alone = experiment.build({**compared.config['given'], 'algo': algo}, _TABLE)
  assert alone.config['flags'] == compared.config['flags']


def test_an_error_of_another_flag_is_said_as_it_is(tmp_path):
  with pytest.raises(flags.UsageError, match='`--delays` must be one of'):
    _prepared(tmp_path, algo='fedper', driver='events', delays='bad')


def test_a_run_of_an_earlier_form_of_a_method_is_not_continued(tmp_path):
  found = _prepared(tmp_path, algo='floral')
  old = {k: v for k, v in found.config.items() if k != 'revision'}
  results.write_config(str(tmp_path), old)
  with pytest.raises(flags.UsageError, match='one of an earlier form'):
    _prepared(tmp_path, algo='floral')
