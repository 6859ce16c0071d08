#include "backends/cpu/core/cost.h"

#include <algorithm>

#include "ops/conv/conv.h"
#include "ops/core/op.h"

namespace smelt {
namespace {

double elements(const ValueType& t) { return static_cast<double>(t.shape.elements()); }

double bytes(std::span<const ValueType> types) {
  double sum = 0;
  for (const ValueType& t : types)
    if (t.dtype != DType::kInvalid) sum += elements(t) * std::max(1, bit_width(t.dtype)) / 8;
  return sum;
}

bool grouped(const Node& node) { return node.op == Op::kConv && static_cast<const ConvAttrs&>(*node.attrs).groups > 1; }

}  // namespace

double estimated_time(const Node& node, std::span<const ValueType> inputs, std::span<const ValueType> outputs,
                      Isa isa) {
  constexpr double kBytes = 30, kProducts = 80, kByteProducts = 250, kOther = 0.5;  // a nanosecond; of an element
  const double slower = isa.has(IsaFeature::kAvx512) ? 1 : isa.has(IsaFeature::kAvx2) ? 2 : 6;
  const double moved = (bytes(inputs) + bytes(outputs)) / kBytes;
  const double count = op_info(node.op).multiply_adds(*node.attrs, inputs, outputs[0]);
  if (count == 0) {
    double made = 0;
    for (const ValueType& t : outputs) made = std::max(made, elements(t));
    return moved + std::max(made, elements(inputs[0])) * kOther;
  }
  // Depthwise convolutions of bytes use their elements too seldom to be as fast as other products.
  const bool fast = bit_width(inputs[0].dtype) == 8 && !grouped(node);
  return moved + count / (fast ? kByteProducts : kProducts) * slower;
}

Sharing worthwhile_sharing(const Node& node, std::span<const ValueType> inputs, std::span<const ValueType> outputs,
                           Isa isa, bool spread) {
  constexpr double kLeast = 10000;       // to fetch from each other's caches takes some microseconds
  constexpr double kLeastSpread = 5000;  // one thread would take some of them to fetch what the others made
  constexpr double kLeastNear = 1000;    // to hand work over and to meet again takes 0.1 us
  if (inputs.empty() || outputs.empty()) return Sharing::kAll;
  const double time = estimated_time(node, inputs, outputs, isa);
  if (time >= (spread ? kLeastSpread : kLeast)) return Sharing::kAll;
  return time >= kLeastNear ? Sharing::kNear : Sharing::kNone;
}

}  // namespace smelt
