#include "compare/side.h"

#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <unordered_map>

#include "backends/backend.h"
#include "base/error.h"
#include "base/guard.h"
#include "base/mapped_file.h"
#include "compare/peer.h"
#include "ops/common/quantized_pair.h"
#include "ops/core/op.h"
#include "runtime/compiled.h"
#include "runtime/executor.h"
#include "runtime/model_access.h"
#include "runtime/planned_environment.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

constexpr size_t kNoLimit = size_t{1} << 46;

/// Quantization of 8-bit integers that a graph holds without it: what a QuantizeLinear gives or a DequantizeLinear
/// reads, and what moves between these.
class IntegerQuants {
 public:
  IntegerQuants(const Graph& g, bool wanted) : g_(g) {
    if (!wanted) return;
    for (const Node& n : g.nodes) {
      if (n.outputs.empty() || n.inputs.empty()) continue;
      if (n.op == Op::kQuantizeLinear)
        set(n.outputs[0], parameters(n));
      else if (moves(n))
        set(n.outputs[0], of(n.inputs[0]));
    }
    for (size_t k = g.nodes.size(); k-- > 0;) {
      const Node& n = g.nodes[k];
      if (n.outputs.empty() || n.inputs.empty()) continue;
      if (n.op == Op::kDequantizeLinear)
        set(n.inputs[0], parameters(n));
      else if (moves(n))
        set(n.inputs[0], of(n.outputs[0]));
    }
  }
  QuantPtr of(ValueId id) const {
    const auto at = quants_.find(id);
    return at == quants_.end() ? nullptr : at->second;
  }

 private:
  static bool moves(const Node& n) { return (op_info(n.op).flags & (kDataMovement | kView)) && n.op != Op::kConcat; }
  void set(ValueId id, QuantPtr quant) {
    if (!quant || id == kNoValue) return;
    const ValueType& t = g_.value(id).type;
    if (is_8bit(t.dtype) && !t.quant) quants_.emplace(id, std::move(quant));
  }
  /// Constant scale and zero point of the whole tensor; null: there are none.
  QuantPtr parameters(const Node& n) const {
    const auto constant = [&](size_t i) {
      return i < n.inputs.size() && n.inputs[i] != kNoValue ? g_.value(n.inputs[i]).constant.get() : nullptr;
    };
    const Tensor *scale = constant(1), *zero = constant(2);
    if (!scale || scale->elements() != 1 || (zero && zero->elements() != 1) ||
        (!zero && n.inputs.size() > 2 && n.inputs[2] != kNoValue))
      return nullptr;
    auto q = std::make_shared<Quantization>();
    q->scales = {static_cast<float>(get_double(*scale, 0))};
    if (zero) q->zero_points = {static_cast<int32_t>(get_int(*zero, 0))};
    return q;
  }
  const Graph& g_;
  std::unordered_map<ValueId, QuantPtr> quants_;
};

Status show_inputs(const Graph& g, const IntegerQuants& quants, std::span<const Datum> inputs, ValueTap& tap) {
  const Node none;
  for (size_t i = 0; i < inputs.size() && i < g.inputs.size(); ++i) {
    Datum d = inputs[i];
    if (d.is_tensor() && !d.tensor.quant()) {
      const QuantPtr& own = g.value(g.inputs[i]).type.quant;
      d.tensor.set_quant(own ? own : quants.of(g.inputs[i]));
    }
    if (g.inputs[i] != kNoValue) SMELT_TRY(tap.made(none, g.inputs[i], d, true));
  }
  return Ok();
}

using Ranges = std::vector<std::span<const std::byte>>;

/// The bytes of large constants.
Ranges large_constants(const Module& module) {
  constexpr size_t kLarge = size_t{1} << 16;
  Ranges out;
  for (const Graph& g : module.graphs)
    for (const Value& v : g.values)
      if (v.constant && v.constant->dtype() != DType::kString && v.constant->bytes() >= kLarge)
        out.emplace_back(v.constant->unaligned_bytes(), v.constant->bytes());
  return out;
}
/// Gives pages of a mapped file back: loading read them, or they came with a small constant beside them, and kernels
/// have packed their contents.
void release_constants(const Ranges& constants) {
  for (const auto& c : constants) release_pages(c.data(), c.size());
}

/// Keeps a tap in place for one run. It sees the values of the graph.
class Tapped final : ValueTap {
 public:
  Tapped(Environment& env, const Graph& g, const IntegerQuants& quants, const Ranges& constants, ValueTap& tap)
      : env_(env), values_(static_cast<ValueId>(g.values.size())), quants_(quants), constants_(constants), tap_(tap) {
    env_.tap = this;
  }
  ~Tapped() override { env_.tap = nullptr; }
  Status made(const Node& node, ValueId id, Datum& value, bool shared) override {
    constexpr int kOften = 8;
    // A few rows of a table bring many pages with them.
    const bool looks_up = node.op == Op::kGather || node.op == Op::kEmbeddingLookup;
    if (++seen_ % kOften == 0 || looks_up) release_constants(constants_);
    if (id >= values_) return Ok();
    const QuantPtr quant = value.is_tensor() && !value.tensor.quant() ? quants_.of(id) : nullptr;
    if (!quant) return tap_.made(node, id, value, shared);
    value.tensor.set_quant(quant);
    const Status status = tap_.made(node, id, value, shared);
    value.tensor.set_quant(nullptr);
    return status;
  }

 private:
  int seen_ = 0;
  Environment& env_;
  ValueId values_;
  const IntegerQuants& quants_;
  const Ranges& constants_;
  ValueTap& tap_;
};

/// What was freed goes back to the system, also between blocks that live on.
void release_freed_memory() {
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
}

/// The constant, as a view of its own where its bytes are not aligned: the aligned copy that a kernel makes goes with
/// it.
std::shared_ptr<const Tensor> apart(const std::shared_ptr<const Tensor>& t) {
  const std::byte* const bytes = t->unaligned_bytes();
  if (t->bytes() == 0 || reinterpret_cast<uintptr_t>(bytes) % Tensor::byte_size(t->dtype(), 1) == 0) return t;
  Tensor view = Tensor::unaligned_view(t->dtype(), t->shape(), bytes, t->owner());
  view.set_quant(t->quant());
  return std::make_shared<const Tensor>(std::move(view));
}

std::shared_ptr<const Module> apart(const Module& module) {
  auto copy = std::make_shared<Module>(module);
  for (Graph& g : copy->graphs)
    for (Value& v : g.values)
      if (v.constant) v.constant = apart(v.constant);
  return copy;
}

/// A run in the host's memory, which a tap sees node by node.
class HostSide final : public Side {
 public:
  using Make = std::function<std::unique_ptr<Environment>(std::shared_ptr<const Module>)>;
  HostSide(std::string label, std::shared_ptr<const Module> module, int graph, Make make)
      : Side(std::move(label), std::move(module), graph),
        make_(std::move(make)),
        constants_(large_constants(*module_)) {
    release_constants(constants_);
  }
  Status run(std::span<const Datum> inputs, ValueTap& tap) override {
    return guarded([&]() -> Status {
      if (!env_) env_ = make_(apart(*module_));
      const IntegerQuants quants(graph(), shows_parameters_);
      SMELT_TRY(show_inputs(graph(), quants, inputs, tap));
      env_->reset_state();
      env_->control.begin(env_->options, env_->size, inputs);
      const Tapped tapped(*env_, graph(), quants, constants_, tap);
      SMELT_TRY(env_->call(graph_, inputs, 0));
      return Ok();
    });
  }
  void rest() override {
    env_.reset();
    release_freed_memory();
    release_constants(constants_);
  }
  bool takes_changes() const override { return true; }

 private:
  Make make_;
  Ranges constants_;
  std::unique_ptr<Environment> env_;  ///< null: resting
};

/// A run on a device: values are made outputs of the graph, as many at a time as take some memory.
class DeviceSide final : public Side {
 public:
  DeviceSide(std::string label, std::shared_ptr<const Module> module, int graph, SessionOptions options,
             std::vector<OpenBackend> backends)
      : Side(std::move(label), std::move(module), graph),
        options_(std::move(options)),
        backends_(std::move(backends)) {}
  Status run(std::span<const Datum> inputs, ValueTap& tap) override {
    return guarded([&]() -> Status {
      SMELT_TRY(show_inputs(graph(), IntegerQuants(graph(), shows_parameters_), inputs, tap));
      for (const std::vector<ValueId>& some : groups()) SMELT_TRY(show(some, inputs, tap));
      return Ok();
    });
  }

 private:
  /// Values that nodes make, in their order.
  std::vector<std::vector<ValueId>> groups() const {
    constexpr size_t kTogether = size_t{256} << 20;
    std::vector<std::vector<ValueId>> out(1);
    size_t bytes = 0;
    for (const Node& n : graph().nodes)
      for (const ValueId id : n.outputs) {
        if (id == kNoValue || graph().value(id).type.kind != ValueType::Kind::kTensor) continue;
        const ValueType& t = graph().value(id).type;
        bytes += t.is_static() ? Tensor::byte_size(t.dtype, t.shape.elements()) : size_t{1} << 20;
        if (bytes > kTogether && !out.back().empty()) {
          out.emplace_back();
          bytes = 0;
        }
        out.back().push_back(id);
      }
    return out;
  }
  Status show(const std::vector<ValueId>& values, std::span<const Datum> inputs, ValueTap& tap) {
    auto module = std::make_shared<Module>(*module_);
    Graph& g = module->graphs[static_cast<size_t>(graph_)];
    for (const ValueId id : values) g.outputs.push_back(id);
    std::vector<std::shared_ptr<BackendModel>> models;
    for (const OpenBackend& b : backends_) models.push_back(b.backend->make_model(b.device, CompileMode::kRun));
    PlannedEnvironment env(module, options_, std::move(models));
    env.control.begin(env.options, env.size, inputs);
    SMELT_ASSIGN(std::vector<Datum> outputs, env.call(graph_, inputs, 0));
    const Node none;
    for (size_t i = 0; i < values.size(); ++i)
      SMELT_TRY(tap.made(none, values[i], outputs[outputs.size() - values.size() + i], false));
    return Ok();
  }
  SessionOptions options_;
  std::vector<OpenBackend> backends_;
};

Result<int> graph_of(const Module& module, const std::string& method) {
  const Method* found = module.find_method(method);
  if (!found) return InvalidInput("no method '", method, "' in ", module.name);
  if (!found->refusal.empty()) return Unsupported(module.name, ": ", found->refusal);
  return found->graph;
}

SessionOptions session_options(const SideOptions& o) {
  SessionOptions out;
  out.threads = o.threads;
  out.limit_memory = kNoLimit;
  out.limit_steps = uint64_t{1} << 40;
  out.strict_types = o.strict_types;
  return out;
}

bool is_peer(const std::string& where) { return where == "onnxruntime" || where == "litert" || where == "executorch"; }

}  // namespace

bool Side::has_quantized_values() const {
  return std::ranges::any_of(graph().values,
                             [](const Value& v) { return !v.constant && v.type.quant && is_8bit(v.type.dtype); });
}

SideName parse_side(const std::string& text) {
  std::error_code ec;
  const size_t at = text.rfind('@');
  if (at == std::string::npos || at == 0 || std::filesystem::exists(text, ec)) return {text, ""};
  const std::string where = text.substr(at + 1);
  const bool word = !where.empty() && std::ranges::all_of(where, [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  if (!word) return {text, ""};
  return {text.substr(0, at), where};
}

std::shared_ptr<const Module> without_defaults(const Model& model) {
  auto copy = std::make_shared<Module>(module_of(model));
  for (const Method& method : copy->methods) {
    Graph& g = copy->graphs[static_cast<size_t>(method.graph)];
    std::erase_if(g.inputs, [&](ValueId id) { return id != kNoValue && g.value(id).constant; });
  }
  return copy;
}

namespace {

/// Plans for back-ends that work in the host's memory.
std::unique_ptr<Side> planned_side(std::string label, std::shared_ptr<const Module> module, int graph,
                                   const SessionOptions& options, const std::vector<OpenBackend>& backends) {
  return std::make_unique<HostSide>(
      std::move(label), std::move(module), graph, [options, backends](std::shared_ptr<const Module> m) {
        std::vector<std::shared_ptr<BackendModel>> models;
        for (const OpenBackend& b : backends) models.push_back(b.backend->make_model(b.device, CompileMode::kRun));
        return std::make_unique<PlannedEnvironment>(std::move(m), options, std::move(models));
      });
}

}  // namespace

Result<std::unique_ptr<Side>> open_module(std::string label, std::shared_ptr<const Module> module, int graph,
                                          const SideOptions& o) {
  const SessionOptions options = session_options(o);
  SMELT_ASSIGN(const auto backends, open_backends(options));
  return planned_side(std::move(label), std::move(module), graph, options, backends);
}

Result<std::unique_ptr<Side>> open_side(const std::string& name, const Model& model, const SideOptions& o) {
  const std::string where = parse_side(name).where;
  SMELT_ASSIGN(const int graph, graph_of(module_of(model), o.method));
  if (where.empty()) return open_module(name, without_defaults(model), graph, o);
  if (is_peer(where)) return open_peer(name, parse_side(name).file, where, without_defaults(model), graph);
  SessionOptions options = session_options(o);
  if (where == BackendKind::kReference.name()) {
    return std::unique_ptr<Side>(std::make_unique<HostSide>(
        name, without_defaults(model), graph,
        [options](std::shared_ptr<const Module> m) { return std::make_unique<Executor>(std::move(m), options); }));
  }
  if (find_backend(where))
    options.backend = where;
  else
    options.isa = where;
  auto opened = open_backends(options);
  if (!opened.ok()) {
    if (find_backend(where)) return opened.error();
    std::string names = BackendKind::kReference.name();
    for (const Backend* b : all_backends()) names += Cat(", ", b->name());
    return InvalidInput("nothing is called '", where, "' (", name, "); after the @ stands one of ", names,
                        ", onnxruntime, litert, executorch, or a level of the CPU's kernels (`smelt devices`)");
  }
  SMELT_ASSIGN(auto module,
               ModelAccess::compiled(model)->module(InputDefaults::kConstant, requirements(*opened, options)));
  if (opened->front().backend->memory() == MemorySpace::kDevice)
    return std::unique_ptr<Side>(
        std::make_unique<DeviceSide>(name, std::move(module), graph, options, std::move(opened).value()));
  return planned_side(name, std::move(module), graph, options, *opened);
}

}  // namespace smelt
