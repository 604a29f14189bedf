"""Checks results and speed on a GPU: `binaries.speed.gpu_check`."""

import runpy

if __name__ == '__main__':
  runpy.run_module(
      'binaries.speed.gpu_check', run_name='__main__', alter_sys=True
  )
