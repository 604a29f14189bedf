#!/usr/bin/env bash
# Checks a Python other than that of .venv: sets it up separately, compiles every
# file, runs two files of tests and one training.
#
#   tools/check_python.sh 3.9
#
# Exits with 0 and prints SKIPPED if that Python is not found: as pythonX.Y, or
# in pyenv.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$1
python=
for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
  # A shim of pyenv is found but does not run.
  if "$candidate" -c '' 2>/dev/null; then
    python=$(command -v "$candidate")
    break
  fi
done
if [[ ! $python ]]; then
  echo "python $version: SKIPPED, no interpreter was found."
  exit
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
git ls-files -z | xargs -0 cp --parents -t "$folder"
cd "$folder"
PYTHON=$python tools/setup.sh
.venv/bin/python -V
.venv/bin/python -m compileall -q tff_pers baselines binaries docs examples tests
.venv/bin/python -m pytest -q -n 0 -p no:cacheprovider tests/imports_test.py tests/package_test.py | tail -n 3
.venv/bin/python -m binaries.train --algo=perm --task=digits --rounds=2 --output_dir=run
