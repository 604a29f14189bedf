"""The program `cost`: its tables."""

import json

from binaries import cost
from tests import csv_rows

_rows = csv_rows.read

MLP = ['--model=mlp_20', '--input_shape=12', '--num_classes=3']
METRICS = (
    'round,accuracy_mean,bytes_down,bytes_up\n'
    '1,0.5,40,60\n2,0.85,40,60\n3,0.9,40,60\n'
)


def _write_run(folder, algo, tiers=()):
  folder.mkdir()
  config = dict(
      variant=algo, flags=dict(seed=0), given=dict(
          algo=algo, task='digits', model='mlp_small'
      ),
      cost=dict(macs=10.0, examples=3.0),
  )
  (folder / 'config.json').write_text(json.dumps(config))
  (folder / 'metrics.csv').write_text(METRICS)
  if tiers:
    rows = ''.join(f'{algo},0,{tier},1,0.5,1\n' for tier in tiers)
    (folder / 'tiers.csv').write_text(
        f'algo,seed,tier,parameters,accuracy,loss\n{rows}'
    )


def test_table_of_methods(tmp_path, capsys):
  assert cost.main([
      '', '--algos=fedavg,fedhm[tiers=1:0.5],floral,floral[rank=2]',
      '--floral_rank=1', *MLP, f'--output_dir={tmp_path}',
  ]) == 0
  *rows, one, two = _rows(tmp_path / 'cost.csv')
  # What is in brackets overrides the flag.
  assert int(two['bytes_up']) > int(one['bytes_up'])
  full = 12 * 20 + 20 + 20 * 3 + 3
  # The first layer has rank 10: r (m + n) and its bias.
  half = 10 * (12 + 20) + 20 + 20 * 3 + 3
  assert [tuple(row.values()) for row in rows] == [
      (algo, 'mlp_20', tier, *map(str, (n, n - 23, 4 * n, 4 * n)))
      for algo, tier, n in (
          ('fedavg', '1', full), ('fedhm[tiers=1:0.5]', '1', full),
          ('fedhm[tiers=1:0.5]', '0.5', half),
      )
  ]
  assert '| bytes_down |' in capsys.readouterr().out


def test_layers_of_every_tier(tmp_path, capsys):
  """FedHM, Figure 7: the rank of the first layer is 10."""
  assert cost.main([
      '', '--algo=fedhm[tiers=1:0.5]', '--layers=true', *MLP,
      f'--output_dir={tmp_path}',
  ]) == 0
  sizes = {('1', 'dense_0'): (260, 240), ('1', 'dense_1'): (63, 60),
           ('0.5', 'dense_0'): (340, 320), ('0.5', 'dense_1'): (63, 60)}
  assert {
      (row['tier'], row['layer']): (int(row['parameters']), int(row['macs']))
      for row in _rows(tmp_path / 'layers.csv')
  } == sizes
  assert '| layer ' in capsys.readouterr().out
  assert len(_rows(tmp_path / 'cost.csv')) == 2


def test_cost_of_runs_until_an_accuracy(tmp_path, capsys):
  _write_run(tmp_path / 'a', 'fedavg')
  fedhm = 'fedhm[tiers=1:0.25]'
  _write_run(tmp_path / 'b', fedhm, tiers=('1', '0.25'))
  assert cost.main([
      '', f'--runs={tmp_path}', '--accuracy=0.8', f'--output_dir={tmp_path}'
  ]) == 0
  rows = _rows(tmp_path / 'cost_to_accuracy.csv')
  assert [(row['algo'], row['tier']) for row in rows] == [
      ('fedavg', 'mean'), (fedhm, 'mean'), (fedhm, '1'), (fedhm, '0.25'),
  ]
  assert {row['rounds'] for row in rows} == {'2'}
  assert [float(row['bytes']) for row in rows[:2]] == [200, 200]
  assert float(rows[0]['macs']) == 2 * 10 * 3
  # `mlp_small` on digits: 64 inputs, 64 units, 10 classes; rank 16.
  full, small = 64 * 64 + 64 + 650, 16 * 128 + 64 + 650
  assert [float(row['bytes']) for row in rows[2:]] == [
      2 * 2 * 4 * full, 2 * 2 * 4 * small
  ]
  assert 'cost_to_accuracy.csv' in capsys.readouterr().out
