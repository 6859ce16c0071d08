// Names of the attributes that operators have, to tell a misspelt or foreign one from one that does not matter here.
#include <algorithm>
#include <map>
#include <utility>

#include "formats/onnx/ops.h"

namespace smelt::onnx {
namespace {

struct Entry {
  std::string_view domain, op, names;  ///< names with a space between
};
constexpr Entry kEntries[] = {
#define SMELT_ONNX_ATTRIBUTES(domain, op, names) {domain, op, names},
#include "formats/onnx/attributes.inc"
#undef SMELT_ONNX_ATTRIBUTES
};

}  // namespace

std::optional<std::string_view> attributes_of(std::string_view domain, std::string_view op) {
  static const auto table = [] {
    std::map<std::pair<std::string_view, std::string_view>, std::string_view> t;
    for (const Entry& e : kEntries) t.emplace(std::pair(e.domain, e.op), e.names);
    return t;
  }();
  const auto it = table.find({domain, op});
  return it == table.end() ? std::nullopt : std::optional(it->second);
}

bool lists_attribute(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

}  // namespace smelt::onnx
