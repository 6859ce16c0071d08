#include "ops/random/random.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/shape/element_copy.h"
#include "ops/shape/rules.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// 64 random bits at a time: from the operator's own seed (SplitMix64, the same numbers in every run) or from the
/// session's stream.
class Bits {
 public:
  Bits(KernelContext& ctx, const RandomAttrs& a) : ctx_(ctx), own_(a.seeded), state_(std::bit_cast<uint64_t>(a.seed)) {}
  uint64_t next() {
    if (!own_) return ctx_.random();
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  /// Uniform in [0, 1), 53 bits.
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// Uniform in [0, n), n > 0.
  uint64_t below(uint64_t n) { return static_cast<uint64_t>(static_cast<unsigned __int128>(next()) * n >> 64); }
  /// Standard normal (Box-Muller, one of the pair).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - unit()));
    return radius * std::cos(2 * M_PI * unit());
  }

 private:
  KernelContext& ctx_;
  bool own_;
  uint64_t state_;
};

bool takes_shape(RandomAttrs::Kind kind) {
  return kind == RandomAttrs::Kind::kUniform || kind == RandomAttrs::Kind::kNormal ||
         kind == RandomAttrs::Kind::kPermutation;
}

Status uniform(Bits& bits, const RandomAttrs& a, Tensor& y) {
  if (is_integer(y.dtype())) {
    const auto clamp = [](double v) { return static_cast<int64_t>(std::clamp(v, -9.2e18, 9.2e18)); };
    const int64_t low = clamp(a.a), high = clamp(a.b);
    if (high <= low) return InvalidInput("no integer lies in [", a.a, ", ", a.b, ")");
    const uint64_t n = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    for (int64_t i = 0; i < y.elements(); ++i)
      set_int(y, i, static_cast<int64_t>(static_cast<uint64_t>(low) + bits.below(n)));
    return Ok();
  }
  for (int64_t i = 0; i < y.elements(); ++i) {
    set_double(y, i, a.a + (a.b - a.a) * bits.unit());
    // Rounding to a narrow type may reach the upper end, which is excluded.
    for (int tries = 0; tries < 64 && get_double(y, i) >= a.b && a.b > a.a; ++tries)
      set_double(y, i, a.a + (a.b - a.a) * bits.unit());
  }
  return Ok();
}

Status multinomial(Bits& bits, const Tensor& x, Tensor& y) {
  const int64_t classes = x.shape().back(), samples = y.shape().back();
  if (y.elements() == 0) return Ok();
  if (classes < 1) return InvalidInput("no classes to draw from");
  std::vector<double> cumulative(static_cast<size_t>(classes));
  for (int64_t row = 0; row < y.elements() / samples; ++row) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t c = 0; c < classes; ++c) largest = std::max(largest, get_double(x, row * classes + c));
    for (int64_t c = 0; c < classes; ++c) {
      const double p = std::exp(get_double(x, row * classes + c) - largest);
      sum += p > 0 ? p : 0;
      cumulative[static_cast<size_t>(c)] = sum;
    }
    if (!(sum > 0)) return InvalidInput("row ", row, " has no class of positive probability");
    for (int64_t s = 0; s < samples; ++s) {
      const auto at = std::upper_bound(cumulative.begin(), cumulative.end(), bits.unit() * sum) - cumulative.begin();
      const int64_t value = std::min<int64_t>(at, classes - 1);
      if (is_float(y.dtype()))
        set_double(y, row * samples + s, static_cast<double>(value));
      else
        set_int(y, row * samples + s, value);
    }
  }
  return Ok();
}

}  // namespace

Status infer_Random(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const auto& a = ctx.attrs<RandomAttrs>();
  const ValueType& x = ctx.input(0);
  ValueType out;
  out.dtype = a.to == DType::kInvalid ? x.dtype : a.to;
  if (takes_shape(a.kind)) {
    if (auto dims = ctx.ints(0)) {
      out.ranked = true;
      SMELT_ASSIGN(out.shape, shape_from(*dims));
      if (a.kind == RandomAttrs::Kind::kPermutation && out.shape.rank() == 0) out.shape = Shape{1};
      if (a.kind == RandomAttrs::Kind::kPermutation && out.shape.rank() != 1)
        return InvalidModel("a permutation of shape ", out.shape.str());
    } else if (auto n = entries_of(ctx, 0); n && *n <= Shape::kMaxRank) {
      out.ranked = true;
      out.shape = Shape::of_rank(static_cast<int>(*n), -1);
    }
  } else {
    out.ranked = x.ranked;
    out.shape = x.shape;
    if (a.kind == RandomAttrs::Kind::kMultinomial && x.ranked) {
      if (x.shape.rank() < 1) return InvalidModel("probabilities of rank 0");
      if (a.samples < 0) return InvalidModel(a.samples, " samples");
      out.shape[x.shape.rank() - 1] = a.samples;
    }
  }
  ctx.set(0, out);
  return Ok();
}

Status reference_Random(KernelContext& ctx) {
  const auto& a = ctx.attrs<RandomAttrs>();
  Tensor& y = ctx.output(0);
  Bits bits(ctx, a);
  switch (a.kind) {
    case RandomAttrs::Kind::kUniform:
      return uniform(bits, a, y);
    case RandomAttrs::Kind::kNormal:
      for (int64_t i = 0; i < y.elements(); ++i) set_double(y, i, a.a + a.b * bits.normal());
      return Ok();
    case RandomAttrs::Kind::kBernoulli:
    case RandomAttrs::Kind::kDropoutMask:
      for (int64_t i = 0; i < y.elements(); ++i) {
        const double p = a.kind == RandomAttrs::Kind::kBernoulli ? get_double(ctx.input(0), i) : 1 - a.a;
        set_double(y, i, bits.unit() < p ? 1 : 0);
      }
      return Ok();
    case RandomAttrs::Kind::kMultinomial:
      return multinomial(bits, ctx.input(0), y);
    case RandomAttrs::Kind::kPermutation: {
      std::vector<int64_t> order(static_cast<size_t>(y.elements()));
      std::iota(order.begin(), order.end(), int64_t{0});
      for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[bits.below(i)]);
      for (size_t i = 0; i < order.size(); ++i)
        is_float(y.dtype()) ? set_double(y, static_cast<int64_t>(i), static_cast<double>(order[i]))
                            : set_int(y, static_cast<int64_t>(i), order[i]);
      return Ok();
    }
  }
  return Internal("unknown kind of random values");
}

Status infer_Dropout(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const ValueType& x = ctx.input(0);
  ctx.set(0, x);
  ValueType mask = x;
  mask.dtype = DType::kBool;
  mask.quant = nullptr;
  ctx.set(1, mask);
  return Ok();
}

Status reference_Dropout(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  double ratio = 0.5;
  if (ctx.has(1)) {
    if (ctx.input(1).elements() != 1) return InvalidInput("the ratio has to be one number");
    ratio = get_double(ctx.input(1), 0);
  }
  const bool training = ctx.has(2) && ctx.input(2).elements() > 0 && get_int(ctx.input(2), 0) != 0;
  if (!training || ratio == 0) {
    if (ctx.wants(0)) copy_all(x, ctx.output(0));
    if (ctx.wants(1)) std::memset(ctx.output(1).raw(), 1, ctx.output(1).bytes());
    return Ok();
  }
  if (!(ratio >= 0 && ratio <= 1)) return InvalidInput("a ratio of ", ratio);
  if (!is_float(x.dtype())) return Unsupported("dropout of ", to_string(x.dtype()));
  Bits bits(ctx, ctx.attrs<RandomAttrs>());
  for (int64_t i = 0; i < x.elements(); ++i) {
    const bool keep = bits.unit() >= ratio;
    if (ctx.wants(0)) set_double(ctx.output(0), i, keep ? get_double(x, i) / (1 - ratio) : 0);
    if (ctx.wants(1)) ctx.output(1).data<uint8_t>()[i] = keep;
  }
  return Ok();
}

}  // namespace smelt
