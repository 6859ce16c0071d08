#include "cli/common.h"

#include <fmt/format.h>

#include <random>

#include "base/error.h"
#include "cli/output.h"
#include "tensor/numeric.h"

namespace smelt::cli {

Result<Model> load_model(const std::string& path, const std::vector<std::string>& data_files,
                         const std::vector<std::string>& tolerate) {
  SMELT_ASSIGN(Model model, Model::load(path, {.data_files = data_files, .tolerate = tolerate}));
  for (const std::string& text : model.warnings()) warn("smelt: {}: warning: {}\n", printable(path), printable(text));
  return model;
}

std::string human_bytes(double bytes) {
  const char* const units[] = {"B", "kB", "MB", "GB", "TB"};
  int u = 0;
  while (bytes >= 999.5 && u < 4) {
    bytes /= 1000;
    ++u;
  }
  return u == 0 || bytes >= 99.95 ? fmt::format("{:.0f} {}", bytes, units[u])
                                  : fmt::format("{:.3g} {}", bytes, units[u]);
}

Result<Datum> random_value(const Port& p, uint64_t seed) {
  if (!p.is_tensor) {
    if (p.optional) return Datum{};
    return InvalidInput("input '", p.name, "' is not a tensor: give it with --input");
  }
  Shape shape = p.shape;
  for (int k = 0; k < shape.rank(); ++k)
    if (shape[k] < 0) shape[k] = p.bound.empty() ? 1 : p.bound[static_cast<size_t>(k)];
  SMELT_ASSIGN(const int64_t elements, shape.checked_elements());
  if (elements > (int64_t{1} << 26))
    return LimitReached("input '", p.name, "' of shape ", shape.str(), " is too large for random values");
  SMELT_ASSIGN(Tensor t, Tensor::allocate(p.dtype == DType::kInvalid ? DType::kF32 : p.dtype, shape));
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> real(-1, 1);
  for (int64_t k = 0; k < t.elements() && t.dtype() != DType::kString; ++k) {
    if (is_float(t.dtype()) || is_complex(t.dtype()))
      set_double(t, k, real(random));
    else
      set_int(t, k, static_cast<int64_t>(random() % (p.quant ? 256 : 2)));
  }
  return Datum(std::move(t));
}

}  // namespace smelt::cli
