#include "runtime/environment.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_set>

#include "base/checked.h"
#include "base/error.h"
#include "ops/core/node_infer.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// Texts may hold one byte for so many of the memory limit: they are copied as values move.
constexpr size_t kTextWeight = 16;

struct Extent {
  size_t bytes = 0, items = 0;
};

void measure(const Datum& d, Extent& e) {
  if (d.is_tensor()) {
    e.bytes += d.tensor.bytes();
    if (d.tensor.dtype() == DType::kString && d.tensor.raw())
      for (int64_t i = 0; i < d.tensor.elements(); ++i) e.bytes += d.tensor.data<std::string>()[i].size();
  } else if (d.items) {
    e.items += d.items->size();
    for (const Datum& item : *d.items) measure(item, e);
  }
}

Extent measure(std::span<const Datum> values) {
  Extent e;
  for (const Datum& d : values) measure(d, e);
  return e;
}

/// Half of the machine's memory in bytes.
uint64_t half_of_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) / 2 : 0;
}

}  // namespace

ModelSize size_of(const Module& module) {
  ModelSize size;
  std::unordered_set<const Tensor*> seen;
  for (const Graph& g : module.graphs) {
    size.nodes += g.nodes.size();
    for (const Value& v : g.values)
      if (v.constant && seen.insert(v.constant.get()).second) size.constants += v.constant->bytes();
  }
  const uint64_t most = half_of_memory();
  for (const Method& m : module.methods) {
    uint64_t planned = 0;
    for (const uint64_t bytes : m.planned) planned = std::min(most, planned + std::min(most, bytes));
    size.planned = std::max(size.planned, static_cast<size_t>(planned));
  }
  return size;
}

void RunControl::begin(const SessionOptions& o, const ModelSize& model, std::span<const Datum> inputs) {
  const size_t given = measure(inputs).bytes;
  cancelled_.store(false, std::memory_order_relaxed);
  steps_ = 0;
  held_ = 0;
  max_steps_ = o.limit_steps ? o.limit_steps : 1'000'000 + 16'384 * model.nodes + (given + model.constants) / 16;
  max_held_ = o.limit_memory ? o.limit_memory : (size_t{1} << 30) + 64 * given + 16 * model.constants + model.planned;
  max_grown_ = o.limit_memory ? o.limit_memory : (size_t{24} << 20) + 4 * (given + model.constants);
  max_body_ = o.limit_memory ? o.limit_memory : (size_t{96} << 20) + 64 * given + 16 * model.constants + model.planned;
  std::fill(first_entry_.begin(), first_entry_.end(), 0);
  constexpr double kForever = 1e9;  // what no clock counts to
  timed_ = o.limit_seconds > 0 && o.limit_seconds < kForever;
  if (timed_)
    deadline_ = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                       std::chrono::duration<double>(o.limit_seconds));
}

Status RunControl::check_limits() const {
  if (cancelled_.load(std::memory_order_relaxed)) return Error(ErrorCode::kCancelled, "the run was cancelled");
  if (steps_ > max_steps_) return LimitReached("the run took more than ", max_steps_, " steps");
  if (timed_ && std::chrono::steady_clock::now() > deadline_)
    return LimitReached("the run took longer than its time limit");
  return Ok();
}

Status RunControl::enter(int graph, std::span<const Datum> inputs) {
  const Extent e = measure(inputs);
  if (first_entry_.size() <= static_cast<size_t>(graph)) first_entry_.resize(static_cast<size_t>(graph) + 1, 0);
  size_t& first = first_entry_[static_cast<size_t>(graph)];
  if (first == 0) first = e.bytes + 1;
  if (e.bytes > max_grown_ && e.bytes / 8 > first)
    return LimitReached("the values of a loop grew from ", first - 1, " to ", e.bytes, " bytes; up to ", max_grown_,
                        " bytes are expected here, a memory limit of the caller allows more");
  return spend(1 + e.bytes / 1024 + e.items / 8);
}

Status RunControl::charge(size_t bytes) {
  held_ += bytes;
  if (held_ > max_held_) return LimitReached("the run needs more than ", max_held_, " bytes of memory");
  return Ok();
}

Status RunControl::check_text(std::span<const Datum> inputs, int64_t elements) const {
  size_t longest = 0;
  for (const Datum& d : inputs) {
    if (!d.is_tensor() || d.tensor.dtype() != DType::kString || !d.tensor.raw()) continue;
    size_t most = 0;
    for (int64_t i = 0; i < d.tensor.elements(); ++i) most = std::max(most, d.tensor.data<std::string>()[i].size());
    longest += most;
  }
  if (elements > 0 && longest > max_held_ / kTextWeight / static_cast<size_t>(elements))
    return LimitReached(elements, " texts of up to ", longest, " bytes need too much memory");
  return Ok();
}

Status RunControl::check(size_t bytes) {
  auto s = charge(bytes);
  release(bytes);
  return s;
}

Status RunControl::check_plan(size_t bytes, GraphRole role) {
  auto s = charge_plan(bytes, role);
  release(bytes);
  return s;
}

Status RunControl::charge_plan(size_t bytes, GraphRole role) {
  SMELT_TRY(charge(bytes));
  if (role == GraphRole::kBody && bytes > max_body_)
    return LimitReached("the graph inside needs ", bytes, " bytes; up to ", max_body_,
                        " bytes are expected here, a memory limit of the caller allows more");
  return Ok();
}

namespace {
/// Of the threads that a session has of its own.
ThreadPool::Chunks chunks_of(const SessionOptions& o) {
  return o.deterministic ? ThreadPool::Chunks::kFixed : ThreadPool::Chunks::kAny;
}
}  // namespace

Environment::Environment(std::shared_ptr<const Module> m, const SessionOptions& o)
    : module(std::move(m)),
      options(o),
      size(size_of(*module)),
      pool(o.thread_pool ? o.thread_pool : std::make_shared<ThreadPool>(o.threads, chunks_of(o))),
      threads(*pool),
      one_thread(1, chunks_of(o)) {
  Environment::reset_state();
  random_state_ = options.seed * 0x9e3779b97f4a7c15ull + 0x853c49e6748fea9bull;
}

namespace {
Datum initial_state(const StateVar& s) {
  // Written in place, while the initial value may lie in the mapped file.
  if (!s.initial.none()) return s.initial.is_tensor() ? Datum(s.initial.tensor.clone()) : s.initial;
  if (!s.type.is_static()) return {};
  Tensor zeros(s.type.dtype, s.type.shape);
  zeros.set_quant(s.type.quant);
  return zeros;
}
}  // namespace

void Environment::reset_state() {
  states.resize(module->states.size());
  for (size_t i = 0; i < states.size(); ++i) states[i] = initial_state(module->states[i]);
}

uint64_t Environment::next_random() {
  uint64_t z = (random_state_ += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

ValueType type_of(const Datum& d) {
  if (d.is_tensor()) return ValueType::tensor(d.tensor.dtype(), d.tensor.shape(), d.tensor.quant());
  ValueType t;
  if (d.kind == Datum::Kind::kSequence) {
    t.kind = ValueType::Kind::kSequence;
    t.element =
        std::make_shared<const ValueType>(d.items && !d.items->empty() ? type_of(d.items->front()) : ValueType{});
  } else if (d.kind == Datum::Kind::kMap) {
    t.kind = ValueType::Kind::kMap;
  } else {
    t.kind = ValueType::Kind::kOptional;
  }
  return t;
}

bool has_type(const Datum& d, const ValueType& t) {
  if (!d.is_tensor()) return t.kind != ValueType::Kind::kTensor;
  return t.kind == ValueType::Kind::kTensor && d.tensor.dtype() == t.dtype && d.tensor.shape() == t.shape;
}

namespace {

/// Shape rule at run time: everything is known.
class RunInfer final : public NodeInfer {
 public:
  RunInfer(const Module& module, const Graph& graph, const Node& node, const std::vector<Datum>& in,
           InferredTypes& types)
      : NodeInfer(module, graph, node, types.outputs), in_(in), inputs_(types.inputs) {}
  const ValueType& input(int i) const override { return inputs_[static_cast<size_t>(i)]; }
  const Tensor* constant(int i) const override {
    if (i >= inputs() || !in_[static_cast<size_t>(i)].is_tensor()) return nullptr;
    reads_contents_ = reads_contents_ || !is_fixed(i);
    return &in_[static_cast<size_t>(i)].tensor;
  }
  /// True if the rule has asked for contents that another run may change.
  bool reads_contents() const { return reads_contents_; }

 private:
  bool is_fixed(int i) const {
    return graph_.values[value_of(i)].constant &&
           std::ranges::find(graph_.inputs, static_cast<ValueId>(value_of(i))) == graph_.inputs.end();
  }
  const std::vector<Datum>& in_;
  const std::vector<ValueType>& inputs_;
  mutable bool reads_contents_ = false;
};

class NodeRun final : public RunContext {
 public:
  NodeRun(Environment& env, const Graph& graph, const Node& node, std::vector<Datum>&& in, std::vector<Datum>& out,
          int depth, InferredTypes& types)
      : RunContext(env, node, depth),
        graph_(graph),
        info_(op_info(node.op)),
        in_(std::move(in)),
        out_(out),
        types_(types) {
    out_.clear();
    out_.resize(node.outputs.size());
    through_float_ = !(info_.flags & (kDataMovement | kQuantized | kControl | kContainer | kEffect));
  }
  const Datum& datum(int i) const override { return in_[static_cast<size_t>(i)]; }
  Tensor& output(int i) override { return out_[static_cast<size_t>(i)].tensor; }
  Result<Tensor*> allocate(int i, DType dtype, const Shape& shape) override {
    SMELT_ASSIGN(Tensor t, make(dtype, shape));
    if (QuantPtr q = output_quant(i)) {
      if (through_float_ && is_float(dtype))
        requantize(static_cast<size_t>(i)) = q;
      else
        t.set_quant(q);
    }
    Datum& d = i < outputs() ? out_[static_cast<size_t>(i)] : spare_;
    d = std::move(t);
    return &d.tensor;
  }
  void set_output(int i, Datum value) override {
    // What a kernel hands over counts as held until the node's reader is done with it, like what it allocates.
    if (value.is_tensor())
      if (auto s = env_.control.charge(value.tensor.bytes()); !s.ok()) limit_ = s;
    if (i < outputs()) out_[static_cast<size_t>(i)] = std::move(value);
  }
  void* scratch(size_t bytes) override {
    if (!env_.control.charge(bytes).ok()) return nullptr;
    const size_t padded = bytes + kSlack;
    std::shared_ptr<void> block =
        bytes < BlockPool::kLeast
            ? std::shared_ptr<void>(std::aligned_alloc(kSlack, round_up(padded, kSlack)), [](void* p) { std::free(p); })
            : env_.blocks->take(padded);
    env_.control.release(bytes);
    void* const p = block.get();
    scratch_.push_back(std::move(block));
    return p;
  }
  QuantPtr output_quant(int i) const override {
    return wants(i) ? graph_.value(node_->outputs[static_cast<size_t>(i)]).type.quant : nullptr;
  }

  /// Shape rule, allocation, kernel.
  Status execute() {
    if (!info_.infer) return Unsupported("operator ", info_.name, " has no shape rule");
    if (!info_.reference) return Unsupported("operator ", info_.name, " has no kernel");
    SMELT_TRY(infer_types());
    if (through_float_) SMELT_TRY(dequantize_inputs());
    if (is_shared_view(types_.outputs)) {
      set_output(0, Datum(in_[0].tensor.reshaped(types_.outputs[0].shape)));
      return limit_;
    }
    if (!(info_.flags & (kDynamic | kContainer | kControl))) {
      SMELT_TRY(allocate_outputs(types_.outputs));
      if (nothing_to_compute(*node_, [&](size_t i) { return out_[i].tensor.elements() == 0; }))
        return quantize_outputs();
    }
    SMELT_ASSIGN(const bool done, run_fast(types_.inputs, types_.outputs));
    if (!done) {
      clear_outputs();
      SMELT_TRY(info_.reference(*this));
    }
    SMELT_TRY(limit_);
    return quantize_outputs();
  }
  /// The memory of what held the inputs.
  std::vector<Datum> take_inputs() {
    in_.clear();
    return std::move(in_);
  }

 private:
  /// Runs the shape rule, unless the types that it gave last hold for these inputs.
  Status infer_types() {
    const auto same = [](const Datum& d, const ValueType& t) { return has_type(d, t) && d.tensor.quant() == t.quant; };
    if (types_.given) return Ok();
    if (types_.hold && std::equal(in_.begin(), in_.end(), types_.inputs.begin(), types_.inputs.end(), same))
      return Ok();
    types_.hold = false;
    types_.inputs.clear();
    for (const Datum& d : in_) types_.inputs.push_back(type_of(d));
    types_.outputs.assign(node_->outputs.size(), {});
    RunInfer infer(*env_.module, graph_, *node_, in_, types_);
    SMELT_TRY(info_.infer(infer));
    types_.hold =
        !infer.reads_contents() && std::ranges::all_of(in_, [](const Datum& d) { return d.none() || d.is_tensor(); });
    return Ok();
  }
  /// How output i, which the kernel makes in float32, is quantized; one of the outputs has this at least.
  QuantPtr& requantize(size_t i) {
    requantize_.resize(node_->outputs.size());
    return requantize_[i];
  }
  Result<Tensor> make(DType dtype, const Shape& shape, bool zero = true) {
    SMELT_ASSIGN(const int64_t n, shape.checked_elements());
    if (n > (int64_t{1} << 40)) return LimitReached("a tensor of shape ", shape.str(), " is too large");
    SMELT_TRY(env_.control.charge(Tensor::byte_size(dtype, n)));
    if (dtype == DType::kString) SMELT_TRY(env_.control.check_text(in_, n));
    const size_t bytes = Tensor::byte_size(dtype, n), padded = bytes + kSlack;
    if (dtype == DType::kString || bytes < BlockPool::kLeast) return Tensor::allocate(dtype, shape, zero);
    std::shared_ptr<void> block = env_.blocks->take(padded);
    if (!block) return LimitReached("no memory for a tensor of ", bytes, " bytes");
    auto* const memory = static_cast<std::byte*>(block.get());
    std::fill(memory + (zero ? 0 : bytes), memory + padded, std::byte{0});
    return Tensor::view(dtype, shape, memory, std::move(block));
  }

  /// True if the output is the storage of an input that ends with this run and that nobody else holds: neither a
  /// variable nor the caller.
  bool is_shared_view(const std::vector<ValueType>& types) const {
    constexpr long kHeldHere = 2;  // by the graph's value, and by in_
    if (!(info_.flags & kView) || env_.tap || !in_[0].is_tensor()) return false;
    const Tensor& x = in_[0].tensor;
    const auto& results = graph_.outputs;
    return x.owner() && x.owner().use_count() <= kHeldHere && x.dtype() != DType::kString && !x.quant() &&
           !output_quant(0) && types[0].dtype == x.dtype() && types[0].ranked && types[0].shape.is_static() &&
           types[0].shape.elements() == x.elements() && std::ranges::find(results, node_->outputs[0]) == results.end();
  }

  /// Reference kernels find their outputs zeroed.
  void clear_outputs() {
    for (Datum& d : out_)
      if (d.is_tensor() && d.tensor.dtype() != DType::kString && d.tensor.bytes() > 0)
        std::memset(d.tensor.raw(), 0, d.tensor.bytes());
  }

  /// Only plain tensors: what passes through float32 is the reference kernel's business.
  Result<bool> run_fast(const std::vector<ValueType>& in, const std::vector<ValueType>& out) {
    if (runs_by_reference(info_) || !requantize_.empty()) return false;
    for (const ValueType& t : in)
      if (t.quant || t.kind != ValueType::Kind::kTensor) return false;
    for (size_t i = 0; i < out.size(); ++i)
      if (node_->outputs[i] != kNoValue && (out_[i].tensor.quant() || out_[i].tensor.dtype() != out[i].dtype))
        return false;
    return env_.run_fast(graph_, *node_, *this, in, out);
  }

  Status dequantize_inputs() {
    for (Datum& d : in_) {
      if (!d.is_tensor() || !d.tensor.quant() || is_float(d.tensor.dtype())) continue;
      SMELT_ASSIGN(Tensor real, make(DType::kF32, d.tensor.shape()));
      dequantize(d.tensor, real.data<float>());
      env_.control.release(real.bytes());
      d = std::move(real);
    }
    return Ok();
  }

  Status allocate_outputs(const std::vector<ValueType>& types) {
    for (size_t i = 0; i < types.size(); ++i) {
      if (node_->outputs[i] == kNoValue) continue;
      const ValueType& declared = graph_.value(node_->outputs[i]).type;
      DType dtype = types[i].dtype != DType::kInvalid ? types[i].dtype : declared.dtype;
      if (!types[i].ranked || !types[i].shape.is_static() || dtype == DType::kInvalid)
        return Unsupported("the shape of output ", i, " of ", info_.name, " is not known");
      QuantPtr quant = declared.quant ? declared.quant : types[i].quant;
      if (through_float_ && quant && is_integer(dtype)) {
        requantize(i) = quant;
        dtype = DType::kF32;
        quant = nullptr;
      }
      SMELT_ASSIGN(Tensor t, make(dtype, types[i].shape, false));
      if (quant) t.set_quant(quant);
      out_[i] = std::move(t);
    }
    return Ok();
  }

  Status quantize_outputs() {
    for (size_t i = 0; i < requantize_.size(); ++i) {
      if (!requantize_[i] || !out_[i].is_tensor()) continue;
      SMELT_ASSIGN(Tensor q, make(graph_.value(node_->outputs[i]).type.dtype, out_[i].tensor.shape()));
      q.set_quant(requantize_[i]);
      quantize(out_[i].tensor.data<float>(), q, q.quant()->rounding != Rounding::kFloatHalfEven);
      env_.control.release(out_[i].tensor.bytes());
      out_[i] = std::move(q);
    }
    return Ok();
  }

  static constexpr size_t kSlack = 64;  ///< bytes behind a tensor that vector kernels may read
  const Graph& graph_;
  const OpInfo& info_;
  bool through_float_ = false;
  std::vector<Datum> in_;
  std::vector<Datum>& out_;
  InferredTypes& types_;
  std::vector<QuantPtr> requantize_;  ///< by output; empty: none
  Status limit_;
  Datum spare_;
  std::vector<std::shared_ptr<void>> scratch_;
};

}  // namespace

bool nothing_to_compute(const Node& node, const std::function<bool(size_t)>& empty) {
  bool any = false;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    if (!empty(i)) return false;
    any = true;
  }
  return any && !(op_info(node.op).flags & kEffect);
}

Status execute_node(Environment& env, const Graph& graph, const Node& node, std::vector<Datum>&& in,
                    std::vector<Datum>& out, int depth, InferredTypes& types) {
  NodeRun run(env, graph, node, std::move(in), out, depth, types);
  Status done = run.execute();
  in = run.take_inputs();
  return done;
}

}  // namespace smelt
