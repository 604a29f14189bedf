"""Files that no program can use, and folders of runs that are damaged."""

import io
import json
import pathlib
import sqlite3
import zipfile

import numpy as np

from tests.binaries import wrong_tables
from tff_pers.evaluation import results
from tff_pers.simulation import store

_CLIENT = np.repeat([0, 1], 4)
_X = np.arange(16, dtype=np.float32).reshape(8, 2)
_Y = np.tile([0, 1], 4)
METRICS = 'round,seconds,train_loss,accuracy_mean,loss_mean\n1,1,2,0.5,0.7\n'
CLIENTS = 'client,seen,num_train,num_test,accuracy,loss\n0,1,2,2,0.5,0.7\n'


def write(folder: pathlib.Path) -> None:
  """Writes all of them into `folder`."""
  _write_npz(folder)
  _write_csv(folder)
  _write_yaml(folder)
  _write_runs(folder / 'runs')
  _write_exports(folder)
  (folder / 'file').write_text('no folder')
  (folder / 'empty').mkdir()


def _write_npz(folder: pathlib.Path) -> None:
  good = dict(x=_X, y=_Y, client=_CLIENT)
  for name, changes in dict(
      good={},
      nan=dict(x=np.full([8, 2], np.nan)),
      scalar=dict(x=np.float32(3)),
  ).items():
    np.savez(folder / f'{name}.npz', **{**good, **changes})
  np.savez(folder / 'no_client.npz', x=_X, y=_Y)
  np.savez(folder / 'several.npz', x_a=_X, x_b=_X, y=_Y, client=_CLIENT)
  whole = (folder / 'good.npz').read_bytes()
  (folder / 'cut.npz').write_bytes(whole[:len(whole) // 2])
  (folder / 'void.npz').write_bytes(b'')
  write_claim(folder / 'terabytes.npz', good, shape=(2**40, 4))


def write_claim(path: pathlib.Path, arrays, shape) -> None:
  """Writes an .npz file in which the header of x claims another shape."""
  with zipfile.ZipFile(path, 'w') as whole:
    for name, array in arrays.items():
      member = io.BytesIO()
      if name == 'x':
        np.lib.format.write_array_header_1_0(member, dict(
            descr='<f4', fortran_order=False, shape=shape
        ))
        member.write(array.tobytes())
      else:
        np.save(member, array)
      whole.writestr(f'{name}.npy', member.getvalue())


def _write_csv(folder: pathlib.Path) -> None:
  rows = ['client,y,x0', 'a,0,1.5', 'a,1,2.5', 'b,0,3.5', 'b,1,4.5']
  (folder / 'good.csv').write_text('\n'.join(rows))
  (folder / 'split.csv').write_text(
      'client,y,x0,split\n' + 'a,0,1,train\na,1,2,train\na,1,3,test\n' * 6
  )
  (folder / 'latin.csv').write_bytes('client,y,x0\né,0,1\n'.encode('latin-1'))


def _write_yaml(folder: pathlib.Path) -> None:
  for name, text in dict(
      unknown='algo: fedavg\nlerning_rate: 1',
      bad_type='algo: fedavg\nrounds: ten',
      out_of_range='algo: fedavg\n\nfedavg_learning_rate: -1',
      twice='rounds: 1\nalgo: fedavg\nrounds: 2',
      a_list='algo: fedavg\nrounds: [1, 2]',
      nested='algo:\n  name: fedavg',
      nothing='algo: fedavg\nrounds:',
      code='algo: !!python/object/apply:os.system ["true"]',
      syntax='algo: fedavg\nrounds: [1',
      tab='algo: fedavg\n\trounds: 1',
      several='algo: fedavg\n---\nrounds: 1',
      empty='# nothing',
      a_text='fedavg',
      no_name='? [a, b]\n: 1',
      itself='config: other.yaml',
      deep='[' * 5000,
      boolean='algo: fedavg\nresume: maybe',
      of_fedavg='fedavg_learning_rate: 1',
      of_no_run=json.dumps(dict(variant='fedavg', given=3)),
  ).items():
    (folder / f'{name}.yaml').write_text(text)
  (folder / 'binary.yaml').write_bytes(b'\xff\xfe\xfa\x00')


def write_run(folder: pathlib.Path) -> None:
  """Writes a finished run of one round, without its arrays."""
  folder.mkdir(parents=True)
  flags = dict(
      algo='fedavg', rounds=2, task='digits', partition='iid', num_clients=4,
      seed=0, fedavg_learning_rate=0.3,
  )
  results.write_config(str(folder), dict(
      variant='fedavg', flags=flags, given=flags
  ))
  (folder / results.METRICS).write_text(METRICS)
  (folder / results.CLIENTS).write_text(CLIENTS)
  with store.ClientStateStore(folder / results.CHECKPOINT) as states:
    states.commit((np.zeros(2),), dict(round=1, finished=True))


def _write_runs(folder: pathlib.Path) -> None:
  """Writes runs that differ from a good one in a file each."""
  config = lambda **changes: json.dumps(dict(
      dict(variant='fedavg', flags={}, given={}), **changes
  ))
  for name, (file, text) in dict(
      config_garbage=('config.json', '{"variant": "fedavg"'),
      config_list=('config.json', '[1, 2]'),
      config_no_variant=('config.json', '{"flags": {}, "given": {}}'),
      config_unknown_method=('config.json', config(variant='fedavgg')),
      config_brackets=('config.json', config(variant='fedavg[')),
      config_unknown_flag=('config.json', config(given=dict(speed=3))),
      config_bad_value=('config.json', config(given=dict(rounds='x'))),
      config_given_list=('config.json', config(given=[])),
      metrics_garbage=('metrics.csv', '\x00\x01\x02'),
      metrics_void=('metrics.csv', ''),
      metrics_short=('metrics.csv', METRICS + '2,1'),
      metrics_long=('metrics.csv', METRICS + '2,1,1,1,1,1'),
      metrics_word=('metrics.csv', METRICS + '2,1,low,1,1'),
      metrics_again=('metrics.csv', METRICS + METRICS.splitlines()[1]),
      metrics_fraction=('metrics.csv', METRICS + '2.5,1,1,1,1'),
      clients_word=('clients.csv', CLIENTS.replace('0.7', 'x')),
      clients_column=('clients.csv', CLIENTS.replace('seen,', 'here,')),
      data_word=('data.csv', 'client,group,0\n0,x,1\n'),
      finetuning_column=('finetuning.csv', 'seen,steps\n1,0\n'),
      mixing_garbage=('mixing.npy', 'these are no weights'),
      router_garbage=('router.npy', ''),
      checkpoint_garbage=('checkpoint.sqlite', 'no database' * 100),
  ).items():
    write_run(folder / name)
    (folder / name / file).write_text(text)
  write_run(folder / 'good')
  write_run(folder / 'metrics_binary')
  (folder / 'metrics_binary' / 'metrics.csv').write_bytes(b'\xff\xfe\xfa')
  for name, array in dict(
      mixing_vector=np.ones(3), mixing_integers=np.ones([2, 2], np.int32)
  ).items():
    write_run(folder / name)
    np.save(folder / name / 'mixing.npy', array)
  write_run(folder / 'mixing_terabytes')
  with open(folder / 'mixing_terabytes' / 'mixing.npy', 'wb') as file:
    np.lib.format.write_array_header_1_0(file, dict(
        descr='<f4', fortran_order=False, shape=(2**20, 2**20)
    ))
  for name, position in dict(
      position_garbage='{', position_list='[]', position_word='{"round": "x"}',
      position_other='{"lap": 3}', position_negative='{"round": -1}',
      position_dropped='{"round": 1, "dropped": [[1]]}',
  ).items():
    write_run(folder / name)
    with sqlite3.connect(folder / name / results.CHECKPOINT) as database:
      database.execute(
          "UPDATE meta SET value = ? WHERE key = 'position'", (position,)
      )
    database.close()


def _write_exports(folder: pathlib.Path) -> None:
  """Writes records of exported models, without the models."""
  record = lambda kind, width: json.dumps(dict(
      task='npz', num_classes=2, classes=None, x_shape=[width],
      x_dtype='float32', clients=dict(ann={kind: 'client_ann'}),
  ))
  for name, text in dict(
      exported=record('saved_model', 2), exported_wide=record('saved_model', 7),
      exported_npz=record('npz', 2), exported_garbage='{"clients": {}',
  ).items():
    (folder / name / 'export').mkdir(parents=True)
    (folder / name / 'export' / 'export.json').write_text(text)
  wrong_tables.write(folder / 'tables', record('saved_model', 3))
