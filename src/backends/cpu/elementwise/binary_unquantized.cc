// Functions of numbers that need no rule of their own: integers, comparisons, squares, extremes of quantized integers.
#include <algorithm>
#include <type_traits>

#include "backends/cpu/core/broadcast.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/elementwise/compare_f32.h"
#include "ops/elementwise/binary_math.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

using Rows = void (*)(const void* a, const void* b, void* y, int64_t n);

template <class T, class Out, class F>
void rows(const void* a, const void* b, void* y, int64_t n) {
  const auto *p = static_cast<const T*>(a), *q = static_cast<const T*>(b);
  auto* to = static_cast<Out*>(y);
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<Out>(F::apply(p[i], q[i]));
}

/// Quotient rounded towards zero, or down (kFloor). 0 for a divisor of 0; the quotient by -1 wraps.
template <bool kFloor, class T>
T quotient(T a, T b) {
  using U = std::make_unsigned_t<T>;
  if (b == 0) return 0;
  if (b == -1) return static_cast<T>(U{0} - static_cast<U>(a));
  const T q = a / b;
  return kFloor && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
/// Remainder with the sign of the dividend, or of the divisor (kFloor). 0 for a divisor of 0.
template <bool kFloor, class T>
T remainder(T a, T b) {
  if (b == 0 || b == -1) return 0;
  const T r = a % b;
  return kFloor && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

#define SMELT_BINARY(Name, ...)                                                          \
  struct Name {                                                                          \
    template <class T>                                                                   \
    static auto apply(T a, [[maybe_unused]] T b) {                                       \
      using U [[maybe_unused]] = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>; \
      return __VA_ARGS__;                                                                \
    }                                                                                    \
  };
SMELT_BINARY(AddFn, static_cast<T>(static_cast<U>(a) + static_cast<U>(b)))
SMELT_BINARY(SubFn, static_cast<T>(static_cast<U>(a) - static_cast<U>(b)))
SMELT_BINARY(MulFn, static_cast<T>(static_cast<U>(a) * static_cast<U>(b)))
SMELT_BINARY(MinFn, std::min(a, b))
SMELT_BINARY(MaxFn, std::max(a, b))
SMELT_BINARY(DivFn, quotient<false>(a, b))
SMELT_BINARY(FloorDivFn, quotient<true>(a, b))
SMELT_BINARY(FmodFn, remainder<false>(a, b))
SMELT_BINARY(ModFn, remainder<true>(a, b))
SMELT_BINARY(EqualFn, a == b)
SMELT_BINARY(NotEqualFn, a != b)
SMELT_BINARY(LessFn, a < b)
SMELT_BINARY(LessEqualFn, a <= b)
SMELT_BINARY(GreaterFn, a > b)
SMELT_BINARY(GreaterEqualFn, a >= b)
SMELT_BINARY(AndFn, (a != 0) & (b != 0))
SMELT_BINARY(OrFn, (a != 0) | (b != 0))
SMELT_BINARY(XorFn, (a != 0) != (b != 0))
SMELT_BINARY(BitAndFn, a& b)
SMELT_BINARY(BitOrFn, a | b)
SMELT_BINARY(BitXorFn, a ^ b)
SMELT_BINARY(ShiftLeftFn, static_cast<U>(b) < 8 * sizeof(T) ? static_cast<T>(static_cast<U>(a) << b) : T{0})
SMELT_BINARY(ShiftRightFn, b < 8 * sizeof(T) ? static_cast<T>(a >> b) : T{0})
SMELT_BINARY(SquareFn, a* a)
#undef SMELT_BINARY

template <class T>
Rows comparison(Binary fn) {
  switch (fn) {
    case Binary::kEqual:
      return rows<T, uint8_t, EqualFn>;
    case Binary::kNotEqual:
      return rows<T, uint8_t, NotEqualFn>;
    case Binary::kLess:
      return rows<T, uint8_t, LessFn>;
    case Binary::kLessEqual:
      return rows<T, uint8_t, LessEqualFn>;
    case Binary::kGreater:
      return rows<T, uint8_t, GreaterFn>;
    case Binary::kGreaterEqual:
      return rows<T, uint8_t, GreaterEqualFn>;
    default:
      return nullptr;
  }
}

template <class T>
Rows wrapping(Binary fn) {
  switch (fn) {
    case Binary::kAdd:
      return rows<T, T, AddFn>;
    case Binary::kSub:
      return rows<T, T, SubFn>;
    case Binary::kMul:
      return rows<T, T, MulFn>;
    case Binary::kMin:
      return rows<T, T, MinFn>;
    case Binary::kMax:
      return rows<T, T, MaxFn>;
    case Binary::kBitAnd:
      return rows<T, T, BitAndFn>;
    case Binary::kBitOr:
      return rows<T, T, BitOrFn>;
    case Binary::kBitXor:
      return rows<T, T, BitXorFn>;
    default:
      return comparison<T>(fn);
  }
}

template <class T>
Rows arithmetic(Binary fn) {
  switch (fn) {
    case Binary::kDiv:
    case Binary::kTruncDiv:
      return rows<T, T, DivFn>;
    case Binary::kFloorDiv:
      return rows<T, T, FloorDivFn>;
    case Binary::kFmod:
      return rows<T, T, FmodFn>;
    case Binary::kMod:
      return rows<T, T, ModFn>;
    default:
      return wrapping<T>(fn);
  }
}

template <class T>
Rows shifting(Binary fn) {
  return fn == Binary::kShiftLeft    ? rows<T, T, ShiftLeftFn>
         : fn == Binary::kShiftRight ? rows<T, T, ShiftRightFn>
                                     : wrapping<T>(fn);
}

template <class T>
Rows extreme(Binary fn) {
  return fn == Binary::kMin ? rows<T, T, MinFn> : fn == Binary::kMax ? rows<T, T, MaxFn> : nullptr;
}

/// True if integers compare as the numbers do that they stand for, and the output counts in the same way.
bool of_one_quantization(const KernelSpec& spec) {
  const ValueType &a = spec.inputs[0], &b = spec.inputs[1], &y = spec.outputs[0];
  return same_quant_params(a.quant, b.quant) && same_quant_params(b.quant, y.quant) &&
         (!a.quant || is_per_tensor(a.quant));
}

bool is_square(const KernelSpec& spec) {
  const Tensor* exponent = spec.constant(1);
  return spec.attrs<BinaryAttrs>().fn == Binary::kPow && exponent && exponent->elements() == 1 &&
         get_double(*exponent, 0) == 2;
}

Rows choose(const KernelSpec& spec) {
  const Binary fn = spec.attrs<BinaryAttrs>().fn;
  const DType a = spec.inputs[0].dtype, y = spec.outputs[0].dtype;
  if (a != spec.inputs[1].dtype || y != (gives_bool(fn) ? DType::kBool : a)) return nullptr;
  if (!of_one_quantization(spec)) return nullptr;
  switch (a) {
    case DType::kF32:
      return is_square(spec) ? rows<float, float, SquareFn> : nullptr;
    case DType::kI32:
      return arithmetic<int32_t>(fn);
    case DType::kI64:
      return arithmetic<int64_t>(fn);
    case DType::kI8:
      return extreme<int8_t>(fn);
    case DType::kU8:
      return extreme<uint8_t>(fn);
    case DType::kI16:
      return spec.inputs[0].quant ? extreme<int16_t>(fn) : wrapping<int16_t>(fn);
    case DType::kU16:
      return wrapping<uint16_t>(fn);
    case DType::kU32:
      return shifting<uint32_t>(fn);
    case DType::kU64:
      return shifting<uint64_t>(fn);
    case DType::kBool:
      return fn == Binary::kLogicalAnd   ? rows<uint8_t, uint8_t, AndFn>
             : fn == Binary::kLogicalOr  ? rows<uint8_t, uint8_t, OrFn>
             : fn == Binary::kLogicalXor ? rows<uint8_t, uint8_t, XorFn>
                                         : nullptr;
    default:
      return nullptr;
  }
}

/// Of float32 values; any() is false for another node.
Comparison comparison_f32(const KernelSpec& spec) {
  const auto is_f32 = [](const ValueType& t) { return t.dtype == DType::kF32; };
  return std::ranges::all_of(spec.inputs, is_f32) && spec.outputs[0].dtype == DType::kBool
             ? Comparison::of(spec.attrs<BinaryAttrs>().fn)
             : Comparison{};
}

class BinaryUnquantized final : public Kernel {
 public:
  /// rows: nullptr compares float32.
  BinaryUnquantized(Rows rows, const KernelSpec& spec)
      : rows_(rows),
        checked_(spec.attrs<BinaryAttrs>().checked_division && !is_float(spec.inputs[1].dtype)),
        loops_(BroadcastLoops::make(spec.inputs[0].shape, spec.inputs[1].shape, spec.outputs[0].shape)),
        size_(static_cast<int64_t>(Tensor::byte_size(spec.inputs[0].dtype, 1))),
        out_size_(static_cast<int64_t>(Tensor::byte_size(spec.outputs[0].dtype, 1))) {
    if (rows) return;
    comparison_ = comparison_f32(spec);
    compare_ = compare_f32(spec.isa);
  }
  Status run(KernelContext& ctx) const override {
    if (checked_) SMELT_TRY(check_divisor(ctx.input(1)));
    loops_.each_row(ctx, size_, out_size_,
                    [&](const void* a, int64_t sa, const void* b, int64_t sb, void* y, int64_t n) {
                      if (rows_)
                        in_rows(a, sa, b, sb, y, n);
                      else
                        compare_(comparison_, static_cast<const float*>(a), sa, static_cast<const float*>(b), sb, n,
                                 static_cast<uint8_t*>(y));
                    });
    return Ok();
  }

 private:
  /// A number that stays the same along a row is written out for a part of the row.
  void in_rows(const void* a, int64_t sa, const void* b, int64_t sb, void* y, int64_t n) const {
    if ((sa && sb) || n == 1) return rows_(a, b, y, n);
    const auto *from_a = static_cast<const char*>(a), *from_b = static_cast<const char*>(b);
    auto* to = static_cast<char*>(y);
    const int64_t most = std::min(n, LongRows::kBytes / size_);
    LongRows same_a({from_a, 0, 0, 1, size_}), same_b({from_b, 0, 0, 1, size_});
    for (int64_t i = 0; i < n; i += most, to += most * out_size_) {
      const int64_t part = std::min(most, n - i);
      rows_(sa ? from_a + i * size_ : same_a(i, part), sb ? from_b + i * size_ : same_b(i, part), to, part);
    }
  }

  Rows rows_;
  Comparison comparison_{};
  CompareF32 compare_ = nullptr;
  bool checked_;
  BroadcastLoops loops_;
  int64_t size_, out_size_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_binary_unquantized(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<BinaryAttrs>();
  if (attrs.alpha != 1 || attrs.act.kind != ActKind::kNone || spec.outputs[0].shape.elements() == 0) return nullptr;
  const Rows rows = choose(spec);
  return rows || comparison_f32(spec).any() ? std::make_unique<BinaryUnquantized>(rows, spec) : nullptr;
}

}  // namespace smelt
