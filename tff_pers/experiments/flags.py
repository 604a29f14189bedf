"""Flags of all programs: definitions, parsing, checks and help.

A flag comes from a dataclass field: a shared one below, a method's own as
`--<algo>_<name>`, a task's own as `--<task>_<name>`. A flag that is not given
is taken from `config.json` when resuming, else from the task's default.
"""

import contextlib
import dataclasses
import difflib
import gc
import os
import re
import shlex
import shutil
import sys
import textwrap
from typing import (
    Any, Callable, Collection, Iterator, Mapping, NamedTuple, Optional,
    Sequence, Union,
)

from absl import flags as absl_flags
import tensorflow as tf

from tff_pers import attacks
from tff_pers import plugins
from tff_pers import runtime
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.data import tasks
from tff_pers.data import tiers
from tff_pers.evaluation import damaged
from tff_pers.evaluation import summary
from tff_pers.experiments import config_files
from tff_pers.experiments import folders
from tff_pers.experiments import methods_and_tasks
from tff_pers.experiments import plugin_imports
from tff_pers.experiments import quiet
from tff_pers.experiments import startup
from tff_pers.models import zoo
from tff_pers.runtime import errors
from tff_pers.runtime import fused
from tff_pers.runtime.fused import disk
from tff_pers.runtime import native
from tff_pers.simulation import asynchrony
from tff_pers.simulation import asynchrony_delays


INTERRUPTED = 130  # The exit code after Ctrl-C, as in shells.


class UsageError(ValueError):
  """Bad flags or data: one sentence, exit code 2, nothing is written."""


class Failure(RuntimeError):
  """The run cannot continue: one sentence, exit code 1."""


@dataclasses.dataclass(frozen=True)
class SharedFlags:
  """Flags of every program that trains; defaults mostly come from the task."""

  task: str = hp.field('digits', 'Task, see above.')
  partition: str = hp.field(
      '', 'How examples are distributed over clients, such as'
      ' dirichlet[alpha=0.5]; empty: the default of the task.'
  )
  num_clients: int = hp.field(
      1, 'Number of clients.', minimum=1, maximum=10**6
  )
  clients_per_round: int = hp.field(
      0, 'Clients that train in each round; 0: all.', minimum=0
  )
  holdout_clients: int = hp.field(
      0, 'Clients that never train; evaluated only at the end.', minimum=0
  )
  rounds: int = hp.field(
      1, 'Communication rounds; auto: until the --metric on validation data has'
      ' not improved for --patience evaluations in a row.',
      minimum=1, auto=True,
  )
  metric: str = hp.field(
      'auto', 'Metric of validation data, mean over clients, by which'
      ' --rounds=auto, tune, choose and compare_tuned decide. auto: accuracy,'
      ' or loss for regression; for own data, rmse for regression, and auc if'
      ' the rarer of two classes has below 20 % of the rows (loss if few'
      ' clients have both in their validation data). Else one of'
      f' {", ".join(summary.COMMON)}, {", ".join(summary.OF_LABELS)},'
      f' {", ".join(summary.OF_TARGETS)}, as fits the task, or a metric of your'
      ' own task.',
  )
  patience: int = hp.field(
      5, 'Evaluations without improvement after which --rounds=auto ends a run;'
      ' methods that train clients or models in turn get at least one full turn'
      ' of all.', minimum=1,
  )
  max_rounds: int = hp.field(
      0, 'Rounds after which --rounds=auto always ends a run; 0: 5 times the'
      ' default of --rounds.', minimum=0,
  )
  eval_every: int = hp.field(
      1, 'Rounds between evaluations.', minimum=1
  )
  eval_clients: int = hp.field(
      0, 'Number of honest clients to evaluate, one sample for all rounds,'
      ' drawn from those that train; 0: all.', minimum=0
  )
  seed: int = hp.field(
      0, 'Seed of data, weights, cohorts, batches.', minimum=0,
      maximum=hp.LARGEST_SEED,
  )
  output_dir: str = hp.field('', 'Folder of the results; empty: one in runs/.')
  resume: bool = hp.field(
      False, 'Resume the run in --output_dir with its flags, unless others are'
      ' given. (The command that started the run resumes it even without.)'
  )
  data_dir: str = hp.field(
      '', 'File or folder with the task\'s data; embedded and generated tasks'
      ' need none.'
  )
  train_fraction: float = hp.field(
      0.5, 'Share of each client\'s examples for training, or of its training'
      ' examples if the data have test sets (which stay complete).', above=0.0,
      maximum=1.0,
  )
  standardize: bool = hp.field(
      True, 'Scale each feature of your own data to mean 0 and variance 1 over'
      ' the training examples of the clients that train.'
  )
  validation_fraction: float = hp.field(
      0.0, 'Share of each client\'s training examples, below 1, that is held'
      ' out as validation data for choices, and evaluated; 0: none; the default'
      ' with --rounds=auto is 0.2.',
      minimum=0.0,
  )
  on_non_finite: str = hp.field(
      'stop', 'What to do if a loss or an update is NaN or infinite: stop the'
      ' run, or drop the client from the round and count it.',
      choices=('stop', 'drop'),
  )
  finetune_steps: str = hp.field(
      '', 'Numbers of local steps, such as 0,1,2,5,10, after which the global'
      ' model, if the method has one, is evaluated on every client; empty:'
      ' none.'
  )
  finetune_learning_rate: float = hp.field(
      0.0, 'Step size of --finetune_steps; 0: that of training.', minimum=0.0
  )
  client_weighting: str = hp.field(
      'examples', 'Weight of a client in means.',
      choices=('uniform', 'examples', 'batches'),
  )
  driver: str = hp.field(
      'auto', 'What drives training: rounds, each with a cohort; or events,'
      ' that is, each message is applied when it arrives; auto: as published.',
      choices=('auto', *methods.DRIVERS),
  )
  delays: str = hp.field(
      '', 'Virtual time that a client needs: ' + ', '.join(
          asynchrony_delays.MODELS
      ) + '; brackets set options, such as pareto[shape=1.5,slow=10] or'
      ' trace[file=delays.csv]. A round lasts as long as its slowest client.'
      ' Empty: exponential[slow=10] with events, no clock with rounds.'
  )
  network_delays: str = hp.field(
      '', 'Virtual network time, added to --delays; empty: none.'
  )
  in_flight: int = hp.field(
      0, 'Number of clients at work at the same time in an event-driven run; 0:'
      ' the cohort size, or a quarter of the clients if it is all.', minimum=0
  )
  redispatch: str = hp.field(
      'uniform_idle', 'Client that starts next in an event-driven run: one'
      ' drawn from idle clients, the one that has just sent its message, or one'
      ' drawn from all, which computes its tasks one after the other.',
      choices=asynchrony.REDISPATCH,
  )
  tier_assignment: str = hp.field(
      'fixed', 'How clients get their capacity tiers: groups of equal size for'
      ' the whole run (or as the data say), or drawn again in every round.',
      choices=tiers.ASSIGNMENTS,
  )
  attack: str = hp.field(
      'none', 'What Byzantine clients do: ' + ', '.join(attacks.names())
      + '; brackets set options, such as ipm[eps=10].'
  )
  num_byzantine: int = hp.field(
      0, 'Number of Byzantine clients; added to --num_clients in the tasks'
      ' overpersonalized and overpersonalized_control, in others drawn from the'
      ' clients that train.', minimum=0
  )
  dp_noise_multiplier: float = hp.field(
      0.0, 'Client-level differential privacy of the mean of updates: standard'
      ' deviation of the noise divided by the clipping norm; epsilon is in'
      ' metrics.csv (docs/privacy.md). 0: no noise.', minimum=0.0,
  )
  dp_clip: float = hp.field(
      0.0, 'Clipping norm of --dp_noise_multiplier; 0: a private estimate of'
      ' the median norm of the updates.', minimum=0.0,
  )
  dp_target_delta: float = hp.field(
      0.0, 'The delta of the guarantee; 0: N^-1.1 for N clients.',
      minimum=0.0, below=1.0,
  )
  runtime: str = hp.field(
      'fused', 'Runtime: fused, in this process as one TensorFlow function;'
      ' native, TFF\'s C++ worker; remote, on --workers.',
      choices=runtime.RUNTIMES,
  )
  device: str = hp.field(
      '', 'Device of the fused runtime: cpu, gpu (all of them), gpu:1; empty:'
      ' the GPUs if there are any.'
  )
  strategy: str = hp.field(
      'auto', 'How the fused runtime processes clients; auto: by a rule on'
      ' shapes, the same in every run; measured: the fastest in the first'
      ' round; debug: slowly, step by step, with errors that name their place.',
      choices=fused.STRATEGIES,
  )
  tf32: bool = hp.field(
      False, 'On a GPU: round the factors of products to 10 bits, which is'
      ' faster.'
  )
  deterministic: bool = hp.field(
      True, 'On a GPU: bit-identical results, as --resume promises; slower.'
  )
  compile_cache: str = hp.field(
      '', 'Folder in which the fused runtime keeps compiled computations for'
      ' later runs, which then start sooner; off: none; empty: tff_pers in the'
      ' user\'s folder of caches. It must be of this user, with mode 0700.'
  )
  workers: str = hp.field(
      '', 'Workers of the remote runtime: host:port,host:port.'
  )
  connect_seconds: float = hp.field(
      60.0, 'Seconds within which all workers must answer.', above=0.0
  )
  round_seconds: float = hp.field(
      3600.0, 'Seconds allowed for a computation on the workers.', above=0.0
  )
  tls_cert: str = hp.field(
      '', 'Certificate of this program, a PEM file, for workers with TLS.'
  )
  tls_key: str = hp.field(
      '', 'Private key of --tls_cert, a PEM file without a password.'
  )
  tls_ca: str = hp.field(
      '', 'Certificate of the authority that signed --tls_cert and those of the'
      ' workers, a PEM file.'
  )
  model: str = hp.field(
      '', 'Model: ' + ', '.join(zoo.names()) + '; empty: the task\'s.'
  )
  # `import` is a keyword of Python.
  import_: str = hp.field(
      '', 'Modules that register your own methods and tasks, such as'
      ' my_package.my_method,my_package.my_task; modules of installed plug-ins'
      ' are found without it.'
  )
  config: str = hp.field(
      '', 'YAML file of flags, with lines such as rounds: 60, or config.json of'
      ' a run; command-line flags take precedence.'
  )
  quiet: bool = hp.field(
      False, 'Print only errors and the last line.'
  )


# If these are not given, the task decides.
_OF_THE_TASK = (
    'num_clients', 'clients_per_round', 'rounds', 'eval_every',
    'train_fraction', 'standardize', 'client_weighting', 'tier_assignment',
)
DEFAULTS = {
    name: spec.default for name, spec in hp.specs(SharedFlags).items()
    if name not in _OF_THE_TASK
}
_PATHS = ('output_dir', 'data_dir', 'tls_cert', 'tls_key', 'tls_ca', 'config')


class Flag(NamedTuple):
  """A flag.

  Attributes:
    spec: Its dataclass field.
    kind: `shared`, `method` or `task`.
    owner: Name of the method or task it belongs to, '' for shared ones.
  """

  spec: dataclasses.Field
  kind: str = 'shared'
  owner: str = ''


def own_flag(
    name: str, default: Any, help_text: str, **limits: Any
) -> tuple[str, Flag]:
  """Returns the entry of `all_flags` for a flag of a single program."""
  spec = hp.field(default, help_text, **limits)
  holder = dataclasses.make_dataclass('_', [(name, type(default), spec)])
  return hp.flag_name(name), Flag(dataclasses.fields(holder)[0])


def all_flags(*own: Any, without: Sequence[str] = ()) -> dict[str, Flag]:
  """Returns all flags of a program: own, shared, methods' and tasks'.

  An own flag replaces a shared one of its name. Without `--task` there are no
  flags of tasks.

  Raises:
    ValueError: If two flags have the same name.
  """
  plugin_imports.load_installed()
  table = dict(own)
  for spec in dataclasses.fields(SharedFlags):
    if spec.name not in without:
      table.setdefault(hp.flag_name(spec.name), Flag(spec))
  parts = [('method', n, methods.get(n).hyperparameters)
           for n in methods.names()]
  if 'task' in table:
    parts += [('task', n, tasks.get(n).options) for n in tasks.names()]
  for kind, owner, options in parts:
    own_flags = {
        f'{owner}_{name}': Flag(spec, kind, owner)
        for name, spec in hp.specs(options).items()
    }
    if table.keys() & own_flags.keys():
      raise ValueError(
          f'Flags must be distinct, found {table.keys() & own_flags.keys()} of'
          f' {owner} twice.'
      )
    table.update(own_flags)
  return table


def parse(argv: Sequence[str], table: Mapping[str, Flag]) -> dict[str, Any]:
  """Returns the values of the given flags by name.

  Three flags take effect here and are left out: flags in the file of `--config`
  count as given, `--quiet` captures output (see `run`), and `--compile_cache`
  holds for this process and those that it starts.

  Raises:
    UsageError: If a flag is unknown or has a missing or bad value, an argument
      is not a flag, or `--output_dir` is not writable.
  """
  # All flags are texts without defaults for argparse: `hp.parse` parses the
  # values below, as it parses bracket options, and flags not given stay known.
  values = absl_flags.FlagValues()
  for name, flag in table.items():
    define = (
        absl_flags.DEFINE_boolean
        if isinstance(flag.spec.default, bool)
        else absl_flags.DEFINE_string
    )
    define(name, None, flag.spec.metadata['help'], flag_values=values)
  try:
    rest = values(list(argv))[1:]
  except absl_flags.UnrecognizedFlagError as error:
    raise UsageError(_unknown(error.flagname, table)) from error
  except absl_flags.Error as error:
    raise UsageError(' '.join(str(error).split())) from error
  if rest:
    raise UsageError(
        f'Arguments must be flags (--name=value), found {rest[0]!r}.'
    )
  given = {
      name: _value(name, flag, values[name].value)
      for name, flag in table.items()
      if values[name].present
  }
  config = given.pop('config', '')
  if config:
    given = {**_from_file(config, table), **given}
  if given.get('output_dir'):
    with usage_errors():
      folders.check(given['output_dir'])
  if given.pop('quiet', False):
    quiet.begin()
  folder = given.pop('compile_cache', '')
  if folder:
    os.environ[disk.VARIABLE] = (
        folder if folder == disk.OFF else resolve_path(folder)
    )
  return given


def _from_file(path: str, table: Mapping[str, Flag]) -> dict[str, Any]:
  """Returns the values of the flags in a file."""
  with usage_errors():
    entries = config_files.read(path)
    if 'import' in entries:
      plugin_imports.require(entries['import'].text, path)
  given = {}
  for name, (text, line) in entries.items():
    try:
      if name not in table or name == 'config':
        raise UsageError(_unknown(name, table))
      given[name] = _value(name, table[name], text)
    except UsageError as error:
      raise UsageError(f'{path}, line {line}: {error}') from error
  return given


def _unknown(name: str, table: Mapping[str, Flag]) -> str:
  close = difflib.get_close_matches(name, table, n=3, cutoff=0.6)
  tip = ' or '.join(f'--{other}' for other in close)
  return f'`--{name}` is not a flag.' + (f' Tip: {tip}?' if close else '')


def _value(name: str, flag: Flag, text: Any):
  """Returns the checked value of one flag."""
  with usage_errors(name[:len(name) - len(hp.flag_name(flag.spec.name))]):
    value = text if isinstance(text, bool) else hp.parse(flag.spec, text)
    hp.check(flag.spec, value)
  return resolve_path(value) if name in _PATHS and value else value


@contextlib.contextmanager
def usage_errors(
    prefix: str = '', names: Optional[Collection[str]] = None
) -> Iterator[None]:
  """Raises ValueErrors of a block as UsageErrors that name flags.

  `x` becomes `--prefix_x`; shared flags become `--x`. With `names`, only those
  names get the prefix.
  """
  def flag(match):
    if names is None or match[1] in names:
      return f'`--{prefix}{match[1]}`'
    return f'`--{match[1]}`' if hasattr(SharedFlags, match[1]) else match[0]

  try:
    yield
  except UsageError:
    raise
  except ValueError as error:
    text = re.sub(r'`([a-zA-Z]\w*)`', flag, str(error))
    raise UsageError(' '.join(text.split())) from error


def outside_cause(error: Exception) -> str:
  """Returns a sentence on the external cause that stopped a program."""
  text = f'{type(error).__name__}: {error}'
  reason, place = getattr(error, 'strerror', ''), getattr(error, 'filename', '')
  of_tensorflow = re.search(r'(/[^}]+); (.+?)( \[Op:.*)?$', str(error))
  if isinstance(error, tf.errors.OpError) and of_tensorflow:
    place, reason = of_tensorflow.group(1, 2)
  if isinstance(error, shutil.Error) and error.args[0]:  # Of many files.
    _, place, reason = error.args[0][0]
  if reason:
    text = (
        'Files must stay readable and writable until a program ends, found'
        f' {reason}' + (f' ({place})' if place else '')
    )
  return f'{" ".join(text.split())[:500].rstrip(".")}.'


def resolve_path(path: str) -> str:
  """Returns an absolute path, also under `bazel run`."""
  base = os.environ.get('BUILD_WORKING_DIRECTORY', os.getcwd())
  return os.path.normpath(os.path.join(base, os.path.expanduser(path)))


def output_dir(given: Mapping[str, Any], default: str) -> str:
  """Returns `--output_dir`, or the folder of a name in runs/."""
  return given.get('output_dir') or resolve_path(os.path.join('runs', default))


def paths(text: str) -> list[str]:
  """Returns the absolute paths of a comma-separated list."""
  return [resolve_path(path) for path in text.split(',') if path]


def chosen(name: str, text: str, known: Sequence[str]) -> list[str]:
  """Returns the distinct names of a comma-separated list, the flag `--name`.

  Raises:
    UsageError: If one is not known.
  """
  names = list(dict.fromkeys(text.split(',')))
  for each in names:
    if each not in known:
      raise UsageError(
          f'`--{name}` must be of {", ".join(known)}, found {each!r}.'
      )
  return names


def as_words(values: Mapping[str, Any]) -> list[str]:
  """Returns flags as the words of a command line."""
  return [f'--{name}={value}' for name, value in values.items()]


def as_typed(values: Mapping[str, Any]) -> list[str]:
  """Returns flags as typed in a shell."""
  return as_words({k: shlex.quote(str(v)) for k, v in values.items()})


def help_text(
    summary: str, table: Mapping[str, Flag], argv: Sequence[str]
) -> str:
  """Returns the text of `--help`: methods, tasks, which fit, flags."""
  chosen = [
      name for name in methods.names()
      if any(re.search(rf'algos?=.*\b{name}\b', word) for word in argv)
  ]
  chosen += [
      name for name in tasks.names()
      if any(word == f'--task={name}' for word in argv)
  ]
  lines = [(summary or '').strip(), '']
  takes_methods = not table.keys().isdisjoint(('algo', 'algos'))
  if takes_methods:
    lines += [*methods_and_tasks.help_lines(), '']
  lines.append('Flags:')
  for name, flag in table.items():
    if flag.kind == 'shared' or flag.owner in chosen:
      lines += _flag_help(name, flag)
  for name in methods.names():
    recipes = methods.get(name).recipes if name in chosen else {}
    for recipe, values in recipes.items():
      lines += [f'  {name}[recipe={recipe}]', *_wrapped(
          ', '.join(f'{key}={value}' for key, value in values.items())
      )]
  if takes_methods and not chosen:
    lines.append(
        '\n--help --algo=NAME --task=NAME also shows the flags --NAME_...'
    )
  return '\n'.join(lines)


def default_text(name: str, flag: Flag) -> str:
  """Returns the default of a flag as shown in help."""
  default = flag.spec.default
  if flag.spec in dataclasses.fields(SharedFlags):
    default = DEFAULTS.get(name, 'the task\'s')
  if default == '':
    return 'empty'
  return str(default).lower() if isinstance(default, bool) else str(default)


def _flag_help(name: str, flag: Flag) -> list[str]:
  when = flag.spec.metadata['when']
  text = (
      f"{flag.spec.metadata['help']} {hp.allowed(flag.spec)};"
      f' default: {default_text(name, flag)}'
      + (f'; only with {when}.' if when else '.')
  )
  return [f'  --{name}', *_wrapped(text)]


def _wrapped(text: str) -> list[str]:
  indent = ' ' * 6
  return textwrap.wrap(
      text, 78, initial_indent=indent, subsequent_indent=indent
  )


class Program:
  """A program: called with its command line, it returns its exit code."""

  def __init__(
      self, name: str, summary: str, body: Callable[..., Optional[int]],
      *own: Union[tuple[str, Flag], Callable[[], tuple[str, Flag]]],
      without: Optional[Sequence[str]] = None,
      fills: Optional[Sequence[str]] = None, resumes: bool = False,
  ):
    """Keeps what the program is made of, also as `own`.

    Args:
      name: Its name.
      summary: Beginning of its help, the docstring of its module.
      body: `(values of the given flags, all flags) -> exit code`, None for 0;
        raises UsageError if flags conflict or cannot be carried out. Without
        the second argument if the program has only flags of its own.
      *own: Its own flags, see `own_flag`; or functions that return one, if it
        depends on what plug-ins add.
      without: Shared flags that it lacks; None: it has only flags of its own.
      fills: Own flags whose defaults count as given; None: all.
      resumes: Whether the same command resumes after an interruption.
    """
    self._name, self._summary, self._body = name, summary, body
    self.own, self._without, self._fills = own, without, fills
    self._resumes = resumes

  def flag_table(self) -> dict[str, Flag]:
    """Returns all flags by name."""
    own = self._own_flags()
    if self._without is None:
      return own
    return all_flags(*own.items(), without=self._without)

  def _own_flags(self) -> dict[str, Flag]:
    return dict(flag() if callable(flag) else flag for flag in self.own)

  def __call__(self, argv: Sequence[str]) -> int:
    """Runs the program on `argv`; returns its exit code."""
    return run(self._name, self._main, argv, resumes=self._resumes)

  def _main(self, argv: Sequence[str]) -> int:
    table = self.flag_table()
    if startup.wants_help(argv):
      print(help_text(self._summary, table, argv))
      return 0
    fills = self._own_flags() if self._fills is None else self._fills
    given = {name: table[name].spec.default for name in fills}
    given.update(parse(argv, table))
    if self._without is None:
      return self._body(given) or 0
    return self._body(given, table) or 0


def run(
    name: str, main: Callable[[Sequence[str]], int], argv: Sequence[str],
    resumes: bool = True,
) -> int:
  """Returns the exit code of `main(argv)`; prints errors as one sentence.

  `resumes` says whether the same command resumes after an interruption.
  """
  gc.freeze()
  gc.enable()  # `startup.program` turned it off.
  # Programs may end before a runtime is installed; the finalizer of TFF's own
  # context would then print an error.
  native.drop_default_context()
  try:
    with usage_errors():
      plugins.import_named(startup.take(argv[1:], 'import')[0])
    with quiet.scope():
      return main(argv)
  except (UsageError, damaged.DamagedError) as error:
    code, text = 2, str(error)
  except (Failure, errors.ComputationError) as error:
    code, text = 1, str(error)
  except (OSError, tf.errors.OpError) as error:
    code, text = 1, outside_cause(error)
  except KeyboardInterrupt:
    code = INTERRUPTED
    tip = ' Tip: rerun the same command to resume.'
    text = 'Interrupted.' + tip * resumes
  print(f'{name}: {text}', file=sys.stderr)
  return code
