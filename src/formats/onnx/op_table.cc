// Finds the lowering of an operator by domain, name and version.
#include <string_view>
#include <unordered_map>

#include "formats/onnx/ops.h"

namespace smelt::onnx {

namespace {

using Table = std::unordered_multimap<std::string_view, const OpEntry*>;

void fill(Table& table, std::initializer_list<std::span<const OpEntry>> lists) {
  for (const auto& list : lists)
    for (const OpEntry& e : list) table.emplace(e.name, &e);
}

const Table* table_of(std::string_view domain) {
  static const Table standard = [] {
    Table t;
    fill(t, {elementwise_ops(), reduce_ops(), nn_ops(), norm_ops(), shape_ops(), gather_ops(), quant_ops(), misc_ops(),
             control_ops(), recurrent_ops()});
    return t;
  }();
  static const Table ml = [] {
    Table t;
    fill(t, {ml_ops()});
    return t;
  }();
  static const Table training = [] {
    Table t;
    fill(t, {training_ops()});
    return t;
  }();
  static const Table preview = [] {
    Table t;
    fill(t, {preview_ops()});
    return t;
  }();
  static const Table microsoft = [] {
    Table t;
    fill(t, {microsoft_ops(), microsoft_fused_ops(), moe_ops(), microsoft_quant_ops(), microsoft_attention_ops(),
             microsoft_decoding_ops()});
    return t;
  }();
  if (domain.empty()) return &standard;
  if (domain == "ai.onnx.ml") return &ml;
  if (domain == "ai.onnx.preview.training") return &training;
  if (domain == "ai.onnx.preview") return &preview;
  if (domain == "com.microsoft") return &microsoft;
  return nullptr;
}

}  // namespace

const OpEntry* find_op(std::string_view domain, std::string_view name, int64_t version, bool& known) {
  known = false;
  const Table* table = table_of(domain);
  if (!table) return nullptr;
  const auto [begin, end] = table->equal_range(name);
  for (auto it = begin; it != end; ++it) {
    known = true;
    if (version >= it->second->since && version <= it->second->until) return it->second;
  }
  return nullptr;
}

}  // namespace smelt::onnx
