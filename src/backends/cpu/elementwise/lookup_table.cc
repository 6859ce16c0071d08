// Element-wise operators on 8-bit values as tables, filled by the reference kernel itself, or so that no result is in
// doubt: equal to it by construction.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/elementwise/lookup_table.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/broadcast.h"
#include "backends/cpu/core/epilogue.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/elementwise/lookup_table.h"
#include "backends/cpu/elementwise/lookup_table_vbmi.h"
#include "backends/cpu/quantize/dynamic_quant.h"
#include "ops/common/quantized_pair.h"
#include "ops/common/run_reference.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The table in registers, 16 bytes each, as look_up() wants them.
void fill_blocks(const uint8_t* HWY_RESTRICT table, hn::Vec<hn::ScalableTag<uint8_t>>* blocks) {
  const hn::ScalableTag<uint8_t> d;
#if HWY_ARCH_X86
  // A lookup of 16 bytes gives 0 for an index below 0 and else looks at its low 4 bits. With block j of each half of
  // the table replaced by its difference to block j - 1, the lookups of x - 16 j add up to that of x.
  HWY_ALIGN uint8_t steps[256];
  for (int k = 0; k < 256; ++k) steps[k] = static_cast<uint8_t>(k % 128 < 16 ? table[k] : table[k] ^ table[k - 16]);
  table = steps;
#endif
  for (int j = 0; j < 16; ++j) blocks[j] = hn::LoadDup128(d, table + 16 * j);
}

template <class V>
HWY_INLINE V look_up(const V* blocks, V x) {
  const hn::DFromV<V> d;
  auto sum = hn::Zero(d);
#if HWY_ARCH_X86
  const hn::RebindToSigned<decltype(d)> ds;
  const auto sixteen = hn::Set(ds, int8_t{16});
  auto low = hn::BitCast(ds, x), high = hn::Xor(low, hn::Set(ds, int8_t{-128}));
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) {
    sum = hn::Xor(sum, hn::TableLookupBytesOr0(blocks[j], hn::BitCast(d, low)));
    sum = hn::Xor(sum, hn::TableLookupBytesOr0(blocks[8 + j], hn::BitCast(d, high)));
    low = hn::SaturatedSub(low, sixteen);
    high = hn::SaturatedSub(high, sixteen);
  }
#else
  // What a lookup of 16 bytes gives for other indices differs from machine to machine.
  const auto sixteen = hn::Set(d, uint8_t{16});
#pragma GCC unroll 16
  for (int j = 0; j < 16; ++j) {
    sum = hn::Or(sum, hn::IfThenElseZero(hn::Lt(x, sixteen), hn::TableLookupBytes(blocks[j], x)));
    x = hn::Sub(x, sixteen);
  }
#endif
  return sum;
}

/// y[i] = table[x[i]].
void look_up_8(const uint8_t* HWY_RESTRICT table, const uint8_t* x, int64_t n, uint8_t* y) {
  const hn::ScalableTag<uint8_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  if (n >= 4 * lanes) {
    hn::Vec<decltype(d)> blocks[16];
    fill_blocks(table, blocks);
    for (; i + lanes <= n; i += lanes) hn::StoreU(look_up(blocks, hn::LoadU(d, x + i)), d, y + i);
  }
  for (; i < n; ++i) y[i] = table[x[i]];
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {

LookUp8 lookup_8(Isa isa) {
#if defined(__x86_64__)
  if (isa.has(IsaFeature::kVnni) && __builtin_cpu_supports("avx512vbmi")) return look_up_8_vbmi;
#endif
  return SMELT_FOR_LEVEL(isa, look_up_8);
}

bool takes_lookup_table(const ValueType& t) {
  return (is_8bit(t.dtype) || t.dtype == DType::kBool) && (!t.quant || is_per_tensor(t.quant));
}

namespace {

/// Every value of a byte in order, as a tensor of that type.
Tensor all_values(const ValueType& type, const Shape& shape) {
  Tensor t(type.dtype, shape);
  for (int i = 0; i < 256; ++i) t.data<uint8_t>()[i] = static_cast<uint8_t>(i);
  t.set_quant(type.quant);
  return t;
}

}  // namespace

namespace {

/// The table of a function in [-1, 1] by the vector function of float32. Null where a result is so near the middle
/// between two integers that only the reference kernel says which one it rounds to, and for other functions.
[[gnu::hot]] Packed table_by_vectors(const KernelSpec& spec) {
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (spec.node.op != Op::kUnary || !x.quant || !y.quant || !is_8bit(x.dtype) || !is_8bit(y.dtype)) return nullptr;
  const auto& attrs = spec.attrs<UnaryAttrs>();
  if ((attrs.fn != Unary::kSigmoid && attrs.fn != Unary::kTanh) || attrs.rounding == Rounding::kXnnpack) return nullptr;
  constexpr size_t kBytes = 256;
  const ValueType real = ValueType::tensor(DType::kF32, Shape{kBytes});
  const EpilogueF32 f = EpilogueF32::of_unary({spec.node, {&real, 1}, {}, {&real, 1}}, spec.isa);
  const QuantParams in = per_tensor_params(x.quant), out = per_tensor_params(y.quant);
  constexpr float kError = 2e-6f;  // of a result, also where it is computed in other ways
  const float per_unit = 1 / out.scale, sure = 0.5f - kError * per_unit;
  if (!f.unary || !(sure > 0)) return nullptr;
  std::array<float, kBytes> v;
  for (size_t i = 0; i < kBytes; ++i) {
    const auto byte = static_cast<uint8_t>(i);
    const int32_t q = x.dtype == DType::kI8 ? static_cast<int8_t>(byte) : int32_t{byte};
    v[i] = in.scale * static_cast<float>(q - in.zero_point);
  }
  f.unary(v.data(), kBytes, f.parameters, v.data());
  auto packed = std::make_shared<AlignedBuffer>(kBytes);
  const auto low = static_cast<int32_t>(int_min(y.dtype)), high = static_cast<int32_t>(int_max(y.dtype));
  for (size_t i = 0; i < kBytes; ++i) {
    const float r = v[i] * per_unit;
    const auto nearest = static_cast<int32_t>(std::lrint(r));
    if (!(std::fabs(r - static_cast<float>(nearest)) < sure)) return nullptr;
    packed->data<uint8_t>()[i] = static_cast<uint8_t>(std::clamp(nearest + out.zero_point, low, high));
  }
  return packed;
}

}  // namespace

TableKey::TableKey(const Node& node, const ValueType& y) : op(node.op), types{y} {
  if (op == Op::kUnary) {
    const auto& a = static_cast<const UnaryAttrs&>(*node.attrs);
    const auto bits = [](double v) { return std::bit_cast<uint64_t>(v); };
    function = {static_cast<uint64_t>(a.fn), bits(a.a), bits(a.b), bits(a.c), static_cast<uint64_t>(a.rounding)};
  } else {
    attrs = node.attrs.get();
  }
}

Packed fill_lookup_table(const KernelSpec& spec, size_t inputs) {
  if (Packed packed = table_by_vectors(spec)) return packed;
  std::vector<Datum> in;
  in.emplace_back(all_values(spec.inputs[0], inputs == 2 ? Shape{256, 1} : Shape{256}));
  if (inputs == 2) in.emplace_back(all_values(spec.inputs[1], Shape{1, 256}));
  for (size_t i = inputs; i < spec.inputs.size(); ++i) in.push_back(spec.has(i) ? Datum(*spec.constant(i)) : Datum());
  Tensor out(spec.outputs[0].dtype, inputs == 2 ? Shape{256, 256} : Shape{256});
  out.set_quant(spec.outputs[0].quant);
  const auto filled = run_reference(spec.node, std::move(in), {out});
  if (!filled.ok()) return nullptr;
  auto packed = std::make_shared<AlignedBuffer>(out.bytes());
  std::memcpy(packed->data<char>(), filled->front().raw(), out.bytes());
  return packed;
}

namespace {

/// A table that is kept with the packed weights. It must not be read before the kernel runs: a dry cache fills nothing.
Packed cached_table(const KernelSpec& spec, size_t inputs) {
  TableKey key(spec.node, spec.outputs[0]);
  for (size_t i = 0; i < inputs; ++i) key.types.emplace_back(spec.inputs[i]);
  for (size_t i = inputs; i < spec.inputs.size(); ++i)
    key.constants.push_back(spec.has(i) ? ConstantKey(*spec.constant(i)) : ConstantKey());
  return spec.packs.get(key, [&] { return fill_lookup_table(spec, inputs); });
}

void look_up_floats(const float* table, const uint8_t* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = table[x[i]];
}

template <class T>
class UnaryTable final : public Kernel {
 public:
  using LookUp = void (*)(const T* table, const uint8_t* x, int64_t n, T* y);
  UnaryTable(Packed table, int64_t n, LookUp look_up) : table_(std::move(table)), n_(n), look_up_(look_up) {}
  bool may_overwrite(size_t input) const override { return input == 0; }
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<uint8_t>();
    T* y = ctx.output(0).data<T>();
    ctx.threads().parallel_for(
        n_, 16384, [&](int64_t begin, int64_t end) { look_up_(table_->data<T>(), x + begin, end - begin, y + begin); });
    return Ok();
  }

 private:
  Packed table_;
  int64_t n_;
  LookUp look_up_;
};

/// What a table of 256 depends on that stands for a hash table of constants.
struct ByteTableKey {
  const void *keys, *values, *otherwise;
  int64_t count;
  auto operator<=>(const ByteTableKey&) const = default;
};

class BinaryTable final : public Kernel {
 public:
  BinaryTable(Packed table, const BroadcastLoops& loops) : table_(std::move(table)), loops_(loops) {}
  Status run(KernelContext& ctx) const override {
    loops_.each_row(ctx, 1, 1, [&](const void* a, int64_t sa, const void* b, int64_t sb, void* y, int64_t n) {
      row(static_cast<const uint8_t*>(a), sa, static_cast<const uint8_t*>(b), sb, static_cast<uint8_t*>(y), n);
    });
    return Ok();
  }

 private:
  void row(const uint8_t* a, int64_t sa, const uint8_t* b, int64_t sb, uint8_t* y, int64_t n) const {
    const auto* table = table_->data<uint8_t>();
    if (sa && sb) {
      for (int64_t i = 0; i < n; ++i) y[i] = table[a[i] * 256 + b[i]];
    } else if (sb) {
      const uint8_t* line = table + *a * 256;
      for (int64_t i = 0; i < n; ++i) y[i] = line[b[i]];
    } else {
      const uint8_t* column = table + *b;
      for (int64_t i = 0; i < n; ++i) y[i] = column[a[i * sa] * 256];
    }
  }
  Packed table_;
  BroadcastLoops loops_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_unary_lookup_table(const KernelSpec& spec) {
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  const bool real = is_unquantized_f32(y);
  if (!takes_lookup_table(x) || (!takes_lookup_table(y) && !real) || x.shape != y.shape) return nullptr;
  Packed table = cached_table(spec, 1);
  if (!table) return nullptr;
  const int64_t n = x.shape.elements();
  if (real) return std::make_unique<UnaryTable<float>>(std::move(table), n, look_up_floats);
  return std::make_unique<UnaryTable<uint8_t>>(std::move(table), n, lookup_8(spec.isa));
}

[[gnu::cold]] std::unique_ptr<Kernel> make_byte_lookup_table(const KernelSpec& spec) {
  const Tensor &keys = *spec.constant(1), &values = *spec.constant(2), &otherwise = *spec.constant(3);
  if (keys.elements() != values.elements() || otherwise.elements() < 1)
    return spec.refuse("not as many values as keys, or no default");
  const ByteTableKey key{keys.raw(), values.raw(), otherwise.raw(), keys.elements()};
  Packed table = spec.packs.get(key, [&] {
    auto packed = std::make_shared<AlignedBuffer>(256);
    auto* results = packed->data<uint8_t>();
    std::fill_n(results, 256, otherwise.data<uint8_t>()[0]);
    for (int64_t i = keys.elements() - 1; i >= 0; --i)  // of equal keys the first counts
      results[keys.data<uint8_t>()[i]] = values.data<uint8_t>()[i];
    return packed;
  });
  return std::make_unique<UnaryTable<uint8_t>>(std::move(table), spec.inputs[0].shape.elements(), lookup_8(spec.isa));
}

[[gnu::cold]] std::unique_ptr<Kernel> make_binary_lookup_table(const KernelSpec& spec) {
  const ValueType &a = spec.inputs[0], &b = spec.inputs[1], &y = spec.outputs[0];
  if (!takes_lookup_table(a) || !takes_lookup_table(b) || !takes_lookup_table(y)) return nullptr;
  // Below this size the reference kernel is done before its table would be.
  constexpr int64_t kWorthATable = 2048;
  if (y.shape.elements() < kWorthATable) return spec.refuse("too small for a table of 65536 entries");
  Packed table = cached_table(spec, 2);
  if (!table) return nullptr;
  return std::make_unique<BinaryTable>(std::move(table), BroadcastLoops::make(a.shape, b.shape, y.shape));
}

}  // namespace smelt
#endif
