#!/usr/bin/env bash
# Makes requirements.lock from requirements.in (and [tool.uv] of pyproject.toml).
#
# Needs uv and the network.  One version of each package serves Python 3.9, 3.10
# and 3.11, every package is a wheel, and no number depends on the Python used.
set -euo pipefail
cd "$(dirname "$0")/.."

{
  echo '# Made by `make lock` from requirements.in; do not edit.'
  echo '# For Linux x86-64, Python 3.9-3.11.  With pip, install it with --no-deps:'
  echo '# tensorflow-federated 0.87.0 pins a jaxlib that no longer exists.'
  # The markers repeat the supported platform on every line: keep only what
  # differs between the supported Pythons.
  uv pip compile requirements.in --universal --python-version 3.9 \
      --fork-strategy fewest --only-binary :all: \
      --no-header --no-annotate --quiet |
    sed -E -e "s/python_full_version < '3.12' and //" \
        -e "s/ and [a-z_]+ [!=]= '[A-Za-z0-9_]+'//g" \
        -e "s/ ; [a-z_]+ [!=]= '[A-Za-z0-9_]+'$//" \
        -e "s/python_full_version/python_version/"
} > requirements.lock.new
mv requirements.lock.new requirements.lock
