// Reductions, running sums and segments.
#include <algorithm>

#include "formats/onnx/writer/op_writers.h"
#include "ops/reduce/reduce.h"

namespace smelt::onnx {
namespace {

const char* reduce_op(Reduction fn) {
  switch (fn) {
    case Reduction::kSum:
      return "ReduceSum";
    case Reduction::kMean:
      return "ReduceMean";
    case Reduction::kMax:
    case Reduction::kAny:
      return "ReduceMax";
    case Reduction::kMin:
    case Reduction::kAll:
      return "ReduceMin";
    case Reduction::kProd:
      return "ReduceProd";
    case Reduction::kL1:
      return "ReduceL1";
    case Reduction::kL2:
      return "ReduceL2";
    case Reduction::kLogSum:
      return "ReduceLogSum";
    case Reduction::kLogSumExp:
      return "ReduceLogSumExp";
    case Reduction::kSumSquare:
      return "ReduceSumSquare";
    default:
      return nullptr;
  }
}

/// One reduction over the axes of input 1; `axes` has its contents if they are constant.
class Reduced {
 public:
  explicit Reduced(NodeWriter& n) : n_(n), a_(n.attrs<ReduceAttrs>()), axes_(n.ints(1)) {
    if (!n.has(1)) axes_ = std::vector<int64_t>{};
    choose_order();
  }

  void write() {
    const bool none = axes_ && axes_->empty() && a_.noop_with_empty_axes;
    Name x = n_.in(0, order_);
    DType dtype = n_.real_dtype(0);
    if (a_.accumulate != DType::kInvalid && a_.accumulate != dtype) {
      x = n_.cast(x, a_.accumulate);
      dtype = a_.accumulate;
    }
    if (none) return n_.bind(0, unreduced(x), order_);
    if (order_ == Order::kChannelsFirst && a_.fn == Reduction::kMean && is_float(dtype) && reduces_images())
      return pool_images(x);
    const bool logic = a_.fn == Reduction::kAny || a_.fn == Reduction::kAll;
    // Small integers and bools are reduced as int32.
    const bool widen = dtype == DType::kBool || (is_integer(dtype) && bit_width(dtype) < 32);
    const DType inner = widen ? DType::kI32 : dtype;
    if (logic && dtype != DType::kBool) x = n_.cast(x, DType::kBool);
    if (widen || logic) x = n_.cast(x, DType::kI32);
    Name y = a_.fn == Reduction::kVar || a_.fn == Reduction::kStd ? variance(x, inner)
                                                                  : reduced(reduce_op(a_.fn), x, a_.keep_dims);
    const DType out = n_.real_out_dtype(0);
    if (logic || widen) y = n_.cast(y, out);
    n_.bind(0, y, a_.keep_dims ? order_ : Order::kAsIs);
  }

 private:
  /// Pictures that are channels-first are reduced as such. Rows are not: what follows reads them in their own order.
  void choose_order() {
    if (!axes_ || axes_->empty() || !n_.type(0).ranked || n_.rank(0) < 3 || !n_.channels_first_at_hand(0)) return;
    const int rank = n_.rank(0);
    std::vector<bool> reduced(static_cast<size_t>(rank));
    for (const int64_t k : *axes_) reduced[static_cast<size_t>(k < 0 ? k + rank : k)] = true;
    const bool all = std::ranges::all_of(reduced.begin() + 1, reduced.end() - 1, [](bool r) { return r; });
    if (reduced.back() || !all) return;
    order_ = Order::kChannelsFirst;
    const auto perm = to_channels_first(rank);
    for (int64_t& k : *axes_) k = std::ranges::find(perm, k < 0 ? k + rank : k) - perm.begin();
  }

  /// True if the dimensions behind the channels, and no others, are reduced.
  bool reduces_images() const {
    const auto whole = static_cast<size_t>(n_.type(0).shape.rank());
    std::vector<bool> seen(whole);
    for (const int64_t k : *axes_) seen[static_cast<size_t>(k)] = true;
    return !seen[0] && !seen[1] && std::ranges::all_of(seen.begin() + 2, seen.end(), [](bool s) { return s; });
  }

  /// The function of each element by itself.
  Name unreduced(Name x) const {
    switch (a_.fn) {
      case Reduction::kL1:
      case Reduction::kL2:
        return n_.op("Abs", {x});
      case Reduction::kSumSquare:
        return n_.op("Mul", {x, x});
      case Reduction::kLogSum:
        return n_.op("Log", {x});
      default:
        return n_.op("Identity", {x});
    }
  }

  /// The mean of each channel, quantized before its dimensions are dropped.
  void pool_images(Name x) {
    const Name y = n_.op("GlobalAveragePool", {x});
    if (a_.keep_dims) return n_.bind(0, y, order_);
    const ValueType& t = n_.out_type(0);
    if (!t.quant) return n_.bind(0, n_.squeeze(y, *axes_));
    n_.bind_raw(0, n_.squeeze(n_.quantize(y, t.dtype, *t.quant, Order::kAsIs, n_.rank(0)), *axes_));
  }

  Name reduced(const char* op, Name x, bool keep) {
    if (!axes_) {
      // Computed axes are an input.
      if (std::string_view(op) != "ReduceSum" && !n_.model().need_opset(18)) n_.fail("computed axes need opset 18");
      return n_.op(op, {x, n_.in_i64(1)}, {{"keepdims", keep}});
    }
    if (axes_->empty()) return n_.op(op, {x}, {{"keepdims", keep}});
    return n_.reduce(op, x, *axes_, keep);
  }

  Name variance(Name x, DType dtype) {
    const Name centred = n_.op("Sub", {x, reduced("ReduceMean", x, true)});
    Name y = kNoName;
    if (a_.correction == 0) {
      y = reduced("ReduceMean", n_.op("Mul", {centred, centred}), a_.keep_dims);
    } else {
      const Shape& shape = n_.type(0).shape;
      double count = 1;
      std::vector<int64_t> axes = axes_.value_or(std::vector<int64_t>{});
      if (axes.empty())
        for (int k = 0; k < n_.rank(0); ++k) axes.push_back(k);
      const auto perm = to_channels_first(std::max(shape.rank(), 3));
      for (const int64_t k : axes) {
        const auto at = static_cast<size_t>(k < 0 ? k + shape.rank() : k);
        const int64_t extent = shape[static_cast<int>(order_ == Order::kAsIs ? at : perm[at])];
        if (extent < 0) n_.fail("the size of the reduced dimensions must be known");
        count *= static_cast<double>(extent);
      }
      const Name sum = reduced("ReduceSumSquare", centred, a_.keep_dims);
      y = n_.op("Div", {sum, n_.scalar(dtype, std::max(0.0, count - a_.correction))});
    }
    return a_.fn == Reduction::kStd ? n_.op("Sqrt", {y}) : y;
  }

  NodeWriter& n_;
  const ReduceAttrs& a_;
  std::optional<std::vector<int64_t>> axes_;  ///< in order_
  Order order_ = Order::kAsIs;
};

void write_reduce(NodeWriter& n) { Reduced(n).write(); }

void write_arg_reduce(NodeWriter& n) {
  const auto& a = n.attrs<ArgReduceAttrs>();
  int64_t axis = a.axis;
  if (n.has(1)) {
    const auto given = n.need_ints(1, "the axis");
    if (given.size() != 1) return n.fail("one axis is expected");
    axis = given[0];
  }
  Name x = n.raw(0);
  const DType dtype = n.dtype(0);
  if (dtype == DType::kBool) x = n.cast(x, DType::kI32);
  if (a.flatten) {
    x = n.reshape(x, {-1});
    axis = 0;
  }
  Name y = n.op(a.min ? "ArgMin" : "ArgMax", {x},
                {{"axis", axis}, {"keepdims", a.keep_dims && !a.flatten}, {"select_last_index", a.select_last}});
  if (a.flatten && a.keep_dims) y = n.reshape(y, std::vector<int64_t>(static_cast<size_t>(n.rank(0)), 1));
  n.bind_raw(0, a.to == DType::kI64 ? y : n.cast(y, a.to));
}

void write_cumulative(NodeWriter& n) {
  using Fn = CumulativeAttrs::Fn;
  const auto& a = n.attrs<CumulativeAttrs>();
  if (a.fn != Fn::kSum && a.fn != Fn::kProd) return n.fail("a running ", to_string(a.fn));
  const DType dtype = n.real_dtype(0);
  const bool widen = is_integer(dtype) && bit_width(dtype) < 32;
  Name x = n.in(0);
  if (widen || dtype == DType::kBool) x = n.cast(x, DType::kI32);
  Name y = n.op(a.fn == Fn::kSum ? "CumSum" : "CumProd", {x, n.reshape(n.in_i64(1), {})},
                {{"exclusive", a.exclusive}, {"reverse", a.reverse}});
  if (widen) y = n.cast(y, dtype);
  n.bind(0, y);
}

/// Rows of x combined by segment.
void write_segment(NodeWriter& n) {
  const auto& a = n.attrs<SegmentAttrs>();
  if (a.fn != Reduction::kSum || !n.model().need_opset(16)) return n.fail("segments combined by ", to_string(a.fn));
  const Name ids = n.in_i64(1);
  Name count = kNoName;
  if (n.has(2))
    count = n.reshape(n.in_i64(2), {1});
  else
    count = n.reshape(n.op("Add", {n.reduce("ReduceMax", ids, {0}, false), n.scalar(DType::kI64, 1)}), {1});
  const int rank = n.rank(1);
  const Name rest = n.slice(n.op("Shape", {n.in(0)}), rank, INT64_MAX, 0);
  const Name shape = n.op("Concat", {count, rest}, {{"axis", int64_t{0}}});
  const Name zeros = n.op("ConstantOfShape", {shape}, {{"value", Tensor(n.real_dtype(0), Shape{1})}});
  n.bind(0, n.op("ScatterND", {zeros, n.unsqueeze(ids, {-1}), n.in(0)}, {{"reduction", "add"}}));
}

constexpr OpWriter kReduce[] = {
    {Op::kReduce, write_reduce, "ReduceSum, ReduceMean, ... or a few of them; GlobalAveragePool"},
    {Op::kArgReduce, write_arg_reduce, "ArgMax, ArgMin"},
    {Op::kCumulative, write_cumulative, "CumSum, CumProd"},
    {Op::kSegment, write_segment, "ConstantOfShape, ScatterND"},
};

}  // namespace

std::span<const OpWriter> reduce_writers() { return kReduce; }

}  // namespace smelt::onnx
