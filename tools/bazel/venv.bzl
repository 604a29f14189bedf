"""Python targets run on the interpreter of .venv, and see its packages.

`make setup` makes .venv; PYTHON_BIN_PATH names another interpreter instead.
"""

_BUILD = """
load("@rules_python//python:defs.bzl", "py_runtime", "py_runtime_pair")

py_runtime(
    name = "python3",
    interpreter_path = "{python}",
    python_version = "PY3",
    stub_shebang = "#!/usr/bin/env python3",
)

py_runtime_pair(
    name = "runtimes",
    py3_runtime = ":python3",
)

toolchain(
    name = "toolchain",
    toolchain = ":runtimes",
    toolchain_type = "@bazel_tools//tools/python:toolchain_type",
)
"""

def _venv_repository_impl(ctx):
    root = ctx.path(Label("//:setup.cfg")).dirname
    python = ctx.os.environ.get("PYTHON_BIN_PATH") or str(root) + "/.venv/bin/python"
    if not ctx.path(python).exists:
        fail("there is no %s: run `make setup` first" % python)
    ctx.file("BUILD", _BUILD.format(python = python))

venv_repository = repository_rule(
    implementation = _venv_repository_impl,
    environ = ["PYTHON_BIN_PATH"],
    local = True,
)
