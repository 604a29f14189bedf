"""Registers tasks for a user's own model and an .npz with its data."""

import dataclasses
from typing import Callable

from tff_pers.data import checks
from tff_pers.data import named_arrays
from tff_pers.data import split
from tff_pers.data import tables
from tff_pers.data import task as task_lib
from tff_pers.data.tasks import assembly
from tff_pers.data.tasks import registry
from tff_pers.models import functional

_DECLARATION = registry.Declaration(
    classification=None, model=None, num_clients=0, partitions=('by_client',),
)


def register_npz(
    name: str, build_model: Callable[[], functional.FunctionalModel],
    summary: str = 'your own model and data: --data_dir names an .npz',
) -> None:
  """Registers a task whose data are an .npz, named by `--data_dir`.

  The file holds `client` and an array for each input and output of the model,
  see `named_arrays`, and optionally `split` and `tier`, as for the task `npz`.

  Args:
    name: The value of `--task`.
    build_model: Returns the model, with its `x_spec` and `y_spec`.
    summary: One line for `--help`.

  Raises:
    ValueError: If the name is taken.
  """

  @registry.register(
      name, registry.NoOptions, declares=_DECLARATION, summary=summary
  )
  def _build(request, options):
    del options  # There are none.
    registry.refuse(name, request, 'model')
    # Keras numbers its models, so the name would differ within a process.
    model = dataclasses.replace(build_model(), name=name)
    return _task(name, request, model)


def _task(
    name: str, request: registry.TaskRequest, model: functional.FunctionalModel
) -> task_lib.Task:
  """Builds the task; test rows are drawn as for other user data."""
  [path] = tables.locate(request.data_dir, 'npz')
  table = named_arrays.read(path, model.x_spec, model.y_spec)
  num_classes = 0
  # Integer y may also be counts, for a loss without labels.
  if model.labels is not None and model.has_one_label and (
      model.y_spec.dtype.is_integer
  ):
    known = getattr(model.labels, 'num_classes', 0)
    num_classes = checks.labels(table.y, f'{path}, y', known, table.place)[1]
  return assembly.assemble(
      name, request,
      assembly.Examples(
          table.x, table.y, num_classes, path, table.client, table.is_test,
          tier=table.tier, client_names=table.names,
          row_keys=split.content_keys(named_arrays.contents(table)),
      ),
      _DECLARATION,
      train_fraction=0.8,
      model=model,
      fits_rounds=True,
      named_arrays=True,
      splits='content' if table.is_test is None else 'file',
  )
