// Networks written in another format and back: operators with weights, quantization parameters and the names of inputs
// and outputs are those of the first file. Other operators may have become formulas of the format's own. Programs have
// no names.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/cat.h"
#include "base/error.h"
#include "convert/convert.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/pool/pool.h"
#include "passes/passes.h"
#include "runtime/model_access.h"
#include "tensor/numeric.h"
#include "tests/support/case_shapes.h"
#include "tests/support/paths.h"
#include "tests/support/written_model.h"

namespace smelt {
namespace {

namespace fs = std::filesystem;

/// What a conversion keeps of a model.
struct Summary {
  std::map<std::string, int> weighted;  ///< number of nodes with weights, by weighted_kind(); attention is two products
  std::map<std::string, int> others;    ///< number of other nodes by other_kind()
  std::map<std::string, int> detailed;  ///< the same with the function of unary and binary ones
  std::set<std::string>
      quantization;  ///< parameters of 4- to 16-bit values; uint8 with zero point z as int8 with z - 128
  std::vector<std::string> inputs, outputs;
};

std::string parameters(DType dtype, const std::vector<float>& scales, std::vector<int32_t> zero_points) {
  zero_points.resize(scales.size(), 0);
  if (dtype == DType::kU8)
    for (int32_t& z : zero_points) z -= 128;
  std::string text = Cat(bit_width(dtype), " bits:");
  // One entry for all channels is one for the tensor.
  const bool one = std::ranges::all_of(scales, [&](float s) { return s == scales[0]; }) &&
                   std::ranges::all_of(zero_points, [&](int32_t z) { return z == zero_points[0]; });
  for (size_t i = 0; i < (one ? 1 : scales.size()); ++i) text += Cat(" ", scales[i], "@", zero_points[i]);
  return text;
}

void add_quantization(const Graph& graph, const Node& node, Summary& s) {
  const auto constant = [&](size_t i) {
    return i < node.inputs.size() && node.inputs[i] != kNoValue ? graph.value(node.inputs[i]).constant.get() : nullptr;
  };
  if (node.op == Op::kQuantizeLinear || node.op == Op::kDequantizeLinear) {
    const ValueId id = node.op == Op::kQuantizeLinear ? node.outputs[0] : node.inputs[0];
    const DType dtype = graph.value(id).type.dtype;
    if (!constant(1) || bit_width(dtype) > 16 || graph.value(id).constant) return;
    std::vector<float> scales(static_cast<size_t>(constant(1)->elements()));
    to_floats(*constant(1), scales.data());
    std::vector<int32_t> zero_points;
    if (constant(2))
      for (int64_t i = 0; i < constant(2)->elements(); ++i)
        zero_points.push_back(static_cast<int32_t>(get_int(*constant(2), i)));
    s.quantization.insert(parameters(dtype, scales, zero_points));
  }
  for (const auto* list : {&node.inputs, &node.outputs})
    for (const ValueId id : *list) {
      if (id == kNoValue) continue;
      const ValueType& t = graph.value(id).type;
      if (t.quant && !t.quant->scales.empty() && bit_width(t.dtype) <= 16 && !graph.value(id).constant)
        s.quantization.insert(parameters(t.dtype, t.quant->scales, t.quant->zero_points));
    }
}

/// The kind of weighted operator that a node counts as; empty for another. Linear models and support vector machines
/// are products with a matrix, products of integers are products.
std::string weighted_kind(Op op) {
  switch (op) {
    case Op::kLinearModel:
    case Op::kSvm:
    case Op::kMatMulInteger:
      return op_info(Op::kMatMul).name;
    case Op::kConvInteger:
      return op_info(Op::kConv).name;
    default:
      return op_info(op).flags & kWeighted ? op_info(op).name : "";
  }
}

/// True for the greater or the smaller of a value and a constant number: a clamp with one bound.
bool is_clamp(const Graph& graph, const Node& node) {
  if (node.op != Op::kBinary) return node.op == Op::kClamp;
  const Binary fn = static_cast<const BinaryAttrs&>(*node.attrs).fn;
  return (fn == Binary::kMax || fn == Binary::kMin) && std::ranges::any_of(node.inputs, [&](ValueId id) {
           const auto& c = graph.value(id).constant;
           return c && c->elements() == 1 && is_float(c->dtype());
         });
}

/// The kind that a node without weights counts as; empty for a view or a copy. Formats spell slices, gathers, clamps,
/// quantization, concatenations and pools of whole images in several ways.
std::string other_kind(const Graph& graph, const Node& node) {
  if (node.op == Op::kBitCast || (op_info(node.op).flags & kView)) return "";
  if (is_clamp(graph, node)) return op_info(Op::kUnary).name;
  switch (node.op) {
    case Op::kUnary: {
      const bool copy = static_cast<const UnaryAttrs&>(*node.attrs).fn == Unary::kIdentity;
      return copy ? "" : op_info(node.op).name;
    }
    case Op::kWhile:
      return op_info(Op::kLoop).name;
    case Op::kPool:
      return op_info(static_cast<const PoolAttrs&>(*node.attrs).global ? Op::kReduce : node.op).name;
    case Op::kReverse:
    case Op::kSliceSize:
    case Op::kStridedSlice:
      return op_info(Op::kSlice).name;
    case Op::kGatherElements:
    case Op::kGatherND:
    case Op::kIndexTensors:
      return op_info(Op::kGather).name;
    case Op::kStack:
      return op_info(Op::kConcat).name;
    case Op::kQuantizeLinear:
      return op_info(Op::kQuantize).name;
    case Op::kDequantizeLinear:
      return op_info(Op::kDequantize).name;
    default:
      return op_info(node.op).name;
  }
}

/// other_kind() with the function of a unary or binary operator.
std::string detailed_kind(const Node& node, const std::string& kind) {
  if (node.op == Op::kUnary) return Cat(kind, ":", to_string(static_cast<const UnaryAttrs&>(*node.attrs).fn));
  if (node.op == Op::kBinary) return Cat(kind, ":", to_string(static_cast<const BinaryAttrs&>(*node.attrs).fn));
  return kind;
}

/// Adds the graphs that a graph runs, itself included.
void add_reached(const Module& module, int graph, std::set<int>& reached) {
  if (!reached.insert(graph).second) return;
  for (const Node& node : module.graphs[static_cast<size_t>(graph)].nodes)
    if (op_info(node.op).flags & kControl)
      for (const int g : op_info(node.op).graphs(*node.attrs)) add_reached(module, g, reached);
}

/// Of the optimised graph, in which Q/DQ pairs are quantized values and activations are part of their operators.
/// `options`: of the conversion, whose shapes the graph has.
Result<Summary> summary_of(const Model& model, convert::Options options) {
  options.simplify = true;
  SMELT_ASSIGN(Module module, convert::prepare(model, *formats::find_writer("onnx"), options));
  Summary s;
  std::set<int> reached;
  add_reached(module, module.methods[0].graph, reached);
  for (const int g : reached) {
    Graph& graph = module.graphs[static_cast<size_t>(g)];
    fuse_attention(graph);
    fuse_quantization(graph, {.softmax = true, .batch_norms = false});
    fuse_activations(graph);
    fuse_pads(graph);
    remove_dead_nodes(graph);
    for (const Node& node : graph.nodes) {
      if (const std::string kind = weighted_kind(node.op); !kind.empty())
        ++s.weighted[kind];
      else if (node.op == Op::kAttention)
        s.weighted[op_info(Op::kMatMul).name] += 2;
      else if (const std::string other = other_kind(graph, node); !other.empty())
        ++s.others[other], ++s.detailed[detailed_kind(node, other)];
      add_quantization(graph, node, s);
    }
  }
  const Graph& main = module.graphs[static_cast<size_t>(module.methods[0].graph)];
  for (const ValueId id : main.inputs)
    if (!main.value(id).constant) s.inputs.push_back(main.value(id).name);
  for (const ValueId id : main.outputs) s.outputs.push_back(main.value(id).name);
  return s;
}

/// How the second differs from the first; empty if it does not. `named`: names count.
std::string difference(const Summary& a, const Summary& b, bool named) {
  std::string text;
  std::set<std::string> ops;
  for (const Summary* s : {&a, &b})
    for (const auto& [op, n] : s->weighted) ops.insert(op);
  for (const std::string& op : ops) {
    const auto count = [&](const Summary& s) { return s.weighted.contains(op) ? s.weighted.at(op) : 0; };
    if (count(a) != count(b)) text += Cat(" ", op, " ", count(a), "->", count(b));
  }
  std::vector<std::string> lost, gained;
  std::ranges::set_difference(a.quantization, b.quantization, std::back_inserter(lost));
  std::ranges::set_difference(b.quantization, a.quantization, std::back_inserter(gained));
  if (!lost.empty()) text += Cat(" lost ", lost.size(), " quantization parameters (", lost[0].substr(0, 40), ")");
  if (!gained.empty()) text += Cat(" gained ", gained.size(), " (", gained[0].substr(0, 40), ")");
  if (named && a.inputs != b.inputs) text += " names of inputs";
  if (named && a.outputs != b.outputs) text += " names of outputs";
  return text;
}

struct RoundTrip {
  const char* folder;  ///< below the corpus
  const char* through;
  double floor;  ///< share of the written networks that come back whole at least
  double lean;   ///< share that come back whole with no more operators of any other kind at least
};

/// Models below a folder; of programs those that are networks.
std::vector<fs::path> networks_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code ec;
  for (const auto& e : fs::recursive_directory_iterator(folder, ec)) {
    const std::string type = e.path().extension().string();
    const bool network = type == ".pte" && e.path().parent_path().filename().string().starts_with("net_");
    if (e.path().stem() == "model" && (type == ".onnx" || type == ".tflite" || network)) files.push_back(e.path());
  }
  std::ranges::sort(files);
  return files;
}

/// Operators without weights that a network has more as it comes back, less where it has fewer.
struct Gained {
  std::map<std::string, int> kinds;     ///< by other_kind()
  std::map<std::string, int> detailed;  ///< by detailed_kind()
  bool none() const {
    return std::ranges::all_of(kinds, [](const auto& k) { return k.second <= 0; });
  }
};

std::map<std::string, int> more_of(const std::map<std::string, int>& before, std::map<std::string, int> after) {
  for (const auto& [kind, n] : before) after[kind] -= n;
  std::erase_if(after, [](const auto& k) { return k.second == 0; });
  return after;
}

/// True if XNNPACK runs parts of a program.
bool has_delegates(const Model& program) {
  return std::ranges::any_of(module_of(program).graphs, [](const Graph& graph) {
    return std::ranges::any_of(graph.nodes, [](const Node& node) { return node.origin.starts_with("XNN"); });
  });
}

/// How a network that is written as `through` and back differs from the first; empty if it does not. An error: why it
/// is not written. `gained` counts the operators without weights that it has more.
Result<std::string> round_trip(const fs::path& file, std::string_view through, Gained& gained) {
  SMELT_ASSIGN(const Model first, Model::load(file.string()));
  const std::string source = module_of(first).format == "executorch" ? "pte" : module_of(first).format;
  const bool program = source == "pte" || through == "pte";
  convert::Options options;
  options.fixed_shapes = program;
  if (through == "pte") options.shapes = test::open_shapes(first, "", file.parent_path());
  SMELT_ASSIGN(const Model there, test::rewritten(first, through, options));
  convert::Options same;
  if (source == "pte" && !has_delegates(first)) same.write.delegate = "none";
  const auto back = test::rewritten(there, source, same);
  if (!back.ok()) return Cat(" back: ", back.error().message());
  // What follows from the shapes of static inputs is no operator.
  options.fixed_shapes =
      program || std::ranges::all_of(first.inputs(), [](const Port& in) { return in.ranked && in.shape.is_static(); });
  SMELT_ASSIGN(const Summary a, summary_of(first, options));
  options.shapes.clear();
  SMELT_ASSIGN(const Summary b, summary_of(*back, options));
  gained = {more_of(a.others, b.others), more_of(a.detailed, b.detailed)};
  return difference(a, b, !program);
}

class ConvertRoundTrip : public testing::TestWithParam<RoundTrip> {};

TEST_P(ConvertRoundTrip, KeepsNetworks) {
  const RoundTrip& p = GetParam();
  const std::vector<fs::path> files = networks_below(corpus_folder() / p.folder);
  if (files.empty()) GTEST_SKIP() << corpus_folder() / p.folder << " holds no networks";
  size_t written = 0, kept = 0, lean = 0;
  std::map<std::string, std::pair<int, int>> causes;  // by kind: networks that have more of it, and how many more
  for (const fs::path& file : files) {
    Gained gained;
    const auto why = round_trip(file, p.through, gained);
    const bool whole = why.ok() && why->empty();
    written += why.ok();
    kept += whole;
    lean += whole && gained.none();
    if (whole && gained.none()) continue;
    std::string text = why.ok() ? *why : Cat(" ", why.error().message());
    for (const auto& [kind, n] : gained.detailed) {
      text += Cat(" ", kind, n > 0 ? " +" : " ", n);
      if (n > 0 && whole) ++causes[kind].first, causes[kind].second += n;
    }
    std::printf("  %s:%s\n", file.parent_path().filename().c_str(), text.c_str());
  }
  const auto share = [&](size_t n) { return written == 0 ? 0 : static_cast<double>(n) / static_cast<double>(written); };
  std::printf(
      "%s: %zu of %zu networks written as %s, %zu come back whole (%.1f %%), %zu with no more other operators\n",
      p.folder, written, files.size(), p.through, kept, 100 * share(kept), lean);
  for (const auto& [kind, n] : causes)
    std::printf("  %3d of the networks that are whole have more %s: %d in all\n", n.first, kind.c_str(), n.second);
  EXPECT_GE(share(kept), p.floor);
  EXPECT_GE(share(lean), p.lean);
}

INSTANTIATE_TEST_SUITE_P(
    Networks, ConvertRoundTrip,
    testing::Values(RoundTrip{"onnx/nets", "tflite", 0.91, 0.42}, RoundTrip{"tflite/nets", "onnx", 1, 0.92},
                    RoundTrip{"onnx/nets", "pte", 0.89, 0.53}, RoundTrip{"tflite/nets", "pte", 1, 0.76},
                    RoundTrip{"pte/portable", "onnx", 1, 1}, RoundTrip{"pte/portable", "tflite", 1, 1},
                    RoundTrip{"pte/xnnpack", "onnx", 1, 0.84}, RoundTrip{"pte/xnnpack", "tflite", 1, 0.76}));

}  // namespace
}  // namespace smelt
