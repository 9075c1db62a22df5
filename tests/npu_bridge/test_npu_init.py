"""npu_bridge's names, imported by star and by npu_bridge's own import lines."""

import pytest
from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2
from test_session_script import SESSION_SCRIPT

import npu_precision
from npu_precision import _tf_compat, npu_init, npu_ops
from npu_precision.npu_bridge import helper, npu_cpu_ops

NAMES = (
    "NPURunConfig NPUEstimator NPUEstimatorSpec ProfilingConfig DumpConfig npu_config_proto "
    "npu_graph_options npu_run_config_init npu_hooks_append npu_callbacks_append "
    "create_group destroy_group get_group_rank_from_world_rank get_local_rank_id "
    "get_local_rank_size get_rank_id get_rank_size get_world_rank_from_group_rank hccl_ops "
    "rewriter_config_pb2 set_split_strategy_by_idx set_split_strategy_by_size "
    "set_keras_session_npu_config init_resource shutdown_resource close_session npu_scope util "
    "RewriterConfig config_pb2 tf NPULossScaleOptimizer FixedLossScaleManager "
    "ExponentialUpdateLossScaleManager NPUOptimizer NPUDistributedOptimizer npu_tf_optimizer "
    "npu_distributed_optimizer_wrapper npu_keras_optimizer npu_allreduce NPUStrategy "
    "NPUBroadcastGlobalVariablesHook npu_ops npu_unary_ops"
).split()
# These are not names of the package.
STAR_ALONE = (
    "npu_plugin npu_rnn NPUCheckpointSaverHook NPUOutputTensorHook ExperimentalConfig MemoryConfig"
).split()


def test_the_star_gives_npu_bridges_names():
    namespace = {}
    exec("from npu_precision.npu_init import *", namespace)
    assert {*NAMES, *STAR_ALONE} == set(namespace) - {"__builtins__"}
    assert namespace["tf"] is _tf_compat.tf_of_scripts
    assert namespace["RewriterConfig"] is rewriter_config_pb2.RewriterConfig
    assert namespace["config_pb2"] is config_pb2
    assert namespace["rewriter_config_pb2"] is rewriter_config_pb2
    assert namespace["get_rank_size"] is npu_precision.hccl.manage.api.get_rank_size
    assert (
        namespace["set_split_strategy_by_idx"]
        is npu_precision.hccl.split.api.set_split_strategy_by_idx
    )
    assert namespace["npu_scope"].keep_dtype_scope is npu_precision.keep_dtype_scope
    assert namespace["util"].keep_tensors_dtypes is npu_precision.keep_tensors_dtypes


@pytest.mark.parametrize(
    "name",
    sorted(
        set(NAMES)
        - {name for name in NAMES if "rank" in name or "group" in name or "split" in name}
        - {"hccl_ops", "rewriter_config_pb2"}
        - {"npu_ops", "npu_scope", "npu_unary_ops", "util", "RewriterConfig", "config_pb2", "tf"}
    ),
)
def test_the_package_offers_the_same_objects(name):
    assert getattr(npu_init, name) is getattr(npu_precision, name)
    assert name in npu_precision.__all__


@pytest.mark.parametrize("name", npu_precision.__all__)
def test_every_public_name_is_there_and_says_what_it_is(name):
    public = getattr(npu_precision, name)
    assert name == "__version__" or public.__doc__


IMPORTS = """\
import npu_precision

npu_precision.install_as_npu_bridge()
npu_precision.install_as_npu_bridge()

import npu_bridge
import npu_bridge.npu_init
from npu_bridge.estimator import npu_ops
from npu_bridge.estimator.npu_unary_ops import npu_unary_ops
from npu_bridge.estimator.npu import npu_convert_dropout
from npu_bridge.estimator.npu import npu_scope, util
from npu_bridge.estimator.npu.npu_config import DumpConfig, NPURunConfig, ProfilingConfig
from npu_bridge.estimator.npu.npu_estimator import NPUEstimator, NPUEstimatorSpec
from npu_bridge.estimator.npu.npu_loss_scale_manager import ExponentialUpdateLossScaleManager
from npu_bridge.estimator.npu.npu_loss_scale_manager import FixedLossScaleManager
from npu_bridge.estimator.npu.npu_loss_scale_optimizer import NPULossScaleOptimizer
from npu_bridge.estimator.npu.npu_optimizer import NPUDistributedOptimizer, NPUOptimizer
from npu_bridge.estimator.npu.npu_scope import keep_dtype_scope
from npu_bridge.hccl import hccl_ops
from npu_bridge.npu_init import *
from hccl.manage.api import create_group, get_local_rank_id, get_rank_id, get_rank_size
from hccl.split.api import set_split_strategy_by_idx
from npu_bridge.estimator.npu import npu_plugin, npu_rnn
from npu_bridge.estimator.npu.npu_common import NPUBasics
from npu_bridge.estimator.npu.npu_config import ExperimentalConfig, MemoryConfig
from npu_bridge.estimator.npu.npu_dynamic_rnn import DynamicGRUV2, DynamicRNN
from npu_bridge.estimator.npu.npu_hook import NPUCheckpointSaverHook, SetIterationsVarHook
from npu_bridge.helper import helper
from npu_bridge.npu_cpu import npu_cpu_ops
from npu_bridge.estimator.npu.npu_callbacks import NPUBroadcastGlobalVariablesCallback
from npu_bridge.estimator.npu.npu_hook import NPUBroadcastGlobalVariablesHook

assert issubclass(NPUBroadcastGlobalVariablesCallback, tf.keras.callbacks.Callback)
assert NPURunConfig is npu_precision.NPURunConfig
assert NPUEstimator is npu_precision.NPUEstimator
assert NPUEstimatorSpec is npu_precision.NPUEstimatorSpec
assert NPULossScaleOptimizer is npu_precision.NPULossScaleOptimizer
assert keep_dtype_scope is npu_precision.keep_dtype_scope
assert npu_bridge.estimator.npu.npu_scope is npu_scope
assert npu_unary_ops is npu_bridge.npu_init.npu_unary_ops
with tf.Graph().as_default(), tf.Session() as session:
    session.run([npu_ops.initialize_system(), npu_ops.shutdown_system()])
print("all imported")
"""


def test_npu_bridges_import_lines_work_as_they_are(run_cold_python):
    assert run_cold_python(IMPORTS).stdout == "all imported\n"


def test_the_documented_script_runs_with_its_own_import_line(run_python, mixlist, tmp_path):
    script = "import npu_precision\n\nnpu_precision.install_as_npu_bridge()\n" + (
        SESSION_SCRIPT.replace("npu_precision.npu_init", "npu_bridge.npu_init")
    )
    process = run_python(script, mixlist(black=["Relu"]), tmp_path / "reports")
    assert float(process.stdout) == pytest.approx(8 * 15.5, rel=1e-2)


@pytest.mark.parametrize("imported", ["", "import npu_bridge\n"])
def test_a_real_npu_bridge_is_not_hidden(run_python, tmp_path, imported):
    (tmp_path / "npu_bridge").mkdir()
    (tmp_path / "npu_bridge" / "__init__.py").touch()
    script = imported + "import npu_precision\n\nnpu_precision.install_as_npu_bridge()\n"
    process = run_python(script, check=False)
    assert "RuntimeError: the real npu_bridge is installed here" in process.stderr


def test_an_op_of_the_npu_says_that_there_is_none():
    with pytest.raises(AttributeError, match="npu_ops.lamb_apply is an op of the NPU"):
        npu_ops.lamb_apply  # noqa: B018
    with pytest.raises(AttributeError, match="npu_cpu_ops.embedding_rankid is an op of the NPU"):
        npu_cpu_ops.embedding_rankid  # noqa: B018
    with pytest.raises(AttributeError, match="fast_gelu is an op of the NPU"):
        helper.get_gen_ops().fast_gelu  # noqa: B018
    for module in (npu_ops, npu_cpu_ops, helper.get_gen_ops()):
        assert not hasattr(module, "__path__")
