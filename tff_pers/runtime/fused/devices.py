"""The devices that clients share, and what is set before one is used."""

from typing import Optional, Sequence

from absl import logging
import tensorflow as tf


def find(device: Optional[str]) -> list:
  """Returns TensorFlow's names of the devices that `device` means.

  Raises:
    ValueError: If there are none.
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
  """Returns whether one of TensorFlow's device names is that of a GPU."""
  return any('GPU' in device for device in devices)


def prepare(
    devices: Sequence[str], *, tf32: bool = False, deterministic: bool = False
) -> None:
  """Sets what TensorFlow shall do on GPUs; nothing where there are none.

  All of it is for the whole process, until it ends. Memory is taken as it is
  needed, where TensorFlow would take nearly all of a GPU at once.

  Args:
    devices: Names of the devices that are used.
    tf32: Whether matrix products and convolutions of float32 may round their
      factors to 10 bits; results then agree with those of a CPU to about 1e-3.
    deterministic: Whether operations must repeat their bits. They are slower
      then, and those that cannot, random ones without a seed among them, raise
      an error.
  """
  if not has_gpu(devices):
    return
  tf.config.experimental.enable_tensor_float_32_execution(tf32)
  if deterministic:
    tf.config.experimental.enable_op_determinism()
  for gpu in tf.config.list_physical_devices('GPU'):
    try:
      tf.config.experimental.set_memory_growth(gpu, True)
    except RuntimeError:  # TensorFlow has begun to use it.
      logging.warning(
          'The memory of %s stays as TensorFlow has taken it: it was in use'
          ' before the runtime was.', gpu.name,
      )
