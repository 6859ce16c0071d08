// Products whose constant weights exceed the largest binding: output channels are computed slice by slice.
#include "backends/vulkan/gemm/weight_slices.h"

#include <algorithm>
#include <cstring>

#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/decompose/decomposed_kernel.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/gemm/operand.h"
#include "ops/conv/conv_shape.h"
#include "ops/matmul/matmul_shape.h"
#include "ops/shape/shape.h"

namespace smelt::vulkan {
namespace {

/// Elements [begin, end) of one dimension of a constant.
struct Range {
  int axis;
  int64_t begin, end;
};

/// The quantization parameters of a range of a constant; null if they cannot be divided at its ends.
QuantPtr quant_of_range(const Tensor& t, const Range& r) {
  const QuantPtr& q = t.quant();
  if (!q || q->scales.size() <= 1 || q->kind == Quantization::Kind::kPerTensor) return q;
  Shape s = t.shape();
  if (q->kind == Quantization::Kind::kPerAxis) {
    if (q->axis != r.axis) return q;
    s = Shape{s[r.axis]};
  } else if (q->kind == Quantization::Kind::kPerBlock && q->block > 0 && q->axis != r.axis) {
    s[q->axis] = (s[q->axis] + q->block - 1) / q->block;
  } else {
    return nullptr;
  }
  if (static_cast<int64_t>(q->scales.size()) != s.elements()) return nullptr;
  const int64_t inner = s.rank() == 1 ? 1 : s.strides()[r.axis], extent = t.shape()[r.axis];
  auto part = std::make_shared<Quantization>(*q);
  part->scales.clear();
  if (q->zero_points.size() > 1) part->zero_points.clear();
  for (int64_t i = 0; i < s.elements(); ++i) {
    if (const int64_t at = i / inner % extent; at < r.begin || at >= r.end) continue;
    part->scales.push_back(q->scale(i));
    if (q->zero_points.size() > 1) part->zero_points.push_back(q->zero_point(i));
  }
  return part;
}

/// A range of a constant: a view where its bytes are contiguous, else a copy. Undefined if it does not begin and end at
/// whole bytes.
Tensor slice_of(const Tensor& t, const Range& r) {
  Shape shape = t.shape();
  shape[r.axis] = r.end - r.begin;
  const auto bits = static_cast<int64_t>(bit_width(t.dtype())) * t.shape().strides()[r.axis];
  int64_t rows = 1;
  for (int d = 0; d < r.axis; ++d) rows *= t.shape()[d];
  if (bits * r.begin % 8 || (rows > 1 && (bits * r.end % 8 || bits * t.shape()[r.axis] % 8))) return {};
  const auto* from = t.data<std::byte>() + bits * r.begin / 8;
  Tensor part;
  if (rows == 1) {
    part = Tensor::view(t.dtype(), shape, from, t.owner());
  } else {
    auto made = Tensor::allocate(t.dtype(), shape, false);
    if (!made.ok()) return {};
    part = std::move(*made);
    const auto row = static_cast<size_t>(bits * t.shape()[r.axis] / 8);
    const auto bytes = static_cast<size_t>(bits * (r.end - r.begin) / 8);
    for (size_t i = 0; i < static_cast<size_t>(rows); ++i)
      std::memcpy(part.data<std::byte>() + i * bytes, from + i * row, bytes);
  }
  if (t.quant()) {
    part.set_quant(quant_of_range(t, r));
    if (!part.quant()) return {};
  }
  return part;
}

/// Output channels per slice. Kernels bind weights as they are or as float32, with K padded to 4 and channels to 16.
int64_t channels_per_slice(const KernelSpec& spec, const SlicedProduct& p) {
  const Tensor& w = *spec.constant(1);
  const int64_t products = w.elements() / p.channels;
  const int64_t bytes = (products + 3) / 4 * 4 * std::max(4, bit_width(w.dtype()) / 8);
  const auto most = static_cast<int64_t>(spec.device.max_binding()) / bytes;
  return std::min(most < 16 ? most : most / 16 * 16, p.channels);
}

}  // namespace

std::unique_ptr<Kernel> weight_slices(const KernelSpec& spec, const SlicedProduct& p) {
  const ValueType& y = spec.outputs[0];
  const Tensor& weights = *spec.constant(1);
  const int64_t most = channels_per_slice(spec, p);
  if (most <= 0 || most >= p.channels) return nullptr;
  const Tensor* bias = spec.has(2) ? spec.constant(2) : nullptr;
  Decomposition c(spec);
  std::vector<ValueId> slices;
  for (int64_t at = 0; at < p.channels; at += most) {
    const int64_t end = std::min(at + most, p.channels);
    const auto constant = [&](size_t input, const Tensor& t, int axis) {
      const Tensor part = slice_of(t, {axis, at, end});
      return part.defined() ? c.derived(input, part, Cat("channels ", at, " to ", end, ", ")) : kNoValue;
    };
    std::vector<ValueId> inputs{c.input(0), constant(1, weights, p.weights_axis)};
    if (spec.has(2)) {
      const Shape& s = spec.inputs[2].shape;
      const int last = s.rank() - 1;
      ValueId addend = c.input(2);
      if (s.rank() > 0 && s[last] == p.channels && s[last] > 1)
        addend = bias ? constant(2, *bias, last)
                      : c.add(Op::kSlice, make_attrs<NoAttrs>(), {addend, c.i64({at}), c.i64({end}), c.i64({last})});
      inputs.push_back(addend);
    }
    ValueType type = y;
    type.shape[p.output_axis] = end - at;
    slices.push_back(c.add_as(spec.node.op, spec.node.attrs, inputs, type));
  }
  return decomposed_kernel(spec, c, {c.add_as(Op::kConcat, make_attrs<AxisAttrs>(p.output_axis), slices, y)});
}

}  // namespace smelt::vulkan
