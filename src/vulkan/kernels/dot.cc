// Products of 8-bit values four at a time: VK_KHR_shader_integer_dot_product.
#include <algorithm>
#include <vector>

#include "ops/conv/conv.h"
#include "tensor/numeric.h"
#include "vulkan/device.h"
#include "vulkan/kernels/common.h"
#include "vulkan/kernels/integer.h"
#include "vulkan/kernels/packed.h"

namespace smelt::vulkan {
namespace {

/// Where the device says that it is fast, or SMELT_VULKAN_DOT says so.
bool multiplies_fours(const Device& device) {
  const DeviceInfo& info = device.info();
  return info.int8_dot_product && forced("SMELT_VULKAN_DOT").value_or(info.fast_int8_dot_product);
}

class DotConv final : public Kernel {
 public:
  /// Nullopt: beyond what a dispatch takes.
  static std::unique_ptr<Kernel> make(const KernelSpec& spec, const ConvShape& s, IntegerProduct product) {
    const Tiling tiling = choose_tiling(spec.device, s.out_pixels(), s.c_out);
    const int64_t across = int64_t{tiling.width} * tiling.lanes;
    const int64_t x = (s.out_pixels() + across - 1) / across, y = (s.c_out + tiling.tile - 1) / tiling.tile;
    const int64_t z = s.batch * s.groups;
    if (x > 65535 || y > 65535 || z > 65535 || s.taps() * ((s.c_in + 3) / 4 + 1) > kMaxRounds) return nullptr;
    const int64_t words = words_a_channel(s) * s.all_out();
    if (words > INT32_MAX || static_cast<uint64_t>(words) * 4 > spec.device.max_binding()) return nullptr;
    auto kernel = std::make_unique<DotConv>(s, *spec.constant(1), std::move(product));
    kernel->tiling_ = tiling;
    kernel->grid_ = {static_cast<uint32_t>(x), static_cast<uint32_t>(y), static_cast<uint32_t>(z)};
    return kernel;
  }
  static bool suits(const KernelSpec& spec, const ConvShape& s) {
    return multiplies_fours(spec.device) && spec.constant(1) && s.c_in >= 4;
  }
  DotConv(const ConvShape& s, const Tensor& filter, IntegerProduct product)
      : shape_(s), filter_(filter), product_(std::move(product)) {}
  bool reads(size_t i) const override { return i == 0; }

  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    const auto words = static_cast<size_t>(words_a_channel(shape_) * shape_.all_out());
    SMELT_ASSIGN(const Binding filter, r.table(1, Cat("int8 in fours, groups ", shape_.groups), words * 4,
                                               [&](void* to) { pack(static_cast<int8_t*>(to)); }));
    SMELT_ASSIGN(const Binding channels, folded().table(r));
    const auto& zeros = product_.pair.w_zeros;
    const bool filter_zeros =
        std::any_of(zeros.begin(), zeros.end(), [&](int32_t z) { return product_.signed_weight(z); });
    const bool in_fours = shape_.channels_last && shape_.c_in % 4 == 0;
    const Requant& q = product_.requant;
    struct Push {
      PackedGeometry g;
      IntegerPush q;
    };
    return r.dispatch(
        {product_.pair.x_signed ? "dot_s8" : "dot_u8",
         {tiling_.width, tiling_.tile, tiling_.lanes, product_.rounding(), in_fours ? 1u : 0u, filter_zeros ? 1u : 0u},
         {x, filter, channels, r.output(0), x},
         grid_[0],
         grid_[1],
         grid_[2]},
        Push{packed_geometry(shape_), {signed_x_zero(), 0, q.zero, q.low, q.high}});
  }

 private:
  static int64_t words_a_channel(const ConvShape& s) { return s.taps() * ((s.c_in + 3) / 4); }
  int32_t signed_x_zero() const { return product_.pair.x_zero - (product_.pair.x_signed ? 0 : 128); }

  /// [output channel of all groups][tap][input channel], those in fours, zero where there is none.
  void pack(int8_t* to) const {
    std::vector<int64_t> stored(static_cast<size_t>(filter_.elements()));
    to_ints(filter_, stored.data());
    const int64_t chunks = (shape_.c_in + 3) / 4;
    for (int64_t o = 0; o < shape_.all_out(); ++o)
      for (int64_t tap = 0; tap < shape_.taps(); ++tap)
        for (int64_t i = 0; i < chunks * 4; ++i) {
          const auto at = static_cast<size_t>(o * shape_.filter_o + i * shape_.filter_i + tap * shape_.filter_s);
          *to++ = i < shape_.c_in ? static_cast<int8_t>(product_.signed_weight(stored[at])) : int8_t{0};
        }
  }
  /// The zero points' part of sums of (x - x_zero) (w - w_zero) that does not depend on x goes into the bias, modulo
  /// 2^32 as all sums.
  IntegerProduct folded() const {
    IntegerProduct p = product_;
    std::vector<int8_t> w(static_cast<size_t>(words_a_channel(shape_) * 4 * shape_.all_out()));
    pack(w.data());
    const size_t n = w.size() / static_cast<size_t>(shape_.all_out());
    const auto products = static_cast<int64_t>(shape_.taps() * shape_.c_in);
    for (size_t o = 0; o < static_cast<size_t>(shape_.all_out()); ++o) {
      int64_t sum = 0;
      for (size_t i = 0; i < n; ++i) sum += w[o * n + i];
      const int64_t w_zero = product_.signed_weight(product_.pair.w_zeros[o]);
      p.requant.bias[o] =
          static_cast<int32_t>(p.requant.bias[o] - signed_x_zero() * sum + products * signed_x_zero() * w_zero);
    }
    return p;
  }

  ConvShape shape_;
  Tensor filter_;
  IntegerProduct product_;
  Tiling tiling_;
  std::array<uint32_t, 3> grid_{1, 1, 1};
};

}  // namespace

std::unique_ptr<Kernel> make_conv_dot(const KernelSpec& spec) {
  const auto s = plane_conv(spec);
  if (!s || !DotConv::suits(spec, *s)) return nullptr;
  auto product = exact_product(spec, *s);
  if (!product) return nullptr;
  return DotConv::make(spec, *s, std::move(*product));
}

std::unique_ptr<Kernel> make_matmul_dot(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const auto s = rows_as_pixels(spec, attrs);
  if (!s || !DotConv::suits(spec, *s)) return nullptr;
  auto product = exact_product(spec, attrs, *s);
  if (!product) return nullptr;
  return DotConv::make(spec, *s, std::move(*product));
}

}  // namespace smelt::vulkan
