#pragma once

#include <initializer_list>

#include "vulkan/kernel.h"

namespace smelt::vulkan {

/// Invocations of a workgroup of shaders that work element by element.
inline constexpr uint32_t kWidth = 64;

/// Whether these inputs and outputs are all float32, or all float16, and not quantized.
bool plain_reals(const KernelSpec& spec, std::initializer_list<size_t> inputs, std::initializer_list<size_t> outputs);

/// Words of a whole number that shaders read as its low word (which they check against the high one); 0: they don't.
inline uint32_t whole_words(DType dtype) { return dtype == DType::kI32 ? 1 : dtype == DType::kI64 ? 2 : 0; }

/// Whether something uses output i.
inline bool wanted(const KernelSpec& spec, size_t i) {
  return i < spec.outputs.size() && spec.node.outputs[i] != kNone;
}

}  // namespace smelt::vulkan
