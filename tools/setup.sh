#!/usr/bin/env bash
# Makes .venv: the packages of requirements.lock, and this project (editable).
#
#   tools/setup.sh                      uses the first of Python 3.11, 3.10, 3.9 that works
#   PYTHON=python3.9 tools/setup.sh     uses that one
#
# Uses uv when it is on PATH, else pip.  Does nothing when .venv is up to date.
# An interrupted call is repaired by the next one.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly NEED_MB=4000                # 2.7 GB for .venv, 1 GB for the downloads.
readonly STATE=.venv/setup_state     # 'incomplete', or a digest of what is installed.
readonly LOG=.venv/setup.log
readonly OURS='tools/setup.sh'
# Old pips do not know the platform tags of the wheels; see `pip==` in the lock.
readonly PIP_PIN=$(grep -E '^pip==' requirements.lock)

say() { echo "set-up: $*"; }
die() { echo "set-up failed: $*" >&2; exit 1; }

# Prints 'VERSION PATH' if the interpreter $1 can carry the project, else says why not.
probe() {
  local answer
  answer=$("$1" -I - "$(command -v uv || true)" <<'PY' 2>/dev/null
import os, platform, struct, sys
def no(why):
  print('no:', why)
  sys.exit()
version = '%d.%d.%d' % sys.version_info[:3]
if not (3, 9) <= sys.version_info[:2] <= (3, 11):
  no('is ' + version)
if platform.python_implementation() != 'CPython':
  no('is ' + platform.python_implementation())
libc, libc_version = platform.libc_ver()
if (sys.platform != 'linux' or platform.machine() != 'x86_64'
    or struct.calcsize('P') != 8 or libc != 'glibc'
    or tuple(map(int, libc_version.split('.')[:2])) < (2, 31)):
  no('runs on %s %s, and TensorFlow Federated is built for Linux x86-64 with '
     'glibc 2.31 or later' % (sys.platform, platform.machine()))
try:
  import venv
  if not sys.argv[1]:
    import ensurepip
except ImportError:
  no('is %s without venv (Debian, Ubuntu: apt-get install python%d.%d-venv)'
     % ((version,) + sys.version_info[:2]))
# Inside a virtual environment: the interpreter that it was made from.
print(version, getattr(sys, '_base_executable', '') or sys.executable)
PY
  ) || answer="no: does not run"
  echo "${answer:-no: does not run}"
}

find_python() {
  local name answer found=()
  for name in ${PYTHON:-python3.11 python3.10 python3.9 python3 python}; do
    command -v "$name" >/dev/null || continue
    answer=$(probe "$name")
    if [[ $answer != no:* ]]; then
      python_version=${answer%% *} python_path=${answer#* }
      return
    fi
    found+=("$name ${answer#no: }")
  done
  local list
  list=$(printf '; %s' "${found[@]:-nothing by the name of ${PYTHON:-python}}")
  die "needs Python 3.11, 3.10 or 3.9 with venv; found: ${list:2}. Install one" \
      "(Debian 12: apt-get install python3.11 python3.11-venv) or name it: PYTHON=/path/to/python3.11."
}

# True if every package of the lock is in .venv, in its version.
installed() {
  .venv/bin/python -I - requirements.lock <<'PY' 2>/dev/null
import importlib.metadata, sys
for line in open(sys.argv[1]):
  if '==' in line and ';' not in line and not line.startswith('#'):
    name, version = line.split('==')
    if importlib.metadata.version(name) != version.strip():
      sys.exit(1)
importlib.metadata.version('tff_pers')
PY
}

# What went wrong, in one sentence, from the installer's log.
explain() {
  local cause='the installer stopped'
  if grep -qiE 'No space left|ENOSPC|disk quota' "$LOG"; then
    cause='the disk is full (about 4 GB are needed)'
  elif grep -qiE 'connection|resolve host|name resolution|dns error|timed out|sending request|SSLError|certificate|proxy' "$LOG"; then
    cause='the package index cannot be reached (no network, a proxy, or PIP_INDEX_URL)'
  elif grep -qiE 'No matching distribution|Could not find a version|no solution' "$LOG"; then
    cause='the package index lacks a package of requirements.lock'
  fi
  local last
  last=$(grep -iE 'error' "$LOG" | tail -n 1 | cut -c1-300 || true)
  die "$cause${last:+ [$last]}; the log is $LOG, and a second call starts again."
}

pip_install() { .venv/bin/python -I -m pip install --disable-pip-version-check --no-input -q "$@"; }
# Bytecode, as pip makes it: a Bazel test cannot write it into .venv.
uv_install() { uv pip install -q --compile-bytecode --python .venv/bin/python "$@"; }

# Installs the lock and the project with $1 (uv or pip).
install_with() {
  local run=$1_install
  if [[ $1 == pip ]]; then
    pip_install "$PIP_PIN" || return
  fi
  "$run" --no-deps --only-binary :all: $reinstall -r requirements.lock || return
  # Needs no network: setuptools is in the lock.
  "$run" --no-deps --no-build-isolation -e .
}

# One set-up at a time; the kernel drops the lock with the process.
exec 9<"$0"
if command -v flock >/dev/null && ! flock -n 9; then
  say 'another set-up is running; waiting for it'
  flock 9
fi
export PIP_USER=0
unset PYTHONHOME PYTHONPATH

digest=$(cat requirements.lock setup.cfg pyproject.toml | sha256sum | cut -c1-64)" $PWD"
[[ -z ${PYTHON:-} ]] || find_python
state=$(cat "$STATE" 2>/dev/null || true)
venv_version=
if [[ -e .venv ]]; then
  venv_version=$(.venv/bin/python -I -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null || true)
fi
wanted=${python_version:-$venv_version}

if [[ -n $venv_version && $venv_version == "$wanted" && $state == "$digest" ]] && installed; then
  say ".venv is up to date (Python $venv_version)."
  exit
fi

free_mb=$(df -Pm . | awk 'NR == 2 {print $4}')
(( free_mb >= NEED_MB )) || die "not enough disk: $NEED_MB MB are needed, $free_mb MB are free in $PWD."

start=$SECONDS reinstall=
if [[ -e .venv && -z $state ]]; then
  # Not made by this script: never deleted, only completed.
  [[ $venv_version =~ ^3\.(9|10|11)\. && $venv_version == "$wanted" ]] ||
    die ".venv was not made by $OURS and is not Python ${python_version:-3.9-3.11} (${venv_version:-its Python does not run});" \
        'delete it or move it away, and run this again.'
  say "completing the .venv that is here (Python $venv_version)"
  reinstall=--force-reinstall
elif [[ -n $venv_version && $venv_version == "$wanted" && $state != incomplete && $state == *" $PWD" ]]; then
  if [[ $state == "$digest" ]]; then
    say "repairing .venv (Python $venv_version): a package is missing"
    reinstall=--force-reinstall
  else
    say "updating .venv (Python $venv_version): the lock or the project's metadata changed"
  fi
  echo incomplete >"$STATE"
else
  [[ -n ${python_version:-} ]] || find_python
  if [[ -e .venv ]]; then
    say 'removing the .venv of an interrupted set-up, of another Python or of another folder'
    rm -rf .venv || die 'cannot remove .venv: delete it by hand, and run this again.'
  fi
  say "making .venv with Python $python_version ($python_path)"
  mkdir .venv && echo incomplete >"$STATE"
  "$python_path" -I -c 'import ensurepip' 2>/dev/null && without= || without=--without-pip
  "$python_path" -I -m venv $without .venv >"$LOG" 2>&1 ||
    die "Python's venv failed [$(tail -n 1 "$LOG" | cut -c1-300)]; the log is $LOG."
fi

say "installing $(grep -c == requirements.lock) packages from requirements.lock (1 GB of downloads; some minutes the first time)"
: >"$LOG"
if command -v uv >/dev/null && install_with uv >>"$LOG" 2>&1; then
  installer=uv
elif .venv/bin/python -I -c 'import pip' 2>/dev/null && install_with pip >>"$LOG" 2>&1; then
  installer=pip
else
  explain
fi
echo "$digest" >"$STATE"
say "done with $installer in $((SECONDS - start)) s: .venv (Python $(.venv/bin/python -V | cut -d' ' -f2))."
