// Writes the graph as passes leave it into a folder, for the option dump_passes_dir.
#ifndef NPU_PRECISION_CC_PASS_DUMP_H_
#define NPU_PRECISION_CC_PASS_DUMP_H_

#include <string>

#include "graph_passes/pipeline.h"

namespace npu_precision {

// FOLDER/GRAPH-0001/03_decide.txt. The first text makes the folder, a new one for each graph that
// is optimized.
class PassDump : public PassObserver {
 public:
  PassDump(const std::string& folder, const std::string& graph) : folder_(folder), graph_(graph) {}

  // InvalidArgument where the folder cannot be written into.
  tensorflow::Status Show(int number, const std::string& pass, const std::string& text) override;

 private:
  const std::string folder_, graph_;
  std::string own_;  // the folder of this graph
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_PASS_DUMP_H_
