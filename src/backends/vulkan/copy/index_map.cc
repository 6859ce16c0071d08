// Operators that only move elements to places that are known beforehand. Their reference kernels run on the host with
// numbered elements; the numbers in the outputs tell the moves.
#include <algorithm>
#include <cstring>

#include "backends/vulkan/copy/index_map.h"
#include "backends/vulkan/core/common.h"
#include "ops/common/index.h"
#include "ops/common/run_reference.h"
#include "ops/gather/gather.h"
#include "ops/resize/resize.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::vulkan {
namespace {

/// Operators over more elements than this run by kernels that need no list, or on the CPU.
constexpr int64_t kMostElements = 1 << 24;

constexpr uint32_t kAllInputs = ~0u;

/// Bit set of the inputs whose elements move; the others say where. 0: this node does more than moving.
uint32_t moving_inputs(const KernelSpec& spec) {
  switch (spec.node.op) {
    case Op::kConcat:
    case Op::kStack:
      return kAllInputs;
    case Op::kPad:
      return 0b101;
    case Op::kFill:
      return 0b10;
    case Op::kMatrixSetDiag:
    case Op::kDynamicUpdateSlice:
    case Op::kSliceScatter:
      return 0b11;
    case Op::kScatterElements:
    case Op::kScatterND:
    case Op::kIndexSelectPut:
      return spec.attrs<ScatterAttrs>().reduction == ScatterAttrs::Reduce::kNone ? 0b101 : 0;
    case Op::kTensorScatter:
      return 0b11;
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

/// A quantized input of Concat with other parameters than the output: what its stored values become. Nullopt: not by a
/// table of bytes.
std::optional<std::vector<uint8_t>> rescaling(const KernelSpec& spec, size_t input) {
  const ValueType &x = spec.inputs[input], &y = spec.outputs[0];
  if (!is_per_tensor(x.quant) || !is_per_tensor(y.quant) || x.dtype != y.dtype || bit_width(y.dtype) != 8)
    return std::nullopt;
  Shape shape = Shape::of_rank(y.shape.rank(), 1);
  const int64_t axis = spec.attrs<AxisAttrs>().axis;
  shape[static_cast<int>(axis < 0 ? axis + shape.rank() : axis)] = 256;
  Tensor all(x.dtype, shape), out(y.dtype, shape);
  for (int i = 0; i < 256; ++i) all.data<uint8_t>()[i] = static_cast<uint8_t>(i);
  all.set_quant(x.quant);
  out.set_quant(y.quant);
  Node alone = spec.node;
  alone.inputs.resize(1);
  const auto moved = run_reference(alone, {std::move(all)}, {std::move(out)});
  if (!moved.ok()) return std::nullopt;
  const auto* bytes = moved->front().data<uint8_t>();
  return std::vector<uint8_t>(bytes, bytes + 256);
}

}  // namespace

std::optional<Move> as_walk(std::vector<Place> list) {
  Move m;
  m.y_offset = list[0].to;
  m.x_offset = list[0].from;
  m.walk.n = static_cast<uint32_t>(list.size());
  while (list.size() > 1) {
    const int32_t to = list[1].to - list[0].to, from = list[1].from - list[0].from;
    const auto steps = [&](size_t i) {
      return list[i].to - list[i - 1].to == to && list[i].from - list[i - 1].from == from;
    };
    size_t run = 2;
    while (run < list.size() && steps(run)) ++run;
    if (list.size() % run || m.walk.rank == Walk<2>::kMaxRank) return std::nullopt;
    for (size_t i = 0; i < list.size(); ++i) {
      if (i % run && !steps(i)) return std::nullopt;
      if (i % run == 0) list[i / run] = list[i];
    }
    list.resize(list.size() / run);
    m.walk.size[m.walk.rank] = static_cast<uint32_t>(run);
    m.walk.stride[0][m.walk.rank] = from;
    m.walk.stride[1][m.walk.rank] = to;
    ++m.walk.rank;
  }
  return m;
}

namespace {

/// The move of one output from one source. A single element that goes to irregular places may go everywhere first: then
/// `background` turns from false to true.
Move move_of(const std::vector<Place>& list, int32_t n, bool& background) {
  if (auto m = as_walk(list)) return *m;
  const bool single = std::all_of(list.begin(), list.end(), [&](const Place& p) { return p.from == list[0].from; });
  Move m;
  if (single && !background) {
    background = true;
    m.x_offset = list[0].from;
    m.walk.n = static_cast<uint32_t>(n);
    m.walk.rank = 1;
    m.walk.size[0] = m.walk.n;
    m.walk.stride[1][0] = 1;
    return m;
  }
  m.places.assign(static_cast<size_t>(n), -1);
  for (const Place& p : list) m.places[static_cast<size_t>(p.to)] = p.from;
  return m;
}

/// Stored zero, or the zero point where the operator's border is a real zero; false: not one value.
bool fill_pattern(const KernelSpec& spec, uint64_t& pattern) {
  pattern = 0;
  const ValueType& y = spec.outputs[0];
  if (!y.quant || spec.node.op == Op::kMatrixDiag) return true;
  const auto& points = y.quant->zero_points;
  if (points.empty()) return true;
  if (std::any_of(points.begin(), points.end(), [&](int32_t p) { return p != points[0]; })) return false;
  Tensor t(y.dtype, Shape{1});
  set_int(t, 0, points[0]);
  std::memcpy(&pattern, t.raw(), t.bytes());
  return true;
}

/// Whether no other kernel takes the operator, one for computed places.
bool alone(Op op) {
  return std::count_if(all_kernels().begin(), all_kernels().end(), [=](const KernelInfo& k) { return k.op == op; }) ==
         1;
}

/// The inputs with numbers in place of the elements that move: 1 and up through all sources; 0 is the fill value.
std::optional<std::vector<Datum>> numbered(const KernelSpec& spec, uint32_t moving, std::vector<int32_t>& first) {
  std::vector<Datum> in;
  int64_t next = 1;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    first.push_back(static_cast<int32_t>(next));
    if (!spec.has(i)) {
      in.emplace_back();
      continue;
    }
    if (i < 32 && !(moving >> i & 1) && moving != kAllInputs) {
      if (!spec.constant(i)) {
        if (alone(spec.node.op)) spec.refuse("where elements go depends on input ", i, ", which is computed");
        return std::nullopt;
      }
      in.emplace_back(*spec.constant(i));
      continue;
    }
    const int64_t n = spec.inputs[i].shape.elements();
    if (next + n > kMostElements) return std::nullopt;
    Tensor t(DType::kI32, spec.inputs[i].shape);
    for (int64_t k = 0; k < n; ++k) t.data<int32_t>()[k] = static_cast<int32_t>(next + k);
    next += n;
    in.emplace_back(std::move(t));
  }
  first.push_back(static_cast<int32_t>(next));
  return in;
}

}  // namespace

std::optional<std::vector<PlaceList>> find_places(const KernelSpec& spec, uint64_t& fill) {
  const uint32_t moving = moving_inputs(spec);
  if (!moving) return std::nullopt;
  int64_t total = 0;
  std::vector<Tensor> outputs;
  for (size_t o = 0; o < spec.outputs.size(); ++o) {
    if (wanted(spec, o)) total += spec.outputs[o].shape.elements();
    if (total > kMostElements) return std::nullopt;
    outputs.push_back(wanted(spec, o) ? Tensor(DType::kI32, spec.outputs[o].shape) : Tensor());
  }
  std::vector<int32_t> first;
  auto in = numbered(spec, moving, first);
  if (!in) return std::nullopt;
  const auto moved = run_reference(spec.node, std::move(*in), std::move(outputs));
  if (!moved.ok()) return std::nullopt;
  fill = 0;
  std::vector<PlaceList> found;
  for (size_t o = 0; o < moved->size(); ++o) {
    const Tensor& y = (*moved)[o];
    if (!y.defined()) continue;
    if (!(y.shape() == spec.outputs[o].shape)) return std::nullopt;
    std::vector<std::vector<Place>> lists(first.size());  // by input; the last one: the fill value
    size_t source = 0;
    for (int32_t i = 0; i < y.elements(); ++i) {
      const int32_t number = y.data<int32_t>()[i];
      if (number == 0) {
        lists.back().push_back({i, 0});
        continue;
      }
      if (number < 0 || number >= first.back()) return std::nullopt;
      if (number < first[source] || number >= first[source + 1])
        source = static_cast<size_t>(std::upper_bound(first.begin(), first.end(), number) - first.begin()) - 1;
      lists[source].push_back({i, number - first[source]});
    }
    if (!lists.back().empty() && !fill_pattern(spec, fill)) return std::nullopt;
    for (size_t k = 0; k < lists.size(); ++k)
      if (!lists[k].empty()) found.push_back({k + 1 == lists.size() ? Move::kFill : k, o, std::move(lists[k])});
  }
  return found;
}

std::unique_ptr<Kernel> make_places(const KernelSpec& spec) {
  uint64_t fill = 0;
  const auto lists = find_places(spec, fill);
  if (!lists) return nullptr;
  std::vector<Move> backgrounds, moves;
  bool has_background = false;
  for (size_t i = 0; i < lists->size(); ++i) {
    const PlaceList& l = (*lists)[i];
    if (i > 0 && l.out != (*lists)[i - 1].out) has_background = false;
    const bool before = has_background;
    Move m = move_of(l.places, static_cast<int32_t>(spec.outputs[l.out].shape.elements()), has_background);
    m.in = l.in;
    m.out = l.out;
    if (spec.node.op == Op::kConcat && !same_quant_params(spec.inputs[l.in].quant, spec.outputs[0].quant)) {
      auto table = rescaling(spec, l.in);
      if (!table || !m.places.empty()) return nullptr;
      m.table = std::move(*table);
    }
    (has_background != before ? backgrounds : moves).push_back(std::move(m));
  }
  backgrounds.insert(backgrounds.end(), std::make_move_iterator(moves.begin()), std::make_move_iterator(moves.end()));
  return make_moves(spec.outputs[0].dtype, std::move(backgrounds), fill);
}

}  // namespace smelt::vulkan
