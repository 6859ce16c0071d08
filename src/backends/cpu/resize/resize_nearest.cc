// Nearest neighbours: each dimension has a table that names the entry of x behind every entry of y.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "backends/cpu/copy/prepared_copy.h"
#include "backends/cpu/core/kernel.h"
#include "ops/resize/plan.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

using Ints = std::vector<int64_t>;

/// y[i, j, ...] = x[tables[0][i], tables[1][j], ...].
class ResizeNearest final : public Kernel {
 public:
  /// Precondition: the tables hold indices of x's dimensions, none is empty.
  ResizeNearest(const Shape& x, std::vector<Ints> tables, int64_t unit) : tables_(std::move(tables)), unit_(unit) {
    Ints dims(x.begin(), x.end());
    while (!tables_.empty() && is_identity(tables_.back(), dims.back())) {  // such dimensions are part of the unit
      unit_ *= dims.back();
      dims.pop_back();
      tables_.pop_back();
    }
    if (!tables_.empty()) {
      last_ = std::move(tables_.back());
      tables_.pop_back();
      steps_.assign(tables_.size(), unit_ * dims.back());
      for (size_t d = tables_.size(); d-- > 1;) steps_[d - 1] = steps_[d] * dims[d];
    } else {
      last_ = {0};
    }
    for (const Ints& t : tables_) rows_ *= static_cast<int64_t>(t.size());
    for (size_t i = 0; i < last_.size(); ++i) {
      if (runs_.empty() || last_[i] != runs_.back().from + runs_.back().count) runs_.push_back({last_[i], 0});
      ++runs_.back().count;
    }
    const bool scattered = runs_.size() * 4 > last_.size();
    if (scattered) choose_gather();
  }
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<std::byte>();
    auto* y = ctx.output(0).data<std::byte>();
    const int64_t bytes = static_cast<int64_t>(last_.size()) * unit_;
    ctx.threads().parallel_for(rows_, std::max<int64_t>(1, 65536 / bytes), [&](int64_t begin, int64_t end) {
      int64_t before = -1;
      for (int64_t r = begin; r < end; ++r) {
        const int64_t at = source(r);
        std::byte* to = y + r * bytes;
        if (at == before)
          std::memcpy(to, to - bytes, static_cast<size_t>(bytes));
        else
          row(x + at, to);
        before = at;
      }
    });
    return Ok();
  }

 private:
  struct Run {
    int64_t from, count;
  };
  void choose_gather() {
    bool twice = last_.size() % 2 == 0;
    for (size_t i = 0; i < last_.size(); ++i) twice = twice && last_[i] == last_[0] + static_cast<int64_t>(i / 2);
    const auto choose = [&](auto unit) {
      using T = decltype(unit);
      if (unit_ == int64_t{sizeof(T)}) gather_ = twice ? each_twice<T> : gather<T>;
    };
    choose(uint8_t{});
    choose(uint16_t{});
    choose(uint32_t{});
    choose(uint64_t{});
  }
  static bool is_identity(const Ints& table, int64_t n) {
    if (static_cast<int64_t>(table.size()) != n) return false;
    for (int64_t i = 0; i < n; ++i)
      if (table[static_cast<size_t>(i)] != i) return false;
    return true;
  }
  /// Bytes from the start of x to what row r of y shows.
  int64_t source(int64_t r) const {
    int64_t at = 0;
    for (size_t d = tables_.size(); d-- > 0;) {
      const auto n = static_cast<int64_t>(tables_[d].size());
      at += tables_[d][static_cast<size_t>(r % n)] * steps_[d];
      r /= n;
    }
    return at;
  }
  void row(const std::byte* x, std::byte* y) const {
    if (gather_) return gather_(x, last_.data(), last_.size(), y);
    for (const Run& run : runs_) {
      const int64_t bytes = run.count * unit_;
      std::memcpy(y, x + run.from * unit_, static_cast<size_t>(bytes));
      y += bytes;
    }
  }
  template <class T>
  static void gather(const std::byte* x, const int64_t* entries, size_t n, std::byte* y) {
    const T* from = reinterpret_cast<const T*>(x);
    T* to = reinterpret_cast<T*>(y);
    for (size_t i = 0; i < n; ++i) to[i] = from[entries[i]];
  }
  /// gather() of entries that follow one another, each two times.
  template <class T>
  static void each_twice(const std::byte* x, const int64_t* entries, size_t n, std::byte* y) {
    const T* from = reinterpret_cast<const T*>(x) + entries[0];
    T* to = reinterpret_cast<T*>(y);
    for (size_t i = 0; i < n / 2; ++i) to[2 * i] = to[2 * i + 1] = from[i];
  }

  std::vector<Ints> tables_;  ///< of the dimensions before the last
  Ints steps_, last_;         ///< bytes from entry to entry of them
  std::vector<Run> runs_;     ///< of the last dimension
  int64_t unit_, rows_ = 1;   ///< bytes that move as one
  void (*gather_)(const std::byte*, const int64_t*, size_t, std::byte*) = nullptr;
};

std::unique_ptr<Kernel> resize_by_tables(const KernelSpec& spec, std::vector<Ints> tables) {
  const Shape &x = spec.inputs[0].shape, &y = spec.outputs[0].shape;
  if (static_cast<int>(tables.size()) != y.rank()) return nullptr;
  for (int d = 0; d < y.rank(); ++d) {
    const Ints& t = tables[static_cast<size_t>(d)];
    if (static_cast<int64_t>(t.size()) != y[d]) return nullptr;
    if (std::ranges::any_of(t, [&](int64_t i) { return i < 0 || i >= x[d]; })) return nullptr;
  }
  return std::make_unique<ResizeNearest>(x, std::move(tables), whole_bytes(spec.inputs[0].dtype));
}

/// Entries that the tables of one kernel may have.
constexpr int64_t kMostEntries = int64_t{1} << 22;

/// True if elements of whole bytes go from input 0 to output 0 unchanged, by tables of few entries.
bool copies_bytes(const KernelSpec& spec) {
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  return x.dtype == y.dtype && whole_bytes(x.dtype) > 0 && x.shape.rank() > 0 && x.shape.rank() == y.shape.rank() &&
         x.shape.elements() > 0 && y.shape.elements() > 0 &&
         std::accumulate(y.shape.begin(), y.shape.end(), int64_t{0}) <= kMostEntries;
}

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_resize_nearest(const KernelSpec& spec) {
  const auto& a = spec.attrs<ResizeAttrs>();
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (a.mode != ResizeAttrs::Mode::kNearest || a.coord == ResizeAttrs::Coord::kTfCropAndResize || !copies_bytes(spec))
    return nullptr;
  if (!is_integer(x.dtype) && x.dtype != DType::kBool && (x.dtype != DType::kF32 || x.quant || y.quant)) return nullptr;
  const auto axes = plan_resize(a, x.shape, resize_request(spec.constant(1), spec.constant(2), spec.constant(3)));
  if (!axes.ok()) return nullptr;
  std::vector<Ints> tables;
  for (int64_t n : x.shape) {
    Ints table(static_cast<size_t>(n));
    std::iota(table.begin(), table.end(), int64_t{0});
    tables.push_back(std::move(table));
  }
  for (const ResizeAxis& axis : *axes) {
    if (axis.axis < 0 || axis.axis >= x.shape.rank() || axis.out < 1) return nullptr;
    auto taps = axis_taps(a, axis);
    if (!taps.ok() || taps->begin.size() != taps->index.size() + 1) return nullptr;
    if (taps->identity && axis.in == axis.out) continue;
    for (size_t i = 0; i < taps->index.size(); ++i)
      if (taps->begin[i] != static_cast<int64_t>(i) || taps->weight[i] != 1) return nullptr;
    tables[static_cast<size_t>(axis.axis)] = std::move(taps->index);
  }
  return resize_by_tables(spec, std::move(tables));
}

}  // namespace smelt
