"""One self-contained HTML file about runs: no network, no server.

Python collects the contents as one JSON object; the scripts in `web/` turn it
into tables and pictures in the browser. Texts from files (names of clients,
variants, flags) are data there, never markup.
"""

import html
from importlib import resources
import json
from typing import Any, Sequence

from tff_pers.evaluation import curves
from tff_pers.evaluation import figures
from tff_pers.evaluation import results
from tff_pers.evaluation.report import client_data
from tff_pers.evaluation.report import curve_data
from tff_pers.evaluation.report import findings
from tff_pers.evaluation.report import folder_data
from tff_pers.evaluation.report import map_data
from tff_pers.evaluation.report import members as members_lib
from tff_pers.evaluation.report import result_data
from tff_pers.evaluation.report import settings_data

# In the order in which they run.
SCRIPTS = (
    'elements.js', 'numbers.js', 'tables.js', 'axes.js', 'curves.js',
    'lanes.js', 'clients.js', 'maps.js', 'sections.js', 'main.js',
)


def collect(
    runs: Sequence[results.Run], top: str, title: str,
    tables: Sequence[str] = (),
) -> dict[str, Any]:
  """Returns the contents of a page.

  Args:
    runs: Finished or unfinished runs.
    top: Folder to which shown paths are relative.
    title: Title of the page.
    tables: See `folder_data.find`.

  Raises:
    ValueError: If a run lacks keys that all runs have, or a file of `tables` is
      damaged.
  """
  for run in runs:
    members_lib.check(run)
  sections = folder_data.of_paths(tables, top)
  groups = members_lib.groups(folder_data.without_trials(runs, tables))
  members = [member for group in groups for member in group.members]
  return dict(
      title=title,
      colors=figures.COLORS,
      findings=findings.of_groups(groups),
      tables=sections,
      groups=[_group(group, top) for group in groups],
      versions=settings_data.versions(members),
  )


def _group(group: members_lib.Group, top: str) -> dict[str, Any]:
  """Returns the part of a page that shows runs on the same data."""
  maps = map_data.of_group(group.members)
  return dict(
      name=group.name,
      summary=_sentence(group),
      final=result_data.final_values(group),
      results=result_data.results_table(group),
      confusion=result_data.confusion_tables(group),
      across=curves.across([member.run for member in group.members]),
      curves=[
          dict(label=label, **curve_data.of_label(members_lib.tellable(own)))
          for label, own in group.by_label().items()
      ],
      clients=client_data.of_group(group.members),
      maps=maps['maps'],
      maps_left_out=map_data.summary(maps),
      costs=result_data.costs_table(group),
      tiers=result_data.tiers_table(group),
      finetuning=result_data.finetuning_table(group),
      settings=settings_data.of_group(group),
      runs=result_data.runs_table(group, top),
  )


def _sentence(group: members_lib.Group) -> str:
  """Returns a sentence on how data were read and what was run on them."""
  config = group.members[0].run.config
  flags = config['flags']
  seeds = sorted({member.seed for member in group.members})
  count = lambda number, word: f'{number} {word}' + 's' * (number != 1)
  return f'{config.get("about", "")} '.lstrip() + ', '.join([
      count(len(group.by_label()), 'method'),
      count(flags['num_clients'], 'client'),
      count(len(seeds), 'seed'),
      count(len(group.members), 'run'),
  ]) + '.'


def render(data: dict[str, Any]) -> str:
  """Returns the page as HTML."""
  files = resources.files(__package__).joinpath('web')
  read = lambda name: files.joinpath(name).read_text(encoding='utf-8')
  colors = ' '.join(f'--c{i}: {c};' for i, c in enumerate(data['colors']))
  parts = {
      'title': html.escape(data['title']),
      'palette': ':root { ' + colors + ' }',
      'style': read('style.css'),
      'data': as_json(data),
      'scripts': '\n'.join(read(name) for name in SCRIPTS),
  }
  page = read('page.html')
  # One pass, so that inserted parts are not searched for placeholders.
  pieces = page.split('{{')
  return pieces[0] + ''.join(
      parts[name] + rest
      for name, _, rest in (piece.partition('}}') for piece in pieces[1:])
  )


def as_json(data: Any) -> str:
  """Returns JSON that cannot close the script element that contains it."""
  text = json.dumps(
      data, ensure_ascii=True, allow_nan=False, separators=(',', ':')
  )
  for sign in '<>&':
    text = text.replace(sign, f'\\u{ord(sign):04x}')
  return text
