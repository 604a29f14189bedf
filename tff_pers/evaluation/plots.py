"""Figures of runs, each as PNG and SVG."""

from typing import Optional, Sequence

from matplotlib import ticker
import numpy as np

from tff_pers.evaluation import clusters
from tff_pers.evaluation import curve_plots
from tff_pers.evaluation import error_plots
from tff_pers.evaluation import figures
from tff_pers.evaluation import finetuning
from tff_pers.evaluation import results
from tff_pers.evaluation import time_plots
from tff_pers.evaluation import times


def plot_run(folder: str, output_dir: Optional[str] = None) -> list[str]:
  """Plots one run: curves, clients, data map and mixing if it has them.

  Returns the paths of the figures, without suffix.
  """
  run = results.read_run(folder)
  output_dir = output_dir or folder
  return [*plot_runs([run], output_dir), *_plot_parts(run, output_dir)]


def plot_compared_run(folder: str) -> list[str]:
  """Plots those figures of one run that `plot_runs` does not draw."""
  return _plot_parts(results.read_run(folder), folder)


def _plot_parts(run: results.Run, output_dir: str) -> list[str]:
  made = []
  if run.class_counts is not None:
    made.append(plot_data(run, output_dir))
  if run.mixing is not None:
    made.append(plot_mixing(run, output_dir))
  if run.router is not None and run.router.shape[1]:
    made.append(plot_router(run, output_dir))
  return made


def plot_runs(runs: Sequence[results.Run], output_dir: str) -> list[str]:
  """Plots comparisons of runs: curves and clients, a colour per variant."""
  made = [curve_plots.plot_curves(runs, output_dir)]
  is_known = all('bytes_down' in run.metrics for run in runs)
  if len(figures.by_variant(runs)) > 1 and is_known:
    made.append(curve_plots.plot_costs(runs, output_dir))
  if any(len(own) > 1 for own in map(results.read_tiers, runs)):
    made.append(curve_plots.plot_smallest_tier(runs, output_dir))
  if any(run.clients is not None for run in runs):
    made.append(plot_clients(runs, output_dir))
  if any(figures.has(run.metrics, 'cluster_accuracy') for run in runs):
    made.append(curve_plots.plot_clusters(runs, output_dir))
  if any(figures.has(run.metrics, 'distance') for run in runs):
    made.append(error_plots.plot_runs(runs, output_dir))
  if times.are_timed(runs):
    made.append(time_plots.plot(runs, output_dir))
  if any(run.finetuning is not None for run in runs):
    made.append(finetuning.plot(runs, output_dir))
  if len(figures.by_variant(runs)) > 1 and any(map(_extra_parameters, runs)):
    made.append(plot_parameters(runs, output_dir))
  return made


# Longer names below an axis would overlap.
_MAX_UPRIGHT = 3
# More names of classes would overlap.
_NAMED_CLASSES = 10


def plot_clients(runs: Sequence[results.Run], output_dir: str) -> str:
  """Plots the distribution over clients: the share at or below a value."""
  finished = [run for run in runs if run.clients is not None]
  asked = next((run.config.get('metric', 'accuracy') for run in finished), '')
  name = figures.first_known(
      (run.clients for run in finished), asked, 'accuracy', 'loss'
  )
  picture, axes = figures.new_figure(5.2, 3.4, 1)
  for number, (variant, members) in enumerate(figures.by_variant(runs).items()):
    pooled = [
        run.clients[name][run.clients['seen'] == 1]
        for run in members if run.clients is not None
    ]
    values = np.sort(np.concatenate(pooled)) if pooled else np.zeros(0)
    values = values[np.isfinite(values)]
    if not values.size:
      continue
    color, dash = figures.style(number)
    share = np.arange(1, values.size + 1) / values.size
    axes[0].step(
        # The curve starts at share 0, below its smallest value.
        np.concatenate([values[:1], values]), np.concatenate([[0], share]),
        dash, where='post', color=color, label=variant, lw=1.8,
    )
  if name == 'accuracy':
    figures.draw_baseline(axes[0].axvline, runs)
  axes[0].set_xlabel(f'Test {name} of a client, last evaluated round')
  axes[0].set_ylabel('Share of clients at or below')
  axes[0].set_ylim(0, 1.02)
  return figures.save(picture, output_dir, 'clients')


def plot_mixing(run: results.Run, output_dir: str) -> str:
  """Plots the mixing weights, clients ordered by true group if known."""
  matrix = np.asarray(run.mixing)
  order, edges = clusters.group_order(run.groups, matrix.shape[1])
  has_owners = 'models_used' not in run.metrics
  matrix = matrix[np.ix_(order, order)] if has_owners else matrix[:, order]
  picture, axes = figures.new_figure(5.0, 4.2, 1, grid=False)
  image = axes[0].imshow(
      matrix, cmap='viridis', vmin=0.0, interpolation='nearest',
      aspect='equal' if has_owners else 'auto',
  )
  bar = picture.colorbar(image, ax=axes[0], fraction=0.046, pad=0.04)
  bar.set_label('Mixing weight')
  _mark_groups(axes[0].axvline, edges, 'white')
  _client_ticks(axes[0].xaxis, order, run.client_names)
  if has_owners:
    _mark_groups(axes[0].axhline, edges, 'white')
    _client_ticks(axes[0].yaxis, order, run.client_names)
  grouped = ' (ordered by true group)' if edges else ''
  axes[0].set_xlabel(f'Source client{grouped}')
  axes[0].set_ylabel('Owner of the model' if has_owners else 'Model')
  axes[0].set_title(f'{run.variant}: who learns from whom', fontsize=10)
  return figures.save(picture, output_dir, 'mixing')


def plot_router(run: results.Run, output_dir: str) -> str:
  """Plots clients x models, clients ordered by true group if known."""
  picture, axis, bar = _new_map(
      run, np.asarray(run.router), 0.35, 'viridis', 1.0, 'white'
  )
  bar.set_label('Weight')
  axis.set_xlabel('Adaptor or model')
  axis.set_title(f'{run.variant}: who uses what', fontsize=10)
  return figures.save(picture, output_dir, 'router')


def plot_parameters(runs: Sequence[results.Run], output_dir: str) -> str:
  """Plots accuracy (or loss) against extra parameters: a point per variant.

  Bars are the range over seeds. The axis is linear below 1 % and logarithmic
  above.
  """
  name = figures.first_known(
      (run.metrics for run in runs), 'accuracy_mean', 'loss_mean'
  )
  picture, axes = figures.new_figure(5.2, 3.6, 1)
  for number, (variant, members) in enumerate(figures.by_variant(runs).items()):
    extra = _extra_parameters(members[0])
    values = [run.metrics[name][-1] for run in members
              if figures.has(run.metrics, name)]
    if extra is None or not values:
      continue
    middle = np.mean(values)
    axes[0].errorbar(
        [100 * extra], [middle],
        yerr=[[middle - min(values)], [max(values) - middle]], fmt='o',
        color=figures.style(number)[0], label=variant, capsize=3,
    )
  axes[0].set_xscale('symlog', linthresh=1.0)
  axes[0].set_xlim(left=-0.2)
  axes[0].xaxis.set_major_formatter(ticker.FormatStrFormatter('%g'))
  axes[0].set_xlabel('Parameters that a client handles beyond the model, %')
  axes[0].set_ylabel(curve_plots.axis_label(name))
  if name == 'loss_mean':
    curve_plots.log_if_wide(axes[0], runs, [name])
  return figures.save(picture, output_dir, 'parameters')


def _extra_parameters(run: results.Run) -> Optional[float]:
  """Returns the relative number of extra parameters; None: unknown."""
  numbers = run.config.get('parameters') or {}
  if not numbers.get('client'):
    return None
  return max(numbers['client'] / numbers['model'] - 1, 0.0)


def plot_data(run: results.Run, output_dir: str) -> str:
  """Plots training examples per client and class."""
  counts = run.class_counts
  assert counts is not None
  picture, axis, bar = _new_map(
      run, counts, 0.3, 'Blues', counts.max(), figures.COLORS[1]
  )
  bar.set_label('Training examples')
  bar.locator = ticker.MaxNLocator(integer=True)
  if run.class_names and len(run.class_names) <= _NAMED_CLASSES:
    axis.set_xticks(range(len(run.class_names)), run.class_names)
  axis.set_xlabel('Class')
  axis.set_title(
      f"{run.config['flags']['task']}: {run.config['flags']['partition']}",
      fontsize=10,
  )
  return figures.save(picture, output_dir, 'data')


def _new_map(
    run: results.Run, table: np.ndarray, inches: float, colors: str,
    largest: float, edge_color: str,
):
  """Returns figure, axis and bar of a map of clients, [N, columns].

  Clients are ordered by true group if known. A column has a width of `inches`.
  """
  order, edges = clusters.group_order(run.groups, len(table))
  picture, (axis,) = figures.new_figure(
      min(max(4.4, inches * table.shape[1] + 2.0), 9.0),
      min(max(2.6, 0.16 * len(table) + 1.2), 9.0), 1, grid=False,
  )
  image = axis.imshow(
      table[order], cmap=colors, vmin=0, vmax=largest, aspect='auto',
      interpolation='nearest',
  )
  bar = picture.colorbar(image, ax=axis, fraction=0.06, pad=0.04)
  _mark_groups(axis.axhline, edges, edge_color)
  axis.xaxis.set_major_locator(ticker.MaxNLocator(integer=True, nbins=11))
  _client_ticks(axis.yaxis, order, run.client_names)
  axis.set_ylabel('Client' + (' (by true group)' if edges else ''))
  return picture, axis, bar


def _mark_groups(line, edges, color: str) -> None:
  """Draws lines between groups; `line` is `axhline` or `axvline`."""
  for edge in edges:
    line(edge - 0.5, color=color, lw=1.2)


def _client_ticks(axis, order, names) -> None:
  """Labels at most eleven clients by name, or number if names are None."""
  shown = np.arange(0, len(order), max(1, -(-len(order) // 10)))
  clients = order[shown] if names is None else names[order[shown]]
  labels = [figures.shortened(str(client)) for client in clients]
  axis.set_ticks(shown, labels)
  if axis.axis_name == 'x' and max(map(len, labels)) > _MAX_UPRIGHT:
    axis.set_tick_params(rotation=90)
