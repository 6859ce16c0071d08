#pragma once

#include <complex>
#include <cstdint>

#include "base/checked.h"
#include "base/error.h"
#include "ops/core/op.h"
#include "smelt/tensor.h"

namespace smelt {

/// The type that a reference kernel computes in: float for float32, narrower floats and the real values of quantized
/// tensors; double for float64; wrapping 64-bit integers; complex doubles.
enum class Compute : uint8_t { kFloat, kDouble, kInteger, kComplex };
Compute compute_of(DType dtype);
/// The wider of the types of two operands.
Compute compute_of(const Tensor& a, const Tensor& b);

/// `n` elements of scratch memory, or an error when there is no memory for them.
template <class T>
Result<T*> scratch_array(KernelContext& ctx, int64_t n) {
  if (n < 0 || n > (int64_t{1} << 40)) return LimitReached("a kernel needs ", n, " elements of scratch memory");
  void* p = ctx.scratch(static_cast<size_t>(n) * sizeof(T));
  if (!p) return LimitReached("no memory for ", n, " elements of scratch");
  return static_cast<T*>(p);
}

/// The elements as an array of T, converted into scratch memory where the tensor's type differs. float and double read
/// the real values of quantized tensors; integer types read the quantized integers (sign-extended, modulo 2^bits).
template <class T>
Result<const T*> operand(KernelContext& ctx, const Tensor& t);
extern template Result<const float*> operand<float>(KernelContext&, const Tensor&);
extern template Result<const double*> operand<double>(KernelContext&, const Tensor&);
extern template Result<const uint32_t*> operand<uint32_t>(KernelContext&, const Tensor&);
extern template Result<const uint64_t*> operand<uint64_t>(KernelContext&, const Tensor&);
extern template Result<const std::complex<double>*> operand<std::complex<double>>(KernelContext&, const Tensor&);

/// operand() in scratch memory that the caller may write.
template <class T>
Result<T*> operand_copy(KernelContext& ctx, const Tensor& t);

/// operand() of input i; nullptr if the input is absent.
template <class T>
Result<const T*> optional_operand(KernelContext& ctx, int i) {
  if (!ctx.has(i)) return static_cast<const T*>(nullptr);
  return operand<T>(ctx, ctx.input(i));
}

/// Writes results into an output. Real results of a quantized output are quantized (half to even).
void store(const float* values, Tensor& out);
void store(const double* values, Tensor& out);
void store(const uint64_t* values, Tensor& out);
void store(const std::complex<double>* values, Tensor& out);

/// Writes the real values of a tensor of any Quantization kind to `out` [t.elements()]; other tensors are converted.
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

/// with_compute() for operators without complex numbers, which are an error.
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
