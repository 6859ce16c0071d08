// Functions of integers and float64 values that need no rule of their own.
#include <cmath>
#include <type_traits>

#include "backends/cpu/core/kernel.h"
#include "base/thread_pool.h"
#include "ops/elementwise/elementwise.h"

namespace smelt {
namespace {

using Map = void (*)(const void* x, void* y, int64_t n);

template <class T, class F>
void map(const void* x, void* y, int64_t n) {
  const auto* from = static_cast<const T*>(x);
  auto* to = static_cast<T*>(y);
  for (int64_t i = 0; i < n; ++i) to[i] = F::apply(from[i]);
}

/// -x; of integers modulo 2^bits.
template <class T>
T negated(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return -x;
  else
    return static_cast<T>(std::make_unsigned_t<T>{0} - static_cast<std::make_unsigned_t<T>>(x));
}

#define SMELT_UNARY_MAP(Name, ...)        \
  struct Name {                           \
    template <class T>                    \
    static T apply(T x) {                 \
      return static_cast<T>(__VA_ARGS__); \
    }                                     \
  };
SMELT_UNARY_MAP(AbsMap, x < 0 ? negated(x) : x)
SMELT_UNARY_MAP(NegMap, negated(x))
SMELT_UNARY_MAP(SignMap, x > 0 ? T(1) : (x < 0 ? T(-1) : x))
#undef SMELT_UNARY_MAP

template <>
double AbsMap::apply(double x) {
  return std::abs(x);
}

template <class T>
Map choose_map(Unary fn) {
  switch (fn) {
    case Unary::kAbs:
      return map<T, AbsMap>;
    case Unary::kNeg:
      return map<T, NegMap>;
    case Unary::kSign:
      return map<T, SignMap>;
    default:
      return nullptr;
  }
}

class UnaryUnquantized final : public Kernel {
 public:
  UnaryUnquantized(Map map, int64_t n, int64_t unit) : map_(map), n_(n), unit_(unit) {}
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<std::byte>();
    auto* y = ctx.output(0).data<std::byte>();
    ctx.threads().parallel_for(
        n_, 32768, [&](int64_t begin, int64_t end) { map_(x + begin * unit_, y + begin * unit_, end - begin); });
    return Ok();
  }

 private:
  Map map_;
  int64_t n_, unit_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_unary_unquantized(const KernelSpec& spec) {
  const Unary fn = spec.attrs<UnaryAttrs>().fn;
  const DType t = spec.inputs[0].dtype;
  if (spec.outputs[0].dtype != t) return nullptr;
  const Map map = t == DType::kI32   ? choose_map<int32_t>(fn)
                  : t == DType::kI64 ? choose_map<int64_t>(fn)
                                     : choose_map<double>(fn);
  return map ? std::make_unique<UnaryUnquantized>(map, spec.inputs[0].shape.elements(), bit_width(t) / 8) : nullptr;
}

}  // namespace smelt
