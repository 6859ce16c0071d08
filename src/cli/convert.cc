// smelt convert: a model in another format.
#include "convert/convert.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/write_file.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cli/golden_case.h"
#include "cli/image.h"
#include "cli/inputs.h"
#include "cli/options.h"
#include "cli/output.h"
#include "formats/bundle/bundle.h"

namespace smelt::cli {
namespace {

struct ConvertCommand {
  std::string model, output, to;
  convert::Options options;
  std::vector<std::string> shapes, data, tolerate;
  std::string calibrate, range_rule = "minmax";
};

/// The writer of --to, or the one whose suffix the output has.
Result<const formats::Writer*> writer_of(const ConvertCommand& o) {
  std::string names;
  for (const formats::Writer* w : formats::all_writers()) {
    if (o.to.empty() ? o.output.ends_with(w->suffix) : o.to == w->name) return w;
    names += (names.empty() ? "" : ", ") + std::string(w->name);
  }
  return InvalidInput(o.output, ": name the format by --to, one of ", names);
}

Result<std::vector<int64_t>> parse_shape(const std::string& text) {
  std::vector<int64_t> dims;
  size_t at = 0;
  while (at <= text.size()) {
    const size_t end = std::min(text.find('x', at), text.size());
    const std::string number = text.substr(at, end - at);
    if (number.empty() || number.size() > 18 || number.find_first_not_of("0123456789") != std::string::npos)
      return InvalidInput("--shape: '", text, "' is no shape such as 1x128");
    dims.push_back(std::stoll(number));
    at = end + 1;
  }
  if (dims.size() > static_cast<size_t>(Shape::kMaxRank)) return InvalidInput("--shape: rank ", dims.size());
  return dims;
}

Status read_shapes(ConvertCommand& o, const Model& model) {
  for (const std::string& given : o.shapes) {
    const size_t equals = given.rfind('=');
    std::string name = equals == std::string::npos ? "" : given.substr(0, equals);
    if (equals == std::string::npos) {
      const auto ports = model.inputs(o.options.method);
      if (ports.size() != 1) return InvalidInput("--shape: the model has ", ports.size(), " inputs; give NAME=SHAPE");
      name = ports[0].name;
    }
    SMELT_ASSIGN(o.options.shapes[name], parse_shape(equals == std::string::npos ? given : given.substr(equals + 1)));
  }
  return Ok();
}

/// Inputs of one calibration run: a file for the only input, or a folder of N.npy files.
Result<std::vector<Datum>> calibration_inputs(const ConvertCommand& o, const Model& model,
                                              const std::filesystem::path& path) {
  const std::string suffix = path.extension().string();
  const auto ports = model.inputs(o.options.method);
  if (!std::filesystem::is_directory(path) && ports.size() != 1)
    return InvalidInput(path.string(), ": the model has ", ports.size(), " inputs; give folders of N.npy files");
  if (suffix == ".png" || suffix == ".jpg" || suffix == ".jpeg" || suffix == ".bmp") {
    const std::vector<std::string> file{path.string()};
    DimensionOptions dimensions;
    dimensions.shapes = o.shapes;
    SMELT_ASSIGN(Datum image, image_input(model, o.options.method, 0, {}, file, dimensions));
    return std::vector<Datum>{std::move(image)};
  }
  InputOptions in;
  in.dimensions.shapes = o.shapes;
  in.files = std::filesystem::is_directory(path) ? case_inputs(path) : std::vector<std::string>{path.string()};
  SMELT_ASSIGN(Inputs inputs, gather_inputs(model, o.options.method, in));
  return std::move(inputs.values);
}

/// The runs of --calibrate: a number of random ones, or one for each entry of a folder.
Status read_calibration(ConvertCommand& o, const Model& model) {
  auto& runs = o.options.quantization.calibration;
  if (o.calibrate.empty()) return Ok();
  if (o.calibrate.find_first_not_of("0123456789") == std::string::npos && o.calibrate.size() < 6) {
    for (uint64_t k = 0; k < std::stoull(o.calibrate); ++k) {
      InputOptions in;
      in.dimensions.shapes = o.shapes;
      in.seed = k;
      SMELT_ASSIGN(Inputs inputs, gather_inputs(model, o.options.method, in));
      runs.push_back(std::move(inputs.values));
    }
    return Ok();
  }
  std::error_code ec;
  std::vector<std::filesystem::path> entries;
  for (const auto& e : std::filesystem::directory_iterator(o.calibrate, ec)) entries.push_back(e.path());
  if (ec) return InvalidInput(o.calibrate, ": ", ec.message());
  std::sort(entries.begin(), entries.end());
  for (const auto& path : entries) {
    SMELT_ASSIGN(runs.emplace_back(), calibration_inputs(o, model, path));
  }
  if (runs.empty()) return InvalidInput(o.calibrate, ": no inputs");
  return Ok();
}

using Tests = std::shared_ptr<const bundle::Bundle>;

/// The test sets that a bundled program holds for the method to write; null if the source is no bundled program.
/// Numbers become scalar tensors, as written programs take them.
Result<Tests> test_sets(const ConvertCommand& o, const Model& model) {
  if (!std::filesystem::is_regular_file(o.model)) return Tests();
  SMELT_ASSIGN(const auto file, MappedFile::open(o.model));
  if (!bundle::recognise(file->bytes())) return Tests();
  SMELT_ASSIGN(const auto source, bundle::read(file->bytes(), file));
  const auto methods = model.methods();
  const std::string method = o.options.method.empty() ? methods[0] : o.options.method;
  const auto plan = static_cast<size_t>(std::ranges::find(methods, method) - methods.begin());
  bundle::MethodTests tests{.method = method};
  for (const bundle::MethodTests& m : source.tests)
    if (source.version == bundle::Version::kBp08 ? m.method == method : m.plan == plan)
      tests.sets.insert(tests.sets.end(), m.sets.begin(), m.sets.end());
  for (bundle::TestSet& set : tests.sets)
    for (auto* values : {&set.inputs, &set.expected})
      for (bundle::TestValue& v : *values)
        if (v.kind != bundle::TestValue::Kind::kNone) v.kind = bundle::TestValue::Kind::kTensor;
  auto made = std::make_shared<bundle::Bundle>();
  if (!tests.sets.empty()) made->tests.push_back(std::move(tests));
  return Tests(std::move(made));
}

/// Lists on standard output what cannot be written, one a line. Returns the error that ends the command.
Error report_missing(const std::string& model, const std::vector<formats::Unwritable>& missing, const char* format) {
  for (const formats::Unwritable& m : missing)
    say("{}: {}{}: {}\n", printable(model), printable(m.op), m.type.empty() ? "" : " of " + printable(m.type),
        printable(m.place));
  return Unsupported(model, ": ", missing.size(), missing.size() == 1 ? " operator" : " operators",
                     " cannot be written as ", format);
}

/// Writes the files of a model; those written before one that fails are removed.
Status write_files(const ConvertCommand& o, const std::vector<formats::WrittenFile>& files) {
  const std::filesystem::path out(o.output);
  std::vector<std::string> written;
  // Further files first: the model itself appears when all that it refers to is there.
  for (size_t i = files.size(); i-- > 0;) {
    const formats::WrittenFile& file = files[i];
    const std::string path =
        file.suffix.empty() ? o.output : (out.parent_path() / (o.options.write.stem + file.suffix)).string();
    std::vector<std::string_view> parts;
    for (const auto chunk : file.bytes.chunks())
      parts.emplace_back(reinterpret_cast<const char*>(chunk.data()), chunk.size());
    if (auto s = path == "-" ? write_standard_output(parts) : write_file(path, parts); !s.ok()) {
      for (const std::string& p : written) std::filesystem::remove(p);
      return s;
    }
    written.push_back(path);
  }
  return Ok();
}

Status run_convert(ConvertCommand& o) {
  if (o.output == "-") reserve_standard_output();
  SMELT_ASSIGN(const formats::Writer* const writer, writer_of(o));
  SMELT_ASSIGN(const Model model, load_model(o.model, {.data_files = o.data, .tolerate = o.tolerate}));
  SMELT_TRY(read_shapes(o, model));
  SMELT_TRY(read_calibration(o, model));
  using Rule = convert::RangeRule;
  o.options.quantization.rule = o.range_rule == "percentile" ? Rule::kPercentile
                                : o.range_rule == "entropy"  ? Rule::kEntropy
                                                             : Rule::kMinMax;
  if (o.output != "-") o.options.write.stem = std::filesystem::path(o.output).stem().string();
  if (std::string_view(writer->name) == "bpte") {
    SMELT_ASSIGN(o.options.write.tests, test_sets(o, model));
  }
  auto result = convert::convert(model, *writer, o.options);
  if (!result.ok()) return result.error().within(o.model);
  if (!result->missing.empty()) return report_missing(o.model, result->missing, writer->name);
  if (o.output == "-" && result->files.size() > 1)
    return InvalidInput("the model is larger than one file; name a file in place of -");
  SMELT_TRY(write_files(o, result->files));
  size_t bytes = 0;
  for (const formats::WrittenFile& f : result->files) bytes += f.bytes.size();
  const auto& tests = o.options.write.tests;
  const size_t sets = tests && !tests->tests.empty() ? tests->tests[0].sets.size() : 0;
  const std::string held = tests ? Cat(", ", sets, sets == 1 ? " test set" : " test sets") : "";
  say("{}: {}{}, {}\n", o.output, writer->name, held, human_bytes(static_cast<double>(bytes)));
  const auto methods = model.methods();
  if (methods.size() > 1)
    warn("{}: method '{}' is written; the model has {} (see --method)\n", o.model,
         o.options.method.empty() ? methods[0] : o.options.method, methods.size());
  return Ok();
}

}  // namespace

void add_convert(Command app, int& status) {
  auto o = std::make_shared<ConvertCommand>();
  Command c = app.add_subcommand("convert", "Write a model in another format");
  add_model(c, o->model).required();
  c.add_option("OUT", o->output, "File to write, - for standard output").required().type_name("FILE");
  std::vector<std::string> names;
  for (const formats::Writer* w : formats::all_writers()) names.emplace_back(w->name);
  c.add_option("--to", o->to, "Format (default: by the suffix of OUT)").check(one_of(names)).type_name("NAME");
  c.add_option("--method", o->options.method, "Method to write (default: the first)").type_name("NAME");
  c.add_option("--opset", o->options.write.opset,
               "ONNX: opset, from 13 (default: the first that is enough, at least 17)")
      .check(between(1, 1000))
      .type_name("N");
  c.add_option("--delegate", o->options.write.delegate, "ExecuTorch: xnnpack or none")
      .check(one_of({"xnnpack", "none"}))
      .type_name("NAME");
  c.add_option("--shape", o->shapes, "NAME=1x128, or 1x128 for the only input: sizes of open dimensions")
      .type_name("SHAPE")
      .one_value();
  c.add_flag("--fp16-weights", o->options.write.float16_weights, "Store float32 constants as float16");
  c.add_flag("--simplify", o->options.simplify, "Write the optimised graph: constants folded, operators fused");
  convert::QuantizeOptions& q = o->options.quantization;
  Option calibrate =
      c.add_option("--calibrate", o->calibrate,
                   "Inputs to measure ranges with: a folder of .npy files, images or folders of N.npy, or "
                   "a number of random ones")
          .type_name("FOLDER|N");
  Option int8 =
      c.add_flag("--int8", q.int8, "Quantize to int8, weights by channel; needs --calibrate").needs(calibrate);
  c.add_option("--range", o->range_rule, "Ranges of --int8: minmax, percentile or entropy")
      .check(one_of({"minmax", "percentile", "entropy"}))
      .type_name("RULE")
      .default_shown()
      .needs(int8);
  c.add_option("--int4-weights", q.int4_block, "Quantize matrices to int4 with a scale for each BLOCK weights")
      .check(one_of({"16", "32", "64", "128", "256"}))
      .type_name("BLOCK");
  c.add_option("--keep-float", q.keep_float, "Part of the name of nodes or operators that are not quantized")
      .type_name("TEXT")
      .one_value();
  add_data(c, o->data);
  add_tolerate(c, o->tolerate);
  c.footer(
      "Examples:\n"
      "  smelt convert model.tflite model.onnx\n"
      "  smelt convert model.pte model.onnx --shape tokens=1x128 --simplify\n"
      "  smelt convert model.onnx model_int8.onnx --int8 --calibrate images/");
  c.callback([o, &status] { status = report(run_convert(*o)); });
}

}  // namespace smelt::cli
