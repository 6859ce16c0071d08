// Discrete Fourier transforms as products with matrices of sines and cosines.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <vector>

#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/decompose/decomposed_kernel.h"
#include "ops/matmul/matmul.h"
#include "ops/shape/rules.h"
#include "ops/signal/signal.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {
namespace {

constexpr int64_t kMaxLength = 1024;

/// A transform of lines of `length` numbers, of which `used` are given, each of one or two parts, into `keep` numbers.
struct Line {
  int64_t length, extent, used, parts, keep, parts_out;
  bool inverse, half_input;
  double scale;
};

/// The transform's matrix: a row per input component, a column per output component.
Tensor waves(const Line& t) {
  Tensor out(DType::kF32, Shape{t.extent * t.parts, t.keep * t.parts_out});
  float* const to = out.data<float>();
  std::fill_n(to, out.elements(), 0.0f);
  std::vector<double> cosines(static_cast<size_t>(t.length)), sines(cosines.size());
  for (int64_t i = 0; i < t.length; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(t.length);
    cosines[static_cast<size_t>(i)] = std::cos(angle);
    sines[static_cast<size_t>(i)] = (t.inverse ? 1 : -1) * std::sin(angle);
  }
  for (int64_t k = 0; k < t.used; ++k) {
    // Of half a symmetric spectrum, the other half adds the conjugate of each number that is there twice.
    const double scale = t.half_input && k > 0 && t.length - k > k ? 2 * t.scale : t.scale;
    for (int64_t j = 0; j < t.keep; ++j) {
      const auto at = static_cast<size_t>(k * j % t.length);
      const double c = scale * cosines[at], s = scale * sines[at];
      const double parts[2][2] = {{c, s}, {-s, c}};
      for (int64_t p = 0; p < t.parts; ++p)
        for (int64_t q = 0; q < t.parts_out; ++q)
          to[(k * t.parts + p) * t.keep * t.parts_out + j * t.parts_out + q] = static_cast<float>(parts[p][q]);
    }
  }
  return out;
}

}  // namespace

std::unique_ptr<Kernel> make_dft(const KernelSpec& spec) {
  const auto& a = spec.attrs<DftAttrs>();
  const Shape &x = spec.inputs[0].shape, &y = spec.outputs[0].shape;
  if (!unquantized_floats(spec, {0}, {0}) || spec.outputs[0].dtype != DType::kF32 || a.complex_dtype || a.dims != 1)
    return nullptr;
  for (size_t i : {1, 2})
    if (spec.has(i) && (!spec.constant(i) || spec.constant(i)->elements() != 1))
      return spec.refuse("a length or axis that is computed");
  const auto axis = axis_of(spec.has(2) ? get_int(*spec.constant(2), 0) : a.axis, x.rank());
  if (!axis.ok() || *axis >= x.rank() - 1 || y.rank() != x.rank()) return nullptr;
  const bool half = a.inverse && a.onesided;
  const int last = x.rank() - 1;
  Line t{};
  t.extent = x[*axis];
  t.length = spec.has(1) ? get_int(*spec.constant(1), 0) : half ? 2 * (t.extent - 1) : t.extent;
  if (t.length < 1 || t.length > kMaxLength || t.extent > kMaxLength)
    return spec.refuse("lines of more than ", kMaxLength, " numbers");
  t.used = std::min(t.extent, half ? t.length / 2 + 1 : t.length);
  t.parts = x[last];
  t.keep = y[*axis];
  t.parts_out = y[last];
  t.inverse = a.inverse;
  t.half_input = half;
  t.scale = a.scale != 0 ? a.scale : a.inverse ? 1 / static_cast<double>(t.length) : 1;
  if (t.keep > t.length || t.parts < 1 || t.parts > 2 || t.parts_out < 1 || t.parts_out > 2) return nullptr;
  // Lines last, with the parts of their numbers.
  std::vector<int64_t> turn, back(static_cast<size_t>(x.rank())), rows;
  for (int d = 0; d < last; ++d)
    if (d != *axis) turn.push_back(d);
  turn.push_back(*axis);
  turn.push_back(last);
  for (size_t d = 0; d < turn.size(); ++d) back[static_cast<size_t>(turn[d])] = static_cast<int64_t>(d);
  for (size_t d = 0; d + 2 < turn.size(); ++d) rows.push_back(x[static_cast<int>(turn[d])]);
  const int64_t count = std::accumulate(rows.begin(), rows.end(), int64_t{1}, std::multiplies<>());
  KernelSpec exact = spec;
  exact.fp16 = false;  // no product of the model's
  Decomposition c(exact);
  const ValueId lines = c.reshape(c.transpose(c.input(0), turn), {count, t.extent * t.parts});
  const ValueId product = c.add(Op::kMatMul, make_attrs<MatMulAttrs>(), {lines, c.constant(waves(t))});
  rows.push_back(t.keep);
  rows.push_back(t.parts_out);
  return decomposed_kernel(exact, c, {c.transpose(c.reshape(product, rows), back)});
}

}  // namespace smelt::vulkan
