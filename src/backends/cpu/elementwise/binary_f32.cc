#include <algorithm>
#include <cmath>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/elementwise/binary_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/broadcast.h"
#include "backends/cpu/core/epilogue.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/math-inl.h"
#include "backends/cpu/core/vectors-inl.h"
#include "backends/cpu/elementwise/binary_vector.h"
#include "ops/elementwise/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// y[i] = clamp(fn(a[i * sa], b[i * sb])) for i < n; sa and sb are 0 or 1.
struct AddFn {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Add(a, b);
  }
};
struct SubFn {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Sub(a, b);
  }
};
struct MulFn {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Mul(a, b);
  }
};
struct DivFn {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Div(a, b);
  }
};
struct MinFn {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {  // NaN of either operand wins
    return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
  }
};
struct MaxFn {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
  }
};
struct SquaredDifferenceFn {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    const V d = hn::Sub(a, b);
    return hn::Mul(d, d);
  }
};
struct PReluFn {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    const hn::DFromV<V> d;
    return hn::IfThenElse(hn::Lt(a, hn::Zero(d)), hn::Mul(a, b), a);
  }
};

template <class F>
void binary_vector(const float* a, int64_t sa, const float* b, int64_t sb, float* y, int64_t n, float lo, float hi) {
  each_vector(n, [&](auto part, int64_t i) HWY_ATTR {
    const auto d = part.d;
    const auto va = sa ? part.load(a + i) : hn::Set(d, *a), vb = sb ? part.load(b + i) : hn::Set(d, *b);
    part.store(clamp(F::apply(va, vb), hn::Set(d, lo), hn::Set(d, hi)), y + i);
  });
}

template <class F, bool kScalar>
HWY_INLINE void binary_rows(float* y, int64_t stride, const float* other, int64_t other_stride, int64_t rows,
                            int64_t columns, float lo, float hi) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto low = hn::Set(d, lo), high = hn::Set(d, hi), one = hn::Set(d, *other);
  for (int64_t r = 0; r < rows; ++r, y += stride, other += other_stride) {
    int64_t i = 0;
    for (; i + 2 * lanes <= columns; i += 2 * lanes)
#pragma GCC unroll 2
      for (int64_t j = i; j < i + 2 * lanes; j += lanes) {
        const auto v = kScalar ? one : hn::LoadU(d, other + j);
        hn::StoreU(clamp(F::apply(hn::LoadU(d, y + j), v), low, high), d, y + j);
      }
    each_vector(columns - i, [&, at = i](auto part, int64_t k) HWY_ATTR {
      const auto v = kScalar ? hn::Set(part.d, *other) : part.load(other + at + k);
      part.store(clamp(F::apply(part.load(y + at + k), v), hn::Set(part.d, lo), hn::Set(part.d, hi)), y + at + k);
    });
  }
}

template <class F>
void binary_block(float* y, int64_t stride, const float* other, int64_t other_stride, int64_t other_step, int64_t rows,
                  int64_t columns, float lo, float hi) {
  if (columns == stride && (other_step == 0 || other_stride == stride)) {  // one long row
    columns *= rows;
    rows = 1;
  }
  if (other_step == 0)
    binary_rows<F, true>(y, stride, other, 0, rows, columns, lo, hi);
  else
    binary_rows<F, false>(y, stride, other, other_stride, rows, columns, lo, hi);
}

EpilogueF32::Block choose_binary_block(Binary fn) {
  switch (fn) {
    case Binary::kAdd:
      return binary_block<AddFn>;
    case Binary::kSub:
      return binary_block<SubFn>;
    case Binary::kMul:
      return binary_block<MulFn>;
    case Binary::kPRelu:
      return binary_block<PReluFn>;
    default:
      return nullptr;
  }
}

BinaryVector choose_binary_vector(Binary fn) {
  switch (fn) {
    case Binary::kAdd:
      return binary_vector<AddFn>;
    case Binary::kSub:
      return binary_vector<SubFn>;
    case Binary::kMul:
      return binary_vector<MulFn>;
    case Binary::kDiv:
      return binary_vector<DivFn>;
    case Binary::kMin:
      return binary_vector<MinFn>;
    case Binary::kMax:
      return binary_vector<MaxFn>;
    case Binary::kSquaredDifference:
      return binary_vector<SquaredDifferenceFn>;
    case Binary::kPRelu:
      return binary_vector<PReluFn>;
    default:
      return nullptr;
  }
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

class BinaryF32 final : public Kernel {
 public:
  BinaryF32(BinaryVector rows, const BroadcastLoops& loops, Bounds bounds)
      : rows_(rows), loops_(loops), bounds_(bounds) {}
  Status run(KernelContext& ctx) const override {
    loops_.each_row(ctx, sizeof(float), sizeof(float),
                    [&](const void* a, int64_t sa, const void* b, int64_t sb, void* y, int64_t n) {
                      rows_(static_cast<const float*>(a), sa, static_cast<const float*>(b), sb, static_cast<float*>(y),
                            n, bounds_.lo, bounds_.hi);
                    });
    return Ok();
  }

 private:
  BinaryVector rows_;
  BroadcastLoops loops_;
  Bounds bounds_;
};

}  // namespace

BinaryVector binary_vector(Isa isa, Binary fn) { return SMELT_FOR_LEVEL(isa, choose_binary_vector)(fn); }

EpilogueF32 EpilogueF32::of_binary(const NodeSpec& node, size_t operand, int input, Isa isa) {
  EpilogueF32 e;
  if (node.inputs.size() != 2 || node.outputs.size() != 1) return e;
  const auto& attrs = node.attrs<BinaryAttrs>();
  const ValueType &made = node.inputs[operand], &other = node.inputs[1 - operand], &y = node.outputs[0];
  const bool commutes = attrs.fn == Binary::kAdd || attrs.fn == Binary::kMul;
  if (attrs.alpha != 1 || !clamps(attrs.act) || (operand != 0 && !commutes)) return e;
  if (!is_unquantized_f32(made) || !is_unquantized_f32(other) || !is_unquantized_f32(y) || !(made.shape == y.shape))
    return e;
  const int rank = y.shape.rank(), rank_of_other = other.shape.rank();
  const int64_t n = other.shape.elements();
  e.last = rank > 0 ? y.shape[rank - 1] : 1;
  if (const Tensor* scalar = n == 1 ? node.constant(1 - operand) : nullptr)
    e.scalar = scalar->data<float>()[0];
  else if (other.shape == y.shape)
    e.other = Other::kEverywhere;
  else if (rank_of_other > 0 && n == e.last && other.shape[rank_of_other - 1] == n)
    e.other = Other::kLast;
  else
    return e;
  const Bounds bounds = activation_bounds(attrs.act);
  e.input = input;
  e.lo = bounds.lo;
  e.hi = bounds.hi;
  e.block = SMELT_FOR_LEVEL(isa, choose_binary_block)(attrs.fn);
  return e;
}

[[gnu::cold]] std::unique_ptr<Kernel> make_binary_f32(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<BinaryAttrs>();
  if (attrs.alpha != 1 || !clamps(attrs.act)) return nullptr;
  const BinaryVector rows = binary_vector(spec.isa, attrs.fn);
  if (!rows) return nullptr;
  const Bounds bounds = activation_bounds(attrs.act);
  return std::make_unique<BinaryF32>(
      rows, BroadcastLoops::make(spec.inputs[0].shape, spec.inputs[1].shape, spec.outputs[0].shape), bounds);
}

}  // namespace smelt
#endif
