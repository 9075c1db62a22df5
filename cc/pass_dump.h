// Writes the graph after each pass into a folder, for the option dump_passes_dir.
#ifndef NPU_PRECISION_CC_PASS_DUMP_H_
#define NPU_PRECISION_CC_PASS_DUMP_H_

#include <string>

#include "graph_passes/pipeline.h"

namespace npu_precision {

// The files are named like FOLDER/GRAPH-0001/04_insert_casts.txt. Each graph that is optimized gets
// a new folder, which is made for the first text.
class PassDump : public PassObserver {
 public:
  PassDump(const std::string& folder, const std::string& graph) : folder_(folder), graph_(graph) {}

  // InvalidArgument if the folder is not writable.
  tensorflow::Status Show(int number, const std::string& pass, const std::string& text) override;

 private:
  const std::string folder_, graph_;
  std::string own_;  // the folder of this graph; "" until there is a text
};

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_PASS_DUMP_H_
