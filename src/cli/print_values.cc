#include "cli/print_values.h"

#include <algorithm>
#include <cmath>
#include <complex>

#include "base/cat.h"
#include "cli/output.h"
#include "tensor/numeric.h"

namespace smelt::cli {
namespace {

std::complex<double> complex_element(const Tensor& t, int64_t i) {
  return t.dtype() == DType::kC64 ? std::complex<double>(t.data<std::complex<float>>()[i])
                                  : t.data<std::complex<double>>()[i];
}

std::string element_text(const Tensor& t, int64_t i) {
  if (t.dtype() == DType::kString) return Cat('"', printable(t.data<std::string>()[i]), '"');
  if (t.dtype() == DType::kBool) return get_int(t, i) != 0 ? "true" : "false";
  if (is_complex(t.dtype())) {
    const auto c = complex_element(t, i);
    return formatted("{:.6g}{:+.6g}j", c.real(), c.imag());
  }
  if (t.dtype() == DType::kU64) return Cat(t.data<uint64_t>()[i]);
  return is_float(t.dtype()) ? formatted("{:.6g}", get_double(t, i)) : Cat(get_int(t, i));
}

/// Writes dimensions from `axis` on of the block that begins at element `at`, and "..." where `left` elements are over.
void append(std::string& out, const Tensor& t, int axis, int64_t at, int64_t block, int64_t& left) {
  if (axis == t.rank()) {
    out += element_text(t, at);
    --left;
    return;
  }
  const int64_t n = t.dim(axis), inner = n > 0 ? block / n : 0;
  out += '[';
  for (int64_t i = 0; i < n; ++i) {
    if (i > 0) out += ", ";
    if (left <= 0) {
      out += "...";
      break;
    }
    append(out, t, axis + 1, at + i * inner, inner, left);
  }
  out += ']';
}

Json number_json(double v) {
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v > 0 ? "Infinity" : "-Infinity";
  return v;
}

bool has_statistics(const Tensor& t) {
  return t.elements() > 0 && t.dtype() != DType::kString && !is_complex(t.dtype());
}

}  // namespace

Statistics statistics(const Tensor& t) {
  Statistics s{INFINITY, -INFINITY, 0, 0};
  double sum = 0;
  for (int64_t i = 0; i < t.elements(); ++i) {
    const double v = get_double(t, i);
    if (std::isnan(v)) continue;
    s.min = std::min(s.min, v);
    s.max = std::max(s.max, v);
    sum += v;
    ++s.numbers;
  }
  s.mean = sum / static_cast<double>(s.numbers);
  return s;
}

std::string tensor_text(const Tensor& t, int64_t most) {
  std::string out;
  append(out, t, 0, 0, t.elements(), most);
  return out;
}

std::string value_text(const std::string& name, const Datum& d, int64_t most) {
  switch (d.kind) {
    case Datum::Kind::kNone:
      return Cat(printable(name), " is absent\n");
    case Datum::Kind::kTensor:
      return Cat(printable(name), " = ", tensor_text(d.tensor, most), "\n");
    case Datum::Kind::kSequence: {
      std::string out;
      for (size_t i = 0; i < d.items->size() && static_cast<int64_t>(i) < most; ++i)
        out += value_text(Cat(name, "[", i, "]"), (*d.items)[i], most);
      if (static_cast<int64_t>(d.items->size()) > most) out += Cat("... ", d.items->size(), " elements\n");
      return out;
    }
    case Datum::Kind::kMap:
      break;
  }
  const Tensor &keys = (*d.items)[0].tensor, &values = (*d.items)[1].tensor;
  const int64_t n = keys.elements(), maps = n > 0 ? values.elements() / n : 0;
  std::string out;
  for (int64_t m = 0; m < maps && m < most; ++m) {
    out += Cat(printable(name), maps > 1 ? Cat("[", m, "]") : std::string(), " = {");
    for (int64_t k = 0; k < n && k < most; ++k)
      out += Cat(k ? ", " : "", element_text(keys, k), ": ", element_text(values, m * n + k));
    out += n > most ? ", ...}\n" : "}\n";
  }
  return maps > most ? Cat(out, "... ", maps, " maps\n") : out;
}

Json element_json(const Tensor& t, int64_t i) {
  if (t.dtype() == DType::kString) return t.data<std::string>()[i];
  if (t.dtype() == DType::kBool) return get_int(t, i) != 0;
  if (t.dtype() == DType::kU64) return t.data<uint64_t>()[i];
  if (is_complex(t.dtype())) {
    const auto c = complex_element(t, i);
    return {number_json(c.real()), number_json(c.imag())};
  }
  return is_float(t.dtype()) ? number_json(get_double(t, i)) : Json(get_int(t, i));
}

Json value_json(const Datum& d, int64_t most) {
  if (d.none()) return {{"kind", "none"}};
  if (!d.is_tensor()) {
    const bool map = d.kind == Datum::Kind::kMap;
    Json items = Json::array();
    for (const Datum& item : *d.items) items.push_back(value_json(item, most));
    if (map) return {{"kind", "map"}, {"keys", items[0]}, {"values", items[1]}};
    return {{"kind", "sequence"}, {"items", items}};
  }
  const Tensor& t = d.tensor;
  Json out = {{"kind", "tensor"},
              {"dtype", to_string(t.dtype())},
              {"shape", std::vector<int64_t>(t.shape().begin(), t.shape().end())},
              {"elements", t.elements()},
              {"values", Json::array()}};
  for (int64_t i = 0; i < t.elements() && i < most; ++i) out["values"].push_back(element_json(t, i));
  if (t.quant() && t.quant()->kind == Quantization::Kind::kPerTensor)
    out["quantization"] = {{"scale", t.quant()->scale()}, {"zero_point", t.quant()->zero_point()}};
  if (!has_statistics(t)) return out;
  const Statistics s = statistics(t);
  if (s.numbers > 0) {
    out["min"] = number_json(s.min);
    out["max"] = number_json(s.max);
    out["mean"] = number_json(s.mean);
  }
  out["nan"] = t.elements() - s.numbers;
  return out;
}

}  // namespace smelt::cli
