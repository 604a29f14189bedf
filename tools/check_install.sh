#!/usr/bin/env bash
# Checks that sdist and wheel install as docs/install.md describes, outside the
# checkout, in empty environments, the wheel by pip and the sdist by uv, and that
# the sdist can run its own tests.
#
#   tools/check_install.sh [PYTHON]     # PYTHON builds; default .venv/bin/python
set -euo pipefail
cd "$(dirname "$0")/.."

python=$(realpath -s "${1:-.venv/bin/python}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
say() { echo "install: $*"; }

"$python" -c 'import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])' "$folder" \
  >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
cd "$folder"
tar -xzf tff_pers-*.tar.gz
cd tff_pers-*/
say "the sdist builds a wheel"
"$python" -m pip wheel -q --no-deps --no-build-isolation -w "$folder" .
say "the sdist tests itself"
PYTHONPATH=$PWD "$python" -m pytest -q -n 0 -p no:cacheprovider tests/data/brackets_test.py tests/imports_test.py | tail -n 1
cd "$folder"
say "the wheel, by pip: the library"
tff=(tensorflow-federated==0.87.0 google-vizier==0.1.11)
"$python" -m venv env
# The two commands of docs/install.md.
env/bin/python -m pip install -q tff_pers-*.whl
env/bin/python -m pip install -q --no-deps "${tff[@]}"
[[ -e $(echo env/lib/python*/site-packages/tff_pers/py.typed) ]]
if env/bin/tff-pers-train --help >"$folder/log" 2>&1; then
  say "a program runs without the packages that it needs"; exit 1
fi
grep -q 'Tip: install tff_pers with its extra' "$folder/log" || { cat "$folder/log"; exit 1; }
env/bin/python - <<'PY'
import os
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
import numpy as np
import tensorflow as tf
import tff_pers
from tff_pers import models
from tff_pers import runtime
from tff_pers.algorithms import build_perm
from tff_pers.data import client_data

assert 'site-packages' in tff_pers.__file__, tff_pers.__file__
for name in tff_pers.__all__:
  getattr(tff_pers, name)
rng = np.random.default_rng(0)
data = [
    client_data.dense(i, rng.normal(size=(20, 8)).astype(np.float32), np.arange(20, dtype=np.int32) % 3)
    for i in range(4)
]
keras_model = tf.keras.Sequential([tf.keras.layers.Dense(16, 'relu', input_shape=(8,)), tf.keras.layers.Dense(3)])
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
losses = []
for kind in ('native', 'fused'):  # Stock TFF, and ours.
  runtime.use(kind)
  process = build_perm(models.from_keras(keras_model, loss), num_clients=4)
  state, own = process.initialize_seeded(0), [()] * 4
  for _ in range(3):
    output = process.next(state, own, data)
    state = output['state']
  losses.append(float(output['metrics']['train_loss']))
np.testing.assert_allclose(*losses, rtol=1e-5)
print('install: PERM trains a Keras model on native and fused, loss', losses)
PY
rm -rf env   # It takes gigabytes.
"$python" -m venv uv
if ! uv/bin/python -m pip install -q uv; then say "SKIPPED, uv: the index does not have it"; exit; fi
say "the sdist, by uv: the programs"
"$python" -m venv env
uv/bin/uv pip install -q --python env/bin/python "$(echo ./tff_pers-*.tar.gz)[programs]"
uv/bin/uv pip install -q --python env/bin/python --no-deps "${tff[@]}"
env/bin/tff-pers-train --algo=fedavg --rounds=2 --quiet --output_dir="$folder/run"
