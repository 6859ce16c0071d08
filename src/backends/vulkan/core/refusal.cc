// Why a node stays with the host, for readers of `smelt inspect`.
#include <set>
#include <string>

#include "backends/vulkan/core/kernel.h"
#include "backends/vulkan/device/device.h"
#include "base/cat.h"

namespace smelt::vulkan {
namespace {

/// The operator with the function of its family.
std::string name_of(const Node& node) {
  std::string text = to_string(node.op);
  for_each_field(node.attrs.get(), [&text](const std::string_view name, const auto& v) {
    if constexpr (std::is_same_v<decltype(v), const std::string&>)
      if (name == "fn" || name == "kind" || name == "mode" || name == "reduction") text += " " + v;
  });
  return text;
}

std::string type_of(const ValueType& t) {
  return t.dtype == DType::kInvalid ? "nothing" : Cat(t.quant ? "quantized " : "", to_string(t.dtype));
}

std::string types(const KernelSpec& spec) {
  std::string text;
  for (size_t i = 0; i < spec.inputs.size(); ++i) text += (i ? ", " : "") + type_of(spec.inputs[i]);
  text += " to ";
  for (size_t i = 0; i < spec.outputs.size(); ++i) text += (i ? ", " : "") + type_of(spec.outputs[i]);
  return text;
}

/// What the device can't hold of an operand of that name; "": nothing.
std::string beyond(const KernelSpec& spec, const ValueType& t, const std::string& name) {
  if (t.dtype == DType::kInvalid) return "";
  if (!spec.device.stores(t.dtype)) return Cat(name, " is ", to_string(t.dtype), ", which the device does not store");
  const auto n = t.shape.checked_elements();
  if (!n.ok()) return Cat(name, " ", t.shape.str(), " has too many elements");
  if (*n == 0) return Cat(name, " ", t.shape.str(), " is empty");
  const size_t bytes = Tensor::byte_size(t.dtype, *n), most = spec.device.max_binding();
  if (bytes > most || *n >= int64_t{1} << 31)
    return Cat(name, " of ", bytes, " bytes is beyond the ", most, " that the device binds");
  return "";
}

}  // namespace

std::string refusal(const KernelSpec& spec) {
  std::set<std::string> unmet;  // conditions of the operator's kernels; "": a kernel's are met
  for (const KernelInfo& info : all_kernels()) {
    std::string why;
    if (info.op != spec.node.op) continue;
    static_cast<void>(info.applies(spec, &why));
    unmet.insert(why);
  }
  if (unmet.empty()) return Cat("no Vulkan kernel for ", name_of(spec.node));
  for (size_t i = 0; i < spec.outputs.size(); ++i)
    if (spec.node.outputs[i] != kNoValue)
      if (std::string text = beyond(spec, spec.outputs[i], Cat("output ", i)); !text.empty()) return text;
  std::string cause;
  KernelSpec asked = spec;
  asked.why = &cause;
  static_cast<void>(listed_kernel(asked));
  if (!cause.empty()) return Cat(name_of(spec.node), ": ", cause);
  for (size_t i = 0; i < spec.inputs.size(); ++i)
    if (std::string text = beyond(spec, spec.inputs[i], Cat("input ", i)); !text.empty()) return text;
  if (unmet.size() == 1 && !unmet.begin()->empty()) return Cat(name_of(spec.node), ": ", *unmet.begin());
  return Cat("no Vulkan kernel for ", name_of(spec.node), " of ", types(spec));
}

}  // namespace smelt::vulkan
