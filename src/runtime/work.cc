#include "runtime/work.h"

#include <algorithm>

#include "ops/conv/conv.h"
#include "ops/conv/conv_shape.h"
#include "ops/core/op.h"
#include "ops/matmul/matmul.h"

namespace smelt {
namespace {

double elements(const ValueType& t) { return static_cast<double>(t.shape.elements()); }

double bytes(std::span<const ValueType> types) {
  double sum = 0;
  for (const ValueType& t : types)
    if (t.dtype != DType::kInvalid) sum += elements(t) * std::max(1, bit_width(t.dtype)) / 8;
  return sum;
}

/// The dimension of a shape that may have too few.
double dimension(const Shape& s, int i) { return i >= 0 && i < s.rank() ? static_cast<double>(s[i]) : 1; }

/// Products of two numbers that the node adds up; 0: the operator is of another kind.
double products(const Node& node, std::span<const ValueType> in, const ValueType& out) {
  switch (node.op) {
    case Op::kMatMul:
    case Op::kMatMulInteger: {
      const Shape& b = in[1].shape;
      const bool turned = static_cast<const MatMulAttrs&>(*node.attrs).transpose_b;
      return elements(out) * dimension(b, b.rank() - (turned || b.rank() < 2 ? 1 : 2));
    }
    case Op::kConv:
    case Op::kConvInteger: {
      const Shape& filter = in[1].shape;
      const int axis = filter_output_axis(static_cast<const ConvAttrs&>(*node.attrs), filter.rank());
      return elements(out) * elements(in[1]) / std::max(1.0, dimension(filter, axis));
    }
    case Op::kConvTranspose: {
      const Shape& x = in[0].shape;
      const bool last = static_cast<const ConvTransposeAttrs&>(*node.attrs).layout == Layout::kChannelsLast;
      return elements(in[0]) * elements(in[1]) / std::max(1.0, dimension(x, last ? x.rank() - 1 : 1));
    }
    case Op::kAttention: {
      const Shape& keys = in[1].shape;
      return elements(in[0]) * dimension(keys, keys.rank() - 2) * 2;
    }
    default:
      return 0;
  }
}

bool grouped(const Node& node) { return node.op == Op::kConv && static_cast<const ConvAttrs&>(*node.attrs).groups > 1; }

}  // namespace

double estimated_time(const Node& node, std::span<const ValueType> inputs, std::span<const ValueType> outputs,
                      Isa isa) {
  constexpr double kBytes = 30, kProducts = 60, kByteProducts = 180, kOther = 0.5;  // a nanosecond; of an element
  const double slower = isa >= Isa::kAvx512 ? 1 : isa == Isa::kAvx2 ? 2 : 6;
  const double moved = (bytes(inputs) + bytes(outputs)) / kBytes;
  const double count = products(node, inputs, outputs[0]);
  if (count == 0) {
    double made = 0;
    for (const ValueType& t : outputs) made = std::max(made, elements(t));
    return moved + std::max(made, elements(inputs[0])) * kOther;
  }
  // Depthwise convolutions of bytes use their elements too seldom to be as fast as other products.
  const bool fast = bit_width(inputs[0].dtype) == 8 && !grouped(node);
  return moved + count / (fast ? kByteProducts : kProducts) * slower;
}

int worthwhile_threads(int threads, const Node& node, std::span<const ValueType> inputs,
                       std::span<const ValueType> outputs, Isa isa) {
  constexpr double kLeast = 10000;  // to wake threads that spin, and to meet again, takes some microseconds
  if (threads <= 1 || inputs.empty() || outputs.empty()) return threads;
  return estimated_time(node, inputs, outputs, isa) < kLeast ? 1 : threads;
}

}  // namespace smelt
