"""What MODULE.bazel uses; WORKSPACE calls the repository rule itself."""

load(":venv.bzl", "venv_repository")

def _venv_impl(_):
    venv_repository(name = "venv")

venv = module_extension(implementation = _venv_impl)
