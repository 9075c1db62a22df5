// Runs the passes alone: no Grappler, no kernels, lists and abilities as the test says.
//
// Usage: pipeline_driver GRAPH.pb LISTS.json MODE PRESERVED UNSUPPORTED OUT.pb
//   LISTS.json   an ops-info file, used for every device
//   PRESERVED    node names, separated by commas, or ""
//   UNSUPPORTED  op types that have no kernel in the low types, separated by commas, or ""
// Prints the ledger as JSON and writes the rewritten GraphDef. On an error: its text, status 1.
//
// With "-" for GRAPH.pb and OUT.pb, both come from standard input, in lines "GRAPH.pb OUT.pb", as
// often as there are lines; each is answered by a line: "done: " and the ledger's summary, or
// "error: " and its text.
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_split.h"
#include "cc/tf_compat.h"
#include "graph_passes/graph/node_types.h"
#include "graph_passes/pipeline.h"
#include "tensorflow/core/framework/op.h"

namespace npu_precision {
namespace {

std::set<std::string> Names(const std::string& list) {
  return absl::StrSplit(list, ',', absl::SkipEmpty());
}

std::string Content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// An op whose input is computed in float32, so that the sanitizers see that rule at work.
constexpr char kMagnifiers[] = R"({"Log": {"input0": {}}})";

// The one device on which float16 is slow, and MatMul truncates bfloat16.
constexpr char kSlowDevice[] = "/device:CPU:1";

// Supports every op in float32, and in the low types every op but those given.
class FakeSupport : public DtypeSupport {
 public:
  explicit FakeSupport(std::set<std::string> unsupported) : unsupported_(std::move(unsupported)) {}

  bool CanRun(const tensorflow::NodeDef&, const tensorflow::NodeDef& node) const override {
    const tensorflow::OpDef* op_def = nullptr;
    NodeTypes types;
    if (!tensorflow::OpRegistry::Global()->LookUpOpDef(node.op(), &op_def).ok()) return false;
    if (!DescribeTypes(node, *op_def, &types).ok()) return false;
    bool low = false;
    for (const TypeGroup& group : types.groups) low |= group.dtype != tensorflow::DT_FLOAT;
    return !low || unsupported_.count(node.op()) == 0;
  }
  bool DependsOnShapes(const tensorflow::NodeDef&) const override { return false; }
  bool CanRunWith(const tensorflow::NodeDef&, const NodeShapes&) const override { return true; }
  DeviceKind KindOf(const tensorflow::NodeDef&) const override { return DeviceKind::kOther; }
  bool HasFastFloat16(const tensorflow::NodeDef& node) const override {
    return node.device() != kSlowDevice;
  }
  bool TruncatesBfloat16(const tensorflow::NodeDef& node) const override {
    return node.device() == kSlowDevice && node.op() == "MatMul";
  }
  bool HasOneDnn(const tensorflow::NodeDef&, tensorflow::DataType) const override { return true; }
  bool HasOwnOps(const tensorflow::NodeDef&) const override { return true; }
  bool KeepsCasts(const tensorflow::NodeDef&) const override { return true; }

 private:
  const std::set<std::string> unsupported_;
};

class Driver {
 public:
  tensorflow::Status Init(char** argv) {
    OpsInfo ops;
    TF_RETURN_IF_ERROR(ParseOpsInfo(argv[2], Content(argv[2]), IrNames(), &ops));
    lists_.AddOpsInfo(DeviceKind::kOther, std::move(ops), true);
    support_.reset(new FakeSupport(Names(argv[5])));
    TF_RETURN_IF_ERROR(ParsePrecisionMode(argv[3], &context_.mode));
    TF_RETURN_IF_ERROR(ParseMagnifiers("magnifiers", kMagnifiers, &magnifiers_));
    context_.lists = &lists_;
    context_.magnifiers = &magnifiers_;
    context_.support = support_.get();
    context_.preserved = Names(argv[4]);
    context_.fetched = context_.preserved;
    context_.float16_compute = Float16Compute::kAuto;
    return tensorflow::Status();
  }

  tensorflow::Status Run(const std::string& graph_file, const std::string& out_file,
                         Ledger* ledger) const {
    tensorflow::GraphDef graph, out;
    if (!graph.ParseFromString(Content(graph_file))) {
      return tensorflow::errors::InvalidArgument("not a GraphDef: ", graph_file);
    }
    PipelineOptions options;
    options.details = true;
    bool changed;
    TF_RETURN_IF_ERROR(RunPipeline(graph, context_, options, &out, ledger, &changed));
    std::ofstream(out_file, std::ios::binary) << out.SerializeAsString();
    return tensorflow::Status();
  }

 private:
  OpLists lists_;
  Magnifiers magnifiers_;
  std::unique_ptr<FakeSupport> support_;
  DecideContext context_;
};

void Serve(const Driver& driver) {
  std::string graph_file, out_file;
  while (std::cin >> graph_file >> out_file) {
    Ledger ledger;
    const tensorflow::Status status = driver.Run(graph_file, out_file, &ledger);
    std::cout << (status.ok() ? "done: " + CountsSentence(CountsOf(ledger))
                              : "error: " + StatusText(status))
              << std::endl;
  }
}

tensorflow::Status Main(char** argv) {
  Driver driver;
  TF_RETURN_IF_ERROR(driver.Init(argv));
  if (std::string(argv[1]) == "-") {
    Serve(driver);
    return tensorflow::Status();
  }
  Ledger ledger;
  TF_RETURN_IF_ERROR(driver.Run(argv[1], argv[6], &ledger));
  std::cout << LedgerJson(ledger);
  return tensorflow::Status();
}

}  // namespace
}  // namespace npu_precision

int main(int argc, char** argv) {
  if (argc != 7) {
    std::cerr << "expected 6 arguments, got " << argc - 1 << "\n";
    return 2;
  }
  const tensorflow::Status status = npu_precision::Main(argv);
  if (status.ok()) return 0;
  std::cerr << npu_precision::StatusText(status) << "\n";
  return 1;
}
