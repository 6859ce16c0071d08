#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/error.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cli/image.h"
#include "cli/inputs.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/outputs.h"
#include "cli/print_values.h"
#include "smelt/model.h"

namespace smelt::cli {
namespace {

using nlohmann::json;

struct RunOptions {
  std::string model, labels;
  Target target;
  InputOptions inputs;
  OutputOptions outputs;
  std::vector<std::string> data, tolerate, methods;
  ImageOptions image;
  int threads = 1, invokes = 1, top = 5;
  Limits limits;
  uint64_t limit_steps = 0;
};

/// The inputs of every method in turn: with several, the arguments are dealt out in the methods' order.
Result<std::vector<Inputs>> inputs_of(const RunOptions& o, const Model& model) {
  std::vector<Inputs> out(o.methods.size());
  const std::vector<std::string>& files = o.inputs.files;
  size_t used = 0;
  for (size_t m = 0; m < out.size(); ++m) {
    const auto ports = model.inputs(o.methods[m]);
    if (!o.image.file.empty()) {
      SMELT_ASSIGN(Datum image, image_input(model, o.methods[m], 0, o.image, o.inputs.dimensions));
      out[m].origins.push_back({o.image.file, dimension_sizes(ports[0], image.tensor.shape(), "")});
      out[m].values.push_back(std::move(image));
      continue;
    }
    const size_t rest = files.size() - used;
    const size_t wanted = m + 1 == out.size() ? rest : std::min(rest, ports.size());
    const auto first = files.begin() + static_cast<std::ptrdiff_t>(used);
    used += wanted;
    if (wanted == 0 && !files.empty() && !ports.empty())
      return InvalidInput("no inputs are left for method '", o.methods[m], "'");
    InputOptions part = o.inputs;
    part.files = {first, first + static_cast<std::ptrdiff_t>(wanted)};
    SMELT_ASSIGN(out[m], gather_inputs(model, o.methods[m], part));
  }
  return out;
}

/// Sizes of the dimensions that the model leaves open.
void print_dimensions(const Model& model, const std::string& method, const Inputs& inputs) {
  const auto ports = model.inputs(method);
  for (size_t i = 0; i < inputs.origins.size(); ++i)
    if (const std::string& sizes = inputs.origins[i].dimensions; !sizes.empty())
      say("input {} ({}): {}\n", printable(ports[i].name), printable(inputs.origins[i].source), printable(sizes));
}

/// The outputs as one object, and the classes of a picture.
Status print_run_json(const RunOptions& o, const Model& model, const Inputs& inputs, const std::vector<Datum>& outputs,
                      const std::vector<Port>& ports) {
  json out = {{"model", o.model},
              {"format", model.format()},
              {"method", o.methods.back().empty() ? model.methods()[0] : o.methods.back()},
              {"backend", o.target.backend},
              {"threads", thread_count(o.threads)},
              {"inputs", inputs_json(model.inputs(o.methods.back()), inputs)},
              {"outputs", outputs_json(o.outputs, outputs, ports)}};
  if (!o.image.file.empty() && !outputs.empty() && is_classification(outputs[0])) {
    SMELT_ASSIGN(const auto labels, read_labels(model, o.labels));
    out["classes"] = json::array();
    for (const ClassScore& c : top_classes(outputs[0].tensor, labels, o.top))
      out["classes"].push_back({{"class", c.index}, {"score", c.score}, {"label", c.label}});
  }
  put_json(out);
  return Ok();
}

Status print_run_text(const RunOptions& o, const Model& model, const Inputs& inputs, const std::vector<Datum>& outputs,
                      const std::vector<Port>& ports) {
  print_dimensions(model, o.methods.back(), inputs);
  if (o.image.file.empty() || outputs.empty() || !is_classification(outputs[0])) {
    print_outputs(o.outputs, outputs, ports);
    return Ok();
  }
  SMELT_ASSIGN(const auto labels, read_labels(model, o.labels));
  const auto classes = outputs[0].tensor.elements(), lines = static_cast<int64_t>(labels.size());
  if (lines > 0 && lines != classes && lines + 1 != classes) complain(Cat(lines, " labels for ", classes, " classes"));
  Table table({"class", "score", "label"});
  for (const ClassScore& c : top_classes(outputs[0].tensor, labels, o.top))
    table.row({Cat(c.index), fmt::format("{:.4f}", c.score), c.label});
  put(table.str({0, 1}, 60));
  return Ok();
}

Status run(RunOptions o) {
  if (o.outputs.npz == "-") reserve_standard_output();
  SMELT_ASSIGN(Model loaded, load_model(o.model, {.data_files = o.data, .tolerate = o.tolerate}));
  if (o.methods.empty()) o.methods.emplace_back();
  SMELT_ASSIGN(const Model model, with_outputs(loaded, o.methods.back(), o.outputs.names));
  SessionOptions so;
  o.target.apply(so);
  so.threads = thread_count(o.threads);
  so.method = o.methods.back();
  so.seed = o.inputs.seed;
  o.limits.apply(so);
  so.limit_steps = o.limit_steps;
  SMELT_ASSIGN(Session session, Session::create(model, so));
  SMELT_ASSIGN(const auto inputs, inputs_of(o, model));
  std::vector<Datum> outputs;
  {
    Progress progress("run");
    for (int i = 0; i < o.invokes; ++i) {
      for (size_t m = 0; m < o.methods.size(); ++m) {
        auto results = session.run(o.methods[m], inputs[m].values);
        if (!results.ok()) return inputs[m].explain(results.error());
        outputs = std::move(results).value();
      }
      progress.step(static_cast<size_t>(i) + 1, static_cast<size_t>(o.invokes));
    }
  }
  const auto ports = model.outputs(so.method);
  SMELT_TRY(save_outputs(o.outputs, outputs, ports));
  return (o.outputs.json ? print_run_json : print_run_text)(o, model, inputs.back(), outputs, ports);
}

}  // namespace

void add_run(CLI::App& app, int& status) {
  auto o = std::make_shared<RunOptions>();
  CLI::App* c = app.add_subcommand("run", "Run a model");
  add_model(*c, o->model);
  CLI::Option* inputs = add_inputs(*c, o->inputs);
  add_outputs(*c, o->outputs);
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
  add_seed(*c, o->inputs.seed);
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
      "  smelt run model.onnx --dim seq=128 --fill zeros --print all\n"
      "  smelt run mobilenet.tflite --image cat.jpg --labels labels.txt --top 3\n"
      "  smelt run program.pte --method prefill --input tokens.npy --method decode --input token.npy");
  c->callback([o, &status] {
    take_model(o->model, o->inputs.files);
    status = report(run(*o));
  });
}

}  // namespace smelt::cli
