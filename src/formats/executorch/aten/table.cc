#include <string>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "formats/executorch/aten/lowering.h"

namespace smelt::aten {
namespace {

const std::unordered_map<std::string_view, Lowering>& table() {
  static const auto* const all = [] {
    auto* m = new std::unordered_map<std::string_view, Lowering>;
    for (auto entries : {elementwise_entries(), reduce_entries(), shape_entries(), index_entries(), create_entries(),
                         nn_entries(), norm_entries(), quant_entries(), prim_entries(), llama_entries(),
                         vulkan_entries(), vulkan_quantized_entries(), vulkan_training_entries()})
      for (const Entry& e : entries) m->emplace(e.name, e.lower);
    return m;
  }();
  return *all;
}

/// In-place spellings ("aten::add_") compute what the plain ones do; lower() reports argument 0 as changed.
std::string_view plain_name(std::string_view name) {
  if (name.size() > 1 && name.back() == '_' && !name.ends_with("__") && !table().contains(name) &&
      table().contains(name.substr(0, name.size() - 1)))
    name.remove_suffix(1);
  return name;
}

}  // namespace

bool is_known(std::string_view name) {
  const auto at = name.find("::");
  const auto dot = at == std::string_view::npos ? std::string_view::npos : name.find('.', at);
  if (dot != std::string_view::npos) name = name.substr(0, dot);
  return table().contains(plain_name(name));
}

Result<Lowered> lower(Builder& builder, const Call& call) {
  const std::string_view name = plain_name(call.name);
  const auto entry = table().find(name);
  const auto label = [&] { return Cat(call.name, call.overload.empty() ? "" : ".", call.overload); };
  if (entry == table().end()) return Unsupported("no operator ", label());
  L l(builder, call);
  entry->second(l);
  if (!l.ok()) return l.status().error();
  if (name.size() < call.name.size() && !l.lowered.outputs.empty() && !call.args.empty())
    l.lowered.mutated.emplace_back(0, l.lowered.outputs[0]);
  // What a program declares is what it gets: results are converted to the outputs' element types.
  for (size_t k = 0; k < l.lowered.outputs.size(); ++k)
    if (l.lowered.outputs[k] != kNoValue) l.lowered.outputs[k] = l.cast(l.lowered.outputs[k], l.out_dtype(k));
  if (!l.ok()) return l.status().error();
  return std::move(l.lowered);
}

}  // namespace smelt::aten
