#include "cc/files.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/tf_compat.h"
#include "graph_passes/graph/quoted.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/lib/io/path.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/file_system.h"

namespace npu_precision {
namespace {

using tensorflow::Env;
using tensorflow::Status;
using tensorflow::errors::InvalidArgument;

constexpr size_t kLongestStem = 100;

std::string Numbered(const std::string& folder, const std::string& stem, int number) {
  return tensorflow::io::JoinPath(folder,
                                  absl::StrCat(stem, "-", absl::Dec(number, absl::kZeroPad4)));
}

Status CannotWriteInto(const std::string& parameter, const std::string& folder,
                       const Status& status) {
  return InvalidArgument(parameter, ": cannot write into folder ", Quoted(folder), ": ",
                         StatusText(status));
}

}  // namespace

Status ReadFile(const std::string& parameter, const std::string& path, size_t limit,
                std::string* content) {
  Env* env = Env::Default();
  if (!env->FileExists(path).ok()) {
    return InvalidArgument(parameter, ": got ", Quoted(path), ", which does not exist");
  }
  if (env->IsDirectory(path).ok()) {
    return InvalidArgument(parameter, ": got ", Quoted(path),
                           ", which is a folder; expected a file");
  }
  struct stat local;
  if (stat(path.c_str(), &local) == 0 && !S_ISREG(local.st_mode)) {
    return InvalidArgument(parameter, ": got ", Quoted(path), ", which is not a regular file");
  }
  tensorflow::uint64 size = 0;
  Status status = env->GetFileSize(path, &size);
  if (status.ok() && size > limit) {
    return InvalidArgument(parameter, ": ", Quoted(path), " has ", size,
                           " bytes, expected at most ", limit);
  }
  if (status.ok()) status = tensorflow::ReadFileToString(env, path, content);
  if (status.ok()) return status;
  return InvalidArgument(parameter, ": cannot read ", Quoted(path), ": ", StatusText(status));
}

Status ListJsonFiles(const std::string& parameter, const std::string& path,
                     std::vector<std::string>* files) {
  Env* env = Env::Default();
  if (!env->IsDirectory(path).ok()) {
    return InvalidArgument(parameter, ": got ", Quoted(path),
                           ", which is not a folder; expected a folder with ops-info JSON files");
  }
  std::vector<std::string> names;
  const Status status = env->GetChildren(path, &names);
  if (!status.ok()) {
    return InvalidArgument(parameter, ": cannot list ", Quoted(path), ": ", StatusText(status));
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    if (absl::EndsWith(name, ".json")) files->push_back(tensorflow::io::JoinPath(path, name));
  }
  if (!files->empty()) return Status();
  return InvalidArgument(parameter, ": ", Quoted(path),
                         " has no .json file; expected ops-info JSON files");
}

std::string FileStem(const std::string& graph) {
  std::string stem;
  for (const char c : graph) {
    stem.push_back(absl::ascii_isalnum(static_cast<unsigned char>(c)) ? c : '_');
  }
  if (stem.empty()) return "graph";
  return stem.substr(0, kLongestStem);
}

Status MakeNewFolder(const std::string& parameter, const std::string& folder,
                     const std::string& stem, std::string* path) {
  Env* env = Env::Default();
  Status status = env->RecursivelyCreateDir(folder);
  for (int i = 1; status.ok(); ++i) {
    *path = Numbered(folder, stem, i);
    const Status made = env->CreateDir(*path);
    if (made.ok()) return made;
    if (!SaysThatItExists(made)) status = made;
  }
  return CannotWriteInto(parameter, folder, status);
}

Status WriteFile(const std::string& parameter, const std::string& folder, const std::string& name,
                 const std::string& content) {
  Env* env = Env::Default();
  const std::string path = tensorflow::io::JoinPath(folder, name);
  const std::string temporary = absl::StrCat(path, ".partial");
  Status status = tensorflow::WriteStringToFile(env, temporary, content);
  if (status.ok()) status = env->RenameFile(temporary, path);
  if (status.ok()) return status;
  unlink(temporary.c_str());  // what remains of it on a full disk
  return CannotWriteInto(parameter, folder, status);
}

Status WriteNewJson(const std::string& parameter, const std::string& folder,
                    const std::string& stem, const std::string& content, std::string* path) {
  Env* env = Env::Default();
  Status status = env->RecursivelyCreateDir(folder);
  const std::string temporary =
      tensorflow::io::JoinPath(folder, absl::StrCat(".", stem, ".", getpid(), ".partial"));
  if (status.ok()) status = tensorflow::WriteStringToFile(env, temporary, content);
  if (!status.ok()) {
    unlink(temporary.c_str());  // what remains of it on a full disk
    return CannotWriteInto(parameter, folder, status);
  }
  int error = EEXIST;
  for (int i = 1; error == EEXIST; ++i) {
    *path = absl::StrCat(Numbered(folder, stem, i), ".json");
    // Unlike a rename, a link never replaces a file that another process has just written.
    error = link(temporary.c_str(), path->c_str()) == 0 ? 0 : errno;
  }
  unlink(temporary.c_str());
  if (error == 0) return Status();
  return InvalidArgument(parameter, ": cannot write ", Quoted(*path), ": ", std::strerror(error));
}

}  // namespace npu_precision
