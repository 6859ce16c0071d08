#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/conv/conv.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/normalization/normalization.h"
#include "ops/pool/pool.h"
#include "ops/resize/resize.h"
#include "ops/softmax/softmax.h"
#include "tensor/numeric.h"

namespace smelt {

/// A fault that was put into a graph.
struct PlantedFault {
  std::string what;
  Node node;  ///< as it was
};

namespace faults {

using Try = std::function<bool(Graph&, size_t node)>;

template <class A>
A* own_attrs(Node& n, std::shared_ptr<A>& copy) {
  copy = std::make_shared<A>(static_cast<const A&>(*n.attrs));
  n.attrs = copy;
  return copy.get();
}

/// A constant input of this node alone, as a copy that may be changed. Null: the input is no constant.
inline Tensor* own_constant(Graph& g, size_t k, size_t i, std::shared_ptr<Tensor>& copy) {
  Node& n = g.nodes[k];
  if (i >= n.inputs.size() || n.inputs[i] == kNoValue || !g.value(n.inputs[i]).constant) return nullptr;
  Value v = g.value(n.inputs[i]);
  copy = std::make_shared<Tensor>(v.constant->clone());
  copy->set_quant(v.constant->quant());
  v.constant = copy;
  g.nodes[k].inputs[i] = g.add_value(std::move(v));
  return copy.get();
}

inline bool float_weights(const Graph& g, const Node& n) {
  if (!(op_info(n.op).flags & kWeighted) || n.inputs.size() < 2 || n.inputs[1] == kNoValue) return false;
  const auto& w = g.value(n.inputs[1]).constant;
  return w && w->dtype() == DType::kF32 && w->elements() > 4;
}

inline bool scale(Graph& g, size_t k, size_t i, double by) {
  std::shared_ptr<Tensor> t;
  if (!own_constant(g, k, i, t)) return false;
  if (t->dtype() == DType::kF32) {
    for (int64_t j = 0; j < t->elements(); ++j) t->data<float>()[j] *= static_cast<float>(by);
    return true;
  }
  if (!t->quant() || t->quant()->scales.empty()) return false;
  auto q = std::make_shared<Quantization>(*t->quant());
  for (float& s : q->scales) s *= static_cast<float>(by);
  t->set_quant(q);
  g.value(g.nodes[k].inputs[i]).type.quant = q;
  return true;
}

/// The node's readers read its input 0 instead.
inline bool bypass(Graph& g, size_t k) {
  const ValueId from = g.nodes[k].outputs[0], to = g.nodes[k].inputs[0];
  if (!(g.value(from).type.shape == g.value(to).type.shape) || g.value(from).type.dtype != g.value(to).type.dtype)
    return false;
  if (std::find(g.outputs.begin(), g.outputs.end(), from) != g.outputs.end()) return false;
  for (Node& n : g.nodes)
    for (ValueId& id : n.inputs)
      if (id == from) id = to;
  g.nodes.erase(g.nodes.begin() + static_cast<std::ptrdiff_t>(k));
  return true;
}

inline bool alpha_dropped(Graph& g, size_t k) {
  Node& n = g.nodes[k];
  if (n.op == Op::kUnary && static_cast<const UnaryAttrs&>(*n.attrs).a != 0) {
    std::shared_ptr<UnaryAttrs> a;
    own_attrs(n, a)->a = 0;
    return true;
  }
  return n.op == Op::kBinary && static_cast<const BinaryAttrs&>(*n.attrs).fn == Binary::kPRelu && scale(g, k, 1, 0);
}
inline bool scale_up(Graph& g, size_t k) {
  const Node& n = g.nodes[k];
  return (op_info(n.op).flags & kWeighted) != 0 && n.inputs.size() > 1 && scale(g, k, 1, 1.01);
}
inline bool bias_lost(Graph& g, size_t k) {
  const Node& n = g.nodes[k];
  return (op_info(n.op).flags & kWeighted) != 0 && n.inputs.size() > 2 && scale(g, k, 2, 0);
}
inline bool weights_transposed(Graph& g, size_t k) {
  if (!float_weights(g, g.nodes[k])) return false;
  std::shared_ptr<Tensor> t;
  own_constant(g, k, 1, t);
  // Two neighbouring dimensions of one extent change places.
  for (int d = 0; d + 1 < t->rank(); ++d) {
    const int64_t n = t->dim(d);
    if (n < 2 || t->dim(d + 1) != n) continue;
    int64_t inner = 1, outer = 1;
    for (int i = d + 2; i < t->rank(); ++i) inner *= t->dim(i);
    for (int i = 0; i < d; ++i) outer *= t->dim(i);
    float* const w = t->data<float>();
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t p = 0; p < n; ++p)
        for (int64_t q = 0; q < p; ++q)
          for (int64_t i = 0; i < inner; ++i)
            std::swap(w[((o * n + p) * n + q) * inner + i], w[((o * n + q) * n + p) * inner + i]);
    return true;
  }
  return false;
}
inline bool activation_lost(Graph& g, size_t k) {
  Node& n = g.nodes[k];
  if (n.op == Op::kClamp || n.op == Op::kUnary) return bypass(g, k);
  if (n.op == Op::kConv && static_cast<const ConvAttrs&>(*n.attrs).act.kind != ActKind::kNone) {
    std::shared_ptr<ConvAttrs> a;
    own_attrs(n, a)->act = {};
    return true;
  }
  if (n.op == Op::kBinary && static_cast<const BinaryAttrs&>(*n.attrs).act.kind != ActKind::kNone) {
    std::shared_ptr<BinaryAttrs> a;
    own_attrs(n, a)->act = {};
    return true;
  }
  return false;
}
inline bool rescale_missing(Graph& g, size_t k) {
  const Node& n = g.nodes[k];
  const bool by_constant = n.op == Op::kBinary && n.inputs[0] != kNoValue && n.inputs[1] != kNoValue &&
                           g.value(n.inputs[1]).constant && !g.value(n.inputs[0]).constant;
  return (by_constant || n.op == Op::kBatchNorm) && bypass(g, k);
}
inline bool epsilon(Graph& g, size_t k) {
  Node& n = g.nodes[k];
  constexpr double kWrong = 0.02;
  if (n.op == Op::kBatchNorm) {
    std::shared_ptr<BatchNormAttrs> a;
    own_attrs(n, a)->epsilon = kWrong;
  } else if (n.op == Op::kLayerNorm) {
    std::shared_ptr<LayerNormAttrs> a;
    own_attrs(n, a)->epsilon = kWrong;
  } else if (n.op == Op::kGroupNorm) {
    std::shared_ptr<GroupNormAttrs> a;
    own_attrs(n, a)->epsilon = kWrong;
  } else {
    return false;
  }
  return true;
}
inline bool wrong_axis(Graph& g, size_t k) {
  Node& n = g.nodes[k];
  if (n.op != Op::kSoftmax) return false;
  const Shape& s = g.value(n.inputs[0]).type.shape;
  std::shared_ptr<SoftmaxAttrs> a;
  const int64_t rank = s.rank(), axis = (own_attrs(n, a)->axis + rank) % rank;
  for (int64_t i = rank; i-- > 0;)
    if (i != axis && s[static_cast<int>(i)] > 1) {
      a->axis = i;
      return true;
    }
  return false;
}
inline bool pad_mode(Graph& g, size_t k) {
  Node& n = g.nodes[k];
  if (n.op != Op::kConv) return false;
  std::shared_ptr<ConvAttrs> a;
  own_attrs(n, a);
  if (a->auto_pad == AutoPad::kSameUpper) {
    a->auto_pad = AutoPad::kSameLower;
    return true;
  }
  const size_t half = a->pads.size() / 2;
  for (size_t i = 0; i < half; ++i)
    if (a->pads[i] > 0) {
      --a->pads[i];
      ++a->pads[half + i];
      return true;
    }
  return false;
}
inline bool zero_point_off(Graph& g, size_t k) {
  const Node& n = g.nodes[k];
  if (n.op != Op::kQuantizeLinear && n.op != Op::kDequantizeLinear) return false;
  std::shared_ptr<Tensor> t;
  if (!own_constant(g, k, 2, t) || !is_integer(t->dtype())) return false;
  for (int64_t i = 0; i < t->elements(); ++i) set_int(*t, i, get_int(*t, i) + 1);
  return true;
}
inline bool pool_kind(Graph& g, size_t k) {
  Node& n = g.nodes[k];
  if (n.op != Op::kPool) return false;
  std::shared_ptr<PoolAttrs> a;
  own_attrs(n, a)->kind =
      static_cast<const PoolAttrs&>(*n.attrs).kind == PoolKind::kMax ? PoolKind::kAverage : PoolKind::kMax;
  return true;
}
inline bool wrong_constant(Graph& g, size_t k) {
  return g.nodes[k].op == Op::kBinary && (scale(g, k, 1, 1.05) || scale(g, k, 0, 1.05));
}

struct Kind {
  const char* what;
  bool (*plant)(Graph&, size_t);
};
inline constexpr Kind kKinds[] = {{"alpha dropped", alpha_dropped},
                                  {"scale +1 %", scale_up},
                                  {"zero point off", zero_point_off},
                                  {"rescale missing", rescale_missing},
                                  {"weights transposed", weights_transposed},
                                  {"pad mode", pad_mode},
                                  {"wrong axis", wrong_axis},
                                  {"epsilon", epsilon},
                                  {"activation lost", activation_lost},
                                  {"bias lost", bias_lost},
                                  {"pool kind", pool_kind},
                                  {"wrong constant", wrong_constant}};
inline constexpr size_t kKindCount = std::size(kKinds);

}  // namespace faults

/// Plants a fault of a kind in a random node. Nullopt: no node takes one.
inline std::optional<PlantedFault> plant(Graph& g, size_t kind, std::mt19937_64& random) {
  std::vector<size_t> order(g.nodes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  for (const size_t k : order) {
    if (g.nodes[k].inputs.empty() || g.nodes[k].outputs.empty() || g.nodes[k].outputs[0] == kNoValue) continue;
    Graph copy = g;
    const Node before = g.nodes[k];
    if (!faults::kKinds[kind].plant(copy, k)) continue;
    g = std::move(copy);
    return PlantedFault{faults::kKinds[kind].what, before};
  }
  return std::nullopt;
}

}  // namespace smelt
