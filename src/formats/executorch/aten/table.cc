#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "formats/executorch/aten/lowering.h"

namespace smelt::aten {
namespace {

const std::unordered_map<std::string_view, LowerFn>& table() {
  static const auto* const all = [] {
    auto* m = new std::unordered_map<std::string_view, LowerFn>;
    for (auto entries : {elementwise_entries(), reduce_entries(), shape_entries(), index_entries(), create_entries(),
                         nn_entries(), norm_entries(), quant_entries(), prim_entries(), llama_entries(),
                         cortex_m_entries(), vulkan_entries(), vulkan_quantized_entries(), vulkan_training_entries()})
      for (const OpEntry& e : entries) m->emplace(e.name, e.lower);
    return m;
  }();
  return *all;
}

/// In-place spellings ("aten::add_") compute what the functional ones do; lower() reports argument 0 as changed.
std::string_view functional_name(std::string_view name) {
  if (name.size() > 1 && name.back() == '_' && !name.ends_with("__") && !table().contains(name) &&
      table().contains(name.substr(0, name.size() - 1)))
    name.remove_suffix(1);
  return name;
}

/// Overloads of an ATen operator, a space between; empty for one that PyTorch does not define.
std::string_view overloads_of(std::string_view name) {
  static const std::unordered_map<std::string_view, std::string_view> lists = {
#define SMELT_ATEN_OVERLOADS(op, overloads) {"aten::" op, overloads},
#include "formats/executorch/aten/overloads.inc"
#undef SMELT_ATEN_OVERLOADS
  };
  const auto found = lists.find(name);
  return found == lists.end() ? std::string_view() : found->second;
}

}  // namespace

bool is_known(std::string_view name) {
  const auto at = name.find("::");
  const auto dot = at == std::string_view::npos ? std::string_view::npos : name.find('.', at);
  if (dot != std::string_view::npos) name = name.substr(0, dot);
  return table().contains(functional_name(name));
}

Status check_overload(std::string_view name, std::string_view overload) {
  std::string_view list = overloads_of(functional_name(name));
  if (list.empty()) return Ok();
  const std::string_view wanted = overload.empty() ? "default" : overload;
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    if (list.substr(0, end) == wanted) return Ok();
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return Unsupported("operator ", name, " has no overload '", overload, "'");
}

Result<Lowered> lower(Builder& builder, const Call& call) {
  const std::string_view name = functional_name(call.name);
  const auto entry = table().find(name);
  const auto label = [&] { return Cat(call.name, call.overload.empty() ? "" : ".", call.overload); };
  if (entry == table().end()) return Unsupported("no operator ", label());
  CallContext c(builder, call);
  entry->second(c);
  if (!c.ok()) return c.status().error();
  if (name.size() < call.name.size() && !c.lowered.outputs.empty() && !call.args.empty())
    c.lowered.mutated.emplace_back(0, c.lowered.outputs[0]);
  // What a program declares is what it gets: results are converted to the outputs' element types.
  for (size_t k = 0; k < c.lowered.outputs.size(); ++k)
    if (c.lowered.outputs[k] != kNoValue) c.lowered.outputs[k] = c.cast(c.lowered.outputs[k], c.out_dtype(k));
  if (!c.ok()) return c.status().error();
  return std::move(c.lowered);
}

}  // namespace smelt::aten
