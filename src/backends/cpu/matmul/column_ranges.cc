#include "backends/cpu/matmul/column_ranges.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cpu/core/inner_context.h"
#include "base/error.h"
#include "ops/matmul/matmul_shape.h"
#include "tensor/pages.h"

namespace smelt {
namespace {

constexpr int64_t kBytes = 256 * 1024;  ///< of b in a range: its packed form stays in a level-2 cache
constexpr int64_t kColumns = 128;       ///< a range has a multiple of so many: whole tiles of every kernel
constexpr size_t kOperands = 3;         ///< a, b, c

/// Elements of a constant along its first dimension, or of a row along its last.
struct Range {
  int64_t first, count, of;
};

/// Bytes of kColumns columns of b, which lie in its rows.
int64_t least_bytes(const Tensor& b) { return static_cast<int64_t>(Tensor::byte_size(b.dtype(), kColumns * b.dim(1))); }

/// True if the parameters can be cut along the first dimension of n.
bool can_be_cut(const QuantPtr& q, int64_t n) {
  using Kind = Quantization::Kind;
  if (!q || q->kind == Kind::kPerTensor) return true;
  const bool along_rows = (q->kind == Kind::kPerAxis && q->axis == 0) || (q->kind == Kind::kPerBlock && q->axis == 1);
  return along_rows && q->scales.size() % static_cast<size_t>(n) == 0;
}

template <class T>
std::vector<T> cut(const std::vector<T>& values, const Range& range) {
  const auto per_row = static_cast<int64_t>(values.size()) / range.of;
  if (per_row == 0) return values;
  const auto first = values.begin() + range.first * per_row;
  return {first, first + range.count * per_row};
}

[[gnu::cold]] QuantPtr cut(const QuantPtr& q, const Range& range) {
  if (!q || q->kind == Quantization::Kind::kPerTensor) return q;
  auto part = std::make_shared<Quantization>(*q);
  part->scales = cut(q->scales, range);
  part->zero_points = cut(q->zero_points, range);
  return part;
}

/// A part of a constant, or of what it says of a type: `dimension` is cut.
[[gnu::cold]] ValueType cut(const ValueType& type, int dimension, const Range& range) {
  ValueType part = type;
  part.shape[dimension] = range.count;
  part.quant = cut(type.quant, range);
  return part;
}

/// A view of the elements that follow those of `first` rows.
[[gnu::cold]] Tensor cut(const Tensor& whole, const ValueType& part, int64_t first, int64_t row) {
  if (whole.source()) {
    const auto derive = [before = first * row](const Tensor& from, int64_t begin, int64_t count, void* to) {
      from.copy_elements(before + begin, count, to);
    };
    Tensor made = Tensor::deferred(whole.dtype(), part.shape, whole, derive);
    made.set_quant(part.quant);
    return made;
  }
  const std::byte* const at = whole.unaligned_bytes() + Tensor::byte_size(whole.dtype(), first * row);
  const bool aligned = reinterpret_cast<uintptr_t>(at) % std::max<size_t>(Tensor::byte_size(whole.dtype(), 1), 1) == 0;
  Tensor view = aligned ? Tensor::view(whole.dtype(), part.shape, at, nullptr)
                        : Tensor::unaligned_view(whole.dtype(), part.shape, at, nullptr);
  view.set_quant(part.quant);
  return view;
}

}  // namespace

bool has_column_ranges(const KernelSpec& spec) {
  if (spec.node.op != Op::kMatMul || spec.inputs.size() > kOperands || spec.outputs.size() != 1) return false;
  const Tensor* const b = spec.constant(1);
  const auto shape = MatMulShape::make(spec);
  if (!b || float16_source(*b) || !shape || shape->m != 1 || shape->batches != 1 || b->rank() != 2) return false;
  const int64_t n = shape->n, k = shape->k;
  if (b->dim(0) != n || shape->g.b.row_stride != 1 || shape->g.b.column_stride != k) return false;
  if (static_cast<int64_t>(b->bytes()) < 2 * std::max(kBytes, least_bytes(*b))) return false;
  if (!can_be_cut(spec.inputs[1].quant, n)) return false;
  if (spec.has(2)) {
    const Tensor* const c = spec.constant(2);
    if (!c || c->rank() == 0 || c->elements() != n || c->dim(c->rank() - 1) != n) return false;
    if (!can_be_cut(spec.inputs[2].quant, n)) return false;
  }
  const ValueType& y = spec.outputs[0];
  return (!y.quant || y.quant->kind == Quantization::Kind::kPerTensor) && y.shape.rank() > 0 && y.shape.back() == n &&
         Tensor::byte_size(y.dtype, 1) * static_cast<size_t>(n) == Tensor::byte_size(y.dtype, n);
}

Status run_column_ranges(const KernelSpec& spec, RecycledMemory& memory, KernelContext& ctx) {
  const Tensor &b = *spec.constant(1), *const c = spec.has(2) ? spec.constant(2) : nullptr;
  const int64_t n = b.dim(0), k = b.dim(1), columns = std::max(kBytes / least_bytes(b), int64_t{1}) * kColumns;
  for (Range range{0, 0, n}; range.first < n; range.first += columns) {
    range.count = std::min(columns, n - range.first);
    std::vector<ValueType> inputs{spec.inputs[0], cut(spec.inputs[1], 0, range)};
    const Tensor b_part = cut(b, inputs[1], range.first, k);
    Tensor c_part;
    std::vector<const Tensor*> constants{spec.constant(0), &b_part};
    if (c) {
      inputs.push_back(cut(spec.inputs[2], c->rank() - 1, range));
      c_part = cut(*c, inputs[2], range.first, 1);
      constants.push_back(&c_part);
    }
    ValueType type = spec.outputs[0];
    type.shape[type.shape.rank() - 1] = range.count;
    Tensor& whole = ctx.output(0);
    Tensor y = Tensor::view(type.dtype, type.shape,
                            static_cast<std::byte*>(whole.raw()) + Tensor::byte_size(type.dtype, range.first), nullptr);
    const RecycledMemory::Use use(memory);
    PackCache packs(spec.packs);
    const auto kernel = make_kernel(
        {{spec.node, inputs, constants, {&type, 1}}, spec.isa, spec.threads, packs, nullptr, spec.fixed_shapes});
    if (!kernel) return Unsupported("the weights can't be packed");
    const size_t bytes = kernel->scratch_bytes();
    void* const scratch = bytes > 0 ? memory.take(bytes) : nullptr;
    if (bytes > 0 && !scratch) return Error(ErrorCode::kLimit, "no memory to pack a matrix");
    const std::array<Datum, kOperands> operands{Datum(), Datum(b_part), c ? Datum(c_part) : Datum()};
    InnerContext inner(ctx, operands, y, scratch);
    SMELT_TRY(kernel->run(inner));
  }
  return Ok();
}

}  // namespace smelt
