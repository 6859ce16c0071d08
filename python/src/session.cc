#include "session.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "base/cat.h"
#include "errors.h"
#include "runtime/model_access.h"

namespace smelt::python {

namespace nb = nanobind;

std::vector<std::string> unique_names(const Graph& graph, const std::vector<ValueId>& values, const char* prefix) {
  std::vector<std::string> out;
  std::set<std::string> taken;
  for (size_t i = 0; i < values.size(); ++i) {
    std::string name = values[i] == kNoValue ? "" : graph.value(values[i]).name;
    if (name.empty()) name = Cat(prefix, "_", i);
    if (!taken.insert(name).second) taken.insert(name = Cat(name, ":", i));
    out.push_back(std::move(name));
  }
  return out;
}

namespace {

Session make_session(const Model& model, const SessionOptions& options) {
  auto made = [&] {
    const nb::gil_scoped_release release;
    return Session::create(model, options);
  }();
  return value_or_raise(std::move(made));
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += Cat(out.empty() ? "" : ", ", "'", name, "'");
  return out.empty() ? "none" : out;
}

/// A str as UTF-8; what Unicode has no code for is escaped.
std::string utf8(nb::handle text) {
  const nb::object bytes = nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  if (!bytes.is_valid()) throw nb::python_error();
  return nb::borrow<nb::bytes>(bytes).c_str();
}

std::vector<nb::object> interned(const std::vector<std::string>& names) {
  std::vector<nb::object> out;
  for (const std::string& name : names) {
    PyObject* key = PyUnicode_DecodeUTF8(name.data(), static_cast<Py_ssize_t>(name.size()), "surrogateescape");
    if (!key) throw nb::python_error();
    PyUnicode_InternInPlace(&key);
    out.push_back(nb::steal(key));
  }
  return out;
}

}  // namespace

/// The session's turn: held from before a run until its outputs are converted.
class PySession::Turn {
 public:
  explicit Turn(State& state) : state_(state), lock_(state.running, std::defer_lock) {
    const std::thread::id self = std::this_thread::get_id();
    if (state_.runner == self) raise_input("the session is running: it was called from inside its own run");
    if (!lock_.try_lock()) {
      const nb::gil_scoped_release release;
      lock_.lock();
    }
    state_.runner = self;
  }
  ~Turn() { state_.runner = std::thread::id{}; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// Runs once; "": the session's method.
  std::span<const Datum> run(const std::string& method, std::span<const Datum> inputs) {
    if (state_.views > 0)
      raise_input("views of the last run's outputs are alive: delete them, or use run() in place of view()");
    auto result = [&] {
      const nb::gil_scoped_release release;
      return method.empty() ? state_.session.run_in_place(inputs) : state_.session.run_in_place(method, inputs);
    }();
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    return value_or_raise(std::move(result));
  }

 private:
  State& state_;
  std::unique_lock<std::mutex> lock_;
};

PySession::PySession(const Model& model, const SessionOptions& options)
    : module_(ModelAccess::module(model)), method_(options.method) {
  state_ = std::make_shared<State>(make_session(model, options));
}

PySession::~PySession() { close(); }

void PySession::close() {
  bound_.clear();
  if (!state_) return;
  if (state_->views == 0) state_->viewed.reset();
  const nb::gil_scoped_release release;
  state_.reset();
}

std::shared_ptr<PySession::State> PySession::state() const {
  if (!state_) raise_input("the session is closed");
  return state_;
}

const PySession::Signature& PySession::signature(const std::string& method) {
  for (const auto& [name, found] : signatures_)
    if (name == method) return *found;
  const Method* const found = module_->find_method(method.empty() ? method_ : method);
  if (!found) {
    std::vector<std::string> names;
    for (const Method& m : module_->methods) names.push_back(m.name);
    raise_input(Cat("no method '", method, "'; the model has: ", joined(names)));
  }
  const Graph& g = module_->graphs[static_cast<size_t>(found->graph)];
  auto made = std::make_unique<Signature>();
  made->input_names = unique_names(g, g.inputs, "input");
  made->output_names = unique_names(g, g.outputs, "output");
  made->input_keys = interned(made->input_names);
  made->output_keys = interned(made->output_names);
  for (const ValueId id : g.inputs) {
    made->input_types.push_back(id == kNoValue ? ValueType{} : g.value(id).type);
    made->has_default.push_back(id == kNoValue || g.value(id).constant != nullptr ||
                                g.value(id).type.kind == ValueType::Kind::kOptional);
  }
  return *signatures_.emplace_back(method, std::move(made)).second;
}

Inputs PySession::inputs(const Signature& s, const nb::tuple& args, const nb::dict& kwargs) const {
  const size_t count = s.input_names.size(), named = kwargs.size();
  if (args.size() > count)
    raise_input(Cat(args.size(), " inputs given, the model takes ", count, ": ", joined(s.input_names)));
  Inputs out(count);
  size_t found = 0;
  for (size_t i = 0; i < count; ++i) {
    nb::handle value;
    if (named > 0) value = PyDict_GetItemWithError(kwargs.ptr(), s.input_keys[i].ptr());
    found += value.is_valid();
    if (i < args.size()) {
      if (value.is_valid()) raise_input(Cat("input '", s.input_names[i], "' is given by position and by name"));
      value = args[i];
    }
    if (!value.is_valid() && !s.has_default[i])
      raise_input(Cat("input ", i, " '", s.input_names[i], "' is missing: ", s.input_types[i].str(), " expected"));
    out.add(value.is_valid() ? value : nb::handle(Py_None), s.input_types[i], s.input_names[i]);
  }
  if (found < named)
    for (const auto& [key, value] : kwargs) {
      const std::string name = utf8(key);
      if (std::find(s.input_names.begin(), s.input_names.end(), name) == s.input_names.end())
        raise_input(Cat("no input '", name, "'; the model has: ", joined(s.input_names)));
    }
  return out;
}

namespace {

/// The outputs as a tuple, or as a dict where inputs have names.
template <class F>
nb::object collect(std::span<const Datum> outputs, const std::vector<nb::object>& keys, bool by_name, F&& convert) {
  if (by_name) {
    nb::dict out;
    for (size_t i = 0; i < outputs.size(); ++i) out[keys[i]] = convert(i);
    return out;
  }
  const nb::object out = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(outputs.size())));
  for (size_t i = 0; i < outputs.size(); ++i)
    PyTuple_SetItem(out.ptr(), static_cast<Py_ssize_t>(i), convert(i).release().ptr());
  return out;
}

}  // namespace

nb::object PySession::run(const std::string& method, const nb::tuple& args, const nb::dict& kwargs) {
  const auto state = this->state();
  const Signature& s = signature(method);
  const Inputs in = inputs(s, args, kwargs);
  Turn turn(*state);
  const auto outputs = turn.run(method, in.data());
  return collect(outputs, s.output_keys, kwargs.size() > 0, [&](size_t i) -> nb::object {
    if (!method.empty() || i >= bound_.size() || bound_[i].is_none()) return to_python(outputs[i]);
    const nb::object array = bound_[i];
    copy_into(outputs[i], array, s.output_names[i]);
    return array;
  });
}

nb::object PySession::view(const nb::tuple& args, const nb::dict& kwargs) {
  const auto state = this->state();
  const Signature& s = signature("");
  auto in = std::make_unique<Inputs>(inputs(s, args, kwargs));
  Turn turn(*state);
  const auto outputs = turn.run("", in->data());
  state->viewed = std::move(in);
  const nb::object lease = nb::cast(new Lease(state), nb::rv_policy::take_ownership);
  return collect(outputs, s.output_keys, kwargs.size() > 0, [&](size_t i) { return view_python(outputs[i], lease); });
}

std::vector<double> PySession::measure(int warmup, int runs, const nb::tuple& args, const nb::dict& kwargs) {
  using Clock = std::chrono::steady_clock;
  const auto state = this->state();
  const Inputs in = inputs(signature(""), args, kwargs);
  Turn turn(*state);
  std::vector<double> out;
  for (int i = 0; i < warmup + runs; ++i) {
    const auto start = Clock::now();
    turn.run("", in.data());
    if (i == 0 || i >= warmup) out.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  return out;
}

nb::list PySession::plan(const nb::tuple& args, const nb::dict& kwargs) {
  const auto state = this->state();
  const Inputs in = inputs(signature(""), args, kwargs);
  const Turn turn(*state);
  const auto ports = value_or_raise([&] {
    const nb::gil_scoped_release release;
    return state->session.prepare(in.data());
  }());
  nb::list out;
  for (const Port& p : ports)
    out.append(nb::make_tuple(p.is_tensor && p.dtype != DType::kInvalid ? to_string(p.dtype) : "",
                              p.is_tensor && p.ranked ? nb::object(shape_tuple(p.shape)) : nb::none()));
  return out;
}

void PySession::bind(const nb::tuple& arrays) {
  state();
  const size_t count = signature("").output_names.size();
  if (arrays.size() > 0 && arrays.size() != count)
    raise_input(Cat(arrays.size(), " arrays bound, the model has ", count, " outputs"));
  std::vector<nb::object> bound;
  for (const nb::handle array : arrays) bound.push_back(nb::borrow(array));
  bound_ = std::move(bound);
}

void PySession::reset_state() {
  const auto state = this->state();
  const Turn turn(*state);
  state->session.reset_state();
}

void PySession::cancel() {
  if (state_) state_->session.cancel();
}

nb::list PySession::profile() const {
  const auto state = this->state();
  const Turn turn(*state);
  nb::list out;
  for (const ProfileEntry& e : state->session.profile()) {
    nb::dict entry;
    const auto text = [&](const char* key, const std::string& value) {
      entry[key] = nb::steal(PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "replace"));
    };
    text("node", e.node), text("op", e.op), text("origin", e.origin), text("kernel", e.kernel),
        text("output", e.output);
    entry["calls"] = e.calls;
    entry["micros"] = e.micros;
    out.append(entry);
  }
  return out;
}

std::string PySession::isa() const { return state()->session.isa(); }

size_t PySession::arena_bytes() const {
  const auto state = this->state();
  const Turn turn(*state);
  return state->session.arena_bytes();
}

}  // namespace smelt::python
