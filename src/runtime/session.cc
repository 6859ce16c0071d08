#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/guard.h"
#include "base/suggest.h"
#include "runtime/compiled.h"
#include "runtime/executor.h"
#include "runtime/model_access.h"
#include "runtime/owned_outputs.h"
#include "runtime/planned_environment.h"
#include "runtime/run_queue.h"
#include "smelt/model.h"

namespace smelt {

struct Session::Impl {
  std::shared_ptr<const Module> model;  ///< as loaded, or what describes its inputs and outputs
  std::shared_ptr<Compiled> compiled;
  GraphRequirements requirements;       ///< of the session's back-ends
  std::unique_ptr<Executor> reference;  ///< one of the two
  std::unique_ptr<PlannedEnvironment> planned;
  std::unique_ptr<PlannedEnvironment> overriding;  ///< made for the first run that overrides an input's default
  std::mutex making;                               ///< guards `overriding` and `queue`
  PlannedEnvironment* chosen = nullptr;            ///< of the two, for this run
  std::string method;                              ///< of the options
  int graph = 0;                                   ///< of the session's method
  int latest = 0;                                  ///< ran last
  bool reset = false;                              ///< variables go back to their initial values before the next run
  std::vector<Datum> inputs, outputs;
  std::atomic<bool> ending = false;  ///< the session is destroyed: nothing begins any more
  std::unique_ptr<RunQueue> queue;   ///< of run_async(); ends before what it runs on

  ~Impl() {
    if (!queue) return;
    ending = true;
    queue->stop();
    cancel();
    queue.reset();
  }
  void cancel();
  /// Calls `f(environment, index of a graph, plan of it)` for each plan of this session.
  template <class F>
  void for_each_plan(const F& f) const {
    for (const auto* env : {planned.get(), overriding.get()})
      for (size_t g = 0; env && g < env->module->graphs.size(); ++g)
        for (const auto& plan : env->plans(static_cast<int>(g))) f(*env, g, *plan);
  }
  Environment& environment() { return planned ? static_cast<Environment&>(*planned) : *reference; }
  Result<std::span<const Datum>> run(int graph, std::span<const Datum> given, const GraphCall& call);
  Result<std::vector<Datum>> run_owned(int graph, std::span<const Datum> given);  ///< gives the outputs away
  Result<std::vector<Port>> prepare(std::span<const Datum> given);
  /// Begins a run: checks what was given and keeps it, with defaults for what was left out, and chooses where it runs.
  Status take(int graph, std::span<const Datum> given, ContentUse contents);
  Environment& running() { return chosen ? static_cast<Environment&>(*chosen) : environment(); }
  bool lent(const Datum& d) const;

 private:
  Status choose(const Graph& graph, std::span<const Datum> given);
};

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

namespace {

Result<int> graph_of(const Module& module, const std::string& method) {
  if (const Method* found = module.find_method(method)) {
    if (!found->refusal.empty()) return Unsupported(module.name, ": ", found->refusal);
    return found->graph;
  }
  std::string known;
  for (const Method& m : module.methods) known += Cat(known.empty() ? "" : ", ", m.name);
  return InvalidInput("no method '", method, "'; the model has: ", known);
}

Status check(const SessionOptions& o) {
  if (o.threads < 1 || o.threads > SessionOptions::kMaxThreads)
    return InvalidInput("SessionOptions::threads is ", o.threads, ", 1 to ", SessionOptions::kMaxThreads, " expected");
  if (o.device < -1)
    return InvalidInput("SessionOptions::device is ", o.device, ", the index of a device or -1 expected");
  if (o.device_storage != DeviceStorage::kAuto && o.device_storage != DeviceStorage::kBuffer &&
      o.device_storage != DeviceStorage::kTexture)
    return InvalidInput("SessionOptions::device_storage is ", static_cast<int>(o.device_storage), ", which is none");
  if (!(o.limit_seconds >= 0))
    return InvalidInput("SessionOptions::limit_seconds is ", o.limit_seconds, ", at least 0 expected");
  if (o.deterministic && o.thread_pool)
    return InvalidInput("SessionOptions::deterministic excludes SessionOptions::thread_pool");
  if (o.max_plans < 1) return InvalidInput("SessionOptions::max_plans is 0, at least 1 expected");
  return Ok();
}

const char* kind_name(const Datum& d) {
  switch (d.kind) {
    case Datum::Kind::kTensor:
      return d.tensor.defined() ? "a tensor" : "an undefined tensor";
    case Datum::Kind::kSequence:
      return d.items ? "a sequence" : "an undefined sequence";
    case Datum::Kind::kMap:
      return d.items && d.items->size() == 2 ? "a map" : "an undefined map";
    case Datum::Kind::kNone:
      break;
  }
  return "missing";
}

/// True if `d` is of the kind that the type asks for, its elements included.
bool fits(const ValueType& want, const Datum& d) {
  switch (want.kind) {
    case ValueType::Kind::kTensor:
      return d.is_tensor() && d.tensor.defined();
    case ValueType::Kind::kOptional:
      return d.none() || !want.element || fits(*want.element, d);
    case ValueType::Kind::kSequence:
      return d.kind == Datum::Kind::kSequence && d.items &&
             std::all_of(d.items->begin(), d.items->end(),
                         [&](const Datum& e) { return !want.element || fits(*want.element, e); });
    case ValueType::Kind::kMap:
      return d.kind == Datum::Kind::kMap && d.items && d.items->size() == 2;
  }
  return false;
}

/// Without "optional".
const ValueType& input_type(const Value& v) {
  return v.type.kind == ValueType::Kind::kOptional && v.type.element ? *v.type.element : v.type;
}

/// An error unless a caller's tensors are what they say: their elements fill their shapes and, where they are read, are
/// there.
Status check_tensors(const Datum& d, ContentUse contents) {
  if (d.items)
    for (const Datum& e : *d.items) SMELT_TRY(check_tensors(e, contents));
  if (!d.is_tensor()) return Ok();
  const Tensor& t = d.tensor;
  if (const auto n = t.shape().checked_elements(); !n.ok() || *n != t.elements())
    return InvalidInput("has ", t.elements(), " elements, which don't make its shape ", t.shape().str());
  if (contents == ContentUse::kRead && !t.identity() && t.elements() > 0) return InvalidInput("has no data");
  return Ok();
}

/// The model's quantization counts, not what a caller's tensors carry.
void requantize(Datum& d, const QuantPtr& quant) {
  if (d.is_tensor()) d.tensor.set_quant(quant);
  if (!d.items) return;
  d.items = std::make_shared<std::vector<Datum>>(*d.items);
  for (Datum& e : *d.items) requantize(e, nullptr);
}

enum class Dims : uint8_t {
  kExact,      ///< known dimensions are demands
  kResizable,  ///< a caller's shapes replace them
};

Status check_input(const Value& v, size_t i, const Datum& d, Dims dims) {
  if (!fits(v.type, d)) {
    if (d.none()) return InvalidInput("input ", i, " '", v.name, "' is missing");
    return InvalidInput("input ", i, " '", v.name, "' is ", kind_name(d), ", the model takes ", v.type.str());
  }
  const ValueType& want = input_type(v);
  if (want.kind != ValueType::Kind::kTensor || !d.is_tensor()) return Ok();
  const Tensor& t = d.tensor;
  if (want.dtype != DType::kInvalid && t.dtype() != want.dtype)
    return InvalidInput("input ", i, " '", v.name, "' is ", to_string(t.dtype()), ", the model takes ",
                        to_string(want.dtype));
  if (want.ranked && t.rank() != want.shape.rank())
    return InvalidInput("input ", i, " '", v.name, "' has shape ", t.shape().str(), ", the model takes ",
                        want.shape.str());
  for (int k = 0; dims == Dims::kExact && want.ranked && k < t.rank(); ++k)
    if (want.shape[k] >= 0 && want.shape[k] != t.dim(k))
      return InvalidInput("input ", i, " '", v.name, "' has shape ", t.shape().str(), ", the model takes ",
                          want.shape.str());
  if (!v.bound.empty()) {
    const Shape bound{std::span<const int64_t>(v.bound)};
    if (t.elements() > bound.elements())
      return InvalidInput("input ", i, " '", v.name, "' has shape ", t.shape().str(), ", the model takes at most ",
                          bound.str());
  }
  return Ok();
}

/// Copies the elements of an output into `to`, which is of its type and shape, or undefined.
Status copy_into(const Datum& from, Tensor& to) {
  if (!from.is_tensor()) return InvalidInput("is ", kind_name(from), " and has no elements to copy");
  const Tensor& t = from.tensor;
  if (!to.defined()) {
    to = t.clone();
    return Ok();
  }
  if (to.dtype() != t.dtype() || to.shape() != t.shape())
    return InvalidInput("is ", to_string(t.dtype()), t.shape().str(), ", the buffer is ", to_string(to.dtype()),
                        to.shape().str());
  if (t.dtype() == DType::kString)
    std::copy_n(t.data<std::string>(), t.elements(), to.data<std::string>());
  else if (t.bytes() > 0 && t.raw() != to.raw())
    std::memcpy(to.raw(), t.raw(), t.bytes());
  return Ok();
}

}  // namespace

Result<Session> Session::create(const Model& model, const SessionOptions& options) {
  return guarded([&]() -> Result<Session> {
    SMELT_TRY(check(options));
    SMELT_ASSIGN(const int graph, graph_of(module_of(model), options.method));
    auto impl = std::make_unique<Impl>();
    impl->method = options.method;
    impl->graph = impl->latest = graph;
    impl->model = ModelAccess::module(model);
    SMELT_ASSIGN(const auto backends, open_backends(options));
    impl->requirements = requirements(backends, options);
    if (backends.empty()) {
      SMELT_ASSIGN(auto original, ModelAccess::compiled(model)->original());
      impl->reference = std::make_unique<Executor>(legalized(std::move(original), impl->requirements), options);
      return Session(std::move(impl));
    }
    impl->compiled = ModelAccess::compiled(model);
    SMELT_ASSIGN(auto module, impl->compiled->module(InputDefaults::kConstant, impl->requirements));
    impl->planned = std::make_unique<PlannedEnvironment>(std::move(module), options, impl->compiled->models(backends));
    return Session(std::move(impl));
  });
}

/// Where a run goes, with `inputs` as it takes them: without defaults, which are constants there, or all of them.
Status Session::Impl::choose(const Graph& g, std::span<const Datum> given) {
  chosen = planned.get();
  if (!planned) return Ok();
  bool defaults = false, overrides = false;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!g.value(g.inputs[i]).constant) continue;
    defaults = true;
    overrides = overrides || !given[i].none();
  }
  if (!defaults) return Ok();
  if (!overrides) {
    size_t kept = 0;
    for (size_t i = 0; i < given.size(); ++i)
      if (!g.value(g.inputs[i]).constant) inputs[kept++] = std::move(inputs[i]);
    inputs.resize(kept);
    return Ok();
  }
  if (!overriding) {
    SMELT_ASSIGN(auto module, compiled->module(InputDefaults::kOverridable, requirements));
    auto made = std::make_unique<PlannedEnvironment>(std::move(module), planned->options, planned->models());
    const std::lock_guard lock(making);
    overriding = std::move(made);
  }
  chosen = overriding.get();
  return Ok();
}

/// True if `d` lies in what the last run lent its caller, which the next one writes over.
bool Session::Impl::lent(const Datum& d) const {
  const auto meets = [&](const Datum& other) { return overlap(d.tensor, other.tensor); };
  return std::ranges::any_of(outputs, meets) && std::ranges::none_of(inputs, meets);
}

Status Session::Impl::take(int index, std::span<const Datum> given, ContentUse contents) {
  const Graph& g = model->graphs[static_cast<size_t>(index)];
  if (reset) environment().reset_state();
  reset = false;
  if (given.size() != g.inputs.size())
    return InvalidInput(given.size(), " inputs given, the model takes ", g.inputs.size());
  std::vector<std::pair<size_t, Datum>> kept;
  for (size_t i = 0; i < given.size(); ++i)
    if (lent(given[i])) kept.emplace_back(i, given[i].tensor.clone());
  inputs.assign(given.begin(), given.end());
  for (auto& [i, d] : kept) inputs[i] = std::move(d);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& v = g.value(g.inputs[i]);
    if (inputs[i].none() && v.constant) inputs[i] = Datum(*v.constant);
    SMELT_TRY(check_input(v, i, inputs[i], model->exact_inputs ? Dims::kExact : Dims::kResizable));
    if (auto s = check_tensors(inputs[i], contents); !s.ok())
      return InvalidInput("input ", i, " '", v.name, "' ", s.error().message());
    if (!given[i].none()) requantize(inputs[i], input_type(v).quant);
  }
  SMELT_TRY(choose(g, given));
  Environment& env = running();
  env.control.begin(env.options, env.size, given);
  if (ending) return Error(ErrorCode::kCancelled, "the session has ended");
  return Ok();
}

Result<std::vector<Port>> Session::Impl::prepare(std::span<const Datum> given) {
  const auto locate = [&](const Error& e) { return e.within(model->name); };
  if (auto s = take(graph, given, ContentUse::kTypesOnly); !s.ok()) return locate(s.error());
  const Plan* plan = nullptr;
  if (chosen) {
    auto found = chosen->plan_for(graph, inputs, GraphRole::kEntry, ContentUse::kTypesOnly);
    if (!found.ok()) return locate(found.error());
    plan = *found;
  }
  const Graph& g = running().module->graphs[static_cast<size_t>(graph)];
  std::vector<Port> out;
  for (ValueId id : g.outputs) {
    Port& p = out.emplace_back();
    if (id == kNoValue) continue;
    Value v = g.value(id);
    if (plan) v.type = plan->type(id);
    p = port_of(v);
  }
  return out;
}

Result<std::span<const Datum>> Session::Impl::run(int index, std::span<const Datum> given, const GraphCall& call) {
  const auto locate = [&](const Error& e) { return e.within(model->name); };
  if (auto s = take(index, given, ContentUse::kRead); !s.ok()) return locate(s.error());
  latest = index;
  if (chosen) {
    if (auto s = chosen->run(index, inputs, call, outputs); !s.ok()) return locate(s.error());
  } else {
    auto out = reference->call(index, inputs, 0);
    if (!out.ok()) return locate(out.error());
    outputs = std::move(out).value();
    for (Datum& d : outputs)
      if (call.outputs == OutputLifetime::kOwned && d.is_tensor()) d.tensor = d.tensor.clone();
  }
  return std::span<const Datum>(outputs);
}

Result<std::vector<Datum>> Session::Impl::run_owned(int index, std::span<const Datum> given) {
  SMELT_TRY(run(index, given, {.outputs = OutputLifetime::kOwned}));
  return std::exchange(outputs, {});
}

namespace {
Error moved_from() { return InvalidInput("the session was moved from"); }
}  // namespace

Result<std::vector<Port>> Session::prepare(std::span<const Datum> inputs) {
  if (!impl_) return moved_from();
  return guarded([&] { return impl_->prepare(inputs); });
}

Result<std::span<const Datum>> Session::run_in_place(std::span<const Datum> inputs) {
  return impl_ ? guarded([&] { return impl_->run(impl_->graph, inputs, {}); }) : moved_from();
}

Result<std::span<const Datum>> Session::run_in_place(const std::string& method, std::span<const Datum> inputs) {
  if (!impl_) return moved_from();
  return guarded([&]() -> Result<std::span<const Datum>> {
    SMELT_ASSIGN(const int graph, graph_of(*impl_->model, method));
    return impl_->run(graph, inputs, {});
  });
}

Result<std::vector<Datum>> Session::run(std::span<const Datum> inputs) {
  return impl_ ? guarded([&] { return impl_->run_owned(impl_->graph, inputs); }) : moved_from();
}

Result<std::vector<Datum>> Session::run(const std::string& method, std::span<const Datum> inputs) {
  if (!impl_) return moved_from();
  return guarded([&]() -> Result<std::vector<Datum>> {
    SMELT_ASSIGN(const int graph, graph_of(*impl_->model, method));
    return impl_->run_owned(graph, inputs);
  });
}

namespace {

/// Names of ports, each once.
std::vector<std::string> unique_names(const Graph& g, const std::vector<ValueId>& ids, const char* prefix) {
  std::vector<std::string> out;
  for (size_t i = 0; i < ids.size(); ++i) {
    std::string name = ids[i] == kNoValue ? "" : g.value(ids[i]).name;
    if (name.empty()) name = Cat(prefix, "_", i);
    if (std::ranges::find(out, name) != out.end()) name += Cat(":", i);
    out.push_back(std::move(name));
  }
  return out;
}

Result<std::vector<Datum>> in_order(const Graph& g, const NamedData& given) {
  const auto names = unique_names(g, g.inputs, "input");
  std::vector<Datum> out(names.size());
  for (const auto& [name, value] : given) {
    const auto at = std::ranges::find(names, name);
    if (at == names.end()) return InvalidInput(not_among("input of the model", name, names));
    out[static_cast<size_t>(at - names.begin())] = value;
  }
  return out;
}

}  // namespace

Result<NamedData> Session::run_named(const NamedData& inputs) {
  return impl_ ? run_named(impl_->method, inputs) : moved_from();
}

Result<NamedData> Session::run_named(const std::string& method, const NamedData& inputs) {
  if (!impl_) return moved_from();
  return guarded([&]() -> Result<NamedData> {
    SMELT_ASSIGN(const int index, graph_of(*impl_->model, method));
    const Graph& g = impl_->model->graphs[static_cast<size_t>(index)];
    SMELT_ASSIGN(const auto ordered, in_order(g, inputs));
    SMELT_ASSIGN(auto results, run(method, ordered));
    const auto names = unique_names(g, g.outputs, "output");
    NamedData out;
    for (size_t i = 0; i < names.size(); ++i) out.emplace(names[i], std::move(results[i]));
    return out;
  });
}

Status Session::run_into(std::span<const Datum> inputs, std::span<Tensor> outputs) {
  if (!impl_) return moved_from();
  return guarded([&]() -> Status {
    std::vector<Tensor> targets;
    for (const Tensor& t : outputs) targets.push_back(impl_->lent(t) ? Tensor() : t);
    SMELT_TRY(impl_->run(impl_->graph, inputs, {.targets = targets}));
    const std::vector<Datum> results = std::exchange(impl_->outputs, {});
    if (outputs.size() != results.size())
      return InvalidInput("buffers for ", outputs.size(), " outputs given, the method has ", results.size());
    for (size_t i = 0; i < results.size(); ++i)
      if (auto s = copy_into(results[i], outputs[i]); !s.ok()) return s.error().within(Cat("output ", i));
    return Ok();
  });
}

void Session::run_async(std::vector<Datum> inputs, std::function<void(Result<std::vector<Datum>>)> done) {
  if (!impl_) return done(moved_from());
  const std::lock_guard lock(impl_->making);
  if (!impl_->queue) impl_->queue = std::make_unique<RunQueue>();
  // The session may move while the run waits: its Impl stays where it is.
  impl_->queue->add(
      [impl = impl_.get(), inputs = std::move(inputs), done = std::move(done)](RunQueue::Outcome outcome) {
        if (outcome == RunQueue::Outcome::kCancelled)
          return done(Error(ErrorCode::kCancelled, "the session has ended"));
        done(guarded([&] { return impl->run_owned(impl->graph, inputs); }));
      });
}

std::future<Result<std::vector<Datum>>> Session::run_async(std::vector<Datum> inputs) {
  auto promise = std::make_shared<std::promise<Result<std::vector<Datum>>>>();
  auto future = promise->get_future();
  run_async(std::move(inputs),
            [promise](Result<std::vector<Datum>> outputs) { promise->set_value(std::move(outputs)); });
  return future;
}

void Session::reset_state() {
  if (impl_) impl_->reset = true;
}

void Session::Impl::cancel() {
  environment().control.cancel();
  const std::lock_guard lock(making);
  if (overriding) overriding->control.cancel();
}

void Session::cancel() {
  if (impl_) impl_->cancel();
}

namespace {

/// Index of a step's node in its graph: of the node that it is a part of, where that was decomposed.
size_t node_index(const Step& step, const Graph& as_compiled, const Graph& as_planned) {
  const Node* node = step.part_of ? step.part_of : step.node;
  for (const Graph* g : {&as_compiled, &as_planned})
    if (std::less_equal<>()(g->nodes.data(), node) && std::less<>()(node, g->nodes.data() + g->nodes.size()))
      return static_cast<size_t>(node - g->nodes.data());
  return 0;
}

}  // namespace

std::vector<ProfileEntry> Session::profile() const {
  std::vector<ProfileEntry> out;
  if (!impl_) return out;
  impl_->for_each_plan([&out](const PlannedEnvironment& env, size_t g, const Plan& plan) {
    for (const Step& s : plan.steps()) {
      if (s.calls == 0) continue;
      const ValueId first = s.node->outputs.empty() ? kNoValue : s.node->outputs[0];
      out.push_back({s.node->name, to_string(s.node->op), s.node->origin, env.kernel_of(s), plan.type_text(first),
                     s.micros, s.calls, g, node_index(s, env.module->graphs[g], plan.graph())});
    }
  });
  return out;
}

void Session::reset_profile() {
  if (impl_) impl_->for_each_plan([](const PlannedEnvironment&, size_t, Plan& plan) { plan.reset_times(); });
}

const char* Session::isa() const { return impl_ && impl_->planned ? impl_->planned->isa() : "reference"; }

size_t Session::arena_bytes() const {
  const Plan* plan = impl_ && impl_->planned ? impl_->planned->latest(impl_->latest) : nullptr;
  return plan ? plan->arena_bytes() : 0;
}

}  // namespace smelt
