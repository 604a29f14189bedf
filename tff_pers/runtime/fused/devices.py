"""Finds the devices that clients share, and configures them."""

from typing import Optional, Sequence

from absl import logging
import tensorflow as tf


def find(device: Optional[str]) -> list:
  """Returns TensorFlow's names for the devices that `device` means.

  Raises:
    ValueError: If there is no such device.
  """
  gpus = [
      gpu.name.replace('/physical_device:', '/')
      for gpu in tf.config.list_physical_devices('GPU')
  ]
  platform, _, number = (device or ('gpu' if gpus else 'cpu')).lower().partition(
      ':'
  )
  if platform == 'cpu' and not number:
    return ['/CPU:0']
  if platform != 'gpu' or (number and not number.isdecimal()):
    raise ValueError(
        f'`device` must be cpu, gpu or gpu:NUMBER, found {device!r}.'
    )
  found = [g for g in gpus if not number or g.endswith(f':{int(number)}')]
  if not found:
    raise ValueError(
        f'`device` must be one of this machine ({len(gpus)} GPUs that'
        f' TensorFlow can use), found {device!r}. Tip: on a machine with a GPU,'
        ' install the extra `gpu`.'
    )
  return found


def has_gpu(devices: Sequence[str]) -> bool:
  """Returns whether one of TensorFlow's device names is a GPU's."""
  return any('GPU' in device for device in devices)


def prepare(
    devices: Sequence[str], *, tf32: bool = False, deterministic: bool = False
) -> None:
  """Configures TensorFlow's use of GPUs; does nothing without one.

  The settings hold for the rest of the process. Memory is allocated as needed;
  by default TensorFlow would take nearly all of a GPU's memory at once.

  Args:
    devices: Names of the devices that are used.
    tf32: Whether matrix products and convolutions of float32 may round their
      factors to 10 bits; results then agree with those of a CPU to about 1e-3.
    deterministic: Whether operations must give bit-identical results. They are
      slower then, and operations that cannot, e.g. random ones without a seed,
      raise an error.
  """
  if not has_gpu(devices):
    return
  tf.config.experimental.enable_tensor_float_32_execution(tf32)
  if deterministic:
    tf.config.experimental.enable_op_determinism()
  for gpu in tf.config.list_physical_devices('GPU'):
    try:
      tf.config.experimental.set_memory_growth(gpu, True)
    except RuntimeError:  # TensorFlow already uses it.
      logging.warning(
          'TensorFlow keeps the memory of %s that it has taken already, because'
          ' the GPU was in use before the runtime.', gpu.name,
      )
