"""Test files of pytest as Bazel tests: see pytest_files."""

load("@rules_python//python:defs.bzl", "py_library", "py_test")

def pytest_files(deps, size = "medium", tags = []):
    """One target for each *_test.py of a folder, called like the file.

    Its other modules, helpers of the tests, become the library `support`.

    Args:
      deps: libraries that the tests of this folder import.
      size: Bazel's size of each test, which sets its time limit.
      tags: Bazel's tags of each test; "manual" leaves it out of //...
    """
    py_library(
        name = "support",
        testonly = True,
        srcs = native.glob(["*.py"], exclude = ["*_test.py"], allow_empty = True),
        data = native.glob(["*.json", "*.txt", "*.yaml"], allow_empty = True) + [
            "//:requirements.lock",
            "//:setup.cfg",
        ],
        visibility = ["//tests:__subpackages__"],
        deps = deps,
    )
    for path in native.glob(["*_test.py"], allow_empty = True):
        py_test(
            name = path[:-len(".py")],
            size = size,
            tags = tags,
            srcs = [
                path,
                "//tests:run_pytest.py",
            ],
            args = ["$(location %s)" % path],
            main = "//tests:run_pytest.py",
            deps = [":support"] + deps,
        )
