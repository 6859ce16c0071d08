#include "formats/executorch/xnnpack/graph.h"

#include <algorithm>

#include "base/error.h"
#include "formats/executorch/xnnpack/values.h"

namespace smelt::executorch {
namespace {

using fb_xnnpack::XNodeUnion;

void add_optional(std::vector<uint32_t>& ids, uint32_t id) {
  if (id != kXnnInvalidId) ids.push_back(id);
}

template <class Node>
XnnPorts one_to_one(const Node& n) {
  return {.inputs = {n.input_id()}, .outputs = {n.output_id()}};
}

XnnPorts concat_ports(const fb_xnnpack::_XNNCat& n, int count) {
  const uint32_t all[] = {n.input1_id(), n.input2_id(), n.input3_id(), n.input4_id(), n.input5_id()};
  return {.inputs = std::vector<uint32_t>(all, all + count), .outputs = {n.output_id()}};
}

template <class Node>
XnnPorts weighted(const Node& n) {
  XnnPorts p{.inputs = {n.input1_id(), n.filter_id()}, .outputs = {n.output_id()}};
  add_optional(p.inputs, n.bias_id());
  return p;
}

/// Which node computes each value; an error when two do, or when one writes what is given.
Result<std::vector<int64_t>> find_producers(const XnnGraph& g, const std::vector<XnnPorts>& ports) {
  std::vector<int64_t> producer(g.values.size(), -1);
  for (uint32_t n = 0; n < ports.size(); ++n)
    for (uint32_t id : ports[n].outputs) {
      const size_t v = g.by_id.at(id);
      if (g.values[v].constant.defined() || g.values[v].input)
        return InvalidModel(xnn_node_label(g, n), ": writes value ", id, ", which is given");
      if (producer[v] >= 0)
        return InvalidModel(xnn_node_label(g, n), ": value ", id, " is already computed by node ", producer[v]);
      producer[v] = n;
    }
  return producer;
}

/// Kahn's algorithm, which keeps the file's order where that is possible.
Status sort_nodes(XnnGraph& g, const std::vector<XnnPorts>& ports) {
  SMELT_ASSIGN(const auto producer, find_producers(g, ports));
  std::vector<uint32_t> waiting(ports.size(), 0);
  std::vector<std::vector<uint32_t>> users(ports.size());
  for (uint32_t n = 0; n < ports.size(); ++n)
    for (uint32_t id : ports[n].inputs) {
      const size_t v = g.by_id.at(id);
      if (g.values[v].constant.defined() || g.values[v].input) continue;
      if (producer[v] < 0) return InvalidModel(xnn_node_label(g, n), ": reads value ", id, ", which nothing computes");
      users[static_cast<size_t>(producer[v])].push_back(n);
      ++waiting[n];
    }
  std::vector<uint32_t> ready;
  const auto later = std::greater<>();
  for (uint32_t n = 0; n < ports.size(); ++n)
    if (waiting[n] == 0) ready.push_back(n);
  std::make_heap(ready.begin(), ready.end(), later);
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), later);
    const uint32_t n = ready.back();
    ready.pop_back();
    g.order.push_back(n);
    for (uint32_t user : users[n])
      if (--waiting[user] == 0) {
        ready.push_back(user);
        std::push_heap(ready.begin(), ready.end(), later);
      }
  }
  for (uint32_t n = 0; n < ports.size(); ++n)
    if (waiting[n] != 0) return InvalidModel(xnn_node_label(g, n), ": depends on its own result (a cycle)");
  return Ok();
}

/// The graph's lists of external values, where the file has them, name the values whose flags say so, in any order.
Status check_listed(const XnnGraph& g, const flatbuffers::Vector<uint32_t>* ids, const std::vector<size_t>& externals,
                    const char* what) {
  if (!ids || ids->size() == 0) return Ok();
  std::vector<uint32_t> listed(ids->begin(), ids->end()), flagged;
  for (const size_t v : externals) flagged.push_back(g.values[v].id);
  std::sort(listed.begin(), listed.end());
  std::sort(flagged.begin(), flagged.end());
  if (listed != flagged) return InvalidModel(what, " lists other values than have the flag");
  return Ok();
}

Status collect_externals(XnnGraph& g) {
  const uint32_t externs = g.table->num_externs();
  if (externs > g.values.size())
    return InvalidModel("num_externs is ", externs, ", the graph has ", g.values.size(), " values");
  for (size_t v = 0; v < g.values.size(); ++v) {
    const XnnValue& value = g.values[v];
    if (!value.input && !value.output) continue;
    if (value.external_id >= externs)
      return InvalidModel("value ", v, ": external id ", value.external_id, ", the graph has ", externs, " externals");
    (value.input ? g.inputs : g.outputs).push_back(v);
    if (value.input && value.output) return InvalidModel("value ", v, " is an external input and output");
  }
  const auto sort = [&](std::vector<size_t>& list) -> Status {
    const auto external = [&](size_t v) { return g.values[v].external_id; };
    std::sort(list.begin(), list.end(), [&](size_t a, size_t b) { return external(a) < external(b); });
    for (size_t i = 1; i < list.size(); ++i)
      if (external(list[i]) == external(list[i - 1]))
        return InvalidModel("values ", list[i - 1], " and ", list[i], " share the external id ", external(list[i]));
    return Ok();
  };
  SMELT_TRY(sort(g.inputs));
  SMELT_TRY(sort(g.outputs));
  SMELT_TRY(check_listed(g, g.table->input_ids(), g.inputs, "input_ids"));
  SMELT_TRY(check_listed(g, g.table->output_ids(), g.outputs, "output_ids"));
  if (g.outputs.empty()) return InvalidModel("the graph has no output");
  return Ok();
}

/// Matrix products take dynamic parameters per token, however many dimensions a value says that they cover.
void quantize_per_token(XnnGraph& g, uint32_t id) {
  ValueType& type = g.values[g.by_id.at(id)].type;
  if (!type.quant || type.quant->kind != Quantization::Kind::kPerToken || type.quant->axis == 1) return;
  Quantization per_token = *type.quant;
  per_token.axis = 1;
  type.quant = std::make_shared<const Quantization>(std::move(per_token));
}

Result<const fb_xnnpack::XNNGraph*> verified_root(std::span<const std::byte> bytes) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (!has_magic(bytes, "XN00") && !has_magic(bytes, "XN01"))
    return InvalidModel("the flatbuffer's identifier is neither XN00 nor XN01");
  flatbuffers::Verifier verifier(data, bytes.size(), 64, 10'000'000);
  if (!verifier.VerifyBuffer<fb_xnnpack::XNNGraph>(nullptr))
    return InvalidModel("the flatbuffer is damaged or cut off");
  return fb_xnnpack::GetXNNGraph(data);
}

}  // namespace

Result<XnnPorts> ports_of(const fb_xnnpack::XNode& node) {
  if (!node.xnode_union()) return InvalidModel("it has no operator");
  switch (node.xnode_union_type()) {
    case XNodeUnion::NONE:
      return InvalidModel("it has no operator");
    case XNodeUnion::XNNAdd:
    case XNodeUnion::XNNSubtract:
    case XNodeUnion::XNNMultiply:
    case XNodeUnion::XNNDiv:
    case XNodeUnion::XNNMinimum:
    case XNodeUnion::XNNMaximum:
    case XNodeUnion::XNNPReLU:
    case XNodeUnion::XNNBatchMatrixMultiply: {
      const auto& n = *static_cast<const fb_xnnpack::_XNNNode2x1*>(node.xnode_union());
      return XnnPorts{.inputs = {n.input1_id(), n.input2_id()}, .outputs = {n.output_id()}};
    }
    case XNodeUnion::XNNFullyConnected:
      return weighted(*node.xnode_union_as_XNNFullyConnected());
    case XNodeUnion::XNNConv2d:
    case XNodeUnion::XNNDepthwiseConv2d:
    case XNodeUnion::XNNConvTranspose2d:
      return weighted(*static_cast<const fb_xnnpack::_XNNNodeConv*>(node.xnode_union()));
    case XNodeUnion::XNNAvgPooling2d:
    case XNodeUnion::XNNMaxPooling2d:
      return one_to_one(*static_cast<const fb_xnnpack::_XNNPooling2D*>(node.xnode_union()));
    case XNodeUnion::XNNStaticTranspose:
      return one_to_one(*node.xnode_union_as_XNNStaticTranspose());
    case XNodeUnion::XNNStaticResizeBilinear2D:
      return one_to_one(*node.xnode_union_as_XNNStaticResizeBilinear2D());
    case XNodeUnion::XNNStaticConstantPad:
      return one_to_one(*node.xnode_union_as_XNNStaticConstantPad());
    case XNodeUnion::XNNStaticReshape:
      return one_to_one(*node.xnode_union_as_XNNStaticReshape());
    case XNodeUnion::XNNStaticSlice:
      return one_to_one(*node.xnode_union_as_XNNStaticSlice());
    case XNodeUnion::XNNLeakyReLU:
      return one_to_one(*node.xnode_union_as_XNNLeakyReLU());
    case XNodeUnion::XNNELU:
      return one_to_one(*node.xnode_union_as_XNNELU());
    case XNodeUnion::XNNConcatenate2:
    case XNodeUnion::XNNConcatenate3:
    case XNodeUnion::XNNConcatenate4: {
      const int extra = static_cast<int>(node.xnode_union_type()) - static_cast<int>(XNodeUnion::XNNConcatenate2);
      return concat_ports(*static_cast<const fb_xnnpack::_XNNCat*>(node.xnode_union()), 2 + extra);
    }
    case XNodeUnion::XNNConcatenate5:
      return concat_ports(*node.xnode_union_as_XNNConcatenate5(), 5);
    case XNodeUnion::XNNArgMaxPooling2d: {
      const auto& n = *node.xnode_union_as_XNNArgMaxPooling2d();
      XnnPorts p{.inputs = {n.input_id()}, .outputs = {}};
      add_optional(p.outputs, n.output_value_id());
      add_optional(p.outputs, n.output_index_id());
      return p;
    }
    case XNodeUnion::XNNScaledDotProductAttention: {
      const auto& n = *node.xnode_union_as_XNNScaledDotProductAttention();
      return XnnPorts{.inputs = {n.query_id(), n.key_id(), n.value_id(), n.scale_id(), n.mask_id()},
                      .outputs = {n.output_id()}};
    }
    default:
      if (node.xnode_union_type() > XNodeUnion::MAX) break;
      return one_to_one(*static_cast<const fb_xnnpack::_XNNNode1x1*>(node.xnode_union()));
  }
  return Unsupported("operator ", static_cast<int>(node.xnode_union_type()), " is newer than this build");
}

std::string xnn_node_label(const XnnGraph& graph, uint32_t node) {
  return Cat("node ", node, " ", fb_xnnpack::EnumNameXNodeUnion(graph.table->xnodes()->Get(node)->xnode_union_type()));
}

Result<XnnGraph> read_xnn_graph(const DelegateBlob& blob) {
  SMELT_ASSIGN(const BlobParts parts, split_blob(blob.bytes, "XH00"));
  XnnGraph g;
  SMELT_ASSIGN(g.table, verified_root(parts.flatbuffer));
  const uint32_t values = g.table->xvalues() ? g.table->xvalues()->size() : 0;
  const uint32_t nodes = g.table->xnodes() ? g.table->xnodes()->size() : 0;
  if (parts.has_header && g.table->constant_data())
    for (uint32_t i = 0; i < g.table->constant_data()->size(); ++i) {
      const auto* entry = g.table->constant_data()->Get(i);
      if (entry->offset() == UINT64_MAX || entry->named_key()) continue;
      if (auto s = find_constant(blob, parts, entry->offset(), entry->size(), ""); !s.ok())
        return s.error().within(Cat("constant ", i));
    }
  CopyBudget budget(blob);
  g.values.reserve(std::min<size_t>(values, 1 << 16));
  for (uint32_t i = 0; i < values; ++i) {
    auto value = read_xnn_value(*g.table, *g.table->xvalues()->Get(i), blob, parts, budget);
    if (!value.ok()) return value.error().within(Cat("value ", i));
    if (!g.by_id.emplace(value->id, g.values.size()).second)
      return InvalidModel("value ", i, ": id ", value->id, " is taken by another value");
    g.values.push_back(std::move(value).value());
  }
  SMELT_TRY(collect_externals(g));
  std::vector<XnnPorts> ports;
  for (uint32_t i = 0; i < nodes; ++i) {
    auto p = ports_of(*g.table->xnodes()->Get(i));
    if (!p.ok()) return p.error().within(Cat("node ", i));
    for (const auto* list : {&p->inputs, &p->outputs})
      for (uint32_t id : *list)
        if (!g.by_id.contains(id)) return InvalidModel(xnn_node_label(g, i), ": value ", id, " does not exist");
    const XNodeUnion type = g.table->xnodes()->Get(i)->xnode_union_type();
    if (type == XNodeUnion::XNNFullyConnected || type == XNodeUnion::XNNBatchMatrixMultiply)
      quantize_per_token(g, p->inputs[0]);
    ports.push_back(std::move(p).value());
  }
  SMELT_TRY(sort_nodes(g, ports));
  return g;
}

}  // namespace smelt::executorch
