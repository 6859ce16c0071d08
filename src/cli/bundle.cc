// smelt bundle: a program with test sets in one file.

#include <memory>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cli/inputs.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/values.h"
#include "formats/bundle/bundle.h"
#include "formats/executorch/file.h"

namespace smelt::cli {
namespace {

struct BundleOptions {
  std::string model, method, format = "bp08", output;
  Target target;
  std::vector<std::string> inputs, expected, data;
  bool record = false, add = false;
};

using Kind = bundle::TestValue::Kind;

/// Values of one set in the kinds that the program declares.
std::vector<bundle::TestValue> test_values(std::vector<Datum> values, const std::vector<Kind>& kinds) {
  std::vector<bundle::TestValue> out;
  for (size_t i = 0; i < values.size(); ++i) {
    const Kind kind = values[i].is_tensor() && i < kinds.size() ? kinds[i] : Kind::kNone;
    out.push_back({kind, std::move(values[i])});
  }
  return out;
}

/// Expected outputs of one set, read from files.
Result<std::vector<Datum>> read_expected(std::span<const std::string> files, const std::vector<Port>& ports) {
  std::vector<Datum> out;
  for (size_t i = 0; i < files.size(); ++i) {
    SMELT_ASSIGN(Datum d, read_value(files[i]));
    out.push_back(adapt(std::move(d), ports[i]));
  }
  return out;
}

/// Inputs of the types that the method takes: a bundle that can't run is of no use.
Status check_set(const bundle::TestSet& set, const std::vector<Port>& ports, const std::vector<Kind>& kinds) {
  for (size_t i = 0; i < set.inputs.size(); ++i) {
    const bundle::TestValue& v = set.inputs[i];
    if (i < kinds.size() && v.kind != kinds[i] && !ports[i].optional)
      return InvalidInput("input ", i, " is missing, the method takes a ", bundle::to_string(kinds[i]));
    if (!v.datum.is_tensor()) continue;
    const Tensor& t = v.datum.tensor;
    if (ports[i].dtype != DType::kInvalid && t.dtype() != ports[i].dtype)
      return InvalidInput("input ", i, " is ", to_string(t.dtype()), ", the method takes ", to_string(ports[i].dtype));
  }
  return Ok();
}

Status write_bundle(const BundleOptions& o) {
  if (o.output == "-") reserve_standard_output();
  SMELT_ASSIGN(const auto file, MappedFile::open(o.model));
  bundle::Bundle made;
  bool as_bp08 = true;
  made.program = file->bytes();
  if (bundle::recognise(made.program)) {
    SMELT_ASSIGN(auto given, bundle::read(file->bytes(), file));
    made.program = given.program;
    if (o.add) made.tests = std::move(given.tests);
    as_bp08 = given.version == bundle::Version::kBp08;
  }
  if (o.add && made.program.data() == file->bytes().data())
    return InvalidInput(o.model, ": not a bundled program, there are no test sets that --add could keep");
  if (!executorch::ProgramFile::recognise(made.program))
    return InvalidInput(o.model, ": not an ExecuTorch program, nothing else can be bundled");
  made.version = o.format == "bp04" ? bundle::Version::kBp04 : bundle::Version::kBp08;
  SMELT_ASSIGN(const Model model, load_model(o.model, {.data_files = o.data}));
  const auto methods = model.methods();
  SessionOptions so;
  so.method = o.method.empty() ? methods[0] : o.method;
  o.target.apply(so);
  bundle::MethodTests tests;
  tests.method = so.method;
  SMELT_ASSIGN(Session session, Session::create(model, so));
  while (tests.plan + 1 < methods.size() && methods[tests.plan] != so.method) ++tests.plan;
  SMELT_ASSIGN(const auto kinds, bundle::method_kinds(made.program, tests.plan));
  const auto in_ports = model.inputs(so.method), out_ports = model.outputs(so.method);
  const size_t per_set = in_ports.size();
  const size_t sets = per_set == 0 || o.inputs.empty() ? 1 : o.inputs.size() / per_set;
  if (!o.inputs.empty() && (per_set == 0 || o.inputs.size() % per_set != 0))
    return InvalidInput(o.inputs.size(), " inputs given, the method takes ", per_set, " a set");
  if (!o.record && !o.expected.empty() && o.expected.size() != sets * out_ports.size())
    return InvalidInput(o.expected.size(), " expected outputs given, ", sets * out_ports.size(), " belong to ", sets,
                        " sets");
  size_t total = sets;  // in the bundle, in the end
  for (const bundle::MethodTests& given : made.tests) total += given.sets.size();
  for (size_t k = 0; k < sets; ++k) {
    bundle::TestSet set;
    std::vector<std::string> files;
    for (size_t i = 0; i < per_set && !o.inputs.empty(); ++i) files.push_back(o.inputs[k * per_set + i]);
    const auto given = gather_inputs(model, so.method, {.files = files, .seed = total - sets + k});
    if (!given.ok()) return given.error().within(Cat("set ", k));
    const std::vector<Datum>& inputs = given->values;
    set.inputs = test_values(inputs, kinds.inputs);
    if (o.record) {
      SMELT_ASSIGN(auto outputs, session.run(inputs));
      set.expected = test_values(std::move(outputs), kinds.outputs);
    } else if (!o.expected.empty()) {
      const auto part = std::span(o.expected).subspan(k * out_ports.size(), out_ports.size());
      SMELT_ASSIGN(auto outputs, read_expected(part, out_ports));
      set.expected = test_values(std::move(outputs), kinds.outputs);
    }
    if (auto s = check_set(set, in_ports, kinds.inputs); !s.ok()) return s.error().within(Cat("set ", k));
    if (const auto runs = session.prepare(inputs); !runs.ok()) return runs.error().within(Cat("set ", k));
    tests.sets.push_back(std::move(set));
  }
  // Both layouts find tests: by the method's name, and by the plan's index.
  for (auto& old : made.tests) {
    if (as_bp08)
      while (old.plan + 1 < methods.size() && methods[old.plan] != old.method) ++old.plan;
    else if (old.plan < methods.size())
      old.method = methods[old.plan];
  }
  made.tests.push_back(std::move(tests));
  SMELT_ASSIGN(const auto bytes, bundle::write(made, methods.size()));
  SMELT_TRY(write_result(o.output, {{reinterpret_cast<const char*>(bytes.data()), bytes.size()}}));
  say("{}: {}, {} test {}{} {}{}, {}\n", o.output, bundle::to_string(made.version), total, total == 1 ? "set" : "sets",
      o.add ? Cat(", ", sets, " added to") : " of", so.method,
      o.record || !o.expected.empty() ? "" : " without expected outputs (see --expected, --record)",
      human_bytes(static_cast<double>(bytes.size())));
  return Ok();
}

}  // namespace

void add_bundle(Command app, int& status) {
  auto o = std::make_shared<BundleOptions>();
  Command c = app.add_subcommand("bundle", "Put a program and its tests in one file");
  add_model(c, o->model).required().description("ExecuTorch program (of a bundle: the program inside)");
  c.add_option("--method", o->method, "Method that the tests run (default: the first)").type_name("NAME");
  c.add_option("--inputs,--input", o->inputs,
               "FILE.npy in the method's order; as many again for every further set; default: seeded random values")
      .type_name("FILE");
  Option expected =
      c.add_option("--expected", o->expected, "FILE.npy of the outputs that each set must give").type_name("FILE");
  c.add_flag("--record", o->record, "Run the method and keep its outputs as the expected ones").excludes(expected);
  c.add_flag("--add", o->add, "Keep the test sets of MODEL, a bundle (its attachments are not kept)");
  c.add_option("--format", o->format, "bp04 or bp08").check(one_of({"bp04", "bp08"})).type_name("NAME").default_shown();
  add_target(c, o->target);
  add_data(c, o->data);
  c.add_option("-o,--output", o->output, "File to write, - for standard output").required().type_name("FILE");
  c.footer(
      "Examples:\n"
      "  smelt bundle program.pte --inputs x.npy --record -o tested.bpte\n"
      "  smelt bundle tested.bpte --add --inputs x2.npy --expected y2.npy -o tested.bpte");
  c.callback([o, &status] { status = report(write_bundle(*o)); });
}

}  // namespace smelt::cli
