"""Tables that cannot be used: their bytes, flags, and the one sentence.

As in `wrong_inputs.txt`, which has the others; `write` writes the files.
"""

import gzip
import pathlib

from tff_pers.data import features
from tff_pers.evaluation import results

_GOOD = 'client,y,a,b\nann,0,1.5,2\nann,1,2.5,3\nbob,0,3.5,4\nbob,1,4.5,5\n'


def _rows(*cells, header='client,y,a,b'):
  return '\n'.join([header, *cells, 'ann,1,2,3', 'bob,0,3,4', 'bob,1,4,5'])


def _column(cells):
  """Returns a table whose column a has these cells."""
  return 'client,y,a,b\n' + ''.join(
      f'ann,{row % 2},{cell},2\n' for row, cell in enumerate(cells)
  )


# By name: content of a .csv (or contents by name of a folder), flags, message.
_TABLES = {
    'spreadsheet': (b'PK\x03\x04' + bytes(99), '', 'found a spreadsheet. Tip'),
    'old_spreadsheet': (b'\xd0\xcf\x11\xe0' + bytes(99), '', 'a spreadsheet'),
    'columns_of_parquet': (b'PAR1' + bytes(99), '', '--task=parquet'),
    'zeros': (bytes(99), '', 'must be a text, found 99 bytes of 0'),
    'two_encodings': (
        'éèêëü,y,a\n'.encode() + b'\xe9', '', 'found UTF-8 with 1 other bytes'
    ),
    'no_encoding': (_GOOD.encode() + b'\x81', '', "codec can't decode byte 0x81"),
    'half_of_utf_16': (
        b'\xff\xfe' + _GOOD.encode('utf-16-le')[:-1], '', 'readable CSV file'
    ),
    'half_of_gzip': (gzip.compress(_GOOD.encode())[:-12], '', 'readable CSV'),
    'json': ('[{"client": "ann", "y": 0, "a": 1}]', '', 'found no client among'),
    'numbers_alone': ('ann,0,1\nann,1,2\n', '', 'found no client among ann, 0'),
    'user_id': (
        _GOOD.replace('client', 'user_id'), '', "--csv_client_column='user_id'."
    ),
    'hospital_id': (
        _GOOD.replace('client', 'Hospital ID'), '',
        "--csv_client_column='Hospital ID'.",
    ),
    'target': (_GOOD.replace('y', 'target'), '', "--csv_label_column='target'."),
    'large_y': (_GOOD.replace('y', 'Y'), '', "--csv_label_column='Y'."),
    'no_such_client': (
        _GOOD, '--csv_client_column=klient',
        "--csv_client_column, found no 'klient' among client, y, a, b. Tip: 'cl",
    ),
    'no_such_label': (
        _GOOD, '--csv_label_column=z', "--csv_label_column, found no 'z' among"
    ),
    'no_such_split': (
        _GOOD, '--csv_split_column=fold', '--csv_split_column, found no'
    ),
    'no_such_column_to_drop': (
        _GOOD, '--csv_drop_columns=a,B,c', "found no 'B' among client, y, a, b."
        " Tip: 'b'.",
    ),
    'no_such_codes': (_GOOD, '--csv_categorical=cp', "found no 'cp' among a, b"),
    'codes_of_y': (_GOOD, '--csv_categorical=y', "found no 'y' among a, b"),
    'no_such_dates': (_GOOD, '--csv_dates=day', "found no 'day' among a, b"),
    'client_as_label': (
        _GOOD, '--csv_label_column=client', 'must be three columns, found'
    ),
    'label_without_a_name': (
        _GOOD, '--csv_label_column=', "must be three columns, found 'client', ''"
    ),
    'all_dropped': (_GOOD, '--csv_drop_columns=a,b', 'at least one column of fe'),
    'client_dropped': (_GOOD, '--csv_drop_columns=client', 'found no client'),
    'label_beside_y': (
        _GOOD, '--csv_label_column=a',
        'found y 2 times, which is not --csv_label_column=a',
    ),
    'split_of_three': (
        _rows('ann,0,1,dev'), '--csv_split_column=b', "found 'dev' at client ann"
    ),
    'a_name_twice': (_GOOD.replace('b\n', 'a\n', 1), '', 'once, found a 2 times'),
    'empty_columns_behind': (
        'client;y;a;;\nann;0;1;;\nann;1;2;;\n', '', 'found column 4 without a na'
    ),
    'no_y_at_all': (
        'client,y,a\nann,,1\nann,NA,2\n', '', 'must hold y for at least one'
    ),
    'one_class_with_y': (
        'client,y,a\nann,yes,1\nann,yes,2\nann,,3\n', '', 'at least 2 classes'
    ),
    'names_and_numbers_of_classes': (
        'client,y,a\nann,yes,1\nann,0,2\nann,no,3\n', '', "found 'yes' at client"
    ),
    'typing_error': (
        _column([*range(20), '2O']), '',
        "is one except for '2O'; it must be in every line, found '2O' at client ann",
    ),
    'typing_error_as_category': (
        _column([*range(20), '2O']), '--csv_categories=one_hot',
        "in 20, found 1 that is not ('2O'), the first at client ann in line 22.",
    ),
    'thousands': (_column(['"1,234"', '"2,345"']), '', "found '1,234' at client"),
    'decimals_of_two_kinds': (
        _column(['"1,5"', '2.5', '3.5']), '', "found '1,5' at client ann"
    ),
    'money': (_column(['$5', '$6']), '', "found '$5' at client ann in line 2"),
    'percent': (_column(['5%', '6%']), '', "found '5%' at client ann in line 2"),
    'dates': (_column(['2024-01-31'] * 3), '', '--csv_dates=a makes year, month'),
    'dates_of_america': (
        _column(['01/31/2024'] * 3), '--csv_dates=a', 'must be a date, as 2024-01'
    ),
    'days_that_are_none': (
        _column(['2024-02-30']), '--csv_dates=a', "found '2024-02-30' at client"
    ),
    'dates_that_are_missing': (
        _column(['2024-01-31', '']), '--csv_dates=a', '--csv_missing=mean fills'
    ),
    'names_of_patients': (
        _column([f'p{row}' for row in range(30)]), '', '--csv_drop_columns=a le'
    ),
    'too_many_texts': (
        _column([f't{row}' for row in range(1001)]), '--csv_categories=one_hot',
        'at most 1000 distinct texts',
    ),
    'codes_of_nobody': (
        _rows('ann,0,,1'), '--csv_categorical=a', 'a must be a text in every line'
    ),
    'time_that_never_ends': (
        _rows('ann,0,1e39,1'), '', 'a must be finite (float32) in every line'
    ),
    'files_of_other_columns': (
        {'ann.csv': 'y,a\n0,1\n', 'bob.csv': 'y,b\n0,1\n'}, '',
        'must hold files with the same columns, found a, b in one of',
    ),
    'files_of_a_split': (
        {'train.csv': 'y,a\n0,1\n', 'test.csv': 'y,a\n0,1\n'}, '',
        'Tip: one file with a column split.',
    ),
    'files_without_y': (
        {'ann.csv': 'a\n1\n', 'bob.csv': 'a\n2\n'}, '', 'found no y among a, clie'
    ),
    'a_file_that_is_none': (
        {'ann.csv': 'y,a\n0,1\n', 'bob.csv': b'PK\x03\x04'}, '', 'bob.csv must be'
    ),
    'a_word_in_a_file': (
        {'ann.csv': 'y,a\n0,1\n1,2\n', 'bob.csv': 'y,a\n0,1\n1,x\n'}, '',
        "found 'x' at client bob in line 3 of bob.csv.",
    ),
}

_LATER = {
    'later_capitals': (
        'client,y,AGE,town\nann,0,1,rome\n', "found no 'age' among client, y, AGE,"
        " town. Tip: rename 'AGE'.",
    ),
    'later_without_a_column': (
        'client,y,age\nann,0,1\n', "found no 'town' among client, y, age."
    ),
    'later_with_a_text': (
        'client,age,town\nann,old,rome\n', "age must be a number in every line"
    ),
    'later_with_a_gap': (
        'client,age,town\nann,,rome\n', 'Tip: the training data had no such cells'
    ),
    'later_without_clients': ('user,age,town\nann,1,rome\n', 'found no client'),
    'later_spreadsheet': (b'PK\x03\x04', 'must be a text, found a spreadsheet'),
    'later_stranger': (
        'client,age,town\nzoe,1,rome\n', "was exported (ann), found 'zoe'"
    ),
    'later_ragged': ('client,age,town\nann,1\n', 'found 2 in line 2 (client ann)'),
}

TABLES = {
    **{
        f'table_{name}': (
            f'train --algo=fedavg --task=csv --data_dir={{f}}/tables/{name}'
            + ('' if isinstance(content, dict) else '.csv')
            + (f' {typed}' if typed else ''), message,
        ) for name, (content, typed, message) in _TABLES.items()
    },
    **{
        f'table_{name}': (
            'predict --run={f}/tables/run --data_dir={f}/tables/' + f'{name}.csv',
            message,
        ) for name, (_, message) in _LATER.items()
    },
}


def write(folder: pathlib.Path, exported: str) -> None:
  """Writes the tables, and a run to predict with.

  Args:
    folder: Where to.
    exported: The record of its models.
  """
  contents = {
      **{name: content for name, (content, _, _) in _TABLES.items()},
      **{name: content for name, (content, _) in _LATER.items()},
  }
  folder.mkdir()
  for name, content in contents.items():
    files = {f'{name}.csv': content}
    if isinstance(content, dict):
      (folder / name).mkdir()
      files = {f'{name}/{file}': text for file, text in content.items()}
    for file, text in files.items():
      (folder / file).parent.mkdir(parents=True, exist_ok=True)
      (folder / file).write_bytes(
          text if isinstance(text, bytes) else text.encode()
      )
  (folder / 'run' / 'export').mkdir(parents=True)
  (folder / 'run' / 'export' / 'export.json').write_text(exported)
  results.write_features(str(folder / 'run'), features.Features((
      features.Feature('age', 50.0, 10.0, False),
      features.Feature('town', 0.0, 1.0, False, ('oslo', 'rome')),
  ), True))
