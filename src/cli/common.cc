#include "cli/common.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "base/error.h"
#include "tensor/numeric.h"

namespace smelt::cli {

BackendKind backend_of(const std::string& name) {
  return name == "reference" ? BackendKind::kReference : name == "vulkan" ? BackendKind::kVulkan : BackendKind::kCpu;
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

namespace {
double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
}  // namespace

Progress::Progress(std::string label) : label_(std::move(label)), on_(isatty(STDERR_FILENO) != 0) { last_ = now(); }

Progress::~Progress() {
  if (on_) std::fputs("\r\033[K", stderr);
}

void Progress::step(size_t done, size_t total) {
  if (!on_ || now() - last_ < 0.1) return;
  last_ = now();
  const size_t width = 30, filled = total ? done * width / total : 0;
  fmt::print(stderr, "\r\033[K{} [{}{}] {}/{}", label_, std::string(filled, '#'), std::string(width - filled, '.'),
             done, total);
  std::fflush(stderr);
}

namespace {
/// Characters shown, counting a UTF-8 sequence once.
size_t shown(const std::string& s) {
  return static_cast<size_t>(std::count_if(s.begin(), s.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string cut(const std::string& s, size_t max) {
  if (shown(s) <= max) return s;
  std::string out;
  size_t n = 0;
  for (char c : s) {
    if ((c & 0xc0) != 0x80 && ++n >= max) break;
    out += c;
  }
  return out + "…";
}
}  // namespace

std::string Table::str(const std::vector<int>& right, size_t max) const {
  std::vector<size_t> width;
  for (const auto& r : rows_)
    for (size_t i = 0; i < r.size(); ++i) {
      if (width.size() <= i) width.push_back(0);
      width[i] = std::max(width[i], std::min(shown(r[i]), max));
    }
  std::string out;
  for (const auto& r : rows_) {
    std::string line;
    for (size_t i = 0; i < r.size(); ++i) {
      const std::string cell = cut(r[i], max);
      const std::string gap(width[i] - shown(cell), ' ');
      const bool to_right = std::find(right.begin(), right.end(), static_cast<int>(i)) != right.end();
      line += (i ? "  " : "") + (to_right ? gap + cell : cell + gap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace smelt::cli
