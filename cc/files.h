// Reads and writes files. Errors name the parameter and the path.
#ifndef NPU_PRECISION_CC_FILES_H_
#define NPU_PRECISION_CC_FILES_H_

#include <string>
#include <vector>

#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

// Reads the content of `path`, for `parameter`; at most `limit` bytes. Errors name both: missing, a
// folder, unreadable, too large.
tensorflow::Status ReadFile(const std::string& parameter, const std::string& path, size_t limit,
                            std::string* content);

// Lists the .json files of folder `path` as full paths, sorted by name. Errors: not a folder, none.
tensorflow::Status ListJsonFiles(const std::string& parameter, const std::string& path,
                                 std::vector<std::string>* files);

// A file name for a graph: its letters and digits, and "_" for the rest; long names are cut.
std::string FileStem(const std::string& graph);

// Makes the first of FOLDER/STEM-0001, -0002 ... that does not exist, and FOLDER if it does not
// exist; `path` gets its name.
tensorflow::Status MakeNewFolder(const std::string& parameter, const std::string& folder,
                                 const std::string& stem, std::string* path);

// Writes FOLDER/NAME, completely or not at all. The folder exists, and no other process writes the
// file.
tensorflow::Status WriteFile(const std::string& parameter, const std::string& folder,
                             const std::string& name, const std::string& content);

// Writes `content`, completely or not at all, to the first of FOLDER/STEM-0001.json, -0002 ... that
// does not exist, even while other processes write there; `path` gets its name. Makes the folder if
// it does not exist.
tensorflow::Status WriteNewJson(const std::string& parameter, const std::string& folder,
                                const std::string& stem, const std::string& content,
                                std::string* path);

}  // namespace npu_precision

#endif  // NPU_PRECISION_CC_FILES_H_
