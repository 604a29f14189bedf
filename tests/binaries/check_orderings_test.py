"""`check_orderings` on a folder written by hand."""

import pytest

from binaries import check_orderings

# Accuracies and losses of three seeds; b is better than a but for seed 2.
RUNS = """\
algo,seed,accuracy,accuracy_worst_decile,loss,seconds_per_round
a,0,0.1,,2.0,0.1
a,1,0.2,,2.0,0.1
a,2,0.6,,2.0,0.1
b[rank=1],0,0.3,,0.001,0.1
b[rank=1],1,0.4,,0.001,0.1
b[rank=1],2,0.5,,0.1,0.1
gone,0,nan,,nan,0.1
"""
METRICS = """\
round,accuracy_mean,cluster_accuracy
10,0.25,0.5
20,0.3,1.0
"""


@pytest.fixture(name='folder')
def _folder(tmp_path):
  (tmp_path / 'runs.csv').write_text(RUNS)
  for seed in range(3):
    run = tmp_path / 'b-rank=1' / f'seed{seed}'
    run.mkdir(parents=True)
    (run / 'metrics.csv').write_text(METRICS)
    (run / 'config.json').write_text('{"variant": "b[rank=1]", "flags": {}}')
  return tmp_path


def _check(folder, expect, *argv):
  return check_orderings.main([
      'check_orderings', f'--runs={folder}', f'--expect={expect}', *argv
  ])


@pytest.mark.parametrize('argv, code', [
    (['a<b[rank=1]'], 0),  # Means 0.3 and 0.4.
    (['b[rank=1]<a'], 1),
    (['0.2<=a', '--statistic=median'], 0),  # Exactly.
    (['0.2<a', '--statistic=median'], 1),
    (['0.3<a<b[rank=1]'], 1),  # 0.3 is not below 0.3: the first link.
    (['a<b[rank=1]<0.3'], 1),  # The last link.
    (['a<b[rank=1], b[rank=1]<a'], 1),
    (['a+0.09<b[rank=1]'], 0),  # 0.39 and 0.4.
    (['a + 0.11<b[rank=1]'], 1),
    (['b[rank=1]-0.11<a'], 0),
    (['a+1.1e-1<b[rank=1]'], 1),
    (['b[rank=1]+1e+0<1.41'], 0),
    (['1e-1*b[rank=1]<4.1e-2'], 0),
    (['2*a-0.21<b[rank=1]'], 0),
    (['2*a-0.19<b[rank=1]'], 1),
    (['b[rank=1]<0.001*a', '--metric=loss'], 1),
    (['b[rank=1]<0.001*a', '--metric=loss', '--statistic=median'], 0),
    (['a<b[rank=1]', '--in_seeds=2'], 0),
    (['a<b[rank=1]', '--in_seeds=3'], 1),  # In seed 2 it is not.
    (['1<=b[rank=1]', '--metric=cluster_accuracy'], 0),
    (['gone<b[rank=1]'], 1),  # It diverged: nothing holds.
    (['b[rank=1]<gone'], 1),
])
def test_exit_code_says_whether_all_claims_hold(folder, argv, code):
  """So a script can check orderings."""
  assert _check(folder, *argv) == code


def test_table_has_the_numbers(folder, capsys):
  _check(folder, 'b[rank=1]<0.5*a', '--metric=loss', '--statistic=median')
  row = capsys.readouterr().out.splitlines()[2]
  assert [cell.strip() for cell in row.split('|')[1:-1]] == [
      'b[rank=1]<0.5*a', '0.001', '1', '3 of 3', 'yes'
  ]


@pytest.mark.parametrize('argv, said', [
    (['a<b'], 'must name variants of the folder, a, b[rank=1], gone'),
    (['0<b[rank=1]', '--metric=size'], '`--metric` must be one of round,'),
])
def test_bad_flags(folder, argv, said, capsys):
  assert _check(folder, *argv) == 2
  assert said in capsys.readouterr().err


def test_other_metrics_need_the_runs_of_compare(folder, capsys):
  """What compare_tuned leaves has `runs.csv`, and runs elsewhere."""
  assert _check(folder, 'a<b[rank=1]', '--metric=cluster_accuracy') == 2
  said = capsys.readouterr().err
  assert '`--runs` must hold the runs of `compare`, found none in' in said
  assert 'of compare_tuned, only accuracy and loss of the last round' in said
