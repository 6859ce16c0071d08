#include "ops/recurrent/gates.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

namespace smelt {

double RecurrentGate::operator()(double x) const {
  switch (fn) {
    case Fn::kAffine:
      return alpha * x + beta;
    case Fn::kElu:
      return x >= 0 ? x : alpha * std::expm1(x);
    case Fn::kHardSigmoid:
      return std::clamp(alpha * x + beta, 0.0, 1.0);
    case Fn::kLeakyRelu:
      return x >= 0 ? x : alpha * x;
    case Fn::kRelu:
      return x > 0 ? x : 0;
    case Fn::kScaledTanh:
      return alpha * std::tanh(beta * x);
    case Fn::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Fn::kSoftplus:
      return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
    case Fn::kSoftsign:
      return x / (1 + std::fabs(x));
    case Fn::kTanh:
      return std::tanh(x);
    case Fn::kThresholdedRelu:
      return x > alpha ? x : 0;
  }
  return x;
}

namespace {

Result<RecurrentGate> make_gate(std::string name, double alpha, double beta) {
  struct Row {
    const char* name;
    RecurrentGate::Fn fn;
    double alpha, beta;
  };
  static constexpr Row kRows[] = {{"affine", RecurrentGate::Fn::kAffine, 1, 0},
                                  {"elu", RecurrentGate::Fn::kElu, 1, 0},
                                  {"hardsigmoid", RecurrentGate::Fn::kHardSigmoid, 0.2f, 0.5},
                                  {"leakyrelu", RecurrentGate::Fn::kLeakyRelu, 0.01f, 0},
                                  {"relu", RecurrentGate::Fn::kRelu, 0, 0},
                                  {"scaledtanh", RecurrentGate::Fn::kScaledTanh, 1, 1},
                                  {"sigmoid", RecurrentGate::Fn::kSigmoid, 0, 0},
                                  {"softplus", RecurrentGate::Fn::kSoftplus, 0, 0},
                                  {"softsign", RecurrentGate::Fn::kSoftsign, 0, 0},
                                  {"tanh", RecurrentGate::Fn::kTanh, 0, 0},
                                  {"thresholdedrelu", RecurrentGate::Fn::kThresholdedRelu, 1, 0}};
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const Row& r : kRows)
    if (name == r.name)
      return RecurrentGate{r.fn, std::isnan(alpha) ? r.alpha : alpha, std::isnan(beta) ? r.beta : beta};
  return Unsupported("activation '", name, "' of a recurrent operator");
}

}  // namespace

Result<std::vector<RecurrentGate>> recurrent_gates(const RecurrentAttrs& a, int directions) {
  static const std::vector<std::string> kDefaults[] = {{"Tanh"}, {"Sigmoid", "Tanh"}, {"Sigmoid", "Tanh", "Tanh"}};
  const auto& defaults = kDefaults[static_cast<int>(a.cell)];
  const size_t count = defaults.size() * static_cast<size_t>(directions);
  if (!a.activations.empty() && a.activations.size() != count)
    return InvalidModel(a.activations.size(), " activations, ", count, " expected");
  std::vector<RecurrentGate> gates;
  const double none = std::numeric_limits<double>::quiet_NaN();
  for (size_t i = 0; i < count; ++i) {
    const bool given = !a.activations.empty();
    SMELT_ASSIGN(RecurrentGate g, make_gate(given ? a.activations[i] : defaults[i % defaults.size()],
                                            given && i < a.alpha.size() ? a.alpha[i] : none,
                                            given && i < a.beta.size() ? a.beta[i] : none));
    gates.push_back(g);
  }
  return gates;
}

}  // namespace smelt
