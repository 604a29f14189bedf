"""Shows where the time of a round goes; see `binaries.speed`."""

import runpy

if __name__ == '__main__':
  runpy.run_module(
      'binaries.speed.runtime_benchmark.operations', run_name='__main__',
      alter_sys=True,
  )
