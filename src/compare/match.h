#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compare/side.h"

namespace smelt {

/// What is kept of a value that a run made, to find the value of the other side that it goes with.
struct Observed {
  Tensor type;  ///< element type, shape and quantization; no contents
  int order = 0;
  double mean = 0, rms = 0, mean_abs = 0, low = 0, high = 0;
  bool informative = false;    ///< finite, of several different elements
  std::vector<float> samples;  ///< elements at fixed positions of the row-major order
};
using Observations = std::map<ValueId, Observed>;

/// Notes what a run makes.
class Observer final : public ValueTap {
 public:
  explicit Observer(Observations& to) : to_(to) {}
  Status made(const Node& node, ValueId id, Datum& value, bool shared) override;

 private:
  Observations& to_;
};

/// How the elements of the first side's value lie in the second side's.
enum class ElementOrder : uint8_t {
  kSame,           ///< in the same order; dimensions of 1 may differ
  kChannelsLast,   ///< the first is [N, C, spatial...], the second [N, spatial..., C]
  kChannelsFirst,  ///< the other way round
};

/// What tells that two values are the same.
enum class Evidence : uint8_t { kPosition, kName, kNumbers, kStructure };
const char* to_string(Evidence evidence);

struct Pair {
  ValueId first = kNoValue;
  ElementOrder layout = ElementOrder::kSame;
  Evidence evidence = Evidence::kName;
};
/// By value of the second side. A value of the first side may go with several.
using Pairs = std::map<ValueId, Pair>;

/// Pairs the values of two runs on the same inputs: graph inputs and outputs by position, values of one name and shape,
/// values of equal numbers, then results of nodes of one operator whose operands are paired or whose results are read
/// by paired nodes, then what is left in the order of the graphs. `inputs`: by input of the second graph that of the
/// first.
Pairs match(const Graph& first, const Observations& a, const Graph& second, const Observations& b,
            const std::vector<int>& inputs);

/// The layout in which tensors of the shapes can hold the same elements; nullopt: in none. `a`, `b`: the values, or
/// null.
std::optional<ElementOrder> layout_between(const Shape& first, const Shape& second, const Observed* a = nullptr,
                                           const Observed* b = nullptr);
/// The elements of a value of the first side, in the order of the second. Precondition: layout_between() gave `layout`.
std::vector<float> laid_out(std::vector<float> values, const Shape& first, ElementOrder layout);

/// By value, the node that makes it; -1: none.
std::vector<int> producers(const Graph& graph);

}  // namespace smelt
