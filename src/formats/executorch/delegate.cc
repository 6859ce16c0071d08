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
    if (call.backend == b.backend && b.lower) return b.lower(builder, call);
  return Unsupported("no delegate '", call.backend, "' (known: XnnpackBackend, VulkanBackend)");
}

}  // namespace smelt::executorch
