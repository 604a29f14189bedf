"""Tasks by their names."""

from tff_pers.data import tasks


def task(name, data_dir='', options=None, **request):
  """Returns the task; `options` are some of its own by name, or all of them."""
  family = tasks.get(name)
  if options is None or isinstance(options, dict):
    options = family.options(**(options or {}))
  return family.build(
      tasks.TaskRequest(data_dir=str(data_dir), **request), options
  )
