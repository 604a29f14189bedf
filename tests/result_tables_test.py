"""Tables of pages are those of results/, and rows of results/ those of runs."""

import json
import re

import pytest

from tests import result_tables
from tff_pers.evaluation import results

PAGES = {
    path.relative_to(result_tables.ROOT).as_posix(): path.read_text('utf-8')
    for path in result_tables.PAGES
}
NAMES = sorted(
    path.relative_to(result_tables.RESULTS).with_suffix('').as_posix()
    for path in result_tables.RESULTS.rglob('*.csv')
)


@pytest.mark.parametrize(
    'page', [name for name, text in PAGES.items() if '<!-- table:' in text]
)
def test_a_page_has_the_tables_of_its_rows(page):
  """`make tables` writes them."""
  assert result_tables.rendered(PAGES[page]) == PAGES[page]


def _typed_tables(text):
  """Returns first lines of tables outside of blocks, a third of them numbers.

  Whole numbers do not count: they are sizes of models, or choices.
  """
  lines = result_tables.BLOCK.sub('', text).split('\n')
  found = []
  for number, line in enumerate(lines):
    if re.fullmatch(r'\|[-:| ]+\|', line):
      cells = []
      for row in lines[number + 1:]:
        if not row.startswith('|'):
          break
        cells += [cell.strip(' *') for cell in row[1:-1].split('|')[1:]]
      numbers = [c for c in cells if re.match(r'[-\d,]*(\.|\de-?)\d', c)]
      if 3 * len(numbers) > len(cells):
        found.append(lines[number - 1])
  return found


@pytest.mark.parametrize('page', PAGES)
def test_no_table_of_results_is_typed(page):
  assert not _typed_tables(PAGES[page])


def test_a_typed_table_is_found():
  text = '| method | a |\n|---|---|\n| perm | **0.91** ± 0.01 |\n| x | |\n'
  assert _typed_tables(text) == ['| method | a |']
  assert _typed_tables(text.replace('**0.91** ± 0.01', '2e-15'))
  assert not _typed_tables(text.replace('0.91', 'better'))
  assert not _typed_tables(f'<!-- table: a/b -->\n{text}<!-- /table -->')


def test_every_file_of_rows_is_quoted_by_a_page():
  text = '\n'.join(PAGES.values())
  blocks = [
      re.sub(',.*', '', m[2]) for m in result_tables.BLOCK.finditer(text)
  ]
  # A block of a folder shows all of its files.
  shown = set(blocks)
  assert all({name, name.split('/')[0]} & shown for name in NAMES)
  assert shown <= {*NAMES, *(name.split('/')[0] for name in NAMES)}
  # None is left out because of its form.
  assert len(blocks) == len(re.findall('<!-- table', text))
  assert len(blocks) == len(re.findall('<!-- /table', text))


@pytest.mark.parametrize(
    'name', [name for name in NAMES if not result_tables.is_cells(name)]
)
def test_rows_are_runs(name):
  rows = result_tables.read(name)
  assert len({(row['variant'], row['seed']) for row in rows}) == len(rows)
  for row in rows:
    assert int(row['seed']) >= 0 and int(row['rounds']) >= 1
    assert re.fullmatch('[0-9a-f]{8,}', row['commit']), row
    assert re.fullmatch('[0-9a-f]{8}', row['golden']), row
    # No folder of somebody's machine.
    assert not re.search("='?[/~]", row['flags']), row


@pytest.fixture(name='folder')
def _folder(tmp_path, monkeypatch):
  """Returns a folder as compare_tuned leaves it, of two seeds."""
  monkeypatch.setattr(result_tables, 'RESULTS', tmp_path / 'results')
  _write(tmp_path / 'part', '0.1', [0.5, 0.7])
  return tmp_path / 'part'


def _write(folder, rate, accuracies, seeds=(0, 1), options='', tiers=()):
  folder.mkdir(exist_ok=True)
  # As in trials of other values, the first is no run of the table.
  for value in ('9', rate):
    for seed, accuracy in zip(seeds, accuracies):
      run = folder / f'{value}-{seed}'
      results.write_config(str(run), dict(
          variant=f'fedavg[{options}learning_rate={value},local_steps=5]',
          flags=dict(seed=seed),
          given=dict(
              algo='fedavg', task='digits', partition='dirichlet[alpha=0.5]',
              data_dir='/home/me', seed=seed, fedavg_batch_size=5,
              fedavg_learning_rate=float(value), fedavg_local_steps=5,
          ),
      ))
      results.write_csv(
          str(run / 'metrics.csv'),
          ('round', 'bytes_down', 'bytes_up', 'loss_mean', 'train_loss'), [
              dict(round=r, bytes_down=r * 100.0, bytes_up=50.0,
                   loss_mean=loss, train_loss=loss / 2)
              for r, loss in ((1, 0.5), (10, 0.25), (20, 0.3))
          ],
      )
      results.write_tiers(str(run), [
          dict(algo='fedavg', seed=seed, round=r, tier=tier, parameters=1000 * tier,
               accuracy=accuracy - 0.1 / tier - 0.01 * (20 - r), loss=1.0)
          for r in (1, 20) for tier in tiers
      ])
  variant = f'fedavg[{options[:-1]}]' if options else 'fedavg'
  results.write_csv(
      str(folder / 'runs.csv'),
      ('algo', 'seed', 'accuracy', 'accuracy_worst_decile', 'loss'), [
          dict(algo=variant, seed=seed, accuracy=accuracy,
               accuracy_worst_decile=0.25, loss=1 / 3)
          for seed, accuracy in zip(seeds, accuracies)
      ],
  )
  row = dict(
      algo=variant, learning_rate=rate, own='local_steps=5', at_border='yes',
      seeds=len(seeds),
  )
  results.write_csv(str(folder / 'summary.csv'), list(row), [row])


def _add(folder, **golden):
  """Adds a folder to results/ of the test as if `golden` were of its commit."""
  made = {**result_tables._golden_today(), **golden}
  before = result_tables.rows_of
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(result_tables, '_git', lambda *words: '{}')
    patch.setattr(
        result_tables, 'rows_of', lambda *given: before(given[0], 'abc', made)
    )
    result_tables.add('benchmark/part', str(folder))


def test_a_table_is_that_of_the_runs(folder):
  _add(folder)
  text = result_tables.rendered(
      'Before\n<!-- table: benchmark/part -->\nold\n<!-- /table -->\nAfter'
  )
  head, cells = [
      [cell.strip() for cell in line.split('|')[1:-1]]
      for line in text.splitlines() if line.startswith('| ')
  ]
  assert dict(zip(head, cells)) == {
      'method': '`fedavg`',
      'chosen': 'learning_rate=0.1, local_steps=5 (border)', 'seeds': '2',
      'accuracy': '0.6000 ± 0.1414', 'worst decile': '0.2500',
      'kB down': '2.0', 'kB up': '0.1',
  }
  assert text.startswith('Before\n<!-- table: benchmark/part -->\n\n| method')
  assert text.endswith('.)\n\n<!-- /table -->\nAfter') and 'old' not in text


def test_losses_are_shown_where_a_page_asks(folder):
  _add(folder)
  text = result_tables.rendered(
      '<!-- table: benchmark/part with losses -->\n<!-- /table -->'
  )
  head, cells = [
      [cell.strip() for cell in line.split('|')[4:8]]
      for line in text.splitlines() if line.startswith('| ')
  ]
  assert head == ['accuracy', 'loss', 'least loss', 'train loss']
  # The loss of runs.csv, the least of three rounds, the last of training.
  assert cells[1:] == ['0.3333', '0.2500', '0.1500']
  assert text.startswith('<!-- table: benchmark/part with losses -->\n\n| method')


def test_a_row_says_what_its_run_was(folder):
  _add(folder)
  row = result_tables.read('benchmark/part')[1]
  assert row['algo'] == 'fedavg[learning_rate=0.1,local_steps=5]'
  assert row['flags'] == (
      "--task=digits --partition='dirichlet[alpha=0.5]' --data_dir=DATA"
      ' --fedavg_batch_size=5'
  )
  assert (row['seed'], row['rounds'], row['loss']) == ('1', '20', '0.333333')


def test_tiers_are_those_of_the_last_round(folder):
  _write(folder, '0.1', [0.5, 0.7], tiers=(2, 1))
  _add(folder)
  assert result_tables.read('benchmark/part')[1]['tiers'] == '2000:0.65 1000:0.6'
  assert '| 2,000: 0.5500, 1,000: 0.5000 |' in result_tables.table('benchmark/part')


def test_a_run_that_diverged_has_no_row(folder):
  results.write_diverged(str(folder / '0.1-0'), 'The loss must stay finite.')
  _add(folder)
  assert [row['seed'] for row in result_tables.read('benchmark/part')] == ['1']


def test_runs_replace_those_of_their_variant_and_seed(folder):
  _add(folder)
  _write(folder, '0.3', [0.8, 0.9], seeds=(1, 2))
  _write(folder.parent / 'other', '0.3', [0.4], options='batch_size=7,')
  _add(folder)
  _add(folder.parent / 'other')
  assert [
      (row['variant'], row['seed'], row['accuracy'])
      for row in result_tables.read('benchmark/part')
  ] == [
      ('fedavg', '0', '0.5'), ('fedavg', '1', '0.8'), ('fedavg', '2', '0.9'),
      ('fedavg[batch_size=7]', '0', '0.4'),
  ]
  # No mean over what was chosen before and now.
  lines = result_tables.table('benchmark/part').splitlines()
  assert [line.count('fedavg') for line in lines[2:6]] == [1, 1, 1, 0]


def test_a_method_that_has_changed_since_is_marked(folder):
  _add(folder, fedavg='00000000')
  text = result_tables.table('benchmark/part')
  assert '| `fedavg` † |' in text
  assert text.endswith(
      '† Stale: `fedavg`, whose recorded values have changed since abc.'
  )


@pytest.mark.parametrize('was, now, answer', [
    ('', '', ''),
    ('--task=', '--no_flag=', '`--no_flag` is not a flag.'),
    ('=digits', '=no_task', 'no_task'),
    ('--fedavg_batch_size', '--perm_batch_size', 'method perm'),
    ('local_steps=5]', 'local_steps=-5]', '`--fedavg_local_steps` must be'),
    ('local_steps=5]', 'no_option=5]', 'no_option'),
])
def test_a_row_whose_flags_are_refused_is_marked(folder, was, now, answer):
  _add(folder)
  path = result_tables.RESULTS / 'benchmark/part.csv'
  path.write_text(path.read_text('utf-8').replace(was, now), 'utf-8')
  text = result_tables.table('benchmark/part')
  assert text.count('†') == 2 * bool(answer)
  # Once, though there are two seeds.
  assert ('† Stale: `fedavg`, whose flags are refused: ' in text) == bool(answer)
  assert answer in text.splitlines()[-1]


@pytest.mark.parametrize('golden, note', [
    ('fedavg', ''),
    ('other', '`fedavg`, whose recorded values have changed since abc.'),
    ('', '`fedavg`, whose values were not recorded yet at abc.'),
])
def test_a_table_that_is_not_of_runs(golden, note, monkeypatch, tmp_path):
  monkeypatch.setattr(result_tables, 'RESULTS', tmp_path / 'results')
  today = result_tables._golden_today()
  made = dict(fedavg=today['fedavg'] if golden == 'fedavg' else golden)
  monkeypatch.setattr(result_tables, '_git', lambda *words: 'abc\n')
  monkeypatch.setattr(result_tables, 'golden_hashes', lambda _: made)
  file = tmp_path / 'seconds.csv'
  file.write_text('method,s / round,at\n`fedavg` (W1),0.123456789,\nby hand,3,x\n')
  result_tables.add_cells('costs/rounds', str(file))
  lines = result_tables.table('costs/rounds').splitlines()
  assert [[c.strip() for c in line.split('|')[1:-1]] for line in lines[2:4]] == [
      ['`fedavg` (W1)', '0.1235', ''], ['by hand', '3', 'x'],
  ]
  assert lines[5] == '(`results/costs/rounds.csv`, commit abc.)'
  assert ''.join(lines[6:]) == ('† Stale: ' + note if note else '')
  # What nobody has measured has no table.
  with pytest.raises(ValueError, match='must have rows, found none'):
    result_tables.add_cells('costs/rounds', str(tmp_path / 'none.csv'))


def test_a_table_of_some_tasks(folder):
  for name in ('one', 'two', 'three'):
    _add(folder)
    path = result_tables.RESULTS / 'benchmark'
    (path / 'part.csv').rename(path / f'{name}.csv')
  text = result_tables.table('benchmark/two,one')
  assert re.findall(r'^\| (one|two|three) ', text, re.MULTILINE) == ['two', 'one']


def test_values_are_told_apart_by_their_hash():
  texts = [json.dumps(dict(a=dict(x=[x], y=[0.0]), b={})) for x in (1.0, 2.0)]
  one, two = map(result_tables.golden_hashes, texts)
  assert one['a'] != two['a'] and one['b'] == two['b']
  assert result_tables.golden_hashes('{"a": {"y": [0.0], "x": [1.0]}}')['a'] == one['a']


def test_a_folder_without_the_runs_is_refused(folder):
  with pytest.raises(ValueError, match='summary.csv'):
    _add(folder.parent)
  (folder / '0.1-1' / 'config.json').unlink()
  with pytest.raises(ValueError, match='a run of fedavg with seed 1, found none'):
    _add(folder)
  with pytest.raises(ValueError, match='rows in results/, found benchmark/part'):
    result_tables.table('benchmark/part')
