// Optimizer steps of ai.onnx.preview.training, written with element-wise operators.
#include <cmath>

#include "formats/onnx/ops.h"
#include "ops/elementwise/elementwise.h"

namespace smelt::onnx {
namespace {

/// Arithmetic on values of one element type.
class Algebra {
 public:
  explicit Algebra(NodeContext& n) : n_(n) {}
  ValueId op(Binary fn, ValueId a, ValueId b) { return n_.binary(fn, a, b); }
  ValueId add(ValueId a, ValueId b) { return op(Binary::kAdd, a, b); }
  ValueId sub(ValueId a, ValueId b) { return op(Binary::kSub, a, b); }
  ValueId mul(ValueId a, ValueId b) { return op(Binary::kMul, a, b); }
  ValueId div(ValueId a, ValueId b) { return op(Binary::kDiv, a, b); }
  ValueId mul(ValueId a, double b) { return mul(a, n_.scalar_like(a, b)); }
  ValueId add(ValueId a, double b) { return add(a, n_.scalar_like(a, b)); }
  ValueId sqrt(ValueId a) { return n_.unary(Unary::kSqrt, a); }
  /// base^t for a value t.
  ValueId power(double base, ValueId t) { return op(Binary::kPow, n_.scalar_like(t, base), t); }
  ValueId one_minus(ValueId a) { return sub(n_.scalar_like(a, 1), a); }
  ValueId where(ValueId condition, ValueId a, ValueId b) { return n_.where(condition, a, b); }

 private:
  NodeContext& n_;
};

/// Number of optimized tensors when each brings `per` inputs behind R and T.
int tensors(NodeContext& n, int per) {
  const int count = (n.inputs() - 2) / per;
  if (count < 1 || n.inputs() != 2 + count * per)
    n.fail("has ", n.inputs(), " inputs, 2 and ", per, " a tensor expected");
  return n.ok() ? count : 0;
}

ValueId is_later(NodeContext& n, ValueId t) { return n.binary(Binary::kGreater, t, n.scalar_like(t, 0)); }

void lower_adagrad(NodeContext& n) {
  Algebra m(n);
  const int count = tensors(n, 3);
  const ValueId rate = n.in(0), t = n.cast(n.in(1), n.dtype(rate));
  const ValueId r = m.div(rate, m.add(m.mul(t, n.f("decay_factor", 0)), 1.0));
  for (int k = 0; k < count; ++k) {
    const ValueId x = n.in(2 + k), g = n.in(2 + count + k), h = n.in(2 + 2 * count + k);
    const ValueId regular = m.add(m.mul(x, n.f("norm_coefficient", 0)), g);
    const ValueId h_new = m.add(h, m.mul(regular, regular));
    const ValueId adaptive = m.add(m.sqrt(h_new), n.f("epsilon", 1e-6f));
    n.bind(k, m.sub(x, m.div(m.mul(n.cast(r, n.dtype(x)), regular), adaptive)));
    n.bind(count + k, h_new);
  }
}

void lower_adam(NodeContext& n) {
  Algebra m(n);
  const int count = tensors(n, 4);
  const double alpha = n.f("alpha", 0.9f), beta = n.f("beta", 0.999f);
  const ValueId rate = n.in(0), t = n.cast(n.in(1), n.dtype(rate));
  const ValueId corrected = m.div(m.mul(rate, m.sqrt(m.one_minus(m.power(beta, t)))), m.one_minus(m.power(alpha, t)));
  const ValueId r = m.where(is_later(n, t), corrected, rate);
  for (int k = 0; k < count; ++k) {
    const ValueId x = n.in(2 + k), g = n.in(2 + count + k), v = n.in(2 + 2 * count + k), h = n.in(2 + 3 * count + k);
    const ValueId regular = m.add(m.mul(x, n.f("norm_coefficient", 0)), g);
    const ValueId v_new = m.add(m.mul(v, alpha), m.mul(regular, 1 - alpha));
    const ValueId h_new = m.add(m.mul(h, beta), m.mul(m.mul(regular, regular), 1 - beta));
    const ValueId root = m.add(m.sqrt(h_new), n.f("epsilon", 1e-6f));
    const ValueId x_new = m.sub(x, m.div(m.mul(n.cast(r, n.dtype(x)), v_new), root));
    n.bind(k, m.mul(x_new, 1 - n.f("norm_coefficient_post", 0)));
    n.bind(count + k, v_new);
    n.bind(2 * count + k, h_new);
  }
}

void lower_momentum(NodeContext& n) {
  Algebra m(n);
  const int count = tensors(n, 3);
  const std::string mode = n.s("mode");
  if (mode != "standard" && mode != "nesterov") return n.fail("mode is '", mode, "'");
  const double alpha = n.f("alpha", 0);
  const ValueId rate = n.in(0), t = n.in(1);
  const ValueId beta = m.where(is_later(n, t), n.scalar_like(rate, n.f("beta", 0)), n.scalar_like(rate, 1));
  for (int k = 0; k < count; ++k) {
    const ValueId x = n.in(2 + k), g = n.in(2 + count + k), v = n.in(2 + 2 * count + k);
    const ValueId regular = m.add(m.mul(x, n.f("norm_coefficient", 0)), g);
    const ValueId v_new = m.add(m.mul(v, alpha), m.mul(n.cast(beta, n.dtype(x)), regular));
    const ValueId step = mode == "nesterov" ? m.add(regular, m.mul(v_new, alpha)) : v_new;
    n.bind(k, m.sub(x, m.mul(n.cast(rate, n.dtype(x)), step)));
    n.bind(count + k, v_new);
  }
}

constexpr OpEntry kOps[] = {
    {"Adagrad", 1, lower_adagrad},
    {"Adam", 1, lower_adam},
    {"Momentum", 1, lower_momentum},
};

}  // namespace

std::span<const OpEntry> training_ops() { return kOps; }

}  // namespace smelt::onnx
