#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <string>

#include "backends/vulkan/core/kernel.h"
#include "backends/vulkan/device/alignment.h"

namespace smelt::vulkan {

/// Invocations of a workgroup of shaders that work element by element.
inline constexpr uint32_t kWidth = 64;

/// Rounds of loops that one invocation may take, those of all loops of its shader together: software devices end it
/// behind 65535, and others are slow with fewer lanes at work.
inline constexpr int64_t kMaxRounds = 60'000;

/// Whether these inputs and outputs are all float32, or all float16, and not quantized.
bool plain_reals(const KernelSpec& spec, std::initializer_list<size_t> inputs, std::initializer_list<size_t> outputs);

/// Words of a whole number that shaders read as its low word (which they check against the high one); 0: they don't.
inline uint32_t whole_words(DType dtype) { return dtype == DType::kI32 ? 1 : dtype == DType::kI64 ? 2 : 0; }

/// What the environment says: variable `name` is 1 or 0.
std::optional<bool> forced(const char* name);

/// Whether something uses output i.
inline bool wanted(const KernelSpec& spec, size_t i) {
  return i < spec.outputs.size() && spec.node.outputs[i] != kNoValue;
}

/// The shader for inputs of one plain element type, of `variants`: for narrow and wide elements, then for the same with
/// a result of bool. Narrow and wide are float32 and float16, or int32 and int64 when `first` is kI32. Null: none.
const char* element_shader(const KernelSpec& spec, std::initializer_list<size_t> inputs, bool to_bool,
                           const std::array<const char*, 4>& variants, DType first = DType::kF32);

/// The element type as names of shaders have it: "f32", "i8", "bool"; "" for types that the device does not store.
std::string short_name(DType dtype);

inline bool fits_int32(double v) { return v >= INT32_MIN && v <= INT32_MAX; }

/// 0 to 3 for elements of 8, 16, 32 and 64 bits; -1: others.
int width_index(DType dtype);

}  // namespace smelt::vulkan
