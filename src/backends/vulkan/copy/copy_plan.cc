#include "backends/vulkan/copy/copy_plan.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "backends/vulkan/core/strides.h"
#include "backends/vulkan/core/type_checks.h"
#include "ops/common/run_reference.h"
#include "ops/gather/gather.h"
#include "ops/resize/resize.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {
namespace {

/// Index maps take four bytes an element.
constexpr int64_t kMostMapped = 1 << 24;

/// Copies between two operands that are dispatched one by one; more become an index map.
constexpr size_t kMostDispatches = 16;

/// True if no other kernel takes the operator, one for computed indices.
bool alone(Op op) { return std::ranges::count(all_kernels(), op, &KernelInfo::op) == 1; }

}  // namespace

std::optional<ElementCopy> as_index_map(std::span<const ElementCopy> copies, int64_t outputs) {
  if (outputs > kMostMapped) return std::nullopt;
  ElementCopy one;
  one.strided.input = copies[0].strided.input;
  one.strided.output = copies[0].strided.output;
  one.index_map.assign(static_cast<size_t>(outputs), -1);
  for (const ElementCopy& e : copies) {
    for (size_t i = 0; i < e.index_map.size(); ++i)
      if (e.index_map[i] >= 0) one.index_map[i] = e.index_map[i];
    if (e.index_map.empty())
      for_each_element(e.strided, [&](int64_t in, int64_t out) {
        one.index_map[static_cast<size_t>(out)] = static_cast<int32_t>(in);
      });
  }
  return one;
}

std::optional<CopyPlan> plan_strided_copies(const KernelSpec& spec) {
  auto all = strided_copies(spec);
  if (!all.ok()) {
    if (alone(spec.node.op)) spec.refuse(all.error().message());
    return std::nullopt;
  }
  CopyPlan plan;
  plan.fill = std::move(all->fill);
  for (size_t first = 0, end; first < all->copies.size(); first = end) {
    const size_t input = all->copies[first].input, output = all->copies[first].output;
    std::vector<ElementCopy> group;
    bool deep = false;
    for (end = first; end < all->copies.size(); ++end) {
      StridedCopy& c = all->copies[end];
      if (c.input != input || c.output != output) break;
      deep = deep || c.dims.size() > size_t{Walk<2>::kMaxRank};
      group.push_back({std::move(c), {}});
    }
    if (deep || group.size() > kMostDispatches) {
      auto map = as_index_map(group, spec.outputs[output].shape.elements());
      if (!map) return std::nullopt;
      group.clear();
      group.push_back(std::move(*map));
    }
    std::ranges::move(group, std::back_inserter(plan.copies));
  }
  return plan;
}

namespace {

/// Bit set of the inputs whose elements move; the others hold indices. 0: this node does more than moving.
uint32_t moving_inputs(const KernelSpec& spec) {
  switch (spec.node.op) {
    case Op::kScatterElements:
    case Op::kScatterND:
    case Op::kIndexSelectPut:
      return spec.attrs<ScatterAttrs>().reduction == ScatterAttrs::Reduce::kNone ? 0b101 : 0;
    case Op::kIndexPut:
      return spec.attrs<IndexAttrs>().accumulate ? 0 : 0b11;
    case Op::kResize: {
      const auto& a = spec.attrs<ResizeAttrs>();
      const bool moves = a.mode == ResizeAttrs::Mode::kNearest && a.coord != ResizeAttrs::Coord::kTfCropAndResize &&
                         spec.inputs[0].dtype == spec.outputs[0].dtype;
      return moves ? 1 : 0;
    }
    default:
      return 1;
  }
}

/// The inputs with numbers in place of the elements that move, counted through all of them; `first`: the number of each
/// input's first element, and at the end the count.
std::optional<std::vector<Datum>> numbered(const KernelSpec& spec, uint32_t moving, std::vector<int32_t>& first) {
  std::vector<Datum> in;
  int64_t next = 0;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    first.push_back(static_cast<int32_t>(next));
    if (!spec.has(i)) {
      in.emplace_back();
    } else if (i >= 32 || !(moving >> i & 1)) {
      if (!spec.constant(i)) {
        if (alone(spec.node.op)) spec.refuse("where elements go depends on input ", i, ", which is computed");
        return std::nullopt;
      }
      in.emplace_back(*spec.constant(i));
    } else {
      const int64_t n = spec.inputs[i].shape.elements();
      if (next + n > kMostMapped) return std::nullopt;
      Tensor t(DType::kI32, spec.inputs[i].shape);
      for (int64_t k = 0; k < n; ++k) t.data<int32_t>()[k] = static_cast<int32_t>(next + k);
      next += n;
      in.emplace_back(std::move(t));
    }
  }
  first.push_back(static_cast<int32_t>(next));
  return in;
}

/// Element `in` of an input goes to element `out`.
struct IndexPair {
  int32_t in, out;
};

/// The pairs as a copy, found as nested runs of one step; nullopt where they are irregular. Ascending in `out`.
std::optional<StridedCopy> as_strided(std::vector<IndexPair> pairs) {
  StridedCopy c;
  c.in_offset = pairs[0].in;
  c.out_offset = pairs[0].out;
  while (pairs.size() > 1) {
    const int32_t in = pairs[1].in - pairs[0].in, out = pairs[1].out - pairs[0].out;
    const auto steps = [&](size_t i) {
      return pairs[i].out - pairs[i - 1].out == out && pairs[i].in - pairs[i - 1].in == in;
    };
    size_t run = 2;
    while (run < pairs.size() && steps(run)) ++run;
    if (pairs.size() % run || c.dims.size() == size_t{Walk<2>::kMaxRank}) return std::nullopt;
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (i % run && !steps(i)) return std::nullopt;
      if (i % run == 0) pairs[i / run] = pairs[i];
    }
    pairs.resize(pairs.size() / run);
    c.dim(static_cast<int64_t>(run), in, out);
  }
  for (auto* v : {&c.dims, &c.in_strides, &c.out_strides}) std::ranges::reverse(*v);
  return c;
}

ElementCopy element_copy(size_t input, size_t output, std::vector<IndexPair> pairs, int64_t outputs) {
  ElementCopy e;
  if (auto strided = as_strided(pairs)) {
    e.strided = std::move(*strided);
  } else {
    e.index_map.assign(static_cast<size_t>(outputs), -1);
    for (const IndexPair& p : pairs) e.index_map[static_cast<size_t>(p.out)] = p.in;
  }
  e.strided.input = input;
  e.strided.output = output;
  return e;
}

}  // namespace

std::optional<CopyPlan> plan_index_map(const KernelSpec& spec) {
  const uint32_t moving = moving_inputs(spec);
  const ValueType& y = spec.outputs[0];
  if (!moving || !wanted(spec, 0) || y.shape.elements() > kMostMapped) return std::nullopt;
  std::vector<int32_t> first;
  auto in = numbered(spec, moving, first);
  if (!in) return std::nullopt;
  // The reference kernel moves the numbers as it would move the elements.
  const auto moved = run_reference(spec.node, std::move(*in), {Tensor(DType::kI32, y.shape)});
  if (!moved.ok() || !(moved->front().shape() == y.shape)) return std::nullopt;
  std::vector<std::vector<IndexPair>> pairs(spec.inputs.size());
  for (int32_t i = 0; i < y.shape.elements(); ++i) {
    const int32_t number = moved->front().data<int32_t>()[i];
    if (number < 0 || number >= first.back()) return std::nullopt;
    const auto input = static_cast<size_t>(std::upper_bound(first.begin(), first.end(), number) - first.begin()) - 1;
    pairs[input].push_back({number - first[input], i});
  }
  CopyPlan plan;
  for (size_t i = 0; i < pairs.size(); ++i)
    if (!pairs[i].empty()) plan.copies.push_back(element_copy(i, 0, std::move(pairs[i]), y.shape.elements()));
  return plan;
}

uint64_t bit_pattern(const Tensor& element) {
  uint64_t pattern = 0;
  std::memcpy(&pattern, element.raw(), std::min(element.bytes(), sizeof pattern));
  return pattern;
}

}  // namespace smelt::vulkan
