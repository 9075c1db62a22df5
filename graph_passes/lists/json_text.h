// Strictly parses the JSON files that users write. Comments are allowed; other extensions are not.
#ifndef NPU_PRECISION_GRAPH_PASSES_LISTS_JSON_TEXT_H_
#define NPU_PRECISION_GRAPH_PASSES_LISTS_JSON_TEXT_H_

#include <string>
#include <vector>

#include "include/json/json.h"
#include "tensorflow/core/lib/core/status.h"

namespace npu_precision {

constexpr size_t kMaxJsonBytes = size_t{16} << 20;
constexpr int kMaxJsonDepth = 64;

// How a value is named in a message: by its line and column in a file, or by its keys, if the text
// was made of an object of the user's program.
enum class JsonPlaces { kLines, kKeys };

// A parsed file, with the place of each value in its text.
struct JsonDocument {
  std::string file;
  JsonPlaces places = JsonPlaces::kLines;
  std::string text;
  std::vector<size_t> line_starts;  // offsets into text
  // The size of the byte order mark at the beginning of the text, or 0.
  size_t mark_size = 0;
  Json::Value root;

  // Offsets into `text` of `value`, which must be part of `root`.
  size_t BeginOf(const Json::Value& value) const { return mark_size + value.getOffsetStart(); }
  size_t EndOf(const Json::Value& value) const { return mark_size + value.getOffsetLimit(); }

  // "FILE:LINE:COLUMN" of `value`, or `FILE["key"][0]`.
  std::string PlaceOf(const Json::Value& value) const;
};

// Parses `text`, which was read from `file`. The root must be an object. Errors name file, line
// and column: empty, larger than kMaxJsonBytes, deeper than kMaxJsonDepth, not JSON, a key twice.
tensorflow::Status ParseJson(const std::string& file, const std::string& text,
                             JsonDocument* document, JsonPlaces places = JsonPlaces::kLines);

// "an object", "a string", ... for messages.
std::string JsonTypeName(const Json::Value& value);

}  // namespace npu_precision

#endif  // NPU_PRECISION_GRAPH_PASSES_LISTS_JSON_TEXT_H_
