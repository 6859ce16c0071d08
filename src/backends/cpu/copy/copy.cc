// Operators that move elements and know where from as they are planned.
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "backends/cpu/copy/strided_copy.h"
#include "backends/cpu/core/kernel.h"
#include "ops/gather/gather.h"
#include "ops/shape/loops.h"
#include "ops/shape/rules.h"
#include "ops/shape/shape.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

/// Whether all values there are have the element type of the first.
bool one_type(std::span<const ValueType> values, DType t) {
  return std::all_of(values.begin(), values.end(), [&](const ValueType& v) { return v.dtype == t; });
}

std::optional<Ints> ints(const KernelSpec& spec, size_t i) {
  if (const Tensor* t = spec.constant(i)) return ints_of(*t);
  return std::nullopt;
}

/// Copies from inputs to outputs, after one output was filled with a value.
class Moves final : public Kernel {
 public:
  Moves(int64_t unit, Isa isa) : unit_(unit), isa_(isa) {}
  void add(int input, int output, CopyLoop loop) {
    if (std::any_of(loop.dims.begin(), loop.dims.end(), [](int64_t d) { return d <= 0; })) return;
    pieces_.push_back({input, output, Mover(std::move(loop), unit_, isa_)});
  }
  /// Every element of output 0 becomes the one at `value` first.
  void fill(const std::byte* value, int64_t elements) {
    CopyLoop loop;
    loop.dim(elements, 0, 1);
    value_.assign(value, value + unit_);
    zero_ = std::all_of(value_.begin(), value_.end(), [](std::byte b) { return b == std::byte{0}; });
    border_.emplace(std::move(loop), unit_, isa_);
  }
  Status run(KernelContext& ctx) const override {
    if (border_) {
      Tensor& y = ctx.output(0);
      if (zero_)
        std::memset(y.raw(), 0, y.bytes());
      else
        border_->run(ctx.threads(), value_.data(), y.data<std::byte>());
    }
    for (const Piece& p : pieces_)
      if (ctx.wants(p.output))
        p.mover.run(ctx.threads(), ctx.input(p.input).data<std::byte>(), ctx.output(p.output).data<std::byte>());
    return Ok();
  }

 private:
  struct Piece {
    int input, output;
    Mover mover;
  };
  int64_t unit_;
  Isa isa_;
  std::vector<Piece> pieces_;
  std::vector<std::byte> value_;
  bool zero_ = false;
  std::optional<Mover> border_;
};

/// One loop nest from input 0 to output 0, whose shape must be `extent`.
std::unique_ptr<Kernel> one_loop(const KernelSpec& spec, Result<CopyLoop> loop, const Shape& extent) {
  const int64_t unit = whole_bytes(spec.inputs[0].dtype);
  if (unit == 0 || spec.outputs[0].dtype != spec.inputs[0].dtype || !loop.ok() || spec.outputs[0].shape != extent ||
      extent.elements() == 0)
    return nullptr;
  auto made = std::make_unique<Moves>(unit, spec.isa);
  made->add(0, 0, std::move(loop).value());
  return made;
}

/// Pieces of one value along an axis; `joins`: from all inputs to output 0, else from input 0 to all outputs.
std::unique_ptr<Kernel> pieces(const KernelSpec& spec, bool joins, int axis, const Ints& extents) {
  const Shape& whole = joins ? spec.outputs[0].shape : spec.inputs[0].shape;
  const int64_t unit = whole_bytes(spec.inputs[0].dtype);
  if (unit == 0 || whole.elements() == 0 || !one_type(joins ? spec.inputs : spec.outputs, spec.inputs[0].dtype) ||
      spec.outputs[0].dtype != spec.inputs[0].dtype)
    return nullptr;
  const Around around(whole, axis);
  const int64_t row = whole[axis] * around.inner;
  auto made = std::make_unique<Moves>(unit, spec.isa);
  int64_t offset = 0;
  for (size_t i = 0; i < extents.size(); ++i) {
    const int64_t run = extents[i] * around.inner;
    CopyLoop loop;
    loop.dim(around.outer, joins ? run : row, joins ? row : run);
    loop.dim(run, 1, 1);
    (joins ? loop.to_offset : loop.from_offset) = offset;
    const int index = static_cast<int>(i);
    made->add(joins ? index : 0, joins ? 0 : index, std::move(loop));
    offset += run;
  }
  return offset == row ? std::move(made) : nullptr;
}

}  // namespace

std::unique_ptr<Kernel> make_transpose(const KernelSpec& spec) {
  Ints perm = spec.attrs<TransposeAttrs>().perm;
  if (perm.empty() && spec.has(1)) {
    const auto given = ints(spec, 1);
    if (!given) return nullptr;
    perm = *given;
  }
  return one_loop(spec, transpose_loop(spec.inputs[0].shape, perm), spec.outputs[0].shape);
}

std::unique_ptr<Kernel> make_expand(const KernelSpec& spec) {
  const Shape &x = spec.inputs[0].shape, &y = spec.outputs[0].shape;
  if (!spec.constant(1) || x.rank() > y.rank()) return nullptr;
  return one_loop(spec, expand_loop(x, y), y);
}

std::unique_ptr<Kernel> make_depth_space(const KernelSpec& spec) {
  if (spec.inputs[0].shape.rank() < 3 || spec.inputs[0].shape.elements() == 0) return nullptr;
  return one_loop(spec, depth_space_loop(spec.attrs<BlockAttrs>(), spec.inputs[0].shape), spec.outputs[0].shape);
}

namespace {

std::unique_ptr<Kernel> batch_blocks(const KernelSpec& spec, bool to_batch) {
  constexpr int kMostPieces = 256;
  const auto block = ints(spec, 1), edge = ints(spec, 2);
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  const int64_t unit = whole_bytes(x.dtype);
  if (!block || !edge || unit == 0 || y.dtype != x.dtype || y.shape.elements() == 0) return nullptr;
  if (to_batch ? y.shape[0] > kMostPieces * std::max<int64_t>(x.shape[0], 1)
               : x.shape[0] > kMostPieces * std::max<int64_t>(y.shape[0], 1))
    return nullptr;
  auto made = std::make_unique<Moves>(unit, spec.isa);
  if (to_batch) {
    Tensor zero(x.dtype, Shape{});
    zero.set_quant(y.quant ? y.quant : x.quant);
    zero = zero_like(zero);
    made->fill(zero.data<std::byte>(), y.shape.elements());
  }
  Shape want;
  const Status done = batch_block_loops(x.shape, *block, *edge, to_batch, want, [&](CopyLoop loop) -> Status {
    made->add(0, 0, std::move(loop));
    return Ok();
  });
  return done.ok() && want == y.shape ? std::move(made) : nullptr;
}

}  // namespace

std::unique_ptr<Kernel> make_space_to_batch(const KernelSpec& spec) { return batch_blocks(spec, true); }
std::unique_ptr<Kernel> make_batch_to_space(const KernelSpec& spec) { return batch_blocks(spec, false); }

std::unique_ptr<Kernel> make_slice(const KernelSpec& spec) {
  const auto starts = ints(spec, 1), ends = ints(spec, 2), axes = ints(spec, 3), steps = ints(spec, 4);
  if (!starts || !ends || (spec.has(3) && !axes) || (spec.has(4) && !steps)) return nullptr;
  Shape extent;
  auto loop = slice_loop(spec.inputs[0].shape, *starts, *ends, axes.value_or(Ints{}), steps.value_or(Ints{}), extent);
  return one_loop(spec, std::move(loop), extent);
}

std::unique_ptr<Kernel> make_slice_size(const KernelSpec& spec) {
  const auto begin = ints(spec, 1), size = ints(spec, 2);
  if (!begin || !size) return nullptr;
  Shape extent;
  auto loop = slice_size_loop(spec.inputs[0].shape, *begin, *size, extent);
  return one_loop(spec, std::move(loop), extent);
}

std::unique_ptr<Kernel> make_strided_slice(const KernelSpec& spec) {
  const auto begin = ints(spec, 1), end = ints(spec, 2), strides = ints(spec, 3);
  if (!begin || !end || !strides) return nullptr;
  Shape extent;
  auto loop = strided_slice_loop(spec.inputs[0].shape, spec.attrs<StridedSliceAttrs>(), *begin, *end, *strides, extent);
  return one_loop(spec, std::move(loop), extent);
}

std::unique_ptr<Kernel> make_pad(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<PadAttrs>();
  const auto pads = ints(spec, 1), axes = ints(spec, 3);
  const ValueType& x = spec.inputs[0];
  const int64_t unit = whole_bytes(x.dtype);
  if (attrs.mode != PadAttrs::Mode::kConstant || !pads || (spec.has(3) && !axes) || unit == 0 ||
      spec.outputs[0].dtype != x.dtype || spec.outputs[0].shape.elements() == 0)
    return nullptr;
  Tensor value(x.dtype, Shape{});
  value.set_quant(spec.outputs[0].quant ? spec.outputs[0].quant : x.quant);
  value = zero_like(value);
  if (spec.has(2)) {
    if (!spec.constant(2) || spec.constant(2)->dtype() != x.dtype || spec.constant(2)->elements() < 1) return nullptr;
    value = *spec.constant(2);
  }
  Shape y;
  auto loop = pad_loop(x.shape, *pads, axes, attrs.pairs, y);
  if (!loop.ok() || y != spec.outputs[0].shape) return nullptr;
  auto made = std::make_unique<Moves>(unit, spec.isa);
  made->fill(value.data<std::byte>(), y.elements());
  if (*loop) made->add(0, 0, std::move(**loop));
  return made;
}

std::unique_ptr<Kernel> make_concat(const KernelSpec& spec) {
  const Shape& y = spec.outputs[0].shape;
  const auto axis = axis_of(spec.attrs<AxisAttrs>().axis, y.rank());
  if (!axis.ok() || y.rank() == 0) return nullptr;
  Ints extents;
  for (const ValueType& x : spec.inputs) {
    if (!same_quant_params(x.quant, spec.outputs[0].quant)) return nullptr;  // rescaled
    if (x.shape.elements() > 0 && x.shape.rank() != y.rank()) return nullptr;
    extents.push_back(x.shape.elements() == 0 ? 0 : x.shape[*axis]);
  }
  return pieces(spec, true, *axis, extents);
}

std::unique_ptr<Kernel> make_stack(const KernelSpec& spec) {
  const auto axis = axis_of(spec.attrs<AxisAttrs>().axis, spec.outputs[0].shape.rank());
  return axis.ok() ? pieces(spec, true, *axis, Ints(spec.inputs.size(), 1)) : nullptr;
}

std::unique_ptr<Kernel> make_unstack(const KernelSpec& spec) {
  const auto axis = axis_of(spec.attrs<AxisAttrs>().axis, spec.inputs[0].shape.rank());
  return axis.ok() ? pieces(spec, false, *axis, Ints(spec.outputs.size(), 1)) : nullptr;
}

std::unique_ptr<Kernel> make_split(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<SplitAttrs>();
  const Shape& x = spec.inputs[0].shape;
  if ((spec.has(1) && !spec.constant(1)) || (spec.has(2) && !spec.constant(2))) return nullptr;
  const auto axis = axis_of(spec.has(2) ? get_int(*spec.constant(2), 0) : attrs.axis, x.rank());
  if (!axis.ok()) return nullptr;
  auto extents =
      split_extents(x[*axis], ints(spec, 1), spec.has(1), attrs.count, static_cast<int>(spec.outputs.size()));
  if (!extents.ok()) return nullptr;
  for (size_t i = 0; i < spec.outputs.size(); ++i) {
    Shape want = x;
    want[*axis] = (*extents)[i];
    if (spec.node.outputs[i] != kNoValue && spec.outputs[i].shape != want) return nullptr;
  }
  return pieces(spec, false, *axis, *extents);
}

namespace {

/// Runs of neighbours picked by computed indices.
template <class Index>
class GatherRuns final : public Kernel {
 public:
  GatherRuns(int64_t batches, int64_t outer, int64_t extent, int64_t picks, int64_t bytes, bool negative)
      : batches_(batches), outer_(outer), extent_(extent), picks_(picks), bytes_(bytes), negative_(negative) {}
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<std::byte>();
    const auto* indices = ctx.input(1).data<Index>();
    auto* y = ctx.output(0).data<std::byte>();
    for (int64_t b = 0; b < batches_; ++b, indices += picks_)
      for (int64_t o = 0; o < outer_; ++o, x += extent_ * bytes_)
        for (int64_t i = 0; i < picks_; ++i, y += bytes_) {
          int64_t at = indices[i];
          if (at < 0 || at >= extent_) {
            SMELT_ASSIGN(at, index_of(at, extent_, negative_));
          }
          std::memcpy(y, x + at * bytes_, static_cast<size_t>(bytes_));
        }
    return Ok();
  }

 private:
  int64_t batches_, outer_, extent_, picks_, bytes_;
  bool negative_;
};

}  // namespace

std::unique_ptr<Kernel> make_gather(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<GatherAttrs>();
  const Shape &x = spec.inputs[0].shape, &indices = spec.inputs[1].shape;
  const int64_t unit = whole_bytes(spec.inputs[0].dtype);
  const DType t = spec.inputs[1].dtype;
  if (unit == 0 || spec.outputs[0].dtype != spec.inputs[0].dtype || spec.outputs[0].shape.elements() == 0 ||
      (t != DType::kI32 && t != DType::kI64))
    return nullptr;
  const auto axis = axis_of(attrs.axis, x.rank());
  const int64_t batch = attrs.batch_dims < 0 ? attrs.batch_dims + indices.rank() : attrs.batch_dims;
  if (!axis.ok() || batch < 0 || batch > indices.rank() || batch > *axis) return nullptr;
  int64_t batches = 1, outer = 1;
  for (int i = 0; i < *axis; ++i) (i < batch ? batches : outer) *= x[i];
  const int64_t picks = indices.elements() / std::max<int64_t>(batches, 1), bytes = Around(x, *axis).inner * unit;
  if (batches * outer * picks * bytes != spec.outputs[0].shape.elements() * unit) return nullptr;
  if (t == DType::kI32)
    return std::make_unique<GatherRuns<int32_t>>(batches, outer, x[*axis], picks, bytes, attrs.negative);
  return std::make_unique<GatherRuns<int64_t>>(batches, outer, x[*axis], picks, bytes, attrs.negative);
}

}  // namespace smelt
