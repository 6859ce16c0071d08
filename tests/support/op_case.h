// For tests and benchmarks: one operator with its operands, and the tensors that go in and out.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/core/op.h"

namespace smelt::test {

/// One operator with its operands.
struct OpCase {
  std::string label;
  Op op;
  AttrsPtr attrs;
  std::vector<Tensor> inputs;          ///< undefined: absent
  std::vector<size_t> constants = {};  ///< the inputs that are constants; a run gives the others
  /// Element types and quantization; inference fills in what is left open. Trailing outputs that the operator always
  /// has need not be named.
  std::vector<ValueType> outputs{1};
  bool threaded = false;  ///< CPU kernels: run with several threads too
  bool is_constant(size_t i) const;
};

/// How far a real number may be from the expected one.
struct Tolerance {
  constexpr Tolerance() = default;
  constexpr Tolerance(double both) : absolute(both), relative(both) {}  // NOLINT(google-explicit-constructor)
  constexpr Tolerance(double a, double r) : absolute(a), relative(r) {}
  double absolute = 1e-5, relative = 1e-5;
};

/// A tensor of any real element type from values.
Tensor tensor(DType dtype, const Shape& shape, const std::vector<double>& values);
Tensor floats(const Shape& shape, const std::vector<double>& values);
/// int64 values, as axes and sizes are given.
Tensor i64(const std::vector<int64_t>& values);
/// Random tensors. Integers over [lo, hi], floats uniform between them.
Tensor random_tensor(DType dtype, const Shape& shape, double lo, double hi, uint32_t seed);
/// The float32 tensor with its elements rounded to bfloat16, to the nearest, ties to even. Precondition: finite.
Tensor rounded_to_bf16(const Tensor& t);
/// The float32 values of a float16 tensor, deferred as widen_float16() has them.
Tensor widened(const Tensor& float16);
/// Sylvester's Hadamard matrix of n rows times `scale`. n: a power of two.
Tensor hadamard(int64_t n, float scale);
/// Random float32 in [-2, 2].
Tensor f32(const Shape& shape, uint32_t seed = 1);

QuantPtr per_tensor(float scale, int32_t zero_point, Rounding rounding = Rounding::kFloatHalfEven);
QuantPtr per_axis(std::vector<float> scales, int axis, std::vector<int32_t> zero_points = {});
/// Integers with per-tensor quantization.
Tensor quantized(DType dtype, const Shape& shape, const std::vector<double>& integers, float scale, int32_t zero_point,
                 Rounding rounding = Rounding::kFloatHalfEven);
/// Random integers over the whole range of `dtype`, quantized per tensor with TFLite's double rounding.
Tensor random_quantized(DType dtype, const Shape& shape, float scale, int32_t zero_point, uint32_t seed);

/// Elements as doubles, integers of quantized tensors as they are.
std::vector<double> values(const Tensor& t);

}  // namespace smelt::test
