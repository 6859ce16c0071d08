// Functions of 8- and 16-bit values as lookup tables that the reference kernel fills.
#include <cstring>

#include "backends/vulkan/core/strides.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "base/cat.h"
#include "ops/common/run_reference.h"
#include "shaders/lookup_table.h"
#include "shaders/lookup_table_pair.h"
#include "tensor/quant_params.h"

namespace smelt::vulkan {
namespace {

/// By the width of the result, for indices of 8 and of 16 bits.
constexpr shaders::Variant<shaders::LookupTable> kShaders[][2] = {
    {shaders::lookup_table_u8_8, shaders::lookup_table_u16_8},
    {shaders::lookup_table_u8_16, shaders::lookup_table_u16_16},
    {shaders::lookup_table_u8_32, shaders::lookup_table_u16_32},
    {shaders::lookup_table_u8_64, shaders::lookup_table_u16_64}};

/// True for per-tensor quantization parameters or none.
bool per_tensor_or_none(const ValueType& t) { return !t.quant || is_per_tensor(t.quant); }

bool is_int8_type(const ValueType& t) {
  return (t.dtype == DType::kI8 || t.dtype == DType::kU8 || t.dtype == DType::kBool) && per_tensor_or_none(t);
}

bool is_int16_type(const ValueType& t) {
  return (t.dtype == DType::kI16 || t.dtype == DType::kU16) && per_tensor_or_none(t);
}

/// Every value of an 8- or 16-bit type, in the order of its bits as an unsigned integer.
Tensor all_values(const ValueType& type, const Shape& shape) {
  Tensor t(type.dtype, shape);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    if (bit_width(type.dtype) == 16)
      t.data<uint16_t>()[i] = static_cast<uint16_t>(i);
    else
      t.data<uint8_t>()[i] = static_cast<uint8_t>(type.dtype == DType::kBool ? i != 0 : i);
  }
  t.set_quant(type.quant);
  return t;
}

/// The reference kernel's results for all values of the first `inputs` inputs; undefined if a later input is not a
/// constant of one element, or the kernel fails.
Tensor make_results(const KernelSpec& spec, size_t inputs) {
  const int64_t n = bit_width(spec.inputs[0].dtype) == 16 ? 65536 : 256;
  std::vector<Datum> in;
  in.emplace_back(all_values(spec.inputs[0], inputs == 2 ? Shape{n, 1} : Shape{n}));
  if (inputs == 2) in.emplace_back(all_values(spec.inputs[1], Shape{1, 256}));
  for (size_t i = inputs; i < spec.inputs.size(); ++i) {
    if (spec.has(i) && (!spec.constant(i) || spec.constant(i)->elements() != 1)) return {};
    in.push_back(spec.has(i) ? Datum(spec.constant(i)->reshaped(Shape{})) : Datum());
  }
  Tensor out(spec.outputs[0].dtype, inputs == 2 ? Shape{n, 256} : Shape{n});
  out.set_quant(spec.outputs[0].quant);
  auto results = run_reference(spec.node, std::move(in), {std::move(out)});
  return results.ok() ? std::move(results->front()) : Tensor();
}

Result<Binding> upload(KernelRecorder& r, const Tensor& table, const void* key) {
  return r.table(Cat("table ", reinterpret_cast<uintptr_t>(key)), table.bytes(),
                 [&](void* to) { std::memcpy(to, table.raw(), table.bytes()); });
}

class LookupTable final : public Kernel {
 public:
  LookupTable(Tensor table, bool words, uint32_t n) : table_(std::move(table)), words_(words), n_(n) {}
  bool reads(size_t i) const override { return i == 0; }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding table, upload(r, table_, this));
    return r.run(kShaders[element_width_index(table_.dtype())][words_ ? 1 : 0], {}, {x, table, r.output(0)},
                 Grid::flat(n_, kWidth), {.n = n_});
  }

 private:
  Tensor table_;
  bool words_;  ///< of 16 bits, else bytes
  uint32_t n_;
};

class LookupTablePair final : public Kernel {
 public:
  LookupTablePair(Tensor table, const Walk<2>& walk) : table_(std::move(table)), walk_(walk) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding y, r.input(1));
    SMELT_ASSIGN(const Binding table, upload(r, table_, this));
    return r.run(shaders::lookup_table_pair, {}, {x, y, table, r.output(0)}, Grid::flat(walk_.n, kWidth),
                 {.walk = walk_});
  }

 private:
  Tensor table_;
  Walk<2> walk_;
};

}  // namespace

std::unique_ptr<Kernel> make_lookup_table(const KernelSpec& spec) {
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if ((!is_int8_type(x) && !is_int16_type(x)) || !per_tensor_or_none(y) || element_width_index(y.dtype) < 0 ||
      !(x.shape == y.shape))
    return nullptr;
  Tensor results = make_results(spec, 1);
  if (!results.defined()) return nullptr;
  return std::make_unique<LookupTable>(std::move(results), is_int16_type(x), static_cast<uint32_t>(y.shape.elements()));
}

std::unique_ptr<Kernel> make_lookup_table_pair(const KernelSpec& spec) {
  const ValueType &a = spec.inputs[0], &b = spec.inputs[1], &y = spec.outputs[0];
  if (!is_int8_type(a) || !is_int8_type(b) || !is_int8_type(y)) return nullptr;
  const auto walk = Walk<2>::make(y.shape, {broadcast_strides(a.shape, y.shape), broadcast_strides(b.shape, y.shape)});
  if (!walk) return nullptr;
  Tensor results = make_results(spec, 2);
  if (!results.defined()) return nullptr;
  return std::make_unique<LookupTablePair>(std::move(results), *walk);
}

}  // namespace smelt::vulkan
