// Dynamic quantization: parameters are chosen per row at run time.
#include <algorithm>
#include <array>

#include "backends/vulkan/matmul/per_token.h"
#include "backends/vulkan/quantize/dynamic_quantize.h"
#include "ops/common/requantizer.h"
#include "ops/conv/conv.h"
#include "ops/conv/geometry.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {

std::optional<DynamicQuant> DynamicQuant::make(const KernelSpec& spec, shaders::Variant<shaders::DynamicQuant> shader,
                                               Rule rule, int64_t length, PushConstants push) {
  const int64_t n = spec.inputs[0].shape.elements();
  if (length < 1 || n < 1 || n % length != 0) return std::nullopt;
  push.rows = static_cast<uint32_t>(n / length);
  push.count = static_cast<uint32_t>(length);
  const uint32_t lanes = lanes_for(push.rows, length, true, 2);
  if (lanes == 0) return std::nullopt;
  if (shader == shaders::dynamic_fake_quant_f32 && uses_subgroups(spec, lanes))
    shader = shaders::dynamic_fake_quant_f32_subgroups;
  return DynamicQuant{shader, rule, push, lanes};
}

Status DynamicQuant::record(KernelRecorder& r, std::vector<Binding> results) const {
  SMELT_ASSIGN(const Binding x, r.input(0));
  results.insert(results.begin(), x);
  return r.run(shader, {.width = row_width(lanes), .lanes = lanes, .rule = static_cast<uint32_t>(rule)},
               std::span<const Binding>(results), row_grid(push.rows, lanes), push);
}

std::array<Binding, 3> QuantizedRows::bindings(KernelRecorder& r, bool written) const {
  return {r.scratch(0, values(), written), r.scratch(values(), scales(), written),
          r.scratch(values() + scales(), zeros(), written)};
}

Status QuantizedRows::record(KernelRecorder& r) const {
  const auto p = bindings(r, true);
  return quant.record(r, {p.begin(), p.end()});
}

std::optional<DynamicQuant> dynamic_quant_rows(const KernelSpec& spec, shaders::Variant<shaders::DynamicQuant> shader,
                                               int64_t length, bool asymmetric) {
  return DynamicQuant::make(spec, shader,
                            asymmetric ? DynamicQuant::Rule::kTfliteAsymmetric : DynamicQuant::Rule::kTfliteSymmetric,
                            length, {.low = -128, .high = 127});
}

namespace {

using Rule = DynamicQuant::Rule;

class DynamicQuantize final : public Kernel {
 public:
  explicit DynamicQuantize(const DynamicQuant& rows) : rows_(rows) {}
  Status record(KernelRecorder& r) const override { return rows_.record(r, {r.output(0), r.output(1), r.output(2)}); }

 private:
  DynamicQuant rows_;
};

}  // namespace

std::unique_ptr<Kernel> make_dynamic_quantize(const KernelSpec& spec) {
  const auto& a = spec.attrs<DynamicQuantizeAttrs>();
  const ValueType& x = spec.inputs[0];
  for (size_t i = 0; i < 3; ++i)
    if (!wanted(spec, i) || spec.outputs[i].quant) return nullptr;
  if (spec.outputs[0].dtype != a.to || spec.outputs[1].dtype != DType::kF32 || spec.outputs[2].dtype != a.to)
    return nullptr;
  const bool ranged = a.quant_min != a.quant_max;
  const int64_t low = ranged ? a.quant_min : int_min(a.to), high = ranged ? a.quant_max : int_max(a.to);
  if (low < int_min(a.to) || high > int_max(a.to) || low >= high) return nullptr;
  const Rule rule = a.symmetric ? Rule::kSymmetric : a.xnnpack_rule ? Rule::kXnnpack : Rule::kAsymmetric;
  const int64_t length = a.per_row && x.shape.rank() > 0 ? x.shape.back() : x.shape.elements();
  const auto rows = DynamicQuant::make(
      spec, a.to == DType::kI8 ? shaders::dynamic_quantize_i8 : shaders::dynamic_quantize_u8, rule, length,
      {.low = static_cast<int32_t>(low), .high = static_cast<int32_t>(high), .epsilon = static_cast<float>(a.eps)});
  return rows ? std::make_unique<DynamicQuantize>(*rows) : nullptr;
}

namespace {

/// A product of TFLite's hybrid operators in float32: rounds the rows to their quantized values, then multiplies.
class DynamicQuantFloat final : public Kernel {
 public:
  DynamicQuantFloat(const DynamicQuant& rows, std::unique_ptr<Kernel> product)
      : rows_(rows), product_(std::move(product)) {}
  size_t scratch_bytes() const override { return bytes() + product_->scratch_bytes(); }
  bool reads(size_t i) const override { return product_->reads(i); }
  Status record(KernelRecorder& r) const override {
    SMELT_TRY(rows_.record(r, {r.scratch(0, bytes(), true)}));
    std::vector<KernelRecorder::Operand> inputs{{r.scratch(0, bytes(), false)}};
    for (size_t i = 1; i < r.operands(); ++i) inputs.push_back(r.operand(i));
    const Binding outputs[] = {r.place(0)};
    KernelRecorder product = r.nested(inputs, outputs, r.scratch(bytes(), product_->scratch_bytes(), false));
    return product_->record(product);
  }

 private:
  size_t bytes() const { return align_binding(size_t{rows_.push.rows} * rows_.push.count * sizeof(float)); }

  DynamicQuant rows_;
  std::unique_ptr<Kernel> product_;
};

}  // namespace

std::unique_ptr<Kernel> dynamic_quant_product(const KernelSpec& spec, AttrsPtr attrs, int64_t length, bool asymmetric) {
  const auto rows = dynamic_quant_rows(spec, shaders::dynamic_fake_quant_f32, length, asymmetric);
  if (!rows) return nullptr;
  const Node node = with_attrs(spec.node, std::move(attrs));
  auto product = listed_kernel(spec.part({node, spec.inputs, spec.constants, spec.outputs}));
  if (!product) return nullptr;
  return std::make_unique<DynamicQuantFloat>(*rows, std::move(product));
}

}  // namespace smelt::vulkan
