#include "formats/common/writer.h"

#include <algorithm>
#include <iterator>

#include "base/cat.h"
#include "ops/core/op.h"

namespace smelt::formats {

#define SMELT_WRITER(name) extern const Writer name##_writer;
#include "formats/writers.inc"
#undef SMELT_WRITER

std::span<const Writer* const> all_writers() {
  static const Writer* const writers[] = {
#define SMELT_WRITER(name) &name##_writer,
#include "formats/writers.inc"
#undef SMELT_WRITER
      nullptr,
  };
  return {writers, std::size(writers) - 1};
}

const Writer* find_writer(std::string_view name) {
  const auto writers = all_writers();
  const auto it = std::ranges::find_if(writers, [&](const Writer* w) { return w->name == name; });
  return it == writers.end() ? nullptr : *it;
}

void FileBytes::append(std::string bytes) {
  auto owned = std::make_shared<const std::string>(std::move(bytes));
  append(std::as_bytes(std::span(*owned)), owned);
}

void FileBytes::append(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  if (bytes.empty()) return;
  chunks_.push_back(bytes);
  owners_.push_back(std::move(owner));
  size_ += bytes.size();
}

std::shared_ptr<const std::vector<std::byte>> FileBytes::joined() const {
  auto bytes = std::make_shared<std::vector<std::byte>>();
  bytes->reserve(size_);
  for (const auto chunk : chunks_) bytes->insert(bytes->end(), chunk.begin(), chunk.end());
  return bytes;
}

std::string operator_label(const Node& node) {
  const std::string name = op_info(node.op).name;
  return node.origin.empty() || node.origin == name ? name : Cat(name, " (", node.origin, ")");
}

std::string operand_types(const Graph& graph, const Node& node) {
  std::vector<std::string> types;
  for (const auto* list : {&node.inputs, &node.outputs}) {
    for (const ValueId id : *list) {
      if (id == kNoValue) continue;
      const ValueType& t = graph.value(id).type;
      std::string text = t.kind == ValueType::Kind::kTensor ? to_string(t.dtype) : t.str();
      if (std::ranges::count(types, text) == 0) types.push_back(std::move(text));
    }
  }
  std::string out;
  for (const std::string& t : types) out += (out.empty() ? "" : ", ") + t;
  return out;
}

}  // namespace smelt::formats
