#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/common/quantized_pair.h"
#include "ops/conv/conv.h"
#include "ops/core/op.h"
#include "ops/matmul/matmul.h"
#include "passes/passes.h"

namespace smelt {
namespace {

/// What a product quantizes at run time: the value, in slices of its last `inner` dimensions, by one of two rules.
struct RunTimeQuantized {
  ValueId x;
  int inner;
  bool asymmetric;
  bool operator<(const RunTimeQuantized& o) const {
    return std::tie(x, inner, asymmetric) < std::tie(o.x, o.inner, o.asymmetric);
  }
};

bool is_real(const ValueType& t) { return t.ranked && is_unquantized_f32(t); }
/// True if fast kernels multiply such a filter or matrix with rows that carry a scale each.
bool is_byte_constant(const Graph& g, ValueId id) {
  return g.value(id).constant && g.value(id).type.quant && is_8bit(g.value(id).type.dtype);
}

/// What the node quantizes; nullopt: nothing, or a form of its own.
std::optional<RunTimeQuantized> quantized_by(const Graph& g, const Node& n) {
  if ((n.op != Op::kConv && n.op != Op::kMatMul) || n.inputs[0] == kNoValue || n.inputs[1] == kNoValue) return {};
  const ValueType &x = g.value(n.inputs[0]).type, &w = g.value(n.inputs[1]).type;
  if (!is_real(x) || !is_byte_constant(g, n.inputs[1])) return {};
  if (n.op == Op::kConv) {
    const auto& a = static_cast<const ConvAttrs&>(*n.attrs);
    if (!a.dynamic_quant || a.groups != 1 || a.layout != Layout::kChannelsLast || x.shape.rank() < 3) return {};
    return RunTimeQuantized{n.inputs[0], x.shape.rank() - 1, a.asymmetric_inputs};
  }
  const auto& a = static_cast<const MatMulAttrs&>(*n.attrs);
  if (!a.dynamic_quant || a.transpose_a || a.trans_batch_a || w.shape.rank() != 2 || x.shape.rank() < 2) return {};
  if (x.shape.back() < 0 || x.shape.back() != w.shape[a.transpose_b ? 1 : 0]) return {};
  return RunTimeQuantized{n.inputs[0], 1, a.asymmetric_inputs};
}

template <class A>
AttrsPtr of_quantized(const Node& n) {
  A a = static_cast<const A&>(*n.attrs);
  a.dynamic_quant = a.asymmetric_inputs = false;
  return make_attrs<A>(std::move(a));
}

/// The value that holds what `from` says, as int8 by the rule of TFLite's hybrid operators.
ValueId add_quantized(Graph& g, const RunTimeQuantized& from) {
  auto q = std::make_shared<Quantization>();
  q->kind = Quantization::Kind::kPerToken;
  q->axis = from.inner;
  q->symmetric = !from.asymmetric;
  q->rounding = Rounding::kFixedDouble;
  Value v;
  v.type = g.value(from.x).type;
  v.type.dtype = DType::kI8;
  v.type.quant = std::move(q);
  return g.add_value(std::move(v));
}

void share(Graph& g, const std::map<RunTimeQuantized, int>& users) {
  std::map<RunTimeQuantized, ValueId> shared;
  std::vector<Node> nodes;
  for (Node& n : g.nodes) {
    const auto from = quantized_by(g, n);
    if (from && users.at(*from) > 1) {
      const auto [at, first] = shared.try_emplace(*from, kNoValue);
      if (first) {
        at->second = add_quantized(g, *from);
        Node& quantize = nodes.emplace_back(n);
        quantize.op = Op::kQuantize;
        quantize.attrs = make_attrs<NoAttrs>();
        quantize.inputs = {from->x};
        quantize.outputs = {at->second};
      }
      n.inputs[0] = at->second;
      n.attrs = n.op == Op::kConv ? of_quantized<ConvAttrs>(n) : of_quantized<MatMulAttrs>(n);
    }
    nodes.push_back(std::move(n));
  }
  g.nodes = std::move(nodes);
}

std::map<RunTimeQuantized, int> users_of(const Graph& g) {
  std::map<RunTimeQuantized, int> users;
  for (const Node& n : g.nodes)
    if (const auto from = quantized_by(g, n)) ++users[*from];
  return users;
}

}  // namespace

std::shared_ptr<const Module> share_dynamic_quantization(std::shared_ptr<const Module> module) {
  std::vector<std::map<RunTimeQuantized, int>> users;
  for (const Graph& g : module->graphs) users.push_back(users_of(g));
  const auto shares = [](const auto& of_graph) {
    return std::ranges::any_of(of_graph, [](const auto& u) { return u.second > 1; });
  };
  if (std::ranges::none_of(users, shares)) return module;
  const auto own = own_module(std::move(module));
  for (size_t i = 0; i < users.size(); ++i)
    if (shares(users[i])) share(own->graphs[i], users[i]);
  return own;
}

}  // namespace smelt
