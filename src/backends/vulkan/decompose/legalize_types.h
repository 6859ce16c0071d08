#pragma once

#include "backends/vulkan/core/kernel.h"

namespace smelt::vulkan {

/// A kernel of the list for the same node in wider element types, between conversions on the device: float32 for
/// narrower reals and for stored values of operators that know nothing of quantization, int32 or int64 for narrower
/// integers. Null: there is none, or it would not give what the reference kernel gives.
std::unique_ptr<Kernel> make_converted(const KernelSpec& spec);

}  // namespace smelt::vulkan
