// Names of the attributes that operators have, to tell a misspelt or foreign one from one that does not matter here.
#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "formats/onnx/ops.h"

namespace smelt::onnx {
namespace {

/// Domain, operator and names, with a space between, of each entry: texts that end with a 0.
constexpr char kTexts[] =
#define SMELT_ONNX_ATTRIBUTES(domain, op, names) domain "\0" op "\0" names "\0"
#include "formats/onnx/attributes.inc"
#undef SMELT_ONNX_ATTRIBUTES
    ;

std::string_view next_text(const char*& at) {
  const std::string_view text = at;
  at += text.size() + 1;
  return text;
}

}  // namespace

std::optional<std::string_view> attributes_of(std::string_view domain, std::string_view op) {
  static const auto table = [] {
    std::map<std::pair<std::string_view, std::string_view>, std::string_view> t;
    for (const char* at = kTexts; at + 1 < std::end(kTexts);) {
      const std::string_view domain = next_text(at), op = next_text(at);
      t.emplace(std::pair(domain, op), next_text(at));
    }
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
