#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <string>

#include "backends/vulkan/codegen/interface.h"
#include "backends/vulkan/core/kernel.h"
#include "backends/vulkan/device/alignment.h"

namespace smelt::vulkan {

/// Invocations of a workgroup of elementwise shaders.
inline constexpr uint32_t kWidth = 64;

/// Limit of loop iterations of one invocation, over all loops of its shader: Mesa's software device aborts a shader
/// after 65535.
inline constexpr int64_t kMaxLoopIterations = 60'000;

/// True if these inputs and outputs are all float32, or all float16, and not quantized.
bool unquantized_floats(const KernelSpec& spec, std::initializer_list<size_t> inputs,
                        std::initializer_list<size_t> outputs);

/// 32-bit words of an index element: 1 for int32, 2 for int64; 0 for types that no shader takes as an index. Shaders
/// use the low word and check it against the high one.
inline uint32_t index_words(DType dtype) { return dtype == DType::kI32 ? 1 : dtype == DType::kI64 ? 2 : 0; }

/// The environment variable `name` as a switch: true for "1", false for "0", else nullopt.
std::optional<bool> environment_switch(const char* name);

/// True if the node has output i and something uses it.
inline bool wanted(const KernelSpec& spec, size_t i) {
  return i < spec.outputs.size() && spec.node.outputs[i] != kNoValue;
}

/// The index of the variant of an elementwise shader for unquantized inputs of one type: 0 and 1 for the two types, 2
/// and 3 for the two types with a bool result. The types are float32 and float16, or int32 and int64 if `first` is
/// kI32. Nullopt for other types, and for int64 on a device without it.
std::optional<size_t> element_variant(const KernelSpec& spec, std::initializer_list<size_t> inputs, bool to_bool,
                                      DType first);

/// The variant at the index of element_variant().
template <class Interface>
std::optional<shaders::Variant<Interface>> element_shader(const KernelSpec& spec, std::initializer_list<size_t> inputs,
                                                          bool to_bool, DType first,
                                                          const std::array<shaders::Variant<Interface>, 4>& variants) {
  const auto i = element_variant(spec, inputs, to_bool, first);
  return i ? std::optional(variants[*i]) : std::nullopt;
}

/// The element type as a part of shader names: "f32", "i8", "bool"; "" for types without shaders.
std::string type_suffix(DType dtype);

inline bool fits_int32(double v) { return v >= INT32_MIN && v <= INT32_MAX; }

/// 0 to 3 for elements of 8, 16, 32 and 64 bits, -1 for others.
int element_width_index(DType dtype);

}  // namespace smelt::vulkan
