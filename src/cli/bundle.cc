// smelt bundle: a program with test sets in one file.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cli/values.h"
#include "formats/bundle/bundle.h"
#include "formats/executorch/file.h"

namespace smelt::cli {
namespace {

struct BundleOptions {
  std::string model, method, format = "bp08", output, backend = "cpu";
  int device = -1;
  std::vector<std::string> inputs, expected, data;
  bool record = false;
};

using Kind = bundle::TestValue::Kind;

/// How a bundle stores the inputs and outputs of a method: as the program declares them.
struct Kinds {
  std::vector<Kind> inputs, outputs;
};

Kind kind_of(fb::et::KernelTypes type) {
  switch (type) {
    case fb::et::KernelTypes::Int:
      return Kind::kInt;
    case fb::et::KernelTypes::Bool:
      return Kind::kBool;
    case fb::et::KernelTypes::Double:
      return Kind::kDouble;
    case fb::et::KernelTypes::Tensor:
      return Kind::kTensor;
    default:
      return Kind::kNone;
  }
}

Result<Kinds> kinds_of(std::span<const std::byte> program, size_t method) {
  const LoadOptions options;
  SMELT_ASSIGN(const auto file, executorch::ProgramFile::parse({program, nullptr, "", "", &options}));
  const auto* plan = file->program().execution_plan()->Get(static_cast<flatbuffers::uoffset_t>(method));
  Kinds out;
  const auto list = [&](const flatbuffers::Vector<int32_t>* indices, std::vector<Kind>& kinds) {
    if (!indices || !plan->values()) return;
    for (int32_t at : *indices)
      kinds.push_back(at >= 0 && static_cast<uint32_t>(at) < plan->values()->size()
                          ? kind_of(plan->values()->Get(static_cast<uint32_t>(at))->val_type())
                          : Kind::kNone);
  };
  list(plan->inputs(), out.inputs);
  list(plan->outputs(), out.outputs);
  return out;
}

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

/// Writes the file whole or not at all.
Status write_file(const std::string& path, const std::vector<uint8_t>& bytes) {
  const std::string part = path + ".part";
  {
    std::ofstream out(part, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!out) return Error(ErrorCode::kIo, Cat(path, ": cannot write"));
  }
  std::error_code ec;
  std::filesystem::rename(part, path, ec);
  if (ec) {
    std::filesystem::remove(part, ec);
    return Error(ErrorCode::kIo, Cat(path, ": cannot write"));
  }
  return Ok();
}

Status write_bundle(const BundleOptions& o) {
  SMELT_ASSIGN(const auto file, MappedFile::open(o.model));
  bundle::Bundle made;
  made.program = file->bytes();
  if (bundle::recognise(made.program)) {
    SMELT_ASSIGN(made.program, bundle::program_of(file->bytes()));
  }
  if (!executorch::ProgramFile::recognise(made.program))
    return InvalidInput(o.model, ": not an ExecuTorch program, nothing else can be bundled");
  made.version = o.format == "bp04" ? bundle::Version::kBp04 : bundle::Version::kBp08;
  LoadOptions load;
  load.data_files = o.data;
  SMELT_ASSIGN(const Model model, Model::load(o.model, load));
  const auto methods = model.methods();
  SessionOptions so;
  so.method = o.method.empty() ? methods[0] : o.method;
  so.backend = backend_of(o.backend);
  so.device = o.device;
  bundle::MethodTests tests;
  tests.method = so.method;
  SMELT_ASSIGN(Session session, Session::create(model, so));
  while (tests.plan + 1 < methods.size() && methods[tests.plan] != so.method) ++tests.plan;
  SMELT_ASSIGN(const Kinds kinds, kinds_of(made.program, tests.plan));
  const auto in_ports = model.inputs(so.method), out_ports = model.outputs(so.method);
  const size_t per_set = in_ports.size();
  const size_t sets = per_set == 0 || o.inputs.empty() ? 1 : o.inputs.size() / per_set;
  if (!o.inputs.empty() && (per_set == 0 || o.inputs.size() % per_set != 0))
    return InvalidInput(o.inputs.size(), " inputs given, the method takes ", per_set, " a set");
  if (!o.record && !o.expected.empty() && o.expected.size() != sets * out_ports.size())
    return InvalidInput(o.expected.size(), " expected outputs given, ", sets * out_ports.size(), " belong to ", sets,
                        " sets");
  for (size_t k = 0; k < sets; ++k) {
    bundle::TestSet set;
    std::vector<std::string> files;
    for (size_t i = 0; i < per_set && !o.inputs.empty(); ++i) files.push_back(o.inputs[k * per_set + i]);
    SMELT_ASSIGN(const auto inputs, gather_inputs(model, so.method, files, k));
    set.inputs = test_values(inputs, kinds.inputs);
    if (o.record) {
      SMELT_ASSIGN(auto outputs, session.run(inputs));
      set.expected = test_values(std::move(outputs), kinds.outputs);
    } else if (!o.expected.empty()) {
      const auto part = std::span(o.expected).subspan(k * out_ports.size(), out_ports.size());
      SMELT_ASSIGN(auto outputs, read_expected(part, out_ports));
      set.expected = test_values(std::move(outputs), kinds.outputs);
    }
    tests.sets.push_back(std::move(set));
  }
  made.tests.push_back(std::move(tests));
  SMELT_ASSIGN(const auto bytes, bundle::write(made, methods.size()));
  SMELT_TRY(write_file(o.output, bytes));
  fmt::print("{}: {}, {} test {} of {}, {}\n", o.output, bundle::to_string(made.version), sets,
             sets == 1 ? "set" : "sets", so.method, human_bytes(static_cast<double>(bytes.size())));
  return Ok();
}

}  // namespace

void add_bundle(CLI::App& app, int& status) {
  auto o = std::make_shared<BundleOptions>();
  CLI::App* c = app.add_subcommand("bundle", "Put a program and its tests in one file");
  c->add_option("model", o->model, "ExecuTorch program (of a bundle: the program inside)")->required();
  c->add_option("--method", o->method, "Method that the tests run (default: the first)");
  c->add_option("--inputs", o->inputs, "FILE.npy in the method's order; as many again for every further set");
  auto* expected = c->add_option("--expected", o->expected, "FILE.npy of the outputs that each set must give");
  c->add_flag("--record", o->record, "Run the method and keep what it gives")->excludes(expected);
  c->add_option("--format", o->format, "bp04 or bp08")->check(CLI::IsMember({"bp04", "bp08"}));
  add_backend(*c, o->backend, o->device);
  c->add_option("--data", o->data, "External weights (.ptd)");
  c->add_option("-o,--output", o->output, "File to write")->required();
  c->callback([o, &status] { status = report(write_bundle(*o)); });
}

}  // namespace smelt::cli
