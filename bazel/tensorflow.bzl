"""A repository for the TensorFlow that a Python environment has installed.

It offers the target `headers`, the target `python` (runs that environment's Python) and flags.bzl
with TF_VERSION, TF_COPTS and TF_LINKOPTS, as cc/build_flags.py states them for setup.py too.
The environment is .venv of this project, or the Python that NPU_PRECISION_PYTHON names.
"""

_BUILD = """\
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "headers",
    hdrs = glob(["include/**"], exclude = ["**/*.so"]),
    includes = {includes},
)

exports_files(["python"])
"""

_FLAGS = """\
TF_VERSION = {version}
TF_COPTS = {copts}
TF_LINKOPTS = {linkopts}
"""

# A link to a virtual environment's Python would not find the environment: a script does.
_PYTHON = """\
#!/bin/sh
exec "{python}" "$@"
"""

def _tensorflow_repository_impl(repository_ctx):
    # Asking for the lock's path makes another lock (another TensorFlow) fetch this anew.
    repository_ctx.path(Label("//:requirements/tf2.15.lock"))
    script = repository_ctx.path(Label("//:cc/build_flags.py"))
    project = script.dirname.dirname
    python = repository_ctx.os.environ.get("NPU_PRECISION_PYTHON", str(project) + "/.venv/bin/python")
    result = repository_ctx.execute([python, str(script)])
    if result.return_code != 0:
        fail("%s could not say how TensorFlow is built; run `make build` first.\n%s" %
             (python, result.stderr))
    flags = json.decode(result.stdout)

    include_dir = flags["include_dirs"][0]
    repository_ctx.symlink(include_dir, "include")
    includes = ["include" + path[len(include_dir):] for path in flags["include_dirs"]]
    repository_ctx.file("BUILD", _BUILD.format(includes = includes))
    repository_ctx.file("flags.bzl", _FLAGS.format(
        version = repr(flags["version"]),
        copts = flags["compile"],
        linkopts = flags["grappler_link"] + flags["link"],
    ))
    repository_ctx.file("python", _PYTHON.format(python = python), executable = True)

tensorflow_repository = repository_rule(
    implementation = _tensorflow_repository_impl,
    environ = ["NPU_PRECISION_PYTHON"],
    local = True,
)
