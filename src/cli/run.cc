#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <random>
#include <vector>

#include "base/error.h"
#include "cli/command.h"
#include "smelt/model.h"
#include "tensor/npy.h"
#include "tensor/numeric.h"

namespace smelt::cli {
namespace {

struct RunOptions {
  std::string model, output_dir, backend = "cpu", method;
  std::vector<std::string> inputs, data;
  int threads = 1, invokes = 1;
  uint64_t seed = 0;
  size_t limit_memory = 0;
  double limit_seconds = 0;
};

/// Reads one value: FILE.npy, a folder N.seq or N.map, or "none".
Result<Datum> read_value(const std::string& path) {
  namespace fs = std::filesystem;
  if (path == "none") return Datum{};
  if (!fs::is_directory(path)) {
    SMELT_ASSIGN(Tensor t, read_npy(path));
    return Datum(std::move(t));
  }
  if (fs::exists(fs::path(path) / "keys.npy")) {
    SMELT_ASSIGN(Tensor keys, read_npy((fs::path(path) / "keys.npy").string()));
    SMELT_ASSIGN(Tensor values, read_npy((fs::path(path) / "values.npy").string()));
    return Datum::map(std::move(keys), std::move(values));
  }
  std::vector<Datum> items;
  for (int i = 0;; ++i) {
    const fs::path file = fs::path(path) / Cat(i, ".npy");
    if (!fs::exists(file)) break;
    SMELT_ASSIGN(Tensor t, read_npy(file.string()));
    items.emplace_back(std::move(t));
  }
  return Datum::sequence(std::move(items));
}

/// A tensor read from .npy in the element type that the model wants: the same bits under another name.
Datum adapt(Datum d, const Port& port) {
  if (!d.is_tensor() || d.tensor.dtype() == port.dtype || port.dtype == DType::kInvalid) return d;
  const DType have = d.tensor.dtype(), want = port.dtype;
  const bool same_bits =
      (have == DType::kU16 && want == DType::kBF16) || (bit_width(want) == 8 && is_float(want) && have == DType::kU8);
  if (same_bits) return Datum(Tensor::view(want, d.tensor.shape(), d.tensor.raw(), d.tensor.owner()));
  if (bit_width(want) > 0 && bit_width(want) < 8 && (have == DType::kI8 || have == DType::kU8)) {
    Tensor packed(want, d.tensor.shape());
    for (int64_t i = 0; i < packed.elements(); ++i) set_int(packed, i, get_int(d.tensor, i));
    return Datum(std::move(packed));
  }
  return d;
}

Result<std::vector<Datum>> gather_inputs(const RunOptions& o, const Model& model) {
  const auto ports = model.inputs(o.method);
  std::vector<Datum> out(ports.size());
  if (o.inputs.empty()) {
    std::mt19937_64 random(o.seed);
    for (size_t i = 0; i < ports.size(); ++i) {
      const Port& p = ports[i];
      if (!p.is_tensor) {
        if (p.optional) continue;
        return InvalidInput("input '", p.name, "' is not a tensor: give it with --input");
      }
      Shape shape = p.shape;
      for (int k = 0; k < shape.rank(); ++k)
        if (shape[k] < 0) shape[k] = 1;
      SMELT_ASSIGN(Tensor t, Tensor::allocate(p.dtype == DType::kInvalid ? DType::kF32 : p.dtype, shape));
      std::uniform_real_distribution<double> real(-1, 1);
      for (int64_t k = 0; k < t.elements() && t.dtype() != DType::kString; ++k) {
        if (is_float(t.dtype()) || is_complex(t.dtype()))
          set_double(t, k, real(random));
        else
          set_int(t, k, static_cast<int64_t>(random() % (p.quant ? 256 : 2)));
      }
      out[i] = std::move(t);
    }
    return out;
  }
  size_t next = 0;
  std::vector<bool> given(ports.size(), false);
  for (const std::string& text : o.inputs) {
    size_t index = ports.size();
    std::string path = text;
    const size_t eq = text.find('=');
    if (eq != std::string::npos && !std::filesystem::exists(text)) {
      const std::string name = text.substr(0, eq);
      for (size_t i = 0; i < ports.size(); ++i)
        if (ports[i].name == name) index = i;
      if (index == ports.size()) return InvalidInput("the model has no input '", name, "'");
      path = text.substr(eq + 1);
    } else {
      while (next < ports.size() && given[next]) ++next;
      index = next;
      if (index >= ports.size()) return InvalidInput(o.inputs.size(), " inputs given, the model takes ", ports.size());
    }
    SMELT_ASSIGN(Datum d, read_value(path));
    out[index] = adapt(std::move(d), ports[index]);
    given[index] = true;
  }
  for (size_t i = 0; i < ports.size(); ++i)
    if (!given[i] && !ports[i].optional) return InvalidInput("input ", i, " '", ports[i].name, "' is missing");
  return out;
}

std::string summary(const Tensor& t) {
  if (t.dtype() == DType::kString || is_complex(t.dtype()) || t.elements() == 0) return "";
  double lo = INFINITY, hi = -INFINITY, sum = 0;
  for (int64_t i = 0; i < t.elements(); ++i) {
    const double v = get_double(t, i);
    lo = std::fmin(lo, v);
    hi = std::fmax(hi, v);
    sum += v;
  }
  return fmt::format("min {:.6g}  max {:.6g}  mean {:.6g}", lo, hi, sum / static_cast<double>(t.elements()));
}

Status write_value(const std::filesystem::path& dir, size_t index, const Datum& d) {
  namespace fs = std::filesystem;
  std::error_code ec;
  switch (d.kind) {
    case Datum::Kind::kNone:
      return Ok();
    case Datum::Kind::kTensor:
      return write_npy((dir / Cat(index, ".npy")).string(), d.tensor);
    case Datum::Kind::kSequence: {
      const fs::path folder = dir / Cat(index, ".seq");
      fs::create_directories(folder, ec);
      if (ec) return Error(ErrorCode::kIo, Cat(folder.string(), ": ", ec.message()));
      for (size_t i = 0; i < d.items->size(); ++i)
        if ((*d.items)[i].is_tensor()) SMELT_TRY(write_npy((folder / Cat(i, ".npy")).string(), (*d.items)[i].tensor));
      return Ok();
    }
    case Datum::Kind::kMap: {
      const fs::path folder = dir / Cat(index, ".map");
      fs::create_directories(folder, ec);
      if (ec) return Error(ErrorCode::kIo, Cat(folder.string(), ": ", ec.message()));
      SMELT_TRY(write_npy((folder / "keys.npy").string(), (*d.items)[0].tensor));
      return write_npy((folder / "values.npy").string(), (*d.items)[1].tensor);
    }
  }
  return Ok();
}

Status run(const RunOptions& o) {
  LoadOptions load;
  load.data_files = o.data;
  SMELT_ASSIGN(Model model, Model::load(o.model, load));
  SessionOptions so;
  so.backend = o.backend == "reference" ? BackendKind::kReference
               : o.backend == "vulkan"  ? BackendKind::kVulkan
                                        : BackendKind::kCpu;
  so.threads = o.threads;
  so.method = o.method;
  so.seed = o.seed;
  so.limit_memory = o.limit_memory;
  so.limit_seconds = o.limit_seconds;
  SMELT_ASSIGN(Session session, Session::create(model, so));
  SMELT_ASSIGN(auto inputs, gather_inputs(o, model));
  std::vector<Datum> outputs;
  for (int i = 0; i < o.invokes; ++i) {
    SMELT_ASSIGN(outputs, session.run(inputs));
  }
  if (!o.output_dir.empty()) {
    std::error_code ec;
    std::filesystem::create_directories(o.output_dir, ec);
    if (ec) return Error(ErrorCode::kIo, Cat(o.output_dir, ": ", ec.message()));
    for (size_t i = 0; i < outputs.size(); ++i) SMELT_TRY(write_value(o.output_dir, i, outputs[i]));
  }
  const auto ports = model.outputs(o.method);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Datum& d = outputs[i];
    const std::string name = i < ports.size() ? ports[i].name : "";
    if (d.is_tensor())
      fmt::print("{:<3} {:<24} {:<8} {:<18} {}\n", i, name, to_string(d.tensor.dtype()), d.tensor.shape().str(),
                 summary(d.tensor));
    else
      fmt::print("{:<3} {:<24} {}\n", i, name,
                 d.none()                      ? "none"
                 : d.kind == Datum::Kind::kMap ? "map"
                                               : Cat("sequence of ", d.items->size()));
  }
  return Ok();
}

}  // namespace

void add_run(CLI::App& app, int& status) {
  auto o = std::make_shared<RunOptions>();
  CLI::App* c = app.add_subcommand("run", "Run a model");
  c->add_option("model", o->model, "Model file")->required();
  c->add_option("--input", o->inputs, "FILE.npy in the model's order, or NAME=FILE.npy; 'none' for an absent optional")
      ->take_all();
  c->add_option("--output-dir", o->output_dir, "Write the outputs there as 0.npy, 1.npy, ...");
  c->add_option("--backend", o->backend, "reference, cpu or vulkan")
      ->check(CLI::IsMember({"reference", "cpu", "vulkan"}));
  c->add_option("--threads", o->threads, "Threads")->check(CLI::Range(1, 256));
  c->add_option("--invokes", o->invokes, "Runs; state is kept between them")->check(CLI::Range(1, 1000000));
  c->add_option("--method", o->method, "Method of a program");
  c->add_option("--data", o->data, "External weights (.ptd)");
  c->add_option("--seed", o->seed, "Seed of random inputs and operators");
  c->add_option("--limit-memory", o->limit_memory, "Bytes a run may hold");
  c->add_option("--limit-seconds", o->limit_seconds, "Seconds a run may take");
  c->callback([o, &status] {
    if (auto s = run(*o); !s.ok()) {
      fmt::print(stderr, "smelt: {}\n", s.error().message());
      status = kFault;
    }
  });
}

}  // namespace smelt::cli
