// The module smelt._engine, which the classes of package smelt are made of. Its users call those, not this.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "arrays.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cli/output.h"
#include "cli/page.h"
#include "cli/report.h"
#include "cli/verify_bundle.h"
#include "custom_operator.h"
#include "errors.h"
#include "graph/graph.h"
#include "runtime/model_access.h"
#include "session.h"
#include "smelt/model.h"

namespace smelt::python {
namespace {

namespace nb = nanobind;

/// Options as the Python classes give them, which check their ranges.
SessionOptions session_options(const cli::Target& target) {
  SessionOptions options;
  target.apply(options);
  return options;
}

nb::object text(const std::string& s) {
  return nb::steal(PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "surrogateescape"));
}

LoadOptions load_options(const std::vector<std::string>& data_files, const std::vector<std::string>& tolerate,
                         const nb::list& operators) {
  LoadOptions out;
  out.data_files = data_files;
  out.tolerate = tolerate;
  for (const nb::handle object : operators) out.custom_operators.push_back(make_custom_operator(object));
  return out;
}

Model load_file(const std::string& path, const std::vector<std::string>& data_files,
                const std::vector<std::string>& tolerate, const nb::list& operators) {
  const LoadOptions options = load_options(data_files, tolerate, operators);
  return value_or_raise([&] {
    const nb::gil_scoped_release release;
    return Model::load(path, options);
  }());
}

/// Bytes that nobody can write to are viewed, others copied: the model was checked as it was loaded.
std::pair<std::span<const std::byte>, std::shared_ptr<const void>> keep_bytes(nb::handle object) {
  auto buffer = std::make_unique<Buffer>();
  if (!buffer->open(object, PyBUF_SIMPLE))
    raise_input("a model is a path, bytes or an object with a contiguous buffer");
  const Py_buffer& view = buffer->view();
  const auto* const data = static_cast<const std::byte*>(view.buf);
  const auto size = static_cast<size_t>(view.len);
  if (!PyBytes_Check(object.ptr())) {
    auto copy = std::make_shared<std::vector<std::byte>>(data, data + size);
    return {std::span<const std::byte>(*copy), copy};
  }
  std::shared_ptr<const void> owner(buffer.release(), [](const void* p) {
    if (!Py_IsInitialized()) return;  // the interpreter is gone, its memory with it
    const nb::gil_scoped_acquire acquire;
    delete static_cast<const Buffer*>(p);
  });
  return {std::span<const std::byte>(data, size), std::move(owner)};
}

Model load_bytes(nb::handle object, const std::string& name, const std::string& folder,
                 const std::vector<std::string>& data_files, const std::vector<std::string>& tolerate,
                 const nb::list& operators) {
  const LoadOptions options = load_options(data_files, tolerate, operators);
  auto [bytes, owner] = keep_bytes(object);
  return value_or_raise([&, bytes = bytes, owner = owner] {
    const nb::gil_scoped_release release;
    return Model::load_bytes(bytes, owner, name, folder, options);
  }());
}

/// (kind, scales, zero points, axis, block, symmetric), or None.
nb::object quantization(const QuantPtr& q) {
  if (!q) return nb::none();
  static const char* const kinds[] = {"per_tensor", "per_axis", "per_block", "per_token"};
  nb::list scales, zero_points;
  for (const float s : q->scales) scales.append(static_cast<double>(s));
  for (size_t i = 0; i < q->scales.size(); ++i) zero_points.append(q->zero_point(static_cast<int64_t>(i)));
  return nb::make_tuple(kinds[static_cast<int>(q->kind)], nb::tuple(scales), nb::tuple(zero_points), q->axis, q->block,
                        q->symmetric);
}

nb::tuple int_tuple(std::span<const int64_t> values) {
  nb::list out;
  for (const int64_t v : values) out.append(v);
  return nb::tuple(out);
}

/// (name, type text, dtype or "", shape or None, names of dimensions, bound, optional, quantization) of each value.
nb::list ports(const Model& model, const std::string& method, bool outputs) {
  nb::list out;
  const Method* const found = module_of(model).find_method(method);
  if (!found) raise_input("no method '" + method + "'");
  const Graph& g = module_of(model).graphs[static_cast<size_t>(found->graph)];
  const auto& ids = outputs ? g.outputs : g.inputs;
  const std::vector<std::string> names = unique_names(g, ids, outputs ? "output" : "input");
  for (size_t i = 0; i < ids.size(); ++i) {
    static const Value absent;
    const Value& v = ids[i] == kNoValue ? absent : g.value(ids[i]);
    const bool optional = v.type.kind == ValueType::Kind::kOptional || (!outputs && v.constant);
    const bool tensor = v.type.kind == ValueType::Kind::kTensor;
    nb::list dims;
    for (const std::string& name : v.dim_names) dims.append(text(name));
    out.append(nb::make_tuple(text(names[i]), v.type.str(),
                              tensor && v.type.dtype != DType::kInvalid ? to_string(v.type.dtype) : "",
                              tensor && v.type.ranked ? nb::object(shape_tuple(v.type.shape)) : nb::none(),
                              nb::tuple(dims), int_tuple(v.bound), optional, quantization(v.type.quant)));
  }
  return out;
}

/// The metadata; values of one key are lines.
nb::dict metadata(const Model& model) {
  nb::dict out;
  for (const auto& [key, value] : module_of(model).metadata) {
    const nb::object name = text(key);
    if (out.contains(name))
      out[name] = nb::steal(PyUnicode_Concat(nb::object(out[name]).ptr(), text("\n" + value).ptr()));
    else
      out[name] = text(value);
  }
  return out;
}

/// Indices of a method's inputs or outputs among the values of its graph: of TFLite, the tensors of its subgraph.
nb::list value_ids(const Model& model, const std::string& method, bool outputs) {
  const Method* const found = module_of(model).find_method(method);
  if (!found) raise_input("no method '" + method + "'");
  const Graph& g = module_of(model).graphs[static_cast<size_t>(found->graph)];
  nb::list out;
  for (const ValueId id : outputs ? g.outputs : g.inputs) out.append(id);
  return out;
}

nb::dict text_files(const Model& model) {
  nb::dict out;
  for (const auto& [name, lines] : module_of(model).text_files) {
    nb::list list;
    for (const std::string& line : lines) list.append(text(line));
    out[text(name)] = list;
  }
  return out;
}

nb::list warnings(const Model& model) {
  nb::list out;
  for (const std::string& line : model.warnings()) out.append(text(line));
  return out;
}

/// The description of `smelt inspect`: JSON, or the page that shows it.
nb::object describe(const Model& model, bool optimised, bool page, const std::string& backend, int device,
                    const std::string& storage, bool fp16) {
  const SessionOptions options = session_options({backend, device, storage, fp16});
  const std::string out = value_or_raise([&]() -> Result<std::string> {
    const nb::gil_scoped_release release;
    if (page) return cli::inspect_page(model, options, {}, {.optimised = optimised});
    SMELT_ASSIGN(const auto json, cli::describe_model(model, options, {}, optimised));
    return json.dump();
  }());
  return text(out);
}

void make_session(PySession* self, const Model& model, const std::string& method, const std::string& backend,
                  int threads, int device, const std::string& storage, bool fp16, uint64_t seed, size_t memory_limit,
                  double seconds_limit, uint64_t steps_limit, bool profile, const std::string& isa,
                  const std::string& match, bool deterministic, bool strict_types) {
  SessionOptions options = session_options({backend, device, storage, fp16, match, deterministic, strict_types});
  options.method = method;
  options.threads = threads;
  options.seed = seed;
  options.limit_memory = memory_limit;
  options.limit_seconds = seconds_limit;
  options.limit_steps = steps_limit;
  options.profile = profile;
  options.isa = isa;
  new (self) PySession(model, options);
}

/// (verdict, name, text) of every test set of a bundle.
nb::list verify_bundle(const std::string& path, const std::string& backend, int threads, nb::object rtol,
                       nb::object atol) {
  SessionOptions options = session_options({backend});
  options.threads = threads;
  cli::MatchRule rule;
  rule.given = !rtol.is_none() || !atol.is_none();
  if (!rtol.is_none()) rule.rtol = nb::cast<double>(rtol);
  if (!atol.is_none()) rule.atol = nb::cast<double>(atol);
  const auto sets = value_or_raise([&] {
    const nb::gil_scoped_release release;
    return cli::verify_bundle(path, {}, options, rule);
  }());
  static const char* const verdicts[] = {"passed", "failed", "skipped", "broken"};
  nb::list out;
  for (const auto& set : sets)
    out.append(nb::make_tuple(verdicts[static_cast<int>(set.verdict)], text(set.name), text(set.text)));
  return out;
}

int run_command_line(const std::vector<std::string>& arguments) {
  std::vector<std::string> copies = arguments;
  std::vector<char*> argv;
  for (std::string& a : copies) argv.push_back(a.data());
  argv.push_back(nullptr);
  const nb::gil_scoped_release release;
  return cli::run_command_line(static_cast<int>(copies.size()), argv.data());
}

}  // namespace
}  // namespace smelt::python

NB_MODULE(_engine, m) {
  using namespace smelt::python;
  using namespace nanobind::literals;
  nb::set_leak_warnings(false);  // objects that live when the interpreter ends
  m.doc() = "The engine behind package smelt.";
  m.attr("__version__") = SMELT_VERSION;

  nb::class_<smelt::Model>(m, "Model")
      .def_prop_ro("format", [](const smelt::Model& model) { return model.format(); })
      .def_prop_ro("producer", [](const smelt::Model& model) { return text(module_of(model).producer); })
      .def_prop_ro("file_bytes", [](const smelt::Model& model) { return module_of(model).file.size(); })
      .def_prop_ro("methods",
                   [](const smelt::Model& model) {
                     nb::list out;
                     for (const std::string& name : model.methods()) out.append(text(name));
                     return out;
                   })
      .def_prop_ro("metadata", &metadata)
      .def_prop_ro("warnings", &warnings)
      .def_prop_ro("text_files", &text_files)
      .def("ports", &ports, "method"_a, "outputs"_a)
      .def("value_ids", &value_ids, "method"_a, "outputs"_a)
      .def("describe", &describe, "optimised"_a, "page"_a, "backend"_a, "device"_a, "storage"_a, "fp16"_a);

  nb::class_<Lease>(m, "Lease");
  nb::class_<PySession>(m, "Session", "Runs a model; see smelt.Session.")
      .def("__init__", &make_session, "model"_a, "method"_a, "backend"_a, "threads"_a, "device"_a, "storage"_a,
           "fp16"_a, "seed"_a, "memory_limit"_a, "seconds_limit"_a, "steps_limit"_a, "profile"_a, "isa"_a, "match"_a,
           "deterministic"_a, "strict_types"_a)
      .def(
          "run", [](PySession& s, const nb::args& args, const nb::kwargs& kwargs) { return s.run(args, kwargs); },
          "Run once. Inputs come in the model's order, or by name. Return a tuple of new arrays in the model's order, "
          "or "
          "a dict by name where inputs were given by name.")
      .def(
          "view", [](PySession& s, const nb::args& args, const nb::kwargs& kwargs) { return s.view(args, kwargs); },
          "Run once and return read-only arrays that view the session's memory. While one of them is alive, the next "
          "run "
          "raises InvalidInputError.")
      .def(
          "call",
          [](PySession& s, const std::string& method, const nb::tuple& args, const nb::dict& kwargs) {
            return s.run(method, args, kwargs);
          },
          "method"_a, "args"_a, "kwargs"_a, "Run a method of the model on the session's variables.")
      .def("measure", &PySession::measure, "warmup"_a, "runs"_a, "args"_a, "kwargs"_a)
      .def("plan", &PySession::plan, "args"_a, "kwargs"_a)
      .def("set_bound", &PySession::bind, "arrays"_a)
      .def("reset_state", &PySession::reset_state, "Set the variables back to their initial values.")
      .def("cancel", &PySession::cancel,
           "Stop the run that goes on in another thread; it raises CancelledError. No effect when none does.")
      .def("close", &PySession::close, "Free the session's memory. Later calls raise InvalidInputError.")
      .def_prop_ro("closed", &PySession::closed, "True after close().")
      .def("entries", &PySession::profile)
      .def_prop_ro("isa", &PySession::isa, "Instruction set of the CPU kernels: \"baseline\", \"avx2\", ...")
      .def_prop_ro("arena_bytes", &PySession::arena_bytes, "Bytes of activations of the last run's plan.");

  m.def("load_file", &load_file, "path"_a, "data_files"_a, "tolerate"_a, "custom_operators"_a);
  m.def("load_bytes", &load_bytes, "data"_a, "name"_a, "folder"_a, "data_files"_a, "tolerate"_a, "custom_operators"_a);
  m.def("verify_bundle", &verify_bundle, "path"_a, "backend"_a, "threads"_a, "rtol"_a.none(), "atol"_a.none());
  m.def("run_command_line", &run_command_line, "arguments"_a);
}
