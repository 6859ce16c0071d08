// smelt convert: a model in another format.
#include "convert/convert.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/write_file.h"
#include "cli/command.h"
#include "cli/common.h"
#include "cli/options.h"
#include "cli/output.h"

namespace smelt::cli {
namespace {

struct ConvertCommand {
  std::string model, output, to;
  convert::Options options;
  std::vector<std::string> shapes, data, tolerate;
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

std::string missing_text(const std::vector<formats::Unwritable>& missing, const char* format) {
  std::string text = fmt::format("{} {} cannot be written as {}:", missing.size(),
                                 missing.size() == 1 ? "operator" : "operators", format);
  for (const formats::Unwritable& m : missing)
    text += fmt::format("\n  {}{} at {}", m.op, m.type.empty() ? "" : " of " + m.type, m.place);
  return text;
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
  if (o.output != "-") o.options.write.stem = std::filesystem::path(o.output).stem().string();
  auto result = convert::convert(model, *writer, o.options);
  if (!result.ok()) return result.error().within(o.model);
  if (!result->missing.empty()) return Unsupported(o.model, ": ", missing_text(result->missing, writer->name));
  if (o.output == "-" && result->files.size() > 1)
    return InvalidInput("the model is larger than one file; name a file in place of -");
  SMELT_TRY(write_files(o, result->files));
  size_t bytes = 0;
  for (const formats::WrittenFile& f : result->files) bytes += f.bytes.size();
  say("{}: {}, {}\n", o.output, writer->name, human_bytes(static_cast<double>(bytes)));
  const auto methods = model.methods();
  if (methods.size() > 1)
    warn("{}: method '{}' is written; the model has {} (see --method)\n", o.model,
         o.options.method.empty() ? methods[0] : o.options.method, methods.size());
  return Ok();
}

}  // namespace

void add_convert(CLI::App& app, int& status) {
  auto o = std::make_shared<ConvertCommand>();
  CLI::App* c = app.add_subcommand("convert", "Write a model in another format");
  add_model(*c, o->model)->required();
  c->add_option("OUT", o->output, "File to write, - for standard output")->required()->type_name("FILE");
  std::vector<std::string> names;
  for (const formats::Writer* w : formats::all_writers()) names.emplace_back(w->name);
  c->add_option("--to", o->to, "Format (default: by the suffix of OUT)")->check(one_of(names))->type_name("NAME");
  c->add_option("--method", o->options.method, "Method to write (default: the first)")->type_name("NAME");
  c->add_option("--opset", o->options.write.opset, "ONNX: opset (default: 21, or the first that is enough)")
      ->check(between(1, 1000))
      ->type_name("N");
  c->add_option("--delegate", o->options.write.delegate, "ExecuTorch: xnnpack or none")
      ->check(one_of({"xnnpack", "none"}))
      ->type_name("NAME");
  c->add_option("--shape", o->shapes, "NAME=1x128, or 1x128 for the only input: sizes of open dimensions")
      ->type_name("SHAPE")
      ->allow_extra_args(false);
  c->add_flag("--fp16-weights", o->options.write.float16_weights, "Store float32 constants as float16");
  c->add_flag("--simplify", o->options.simplify, "Write the optimised graph: constants folded, operators fused");
  add_data(*c, o->data);
  add_tolerate(*c, o->tolerate);
  c->footer(
      "Examples:\n"
      "  smelt convert model.tflite model.onnx\n"
      "  smelt convert model.pte model.onnx --shape tokens=1x128 --simplify");
  c->callback([o, &status] { status = report(run_convert(*o)); });
}

}  // namespace smelt::cli
