#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cli/image.h"
#include "cli/inputs.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/outputs.h"
#include "cli/print_values.h"
#include "cli/scene.h"
#include "smelt/model.h"

namespace smelt::cli {
namespace {

struct RunOptions {
  std::string model, labels, draw;
  Target target;
  InputOptions inputs;
  OutputOptions outputs;
  std::vector<std::string> data, tolerate, methods, custom_operators;
  ImageOptions image;
  int threads = 1, invokes = 1, top = 5;
  Limits limits;
  uint64_t limit_steps = 0;
};

/// The inputs of every method in turn: with several, the arguments are dealt out in the methods' order. `pictures` are
/// the first input of each instead, if there are any.
Result<std::vector<Inputs>> inputs_of(const RunOptions& o, const Model& model, std::span<const std::string> pictures) {
  std::vector<Inputs> out(o.methods.size());
  const std::vector<std::string>& files = o.inputs.files;
  size_t used = 0;
  for (size_t m = 0; m < out.size(); ++m) {
    const auto ports = model.inputs(o.methods[m]);
    if (!pictures.empty()) {
      SMELT_ASSIGN(Datum image, image_input(model, o.methods[m], 0, o.image, pictures, o.inputs.dimensions));
      out[m].origins.push_back({pictures[0], dimension_sizes(ports[0], image.tensor.shape(), "")});
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

/// What came out for one picture, or for the inputs given otherwise.
struct Outcome {
  std::string picture;  ///< file; empty: none
  const Inputs* inputs;
  std::vector<Datum> outputs;
};

Result<Json> classes_json(const RunOptions& o, const Model& model, const Tensor& scores) {
  SMELT_ASSIGN(const auto labels, read_labels(model, o.labels));
  Json out = Json::array();
  for (const ClassScore& c : top_classes(scores, labels, o.top))
    out.push_back({{"class", c.index}, {"score", c.score}, {"label", c.label}});
  return out;
}

/// Pictures are classified, and other inputs where labels are given.
bool classifies(const RunOptions& o, const Outcome& r) {
  if (r.picture.empty() && o.labels.empty()) return false;
  return !r.outputs.empty() && is_classification(r.outputs[0]);
}

/// The outputs as one object, and the classes of each picture.
Status print_run_json(const RunOptions& o, const Model& model, const std::vector<Outcome>& all,
                      const std::vector<Port>& ports) {
  Json out = {{"model", o.model},
              {"format", model.format()},
              {"method", o.methods.back().empty() ? model.methods()[0] : o.methods.back()},
              {"backend", o.target.backend},
              {"threads", thread_count(o.threads)},
              {"inputs", inputs_json(model.inputs(o.methods.back()), *all[0].inputs)}};
  if (all.size() == 1) {
    out["outputs"] = outputs_json(o.outputs, all[0].outputs, ports);
    if (classifies(o, all[0])) {
      SMELT_ASSIGN(out["classes"], classes_json(o, model, all[0].outputs[0].tensor));
    }
  } else {
    for (const Outcome& r : all) {
      Json entry = {{"image", r.picture}, {"outputs", outputs_json(o.outputs, r.outputs, ports)}};
      if (classifies(o, r)) {
        SMELT_ASSIGN(entry["classes"], classes_json(o, model, r.outputs[0].tensor));
      }
      out["pictures"].push_back(std::move(entry));
    }
  }
  put_json(out);
  return Ok();
}

Status print_classes(const RunOptions& o, const Model& model, const Tensor& scores) {
  SMELT_ASSIGN(const auto labels, read_labels(model, o.labels));
  const auto classes = scores.elements(), lines = static_cast<int64_t>(labels.size());
  if (lines > 0 && lines != classes && lines + 1 != classes) complain(Cat(lines, " labels for ", classes, " classes"));
  Table table({"class", "score", "label"});
  for (const ClassScore& c : top_classes(scores, labels, o.top))
    table.row({Cat(c.index), formatted("{:.4f}", c.score), c.label});
  put(table.str({0, 1}, 60));
  return Ok();
}

/// Draws what the outputs tell about a picture and prints it. True if they tell something.
Result<bool> show_scene(const RunOptions& o, const Model& model, const Outcome& r) {
  if (r.picture.empty()) return false;
  const auto scene = recognise_scene(r.outputs, r.inputs->values[0].tensor.shape());
  if (!scene) return false;
  SMELT_ASSIGN(const auto labels, read_labels(model, o.labels));
  SMELT_ASSIGN(Picture picture, read_picture(r.picture));
  print_scene(*scene, labels, picture);
  if (o.draw.empty()) return true;
  draw_scene(*scene, picture);
  SMELT_TRY(write_png(o.draw, picture));
  return true;
}

Status print_run_text(const RunOptions& o, const Model& model, const std::vector<Outcome>& all,
                      const std::vector<Port>& ports) {
  print_dimensions(model, o.methods.back(), *all[0].inputs);
  for (const Outcome& r : all) {
    if (all.size() > 1) say("{}{}\n", &r == &all[0] ? "" : "\n", printable(r.picture));
    if (classifies(o, r)) {
      if (!o.draw.empty()) complain("the outputs are scores of classes: nothing is drawn");
      SMELT_TRY(print_classes(o, model, r.outputs[0].tensor));
      continue;
    }
    SMELT_ASSIGN(const bool shown, show_scene(o, model, r));
    if (!shown && !o.draw.empty())
      complain("the outputs are no detections and no mask: nothing is drawn; these are the outputs");
    if (!shown) print_outputs(o.outputs, r.outputs, ports);
  }
  return Ok();
}

/// The part of each output that belongs to picture `index` of a batch.
std::vector<Datum> part_of_batch(const std::vector<Datum>& outputs, size_t index, size_t batch) {
  if (batch == 1) return outputs;
  std::vector<Datum> out;
  for (const Datum& d : outputs) {
    const bool split = d.is_tensor() && d.tensor.rank() > 0 && d.tensor.dim(0) == static_cast<int64_t>(batch) &&
                       d.tensor.dtype() != DType::kString && bit_width(d.tensor.dtype()) % 8 == 0;
    if (!split) {
      out.push_back(d);
      continue;
    }
    Shape shape = d.tensor.shape();
    shape[0] = 1;
    Tensor part = Tensor::view(d.tensor.dtype(), shape, d.tensor.data<std::byte>() + index * (d.tensor.bytes() / batch),
                               d.tensor.owner());
    part.set_quant(d.tensor.quant());
    out.emplace_back(std::move(part));
  }
  return out;
}

Result<std::vector<Datum>> run_methods(const RunOptions& o, Session& session, const std::vector<Inputs>& inputs) {
  std::vector<Datum> outputs;
  Progress progress("run");
  for (int i = 0; i < o.invokes; ++i) {
    for (size_t m = 0; m < o.methods.size(); ++m) {
      auto results = session.run(o.methods[m], inputs[m].values);
      if (!results.ok()) return inputs[m].explain(results.error());
      outputs = std::move(results).value();
    }
    progress.step(static_cast<size_t>(i) + 1, static_cast<size_t>(o.invokes));
  }
  return outputs;
}

/// Runs on the pictures, batch by batch, or once on the other inputs.
Result<std::vector<Outcome>> run_all(const RunOptions& o, const Model& model, Session& session,
                                     std::vector<std::vector<Inputs>>& kept) {
  SMELT_ASSIGN(const auto files, picture_files(o.image));
  size_t batch = 1;
  if (!files.empty()) {
    SMELT_ASSIGN(batch, batch_size(model, o.methods[0], 0, o.inputs.dimensions));
  }
  std::vector<Outcome> out;
  kept.reserve(files.size() / batch + 1);
  for (size_t first = 0; first < std::max<size_t>(files.size(), 1); first += batch) {
    const size_t count = std::min(batch, files.size() - first);
    SMELT_ASSIGN(auto inputs, inputs_of(o, model, std::span(files).subspan(first, count)));
    kept.push_back(std::move(inputs));
    if (first > 0) session.reset_state();
    SMELT_ASSIGN(const auto outputs, run_methods(o, session, kept.back()));
    if (files.empty()) return std::vector<Outcome>{{"", &kept.back().back(), outputs}};
    for (size_t i = 0; i < count; ++i)
      out.push_back({files[first + i], &kept.back().back(), part_of_batch(outputs, i, batch)});
  }
  return out;
}

/// The files of the outputs: with several pictures, in a folder of each one's name.
Status save_all(const OutputOptions& options, const std::vector<Outcome>& all, const std::vector<Port>& ports) {
  if (all.size() == 1) return save_outputs(options, all[0].outputs, ports);
  if (!options.npz.empty())
    return InvalidInput("--save-npz takes the outputs of one picture, ", all.size(), " are given");
  if (options.folder.empty()) return Ok();
  for (const Outcome& r : all) {
    OutputOptions own = options;
    own.folder = (std::filesystem::path(options.folder) / std::filesystem::path(r.picture).stem()).string();
    SMELT_TRY(save_outputs(own, r.outputs, ports));
  }
  return Ok();
}

Status run(RunOptions o) {
  if (o.outputs.npz == "-" || o.draw == "-") reserve_standard_output();
  SMELT_ASSIGN(const LoadOptions load, load_options(o.data, o.tolerate, o.custom_operators));
  SMELT_ASSIGN(const Model loaded, load_model(o.model, load, o.outputs.names.empty()));
  if (o.methods.empty()) o.methods.emplace_back();
  SMELT_ASSIGN(const Model model, o.outputs.names.empty() ? Result<Model>(loaded)
                                                          : loaded.with_outputs(o.outputs.names, o.methods.back()));
  SessionOptions so;
  o.target.apply(so);
  so.threads = thread_count(o.threads);
  so.method = o.methods.back();
  so.seed = o.inputs.seed;
  o.limits.apply(so);
  so.limit_steps = o.limit_steps;
  SMELT_ASSIGN(Session session, Session::create(model, so));
  std::vector<std::vector<Inputs>> inputs;
  SMELT_ASSIGN(const auto all, run_all(o, model, session, inputs));
  if (!o.draw.empty() && all.size() != 1) return InvalidInput("--draw takes one picture, ", all.size(), " are given");
  const auto ports = model.outputs(so.method);
  SMELT_TRY(save_all(o.outputs, all, ports));
  return (o.outputs.json ? print_run_json : print_run_text)(o, model, all, ports);
}

}  // namespace

void add_run(Command app, int& status) {
  auto o = std::make_shared<RunOptions>();
  Command c = app.add_subcommand("run", "Run a model");
  add_model(c, o->model);
  Option inputs = add_inputs(c, o->inputs);
  add_outputs(c, o->outputs);
  add_target(c, o->target);
  add_threads(c, o->threads);
  c.add_option("--invokes", o->invokes, "Number of runs; state is kept between them")
      .check(between(1, 1000000))
      .type_name("N")
      .default_shown();
  c.add_option("--method", o->methods,
               "Method of a program; several run one after another on the same state, the last one's outputs count")
      .one_value()
      .type_name("NAME");
  add_data(c, o->data);
  add_tolerate(c, o->tolerate);
  add_custom_operators(c, o->custom_operators);
  add_seed(c, o->inputs.seed);
  add_limits(c, o->limits);
  c.add_option("--limit-steps", o->limit_steps,
               "Limit of executed operators, those of loops each time (0: scales with the model)")
      .check(at_least_zero())
      .type_name("N")
      .default_shown();
  Option image =
      c.add_option("--image", o->image.files,
                   "PNG or JPEG for the first input, fitted to its size, layout and type; may be repeated, or a folder")
          .one_value()
          .excludes(inputs)
          .type_name("FILE");
  c.add_option("--labels", o->labels, "Class names, one a line (the model's own when it carries them)")
      .type_name("FILE");
  c.add_option("--draw", o->draw,
               "Write the picture as PNG with the objects that a detector found, or the classes of a segmentation")
      .needs(image)
      .excludes(c.option("--json"))
      .type_name("FILE");
  c.add_option("--top", o->top, "Number of classes shown").check(between(1, 10000)).type_name("N").default_shown();
  c.add_option("--mean", o->image.mean, "Pixel mean (0..255): one value, or one a channel as R,G,B")
      .delimiter(',')
      .one_value()
      .needs(image)
      .type_name("X");
  c.add_option("--std", o->image.std, "Pixel standard deviation, likewise")
      .delimiter(',')
      .one_value()
      .check(above_zero())
      .needs(image)
      .type_name("X");
  c.footer(
      "Examples:\n"
      "  smelt run model.tflite                          random inputs, a table of the outputs\n"
      "  smelt run model.onnx --input x=x.npy --output-dir out\n"
      "  smelt run model.onnx --dim seq=128 --fill zeros --print all\n"
      "  smelt run mobilenet.tflite --image cat.jpg --labels labels.txt --top 3\n"
      "  smelt run detector.tflite --image street.jpg --labels coco.txt --draw street.png\n"
      "  smelt run keywords.onnx --input yes.wav --labels words.txt\n"
      "  smelt run program.pte --method prefill --input tokens.npy --method decode --input token.npy");
  c.callback([o, &status] {
    take_model(o->model, o->inputs.files);
    status = report(run(*o));
  });
}

}  // namespace smelt::cli
