#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/error.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cli/image.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/values.h"
#include "smelt/model.h"
#include "tensor/numeric.h"

namespace smelt::cli {
namespace {

struct RunOptions {
  std::string model, output_dir, labels;
  Target target;
  std::vector<std::string> inputs, data, tolerate, methods;
  ImageOptions image;
  int threads = 1, invokes = 1, top = 5;
  uint64_t seed = 0;
  Limits limits;
  uint64_t limit_steps = 0;
};

std::string summary(const Tensor& t) {
  if (t.elements() == 0) return "empty";
  if (t.dtype() == DType::kString) return t.data<std::string>()[0];
  if (is_complex(t.dtype())) return "";
  if (t.elements() == 1) return fmt::format("{:.6g}", get_double(t, 0));
  double lo = INFINITY, hi = -INFINITY, sum = 0;
  int64_t numbers = 0;
  for (int64_t i = 0; i < t.elements(); ++i) {
    const double v = get_double(t, i);
    if (std::isnan(v)) continue;
    lo = std::min(lo, v);
    hi = std::max(hi, v);
    sum += v;
    ++numbers;
  }
  if (numbers == 0) return "all NaN";
  std::string out = fmt::format("min {:.6g}  max {:.6g}  mean {:.6g}", lo, hi, sum / static_cast<double>(numbers));
  if (numbers < t.elements()) out += fmt::format("  NaN {}", t.elements() - numbers);
  return out;
}

std::string describe(const Datum& d) {
  switch (d.kind) {
    case Datum::Kind::kNone:
      return "none";
    case Datum::Kind::kMap:
      return "map";
    case Datum::Kind::kSequence:
      return Cat("sequence of ", d.items->size());
    case Datum::Kind::kTensor:
      break;
  }
  return to_string(d.tensor.dtype());
}

/// The outputs as a short table.
void print_outputs(const std::vector<Datum>& outputs, const std::vector<Port>& ports) {
  Table table({"", "output", "type", "shape", "values"});
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Datum& d = outputs[i];
    table.row({Cat(i), i < ports.size() ? ports[i].name : "", describe(d), d.is_tensor() ? d.tensor.shape().str() : "",
               d.is_tensor() ? summary(d.tensor) : ""});
  }
  put(table.str({0}, 60));
}

Status write_outputs(const std::string& folder, const std::vector<Datum>& outputs) {
  std::error_code ec;
  std::filesystem::create_directories(folder, ec);
  if (ec) return Error(ErrorCode::kIo, Cat(folder, ": ", ec.message()));
  for (size_t i = 0; i < outputs.size(); ++i) SMELT_TRY(write_value(folder, i, outputs[i]));
  return Ok();
}

/// The inputs of every method in turn: with several, the arguments are dealt out in the methods' order.
Result<std::vector<std::vector<Datum>>> inputs_of(const RunOptions& o, const Model& model) {
  std::vector<std::vector<Datum>> out(o.methods.size());
  size_t used = 0;
  for (size_t m = 0; m < out.size(); ++m) {
    if (!o.image.file.empty()) {
      SMELT_ASSIGN(Datum image, image_input(model, o.methods[m], 0, o.image));
      out[m].push_back(std::move(image));
      continue;
    }
    const size_t rest = o.inputs.size() - used;
    const size_t wanted = m + 1 == out.size() ? rest : std::min(rest, model.inputs(o.methods[m]).size());
    const auto first = o.inputs.begin() + static_cast<std::ptrdiff_t>(used);
    used += wanted;
    if (wanted == 0 && !o.inputs.empty() && !model.inputs(o.methods[m]).empty())
      return InvalidInput("no inputs are left for method '", o.methods[m], "'");
    SMELT_ASSIGN(out[m],
                 gather_inputs(model, o.methods[m], {first, first + static_cast<std::ptrdiff_t>(wanted)}, o.seed));
  }
  return out;
}

Status run(RunOptions o) {
  SMELT_ASSIGN(Model model, load_model(o.model, o.data, o.tolerate));
  SessionOptions so;
  o.target.apply(so);
  so.threads = o.threads;
  if (o.methods.empty()) o.methods.emplace_back();
  so.method = o.methods.back();
  so.seed = o.seed;
  o.limits.apply(so);
  so.limit_steps = o.limit_steps;
  SMELT_ASSIGN(Session session, Session::create(model, so));
  SMELT_ASSIGN(const auto inputs, inputs_of(o, model));
  std::vector<Datum> outputs;
  {
    Progress progress("run");
    for (int i = 0; i < o.invokes; ++i) {
      for (size_t m = 0; m < o.methods.size(); ++m) {
        SMELT_ASSIGN(outputs, session.run(o.methods[m], inputs[m]));
      }
      progress.step(static_cast<size_t>(i) + 1, static_cast<size_t>(o.invokes));
    }
  }
  if (!o.output_dir.empty()) SMELT_TRY(write_outputs(o.output_dir, outputs));
  const bool scores = !outputs.empty() && outputs[0].is_tensor() &&
                      (is_float(outputs[0].tensor.dtype()) || is_integer(outputs[0].tensor.dtype()));
  if (!o.image.file.empty() && scores) {
    SMELT_ASSIGN(const auto labels, read_labels(model, o.labels));
    put(top_classes(outputs[0].tensor, labels, o.top));
  } else {
    print_outputs(outputs, model.outputs(so.method));
  }
  return Ok();
}

}  // namespace

void add_run(CLI::App& app, int& status) {
  auto o = std::make_shared<RunOptions>();
  CLI::App* c = app.add_subcommand("run", "Run a model");
  add_model(*c, o->model);
  CLI::Option* inputs = add_inputs(*c, o->inputs);
  c->add_option("--output-dir", o->output_dir, "Write the outputs there as 0.npy, 1.npy, ...")->type_name("DIR");
  add_target(*c, o->target);
  add_threads(*c, o->threads);
  c->add_option("--invokes", o->invokes, "Number of runs; state is kept between them")
      ->check(between(1, 1000000))
      ->type_name("N")
      ->capture_default_str();
  c->add_option("--method", o->methods,
                "Method of a program; several run one after another on the same state, the last one's outputs count")
      ->allow_extra_args(false)
      ->type_name("NAME");
  add_data(*c, o->data);
  add_tolerate(*c, o->tolerate);
  add_seed(*c, o->seed);
  add_limits(*c, o->limits);
  c->add_option("--limit-steps", o->limit_steps,
                "Limit of executed operators, those of loops each time (0: scales with the model)")
      ->check(at_least_zero())
      ->type_name("N")
      ->capture_default_str();
  CLI::Option* image =
      c->add_option("--image", o->image.file, "PNG or JPEG for the first input, fitted to its size, layout and type")
          ->excludes(inputs)
          ->type_name("FILE");
  c->add_option("--labels", o->labels, "Class names, one a line (the model's own when it carries them)")
      ->needs(image)
      ->type_name("FILE");
  c->add_option("--top", o->top, "Number of classes shown with --image")
      ->check(between(1, 10000))
      ->needs(image)
      ->type_name("N")
      ->capture_default_str();
  c->add_option("--mean", o->image.mean, "Pixel mean (0..255): one value, or one a channel as R,G,B")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->needs(image)
      ->type_name("X");
  c->add_option("--std", o->image.std, "Pixel standard deviation, likewise")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(above_zero())
      ->needs(image)
      ->type_name("X");
  c->footer(
      "Examples:\n"
      "  smelt run model.tflite                          random inputs, a table of the outputs\n"
      "  smelt run model.onnx --input x=x.npy --output-dir out\n"
      "  smelt run mobilenet.tflite --image cat.jpg --labels labels.txt --top 3\n"
      "  smelt run program.pte --method prefill --input tokens.npy --method decode --input token.npy");
  c->callback([o, &status] {
    take_model(o->model, o->inputs);
    status = report(run(*o));
  });
}

}  // namespace smelt::cli
