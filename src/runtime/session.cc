#include <cstring>

#include "base/error.h"
#include "runtime/executor.h"
#include "smelt/model.h"

namespace smelt {

struct Session::Impl {
  Impl(std::shared_ptr<const Module> module, const SessionOptions& options, int graph_index)
      : executor(std::move(module), options), graph(graph_index) {}
  Executor executor;
  int graph;
  std::vector<Datum> outputs;
};

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Result<Session> Session::create(const Model& model, const SessionOptions& options) {
  const Method* method = model.module().find_method(options.method);
  if (!method) {
    std::string known;
    for (const Method& m : model.module().methods) known += Cat(known.empty() ? "" : ", ", m.name);
    return InvalidInput("no method '", options.method, "'; the model has: ", known);
  }
  return Session(std::make_unique<Impl>(model.share_module(), options, method->graph));
}

namespace {

Status check_inputs(const Graph& g, std::span<const Datum> inputs) {
  if (inputs.size() != g.inputs.size())
    return InvalidInput(inputs.size(), " inputs given, the model takes ", g.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& v = g.value(g.inputs[i]);
    if (!inputs[i].is_tensor() || v.type.kind != ValueType::Kind::kTensor) continue;
    const Tensor& t = inputs[i].tensor;
    if (v.type.dtype != DType::kInvalid && t.dtype() != v.type.dtype)
      return InvalidInput("input ", i, " '", v.name, "' is ", to_string(t.dtype()), ", the model takes ",
                          to_string(v.type.dtype));
    if (v.type.ranked && t.rank() != v.type.shape.rank())
      return InvalidInput("input ", i, " '", v.name, "' has shape ", t.shape().str(), ", the model takes ",
                          v.type.shape.str());
  }
  return Ok();
}

}  // namespace

Result<std::span<const Datum>> Session::run_in_place(std::span<const Datum> inputs) {
  Executor& ex = impl_->executor;
  ex.control.begin(ex.options);
  SMELT_TRY(check_inputs(ex.module->graphs[static_cast<size_t>(impl_->graph)], inputs));
  auto out = ex.call(impl_->graph, inputs, 0);
  if (!out.ok()) return out.error().within(ex.module->name);
  impl_->outputs = std::move(out).value();
  return std::span<const Datum>(impl_->outputs);
}

Result<std::vector<Datum>> Session::run(std::span<const Datum> inputs) {
  SMELT_ASSIGN(auto view, run_in_place(inputs));
  std::vector<Datum> out;
  for (const Datum& d : view) out.push_back(d.is_tensor() ? Datum(d.tensor.clone()) : d);
  return out;
}

void Session::reset_state() { impl_->executor.reset_state(); }
void Session::cancel() { impl_->executor.control.cancel(); }
std::vector<ProfileEntry> Session::profile() const { return {}; }
const char* Session::isa() const { return "baseline"; }
size_t Session::arena_bytes() const { return 0; }

}  // namespace smelt
