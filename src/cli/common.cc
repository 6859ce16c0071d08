#include "cli/common.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/huge_pages.h"
#include "base/mapped_file.h"
#include "cli/heap.h"
#include "cli/output.h"
#include "runtime/model_access.h"
#include "smelt/custom_operator.h"

namespace smelt::cli {

namespace {
std::string scaled(double value, std::span<const char* const> units) {
  size_t u = 0;
  while (value >= 999.5 && u + 1 < units.size()) {
    value /= 1000;
    ++u;
  }
  return u == 0 || value >= 99.95 ? formatted("{:.0f} {}", value, units[u]) : formatted("{:.3g} {}", value, units[u]);
}
}  // namespace

std::string human_bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  return scaled(bytes, kUnits);
}

std::string human_count(double count) {
  static constexpr const char* kUnits[] = {"", "k", "M", "G", "T"};
  std::string out = scaled(count, kUnits);
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

Result<std::shared_ptr<const std::string>> read_standard_input() {
  static bool taken = false;
  if (std::exchange(taken, true)) return InvalidInput("standard input can be read once, '-' is given twice");
  auto out = std::make_shared<std::string>();
  char buffer[1 << 16];
  while (const size_t n = std::fread(buffer, 1, sizeof(buffer), stdin)) out->append(buffer, n);
  if (std::ferror(stdin) != 0) return Error(ErrorCode::kIo, "standard input: cannot read");
  return std::shared_ptr<const std::string>(std::move(out));
}

Result<LoadOptions> load_options(std::vector<std::string> data_files, std::vector<std::string> tolerate,
                                 const std::vector<std::string>& operator_libraries) {
  LoadOptions out{.data_files = std::move(data_files), .tolerate = std::move(tolerate)};
  for (const std::string& library : operator_libraries) {
    SMELT_ASSIGN(const auto operators, load_custom_operators(library));
    out.custom_operators.insert(out.custom_operators.end(), operators.begin(), operators.end());
  }
  return out;
}

Result<Model> load_model(const std::string& path, const LoadOptions& options, bool like_sessions) {
  // A large file's model and its plan take most of two huge pages, that of a medium one little more than one; a smaller
  // one may have many nodes, or few.
  constexpr off_t kLarge = off_t{5} << 20, kMedium = off_t{2} << 20, kSmall = off_t{1} << 19;
  constexpr size_t kFewNodes = size_t{1} << 20;  // bytes of heap
  struct stat status {};
  const off_t bytes = ::stat(path.c_str(), &status) == 0 ? status.st_size : 0;
  if (bytes >= kLarge)
    grow_heap_by_huge_pages(0, 2 * kHugePage);
  else if (bytes >= kMedium)
    grow_heap_by_huge_pages(0, kHugePage);
  else if (bytes >= kSmall)
    grow_heap_by_huge_pages(kFewNodes, 4 * kHugePage);
  const auto load = [&]() -> Result<Model> {
    if (path != "-") return Model::load(path, options);
    SMELT_ASSIGN(const auto text, read_standard_input());
    return Model::load_bytes(std::as_bytes(std::span(*text)), text, "standard input", "", options);
  };
  auto model = load();
  trim_heap();
  if (!model.ok()) return model;
  for (const std::string& text : model->warnings()) complain(Cat(path, ": warning: ", text));
  if (like_sessions) ModelAccess::keep_for_like_sessions(*model);
  return model;
}

Result<Json> read_json(const std::string& path) {
  SMELT_ASSIGN(const auto file, MappedFile::open(path));
  auto out = Json::parse({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
  if (!out) return InvalidInput(path, ": not JSON");
  return std::move(*out);
}

int thread_count(int threads) {
  if (threads > 0) return threads;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, SessionOptions::kMaxThreads);
}

}  // namespace smelt::cli
