#include "cli/dimensions.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/suggest.h"

namespace smelt::cli {
namespace {

/// "1x128", "1,128" or "[1,128]"; "" and "scalar" have rank 0.
std::optional<Shape> parse_shape(std::string_view text) {
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') text = text.substr(1, text.size() - 2);
  Shape out;
  if (text.empty() || text == "scalar") return out;
  while (true) {
    int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size < 0 || out.rank() == Shape::kMaxRank) return std::nullopt;
    out.push_back(size);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.empty()) return out;
    if (text[0] != 'x' && text[0] != 'X' && text[0] != ',') return std::nullopt;
    text.remove_prefix(1);
  }
}

/// Label of dimension i: its symbolic name, else "dimension i".
std::string label(const Port& port, int i) {
  const auto k = static_cast<size_t>(i);
  return k < port.dim_names.size() && !port.dim_names[k].empty() ? port.dim_names[k] : Cat("dimension ", i);
}

const std::string* symbol(const Port& port, int i) {
  const auto k = static_cast<size_t>(i);
  return k < port.dim_names.size() && !port.dim_names[k].empty() ? &port.dim_names[k] : nullptr;
}

std::vector<std::string> names_of(const std::vector<Port>& ports) {
  std::vector<std::string> out;
  for (const Port& p : ports) out.push_back(p.name);
  return out;
}

std::vector<std::string> symbols_of(const std::vector<Port>& ports) {
  std::vector<std::string> out;
  for (const Port& p : ports)
    for (int i = 0; i < p.shape.rank(); ++i)
      if (const std::string* s = p.shape[i] < 0 ? symbol(p, i) : nullptr; s && std::ranges::find(out, *s) == out.end())
        out.push_back(*s);
  return out;
}

}  // namespace

void add_dimensions(Command command, DimensionOptions& options) {
  command
      .add_option("--shape", options.shapes,
                  "Shape of an input whose dimensions the model leaves open: NAME=1x128; 1x128 for the only input")
      .one_value()
      .type_name("NAME=SHAPE");
  command
      .add_option("--dim", options.named,
                  "Size of a symbolic dimension in all inputs: seq=128 (without: 1, or its bound)")
      .one_value()
      .type_name("NAME=N");
}

Result<Dimensions> Dimensions::parse(const DimensionOptions& options, const std::vector<Port>& ports) {
  Dimensions out;
  for (const std::string& text : options.named) {
    const size_t eq = text.rfind('=');
    int64_t size = -1;
    const char* end = text.data() + text.size();
    if (eq == std::string::npos || std::from_chars(text.data() + eq + 1, end, size).ptr != end || size < 0)
      return InvalidInput("--dim ", text, ": NAME=N expected, as seq=128");
    const std::string name = text.substr(0, eq);
    const auto symbolic = symbols_of(ports);
    if (std::ranges::find(symbolic, name) == symbolic.end())
      return InvalidInput("--dim ", text, ": ",
                          symbolic.empty()
                              ? std::string("no input has a symbolic dimension; --shape sets a whole shape")
                              : not_among("symbolic dimension", name, symbolic));
    out.named_[name] = size;
  }
  for (const std::string& text : options.shapes) {
    const size_t eq = text.rfind('=');
    if (eq == std::string::npos && ports.size() != 1)
      return InvalidInput("--shape ", text, ": NAME=SHAPE expected, the inputs are ", listed(names_of(ports)));
    const std::string name = eq == std::string::npos ? ports[0].name : text.substr(0, eq);
    const auto shape = parse_shape(std::string_view(text).substr(eq == std::string::npos ? 0 : eq + 1));
    if (!shape) return InvalidInput("--shape ", text, ": no shape, 1x128 or 1,128 expected");
    const auto port = std::ranges::find_if(ports, [&](const Port& p) { return p.name == name; });
    if (port == ports.end()) return InvalidInput("--shape ", text, ": ", not_among("input", name, names_of(ports)));
    if (!port->is_tensor) return InvalidInput("--shape ", text, ": the input is not a tensor");
    if (port->ranked && port->shape.rank() != shape->rank())
      return InvalidInput("--shape ", text, ": the input has rank ", port->shape.rank(), ": ", port->shape.str());
    out.shapes_[name] = *shape;
    out.learn(*port, *shape);
  }
  return out;
}

void Dimensions::learn(const Port& port, const Shape& shape) {
  for (int i = 0; i < port.shape.rank() && i < shape.rank(); ++i)
    if (const std::string* s = symbol(port, i)) named_.emplace(*s, shape[i]);
}

Shape Dimensions::given_shape(const Port& port) const {
  if (const auto it = shapes_.find(port.name); it != shapes_.end()) return it->second;
  Shape out = port.shape;
  for (int i = 0; i < out.rank(); ++i) {
    if (out[i] >= 0) continue;
    const std::string* s = symbol(port, i);
    const auto it = s ? named_.find(*s) : named_.end();
    if (it != named_.end()) out[i] = it->second;
  }
  return out;
}

Shape Dimensions::shape(const Port& port, std::string* assumed) const {
  Shape out = given_shape(port);
  for (int i = 0; i < out.rank(); ++i) {
    if (out[i] >= 0) continue;
    out[i] = port.bound.empty() ? 1 : port.bound[static_cast<size_t>(i)];
    if (assumed) *assumed += Cat(assumed->empty() ? "" : ", ", label(port, i), "=", out[i]);
  }
  return out;
}

std::string dimension_sizes(const Port& port, const Shape& shape, const std::string& assumed) {
  std::string out;
  for (int i = 0; i < port.shape.rank() && i < shape.rank(); ++i) {
    if (port.shape[i] >= 0) continue;
    const std::string size = Cat(label(port, i), "=", shape[i]);
    const bool is_assumed = Cat(", ", assumed, ",").find(Cat(", ", size, ",")) != std::string::npos;
    out += Cat(out.empty() ? "" : ", ", size, is_assumed ? " (assumed)" : "");
  }
  return out;
}

}  // namespace smelt::cli
