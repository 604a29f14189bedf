"""A run that gets more rounds keeps the plan of its first ones."""

from tff_pers.evaluation import results
from tff_pers.experiments import continuing
from tff_pers.experiments import experiment
from tff_pers.experiments import flags

_TABLE = flags.all_flags(flags.own_flag('algo', '', ''))


def _experiment(rounds, algo='perm'):
  return experiment.build(
      dict(algo=algo, task='digits', rounds=rounds, clients_per_round=2), _TABLE
  )


def test_the_method_keeps_the_number_of_rounds_that_it_was_planned_for(tmp_path):
  folder = str(tmp_path)
  assert continuing.as_planned(_experiment(8), folder).task.rounds == 8
  results.write_config(folder, _experiment(8).config)
  for rounds in (8, 12, 40):
    continued = _experiment(rounds)
    continuing.reopen(folder, continued.config)
    assert results.read_config(folder)['flags']['rounds'] == rounds
    planned = continuing.as_planned(continued, folder)
    assert planned.task.rounds == 8 and continued.task.rounds == rounds
    # A quarter of 8 and not of 40: round 9 does not go back to the warm-up.
    assert planned.hyperparameters.for_cohorts(planned.task).warmup_rounds == 2
