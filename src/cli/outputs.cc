#include "cli/outputs.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>

#include "base/error.h"
#include "cli/npz.h"
#include "cli/output.h"
#include "cli/print_values.h"
#include "cli/values.h"

namespace smelt::cli {
namespace {

constexpr int64_t kSmall = 16;

/// The number of values in "all" or "N".
std::optional<int64_t> print_limit(const std::string& text) {
  if (text == "all") return std::numeric_limits<int64_t>::max();
  int64_t n = 0;
  const char* end = text.data() + text.size();
  if (const auto r = std::from_chars(text.data(), end, n); r.ec != std::errc() || r.ptr != end || n < 0)
    return std::nullopt;
  return n;
}

std::string summary(const Tensor& t) {
  if (t.elements() == 0) return "empty";
  if (t.elements() == 1 || t.dtype() == DType::kString) return tensor_text(t.reshaped(Shape{t.elements()}), 1);
  if (is_complex(t.dtype())) return "";
  const Statistics s = statistics(t);
  if (s.numbers == 0) return "all NaN";
  std::string out = formatted("min {:.6g}  max {:.6g}  mean {:.6g}", s.min, s.max, s.mean);
  if (s.numbers < t.elements()) out += formatted("  NaN {}", t.elements() - s.numbers);
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

std::string name_of(const std::vector<Port>& ports, size_t i) {
  return i < ports.size() && !ports[i].name.empty() ? ports[i].name : Cat("output_", i);
}

/// File names of the outputs: their names with "_" in place of what file systems refuse, made different.
std::vector<std::string> stems(const OutputOptions& o, size_t count, const std::vector<Port>& ports) {
  std::vector<std::string> out;
  std::set<std::string> used;
  for (size_t i = 0; i < count; ++i) {
    std::string stem = o.by_name ? name_of(ports, i).substr(0, 200) : Cat(i);
    for (char& c : stem)
      if (static_cast<unsigned char>(c) < 0x20 || std::string_view("/\\:*?\"<>|").find(c) != std::string_view::npos)
        c = '_';
    if (stem.starts_with('.')) stem[0] = '_';
    if (!used.insert(stem).second) used.insert(stem += Cat("_", i));
    out.push_back(std::move(stem));
  }
  return out;
}

/// Tensors of a value as entries of an archive: NAME, NAME/0 ... of a sequence, NAME/keys and NAME/values of a map.
void add_entries(std::vector<std::pair<std::string, Tensor>>& to, const std::string& name, const Datum& d) {
  if (d.is_tensor()) to.emplace_back(name, d.tensor);
  for (size_t i = 0; d.items && i < d.items->size(); ++i)
    add_entries(to, Cat(name, "/", d.kind == Datum::Kind::kMap ? (i == 0 ? "keys" : "values") : Cat(i)), (*d.items)[i]);
}

}  // namespace

void add_outputs(Command command, OutputOptions& o) {
  command
      .add_option("--output", o.names,
                  "Output to give, or an intermediate value by its name; may be repeated (default: all outputs)")
      .one_value()
      .type_name("NAME");
  Option folder =
      command.add_option("--output-dir", o.folder, "Write the outputs there as 0.npy, 1.npy, ...").type_name("DIR");
  command.add_flag("--output-names", o.by_name, "Name the files of --output-dir after the outputs").needs(folder);
  command.add_option("--save-npz", o.npz, "Write the outputs by name to one .npz archive").type_name("FILE");
  command
      .add_option("--print", o.print, "Values printed of each output: N or all (default: outputs of up to 16 values)")
      .check(text_that([](const std::string& text) { return print_limit(text).has_value(); },
                       "neither a number nor 'all'"))
      .type_name("N");
  command.add_flag("-j,--json", o.json, "One JSON object");
}

Status save_outputs(const OutputOptions& o, const std::vector<Datum>& outputs, const std::vector<Port>& ports) {
  if (!o.folder.empty()) {
    std::error_code ec;
    std::filesystem::create_directories(o.folder, ec);
    if (ec) return Error(ErrorCode::kIo, Cat(o.folder, ": ", ec.message()));
    const auto names = stems(o, outputs.size(), ports);
    for (size_t i = 0; i < outputs.size(); ++i) SMELT_TRY(write_value(o.folder, names[i], outputs[i]));
  }
  if (o.npz.empty()) return Ok();
  std::vector<std::pair<std::string, Tensor>> entries;
  std::set<std::string> used;
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::string name = name_of(ports, i);
    if (!used.insert(name).second) used.insert(name += Cat("_", i));
    add_entries(entries, name, outputs[i]);
  }
  return write_npz(o.npz, entries);
}

void print_outputs(const OutputOptions& o, const std::vector<Datum>& outputs, const std::vector<Port>& ports) {
  Table table({"", "output", "type", "shape", "values"});
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Datum& d = outputs[i];
    table.row({Cat(i), i < ports.size() ? ports[i].name : "", describe(d), d.is_tensor() ? d.tensor.shape().str() : "",
               d.is_tensor() ? summary(d.tensor) : ""});
  }
  put(table.str({0}, 60));
  const int64_t most = o.print.empty() ? kSmall : print_limit(o.print).value_or(kSmall);
  std::string contents;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Datum& d = outputs[i];
    const int64_t n = d.is_tensor() ? d.tensor.elements() : 0;
    const bool shown = !d.is_tensor() ? !d.none() : o.print.empty() ? n > 1 && n <= kSmall : most > 0;
    if (shown) contents += value_text(name_of(ports, i), d, most);
  }
  if (!contents.empty()) say("\n{}", contents);
}

Json outputs_json(const OutputOptions& o, const std::vector<Datum>& outputs, const std::vector<Port>& ports) {
  const int64_t most = o.print.empty() ? kSmall : print_limit(o.print).value_or(kSmall);
  Json out = Json::array();
  for (size_t i = 0; i < outputs.size(); ++i) {
    Json entry = value_json(outputs[i], most);
    entry["index"] = i;
    entry["name"] = name_of(ports, i);
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace smelt::cli
