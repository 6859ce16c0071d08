#pragma once

#include <cstddef>
#include <memory>

#include "base/mapped_file.h"
#include "smelt/tensor.h"

namespace smelt {

/// Tensor::deferred() pays off for constants of more bytes than these.
constexpr size_t kWorthDeferring = 2048;

/// Gives the pages of a constant, or of what it is derived from, back to its file, if it lies in one: for when a packed
/// form, a hash or what was computed of it stands for it. They are read again when asked for.
inline void release_pages(const Tensor& constant) {
  const Tensor* stored = &constant;
  while (const Tensor* source = stored->source()) stored = source;
  release_pages(stored->unaligned_bytes(), stored->bytes());
}
/// As release_pages(), for a constant that only copy_file_bytes() or copy_elements() has read.
inline void release_read_pages(const Tensor& constant) {
  if (constant.source()) return release_pages(constant);
  release_read_pages(constant.unaligned_bytes(), constant.bytes());
}

/// The float16 or bfloat16 elements whose float32 values the constant has, in the same order; nullptr where there are
/// none. They are what such values are deferred from: no other tensors are made of them so.
inline const Tensor* narrow_source(const Tensor& constant) {
  const Tensor* const source = constant.source();
  if (!source || constant.dtype() != DType::kF32 || source->elements() != constant.elements()) return nullptr;
  return source->dtype() == DType::kF16 || source->dtype() == DType::kBF16 ? source : nullptr;
}
/// narrow_source() of float16.
inline const Tensor* float16_source(const Tensor& constant) {
  const Tensor* const source = narrow_source(constant);
  return source && source->dtype() == DType::kF16 ? source : nullptr;
}

/// The float32 values of float16 or bfloat16 elements. Large ones are made when they are packed, and do not stay:
/// float16_source() finds what those of float16 are made of.
Tensor as_float32(const Tensor& narrow);

/// The elements of a constant, aligned, for those who read them this once: see Tensor::read_once().
[[gnu::noinline]] std::shared_ptr<const void> elements_once(const Tensor& constant);

}  // namespace smelt
