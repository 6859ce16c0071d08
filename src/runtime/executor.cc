#include "runtime/executor.h"

#include <cstdlib>

#include "base/error.h"
#include "tensor/numeric.h"

namespace smelt {

void RunControl::begin(const SessionOptions& o) {
  cancelled_.store(false, std::memory_order_relaxed);
  steps_ = 0;
  held_ = 0;
  max_steps_ = o.limit_steps ? o.limit_steps : 1'000'000'000;
  max_held_ = o.limit_memory ? o.limit_memory : size_t{8} << 30;
  timed_ = o.limit_seconds > 0;
  if (timed_)
    deadline_ = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                       std::chrono::duration<double>(o.limit_seconds));
}

Status RunControl::tick() {
  if (cancelled_.load(std::memory_order_relaxed)) return Error(ErrorCode::kCancelled, "the run was cancelled");
  if (++steps_ > max_steps_) return LimitReached("the run took more than ", max_steps_, " steps");
  if (timed_ && std::chrono::steady_clock::now() > deadline_)
    return LimitReached("the run took longer than its time limit");
  return Ok();
}

Status RunControl::charge(size_t bytes) {
  held_ += bytes;
  if (held_ > max_held_) return LimitReached("the run needs more than ", max_held_, " bytes of memory");
  return Ok();
}

Executor::Executor(std::shared_ptr<const Module> m, const SessionOptions& o)
    : module(std::move(m)), options(o), threads(o.threads) {
  reset_state();
  random_state = options.seed * 0x9e3779b97f4a7c15ull + 0x853c49e6748fea9bull;
}

void Executor::reset_state() {
  states.clear();
  for (const StateVar& s : module->states) {
    if (!s.initial.none()) {
      states.push_back(s.initial);
    } else if (s.type.is_static()) {
      Tensor zeros(s.type.dtype, s.type.shape);
      zeros.set_quant(s.type.quant);
      states.push_back(std::move(zeros));
    } else {
      states.emplace_back();
    }
  }
}

uint64_t Executor::next_random() {
  uint64_t z = (random_state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

namespace {

/// Shape rule at run time: everything is known.
class RunInfer final : public InferContext {
 public:
  RunInfer(const Module& module, const Graph& graph, const Node& node, const std::vector<Datum>& values,
           std::vector<ValueType>& in, std::vector<ValueType>& out)
      : module_(module), graph_(graph), values_(values), in_(in), out_(out) {
    node_ = &node;
  }
  const ValueType& input(int i) const override { return in_[static_cast<size_t>(i)]; }
  const Tensor* constant(int i) const override {
    if (!has(i)) return nullptr;
    const Datum& d = values_[static_cast<size_t>(node_->inputs[static_cast<size_t>(i)])];
    return d.is_tensor() ? &d.tensor : nullptr;
  }
  const Module& module() const override { return module_; }
  void set(int i, ValueType type) override {
    if (i < outputs()) out_[static_cast<size_t>(i)] = std::move(type);
  }
  const ValueType& declared(int i) const override {
    static const ValueType none;
    return wants(i) ? graph_.value(node_->outputs[static_cast<size_t>(i)]).type : none;
  }

 private:
  const Module& module_;
  const Graph& graph_;
  const std::vector<Datum>& values_;
  std::vector<ValueType>& in_;
  std::vector<ValueType>& out_;
};

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

class RunContext final : public KernelContext {
 public:
  RunContext(Executor& ex, const Graph& graph, const Node& node, std::vector<Datum>& values, int depth)
      : ex_(ex), graph_(graph), values_(values), depth_(depth) {
    node_ = &node;
    out_.resize(node.outputs.size());
    in_.reserve(node.inputs.size());
    for (ValueId id : node.inputs) in_.push_back(id == kNone ? Datum{} : values[static_cast<size_t>(id)]);
  }
  ~RunContext() override {
    for (void* p : scratch_) std::free(p);
  }
  const Datum& datum(int i) const override { return in_[static_cast<size_t>(i)]; }
  Tensor& output(int i) override { return out_[static_cast<size_t>(i)].tensor; }
  Result<Tensor*> allocate(int i, DType dtype, const Shape& shape) override {
    SMELT_ASSIGN(Tensor t, make(dtype, shape));
    if (QuantPtr q = output_quant(i)) t.set_quant(q);
    Datum& d = i < outputs() ? out_[static_cast<size_t>(i)] : spare_;
    d = std::move(t);
    return &d.tensor;
  }
  void set_output(int i, Datum value) override {
    if (i < outputs()) out_[static_cast<size_t>(i)] = std::move(value);
  }
  void* scratch(size_t bytes) override {
    void* p = std::aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    if (p) scratch_.push_back(p);
    return p;
  }
  ThreadPool& threads() override { return ex_.threads; }
  Result<std::vector<Datum>> call(int graph, std::span<const Datum> inputs) override {
    return ex_.run(graph, inputs, depth_ + 1);
  }
  Datum& state(int index) override { return ex_.states[static_cast<size_t>(index)]; }
  Status tick() override { return ex_.control.tick(); }
  uint64_t random() override { return ex_.next_random(); }
  const Module& module() const override { return *ex_.module; }
  QuantPtr output_quant(int i) const override {
    return wants(i) ? graph_.value(node_->outputs[static_cast<size_t>(i)]).type.quant : nullptr;
  }

  Result<Tensor> make(DType dtype, const Shape& shape) {
    SMELT_ASSIGN(const int64_t n, shape.checked_elements());
    if (n > (int64_t{1} << 40)) return LimitReached("a tensor of shape ", shape.str(), " is too large");
    SMELT_TRY(ex_.control.charge(Tensor::byte_size(dtype, n)));
    return Tensor::allocate(dtype, shape);
  }

  /// Shape rule, allocation, kernel.
  Status execute() {
    const OpInfo& info = op_info(node_->op);
    if (!info.infer) return Unsupported("operator ", info.name, " has no shape rule");
    if (!info.reference) return Unsupported("operator ", info.name, " has no kernel");
    std::vector<ValueType> in, out(node_->outputs.size());
    for (const Datum& d : in_) in.push_back(type_of(d));
    RunInfer infer(*ex_.module, graph_, *node_, values_, in, out);
    SMELT_TRY(info.infer(infer));
    const bool through_float = !(info.flags & (kMoves | kQuantized | kControl | kContainer | kEffect));
    std::vector<QuantPtr> requantize(node_->outputs.size());
    if (through_float)
      for (Datum& d : in_)
        if (d.is_tensor() && d.tensor.quant() && !is_float(d.tensor.dtype())) {
          SMELT_ASSIGN(Tensor real, make(DType::kF32, d.tensor.shape()));
          dequantize(d.tensor, real.data<float>());
          d = std::move(real);
        }
    if (!(info.flags & (kDynamic | kContainer | kControl))) {
      for (size_t i = 0; i < out.size(); ++i) {
        if (node_->outputs[i] == kNone) continue;
        const ValueType& declared = graph_.value(node_->outputs[i]).type;
        DType dtype = out[i].dtype != DType::kInvalid ? out[i].dtype : declared.dtype;
        if (!out[i].ranked || !out[i].shape.is_static() || dtype == DType::kInvalid)
          return Unsupported("the shape of output ", i, " of ", info.name, " is not known");
        QuantPtr quant = declared.quant ? declared.quant : out[i].quant;
        if (through_float && quant && is_integer(dtype)) {
          requantize[i] = quant;
          dtype = DType::kF32;
          quant = nullptr;
        }
        SMELT_ASSIGN(Tensor t, make(dtype, out[i].shape));
        if (quant) t.set_quant(quant);
        out_[i] = std::move(t);
      }
    }
    SMELT_TRY(info.reference(*this));
    for (size_t i = 0; i < out_.size(); ++i) {
      if (!requantize[i] || !out_[i].is_tensor()) continue;
      SMELT_ASSIGN(Tensor q, make(graph_.value(node_->outputs[i]).type.dtype, out_[i].tensor.shape()));
      q.set_quant(requantize[i]);
      quantize(out_[i].tensor.data<float>(), q);
      out_[i] = std::move(q);
    }
    for (size_t i = 0; i < out_.size(); ++i)
      if (node_->outputs[i] != kNone) values_[static_cast<size_t>(node_->outputs[i])] = std::move(out_[i]);
    return Ok();
  }

 private:
  Executor& ex_;
  const Graph& graph_;
  std::vector<Datum>& values_;
  int depth_;
  std::vector<Datum> in_, out_;
  Datum spare_;
  std::vector<void*> scratch_;
};

}  // namespace

Result<std::vector<Datum>> Executor::run(int index, std::span<const Datum> inputs, int depth) {
  if (depth > 64) return LimitReached("graphs are nested more than 64 deep");
  const Graph& g = module->graphs[static_cast<size_t>(index)];
  if (inputs.size() != g.inputs.size())
    return InvalidInput(inputs.size(), " inputs given, graph '", g.name, "' takes ", g.inputs.size());
  std::vector<Datum> values(g.values.size());
  std::vector<int> uses(g.values.size(), 0);
  for (const Node& n : g.nodes)
    for (ValueId id : n.inputs)
      if (id != kNone) ++uses[static_cast<size_t>(id)];
  for (ValueId id : g.outputs)
    if (id != kNone) ++uses[static_cast<size_t>(id)];
  for (size_t i = 0; i < g.values.size(); ++i)
    if (g.values[i].constant) values[i] = *g.values[i].constant;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Datum d = inputs[i];
    const ValueType& t = g.value(g.inputs[i]).type;
    if (d.is_tensor() && t.quant && !d.tensor.quant()) d.tensor.set_quant(t.quant);
    values[static_cast<size_t>(g.inputs[i])] = std::move(d);
  }
  for (const Node& n : g.nodes) {
    SMELT_TRY(control.tick());
    {
      RunContext ctx(*this, g, n, values, depth);
      if (auto s = ctx.execute(); !s.ok())
        return s.error().within(n.where.empty() ? n.origin : Cat(n.where, " ", n.origin));
    }
    for (ValueId id : n.inputs) {
      if (id == kNone || --uses[static_cast<size_t>(id)] > 0) continue;
      Datum& d = values[static_cast<size_t>(id)];
      if (d.is_tensor() && !g.value(id).constant) control.release(d.tensor.bytes());
      d = Datum{};
    }
  }
  std::vector<Datum> out;
  for (ValueId id : g.outputs) out.push_back(id == kNone ? Datum{} : values[static_cast<size_t>(id)]);
  return out;
}

}  // namespace smelt
