#include <algorithm>
#include <memory>

#include "base/error.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cli/diff_report.h"
#include "cli/inputs.h"
#include "cli/options.h"
#include "cli/output.h"
#include "runtime/model_access.h"

namespace smelt::cli {
namespace {

struct DiffOptions {
  std::string first, second, method, html, json;
  std::vector<std::string> draws, data, tolerate;
  InputOptions inputs;
  double rtol = -1, atol = 0;
  int threads = 1;
  bool quant = false, strict_types = false;
};

/// How each kind of inputs is filled, as --fill says it.
struct DrawKind {
  const char* name;
  const char* fill;
};
constexpr DrawKind kDraws[] = {
    {"random", "random"}, {"large", "range:-100,100"}, {"tiny", "range:-0.0001,0.0001"}, {"constant", "ones"}};

Result<std::vector<Draw>> make_draws(const DiffOptions& o, const Model& model, const Graph& graph) {
  std::vector<Draw> out;
  const Graph& read = module_of(model).graphs[static_cast<size_t>(module_of(model).find_method(o.method)->graph)];
  const auto add = [&](const std::string& name, const InputOptions& how) -> Status {
    const uint64_t seed = how.seed + out.size();  // words of its own for each draw
    SMELT_ASSIGN(const Inputs inputs, gather_inputs(model, o.method, how));
    Draw d{name, {}};
    for (size_t i = 0; i < inputs.values.size(); ++i)
      if (!read.value(read.inputs[i]).constant) d.inputs.push_back(inputs.values[i]);
    if (name != "given") spread_indices(graph, d.inputs, seed);
    out.push_back(std::move(d));
    return Ok();
  };
  if (!o.inputs.files.empty()) {
    SMELT_TRY(add("given", o.inputs));
    return out;
  }
  for (const DrawKind& kind : kDraws) {
    // A quantized model is made for inputs of a range.
    if (o.quant && o.draws.empty() && &kind != &kDraws[0]) continue;
    if (!o.draws.empty() && std::ranges::find(o.draws, kind.name) == o.draws.end()) continue;
    InputOptions how = o.inputs;
    how.fill = kind.fill;
    SMELT_TRY(add(kind.name, how));
  }
  return out;
}

Result<int> diff(const DiffOptions& o) {
  if (o.html == "-" || o.json == "-") reserve_standard_output();
  SideOptions sides;
  sides.threads = thread_count(o.threads);
  sides.method = o.method;
  sides.strict_types = o.strict_types;
  const LoadOptions load{.data_files = o.data, .tolerate = o.tolerate};
  const SideName a = parse_side(o.first), b = parse_side(o.second);
  SMELT_ASSIGN(const Model first_model, load_model(a.file, load));
  SMELT_ASSIGN(const Model second_model, a.file == b.file ? Result<Model>(first_model) : load_model(b.file, load));
  SMELT_ASSIGN(const auto first, open_side(o.first, first_model, sides));
  SMELT_ASSIGN(const auto second, open_side(o.second, second_model, sides));
  SMELT_ASSIGN(const std::vector<Draw> draws, make_draws(o, first_model, first->graph()));
  if (o.quant) {
    Progress progress("layers");
    SMELT_ASSIGN(const QuantizationReport report,
                 compare_quantized(*first, *second, draws, sides,
                                   [&](size_t done, size_t total) { progress.step(done, total); }));
    if (!o.json.empty())
      SMELT_TRY(write_result(o.json, {quantization_json(*first, *second, report).dump(1), "\n"}));
    else
      print_quantization(*first, report);
    const bool differs = o.rtol >= 0 && report.error > o.rtol;
    return static_cast<int>(differs ? kMismatch : kDone);
  }
  CompareOptions options;
  if (o.rtol >= 0) options.tolerance.relative = o.rtol;
  options.tolerance.absolute = o.atol;
  options.histograms = !o.html.empty();
  SMELT_ASSIGN(const Comparison comparison, compare(*first, *second, draws, options));
  const DiffResult result{comparison.swapped ? *second : *first, comparison.swapped ? *first : *second, comparison};
  if (!o.html.empty()) SMELT_TRY(write_result(o.html, {diff_page(result)}));
  if (!o.json.empty()) SMELT_TRY(write_result(o.json, {diff_json(result).dump(1), "\n"}));
  if (o.json != "-" && o.html != "-") print_diff(result);
  return static_cast<int>(comparison.differ() ? kMismatch : kDone);
}

}  // namespace

void add_diff(Command app, int& status) {
  auto o = std::make_shared<DiffOptions>();
  Command c = app.add_subcommand("diff", "Find the layer where two models, or two runs of a model, part");
  c.add_option("FIRST", o->first,
               "Model, or MODEL@WHERE: reference, cpu, a level of the CPU's kernels (avx2), vulkan, onnxruntime, "
               "litert, executorch; without @ the graph as the file has it")
      .required();
  c.add_option("SECOND", o->second, "Likewise").required();
  Option inputs = add_inputs(c, o->inputs);
  std::vector<std::string> names;
  for (const DrawKind& d : kDraws) names.emplace_back(d.name);
  c.add_option("--draws", o->draws, formatted("Kinds of made-up inputs: {} (default: all)", joined(names, ", ")))
      .delimiter(',')
      .one_value()
      .check(one_of(names))
      .excludes(inputs)
      .type_name("KIND");
  c.add_option("--rtol", o->rtol,
               "Tolerated error of a layer: root mean square of the differences over that of the values (default: by "
               "element type)")
      .check(at_least_zero())
      .type_name("X");
  c.add_option("--atol", o->atol, "Root mean square of differences that is always tolerated")
      .check(at_least_zero())
      .type_name("X");
  c.add_flag("--quant", o->quant,
             "FIRST is a float model, SECOND its quantized twin: what each layer's quantization costs");
  Option html = c.add_option("--html", o->html, "Write a page with both graphs, coloured by error").type_name("FILE");
  c.option("--quant").excludes(html);
  c.add_option("--json", o->json, "Write everything as one JSON object (-: to standard output)").type_name("FILE");
  c.add_flag("--strict-types", o->strict_types, "Keep float16 values between nodes in float16");
  c.add_option("--method", o->method, "Method of a program").type_name("NAME");
  add_threads(c, o->threads);
  add_data(c, o->data);
  add_tolerate(c, o->tolerate);
  add_seed(c, o->inputs.seed);
  c.footer(
      "Examples:\n  smelt diff model.onnx model.tflite\n  smelt diff model.onnx model.onnx@onnxruntime --html "
      "diff.html\n"
      "  smelt diff model.tflite@cpu model.tflite@vulkan\n  smelt diff float.onnx int8.onnx --quant\n"
      "Exit status 3: they differ beyond the tolerance.");
  c.callback([o, &status] {
    auto result = diff(*o);
    status = result.ok() ? *result : report(result.error());
  });
}

}  // namespace smelt::cli
