"""The page of `choose`: reads the runs, decides, writes tables."""

import os
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

import numpy as np

from tff_pers.config import methods
from tff_pers.core import files
from tff_pers.data import brackets
from tff_pers.evaluation import comparison
from tff_pers.evaluation import decision as decision_lib
from tff_pers.evaluation import decision_page
from tff_pers.evaluation import quality
from tff_pers.evaluation import results
from tff_pers.evaluation import summary
from tff_pers.evaluation import trials as trials_lib
from tff_pers.evaluation.report import folder_data
from tff_pers.experiments import budgets
from tff_pers.experiments import flags
from tff_pers.experiments import report_file
from tff_pers.experiments import sweep as sweep_lib
from tff_pers.experiments import variant_search

_TEXT, _PAGE = 'choice.md', 'choice.html'
# What the defaults of other methods are measured by, and how far they may be
# below: in accuracy, or relative to a loss.
_PLAIN = ('local_only', 'fedavg', 'fedavg_finetuned')
_BELOW, _ABOVE = 0.015, 0.03
_COMMAND = """\
Train on all training data{}, and export
every client's model to `export/`:

```
{}
```

`python -m binaries.predict --run=FOLDER --data_dir=FILE` applies the models to
other rows."""
_NOTES = """\
* A client's value is its mean over seeds; intervals and tests are over clients,
  which are treated as independent. Clients learn from each other, so intervals
  are slightly too narrow. p values are not corrected for the number of
  methods.
* `difference` > 0: the method is better than the recommended one on test data.
* Recommended is the simplest method (the first in `--algos`) whose paired
  difference from the best is at most one standard error on validation data.
  Test data are not used for the decision.
* `share_hurt_vs_X`: share of clients that are worse off than with X, mean over
  seeds. `{}_worst_decile`: mean over the worst 10 % of the clients.
* `seconds` is that of one whole run, `bytes_per_client` (down and up) that of
  a client that takes part in all of its rounds."""

_SPLITS_NOTE = """
* `--splits`: each seed splits the rows differently, and intervals and tests
  include the noise of splitting: the variance of the mean over splits, divided
  by their number, is added to the squared standard error over clients."""


class Results(NamedTuple):
  """The results that the page shows.

  Attributes:
    sweep: What runs trials and final runs.
    asked_seeds: The requested seeds of the final runs.
    searches: Searches by variant, simple methods first.
    chosen: The chosen trials; variants without a complete run have none.
    seeds: Seeds of the final runs.
    seconds: Total time.
  """

  sweep: sweep_lib.Sweep
  asked_seeds: Sequence[int]
  searches: Mapping[str, variant_search.VariantSearch]
  chosen: Mapping[str, trials_lib.Trial]
  seeds: Sequence[int]
  seconds: float

  @property
  def metric(self) -> str:
    """The metric of validation data, the same for all methods."""
    return next(iter(self.searches.values())).metric

  @property
  def by_split(self) -> bool:
    """Whether intervals include the noise of splitting."""
    return self.sweep.given.get('splits', 1) > 1 and len(self.seeds) > 1

  def runs(self) -> comparison.Runs:
    """Returns the final runs."""
    return {
        (variant, seed): self.searches[variant].result(trial, seed)
        for variant, trial in self.chosen.items() for seed in self.seeds
    }


def write(found: Results) -> int:
  """Writes the page and prints the recommendation; returns the exit code.

  Raises:
    flags.Failure: If no method has a complete run.
  """
  top, metric, runs = found.sweep.folder, found.metric, found.runs()
  trials, _ = variant_search.write(top, found.searches, found.chosen)
  methods = decision_page.methods(
      runs,
      {v: found.searches[v].chosen_variant(t) for v, t in found.chosen.items()},
      {v: len(own) for v, own in trials.items()}, metric,
      by_split=found.by_split,
  )
  if not methods:
    raise flags.Failure(
        f'No method finished a run; see trials.csv in {top}. Tip: a longer'
        ' --budget, which continues these runs, or fewer --rounds in another'
        ' --output_dir.'
    )
  validation = {v: method.validation for v, method in methods.items()}
  decision = decision_lib.decide(validation, metric)
  order = decision_lib.ranked(validation, metric)
  about = next(
      (run.config.get('about') for run in runs.values() if run is not None), ''
  )
  sentences = [
      *filter(None, [about]),
      decision_page.recommendation(
          decision, list(found.searches), metric, len(methods)
      ),
      decision_page.test_sentence(methods, decision.algo, metric)
      + _recognized(runs, decision.algo, found.seeds),
  ]
  what = methods, order, metric, decision.algo
  ranking = _write_ranking(top, decision_page.choice_rows(*what), metric)
  rows = decision_page.difference_rows(*what)
  columns = list(decision_page.DIFFERENCE_COLUMNS)
  results.write_csv(os.path.join(top, folder_data.DIFFERENCES), columns, rows)
  differences = results.markdown(columns, rows)
  effort = _effort(found, trials, methods) + poor_defaults(trials, metric)
  notes = _NOTES.format(metric) + _SPLITS_NOTE * found.by_split
  command, named = _command(found, methods[decision.algo]), _named(methods)
  _write_text(os.path.join(top, folder_data.SENTENCES), [
      *(sentence.replace('**', '') for sentence in sentences), effort,
      f'To train and export the models: `{" ".join(command)}`',
      folder_data.NOTES, *(line[2:] for line in named),
      *(' '.join(note.split()) for note in notes[2:].split('\n* ')),
  ])
  _write_text(os.path.join(top, _TEXT), [
      f'# Which method for {_data(found.sweep.given)}?', *sentences, ranking,
      effort, '## Compared with the recommended method, on test data',
      differences,
      '## Export the models', _COMMAND.format(
          ' except the validation part, which decides when training ends'
          if any('rounds=auto' in part for part in command)
          else ', including those for validation', ' \\\n  '.join(command),
      ),
      '## The methods', '\n'.join(named),
      '## How to read this', notes,
  ])
  print('\n' + '\n\n'.join([*sentences, ranking]))
  page = report_file.write([top], os.path.join(top, _PAGE))
  print(f'\nThe page is {page}; a short version is {os.path.join(top, _TEXT)}.')
  return 0


def _recognized(
    runs: comparison.Runs, algo: str, seeds: Sequence[int]
) -> str:
  """Returns a sentence: the recommended method's recall of each class."""
  ended = [runs[algo, seed] for seed in seeds]
  tables = [results.read_confusion(run.folder) for run in ended if run]
  found = [table for table in tables if table is not None]
  if not found:
    return ''
  total = np.sum([table for table, _ in found], axis=0)
  return f' {quality.recognized_sentence(total, found[0][1])}'


def _write_ranking(top: str, rows, metric: str) -> str:
  """Writes `choice.csv`; returns the table in Markdown, with its metric."""
  columns = decision_page.COLUMNS
  results.write_csv(os.path.join(top, folder_data.CHOICE), columns, rows)
  shown = [
      {
          column.replace('accuracy', metric):
              row[column.replace('accuracy', 'value')]
          for column in columns if not column.startswith(('metric', 'value'))
      } for row in rows
  ]
  return results.markdown(list(shown[0]), shown)


def _write_text(path: str, blocks: Sequence[str]) -> None:
  files.write_text(path, '\n\n'.join(blocks) + '\n')


def _data(given: Mapping[str, Any]) -> str:
  """Returns the name of the data."""
  task, path = given.get('task', flags.DEFAULTS['task']), given.get('data_dir')
  return f'{task} ({os.path.basename(path)})' if path else task


def _effort(found: Results, trials, methods) -> str:
  """Returns what was run, and which methods have no row."""
  seeds = ', '.join(map(str, found.seeds))
  asked = len(found.asked_seeds)
  missing = '' if len(found.seeds) == asked else (
      f' ({asked} were requested; the budget was too short)'
  )
  text = (
      f'{sum(map(len, trials.values()))} trials of {len(trials)} methods, then'
      f' seeds {seeds}{missing}, in {budgets.as_text(found.seconds)}'
  )
  budget = found.sweep.given.get('budget')
  text += f' of a budget of {budget}.' if budget else '.'
  lost = [
      f'{algo} ({_reason(own, algo in found.chosen)})'
      for algo, own in trials.items() if algo not in methods
  ]
  if lost:
    text += f' Left out: {", ".join(lost)}.'
  return text


def poor_defaults(
    trials: Mapping[str, Sequence[trials_lib.Trial]], metric: str
) -> str:
  """Returns a sentence on methods whose defaults do not suit this data.

  The metric is that of the trials' validation data.
  """
  first = {
      algo: trial.validation for algo, own in trials.items() for trial in own
      if trial.has_defaults and trial.may_win
  }
  plain = {algo: first[algo] for algo in _PLAIN if algo in first}
  if not plain:
    return ''
  if summary.is_higher_better(metric):
    best, far = max(plain, key=plain.__getitem__), f'{_BELOW} below'
    is_poor = lambda value: value < plain[best] - _BELOW
  else:
    best, far = min(plain, key=plain.__getitem__), f'{_ABOVE:.0%} above'
    is_poor = lambda value: value > plain[best] * (1 + _ABOVE)
  poor = [
      f'{algo} {value:.3g}' for algo, value in first.items()
      if algo not in plain and is_poor(value)
  ]
  if not poor:
    return ''
  return (
      f' With default flags, by the {metric} of validation data with one seed,'
      f' more than {far} {best} ({plain[best]:.3g}): {", ".join(poor)}.'
  )


def _reason(trials: Sequence[trials_lib.Trial], is_chosen: bool) -> str:
  """Returns why a method has no row."""
  if is_chosen:
    return 'diverged with another seed'
  if not trials:
    return 'the budget was too short to begin it'
  states = {trial.state for trial in trials}
  if states == {'diverged'}:
    return 'diverged in all trials'
  return 'the budget was too short for a complete run'


def _command(found: Results, method: decision_page.Method) -> list[str]:
  """Returns the command that trains and exports all clients' models."""
  algo, options = brackets.parse(method.variant)
  seed = found.seeds[0]
  values = {
      name: value
      for name, value in found.sweep.flags_of(method.variant, seed).items()
      if name != 'output_dir'
      # Bracket options override flags.
      and name not in [f'{algo}_{option}' for option in options]
      # It is refused where it has no effect.
      and (name != 'client_weighting' or methods.get(algo).weighs_clients)
  }
  if 'auto' not in (options.get('rounds'), values.get('rounds')):
    # It may train on the validation data, which do not end it.
    values.pop('validation_fraction', None)
  values['export'] = 'saved_model'
  return ['python -m binaries.train', *flags.as_typed(values)]


def _named(algos: Iterable[str]) -> list[str]:
  """Returns what each method is, as items of a Markdown list."""
  found = {brackets.parse(algo)[0] for algo in algos}
  return [f'* {name}: {methods.get(name).summary}.' for name in sorted(found)]
