#include "formats/executorch/delegate.h"

#include "base/error.h"

namespace smelt::executorch {

Result<DelegateResults> lower_delegate(Builder& builder, const DelegateCall& call) {
  static constexpr struct {
    const char* backend;
    DelegateLowering lower;
  } kBackends[] = {
      {"XnnpackBackend", lower_xnnpack},
      {"VulkanBackend", lower_vulkan},
  };
  for (const auto& b : kBackends)
    if (call.backend == b.backend) return b.lower(builder, call);
  return Unsupported("no delegate '", call.backend, "' (known: XnnpackBackend, VulkanBackend)");
}

DelegateBlob blob_of(const DelegateCall& call) {
  NamedData named;
  if (call.named_data)
    named = [&call](const std::string& key) -> Result<std::span<const std::byte>> {
      const auto* found = call.named_data(key);
      if (!found) return InvalidModel("the program has no named data '", key, "'");
      return *found;
    };
  return {call.blob, call.owner, std::move(named)};
}

}  // namespace smelt::executorch
