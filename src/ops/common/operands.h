#pragma once

#include <complex>
#include <cstdint>

#include "base/checked.h"
#include "base/error.h"
#include "ops/core/op.h"
#include "smelt/tensor.h"

namespace smelt {

/// The number type that a reference kernel computes in: float for float32 and narrower floats and for the real values
/// of quantized tensors, double for float64, wrapping 64-bit integers, complex doubles.
enum class Compute : uint8_t { kFloat, kDouble, kInteger, kComplex };
Compute compute_of(DType dtype);
/// For several operands: the widest one.
Compute compute_of(const Tensor& a, const Tensor& b);

/// `n` elements of scratch memory, or an error when there is no memory for them.
template <class T>
Result<T*> scratch_array(KernelContext& ctx, int64_t n) {
  if (n < 0 || n > (int64_t{1} << 40)) return LimitReached("a kernel needs ", n, " elements of scratch memory");
  void* p = ctx.scratch(static_cast<size_t>(n) * sizeof(T));
  if (!p) return LimitReached("no memory for ", n, " elements of scratch");
  return static_cast<T*>(p);
}

/// The elements as an array of T, converted into scratch memory where the stored type differs. float and double see the
/// real values of quantized tensors; the integer types see stored integers (sign-extended, modulo 2^bits).
template <class T>
Result<const T*> operand(KernelContext& ctx, const Tensor& t);
extern template Result<const float*> operand<float>(KernelContext&, const Tensor&);
extern template Result<const double*> operand<double>(KernelContext&, const Tensor&);
extern template Result<const uint32_t*> operand<uint32_t>(KernelContext&, const Tensor&);
extern template Result<const uint64_t*> operand<uint64_t>(KernelContext&, const Tensor&);
extern template Result<const std::complex<double>*> operand<std::complex<double>>(KernelContext&, const Tensor&);

/// The same, always in scratch memory of the caller's own.
template <class T>
Result<T*> operand_copy(KernelContext& ctx, const Tensor& t);

/// Writes results into an output. Real results of a quantized output are quantized (half to even).
void store(const float* values, Tensor& out);
void store(const double* values, Tensor& out);
void store(const uint64_t* values, Tensor& out);
void store(const std::complex<double>* values, Tensor& out);

/// The real values of a tensor: stored integers of any Quantization kind dequantized, others converted.
Status real_values(const Tensor& t, float* out);

/// Calls fn.template operator()<T>() for the number type of `c`.
template <class F>
Status with_compute(Compute c, F&& fn) {
  switch (c) {
    case Compute::kDouble:
      return fn.template operator()<double>();
    case Compute::kInteger:
      return fn.template operator()<uint64_t>();
    case Compute::kComplex:
      return fn.template operator()<std::complex<double>>();
    default:
      return fn.template operator()<float>();
  }
}

/// The same without complex numbers.
template <class F>
Status with_real_compute(Compute c, F&& fn) {
  switch (c) {
    case Compute::kDouble:
      return fn.template operator()<double>();
    case Compute::kInteger:
      return fn.template operator()<uint64_t>();
    case Compute::kComplex:
      return Unsupported("complex numbers are not supported by this operator");
    default:
      return fn.template operator()<float>();
  }
}

}  // namespace smelt
