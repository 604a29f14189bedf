"""Seconds of a round by strategy; see `binaries.speed`."""

import runpy

if __name__ == '__main__':
  runpy.run_module(
      'binaries.speed.runtime_benchmark.strategies', run_name='__main__',
      alter_sys=True,
  )
