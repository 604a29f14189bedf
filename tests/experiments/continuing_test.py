"""A run that gets more rounds keeps the plan of its first ones."""

from binaries import train
from tff_pers.evaluation import results
from tff_pers.experiments import continuing
from tff_pers.experiments import experiment
from tff_pers.experiments import flags
from tff_pers.experiments import processes

_TABLE = flags.all_flags(flags.own_flag('algo', '', ''))


def _experiment(rounds, algo='perm'):
  return experiment.build(
      dict(algo=algo, task='digits', rounds=rounds, clients_per_round=2), _TABLE
  )


def test_the_method_keeps_the_number_of_rounds_that_it_was_planned_for(tmp_path):
  folder = str(tmp_path)
  assert not continuing.planned_rounds(folder)
  results.write_config(folder, _experiment(8).config)
  for rounds in (8, 12, 40):
    continued = _experiment(rounds)
    continuing.reopen(folder, continued.config)
    assert results.read_config(folder)['flags']['rounds'] == rounds
    planned = continuing.as_planned(
        continued, continuing.planned_rounds(folder)
    )
    assert planned.task.rounds == 8 and continued.task.rounds == rounds
    # A quarter of 8 and not of 40: round 9 does not go back to the warm-up.
    assert planned.hyperparameters.for_cohorts(planned.task).warmup_rounds == 2


def test_runs_that_grow_and_forks_are_built_as_planned(tmp_path, monkeypatch):
  built, build = [], processes.build
  monkeypatch.setattr(processes, 'build', lambda experiment: (
      built.append(experiment.task.rounds) or build(experiment)
  ))
  run, fork = f'--output_dir={tmp_path}/run', f'--output_dir={tmp_path}/fork'
  common = ['train', '--quiet', '--algo=fedavg', '--task=digits']
  assert train.main([*common, '--rounds=1', run]) == 0
  assert train.main(['train', '--quiet', '--resume', '--rounds=2', run]) == 0
  assert train.main(
      ['train', '--quiet', f'--fork={tmp_path}/run', '--rounds=3', fork]
  ) == 0
  assert train.main(['train', '--quiet', '--resume', '--rounds=4', fork]) == 0
  assert built == [1, 1, 1, 1]
