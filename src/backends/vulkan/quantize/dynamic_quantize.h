#pragma once

#include <array>
#include <optional>
#include <vector>

#include "backends/vulkan/core/row_reduction.h"
#include "backends/vulkan/device/alignment.h"
#include "shaders/dynamic_quantize.h"

namespace smelt::vulkan {

/// One pass over the rows of input 0 that chooses quantization parameters for each row and quantizes it
/// (dynamic_quant.comp).
struct DynamicQuant {
  /// How a row's minimum and maximum give its scale and zero point.
  enum class Rule : uint32_t { kSymmetric, kAsymmetric, kXnnpack, kTfliteSymmetric, kTfliteAsymmetric };
  using PushConstants = shaders::DynamicQuant::Push;
  shaders::Variant<shaders::DynamicQuant> shader;
  Rule rule;
  PushConstants push;
  uint32_t lanes;

  /// Nullopt if rows of `length` elements are too long for a workgroup. Fills in the rows and count of `push`.
  static std::optional<DynamicQuant> make(const KernelSpec& spec, shaders::Variant<shaders::DynamicQuant> shader,
                                          Rule rule, int64_t length, PushConstants push);
  Status record(KernelRecorder& r, std::vector<Binding> results) const;
};

/// Quantized rows with their scales and zero points in scratch memory.
struct QuantizedRows {
  DynamicQuant quant;
  size_t values() const { return align_binding(size_t{quant.push.rows} * quant.push.count); }
  size_t scales() const { return align_binding(size_t{quant.push.rows} * sizeof(float)); }
  size_t zeros() const { return align_binding(quant.push.rows); }
  size_t bytes() const { return values() + scales() + zeros(); }
  /// The bindings of values, scales and zero points.
  std::array<Binding, 3> bindings(KernelRecorder& r, bool written) const;
  Status record(KernelRecorder& r) const;
};

/// Dynamic quantization of input 0 of a TFLite hybrid operator, to int8 (`shader` dynamic_quantize_i8) or to float32
/// values rounded to such integers times scale (dynamic_fake_quant_f32).
std::optional<DynamicQuant> dynamic_quant_rows(const KernelSpec& spec, shaders::Variant<shaders::DynamicQuant> shader,
                                               int64_t length, bool asymmetric);

/// The product of a TFLite hybrid operator in float32: rounds the rows of input 0, of `length` elements each, to their
/// quantized values, then multiplies by a kernel of the list. `attrs`: the node's attributes with `dynamic_quant`
/// cleared.
std::unique_ptr<Kernel> dynamic_quant_product(const KernelSpec& spec, AttrsPtr attrs, int64_t length, bool asymmetric);

/// The node with other attributes.
inline Node with_attrs(const Node& node, AttrsPtr attrs) {
  Node n = node;
  n.attrs = std::move(attrs);
  return n;
}

}  // namespace smelt::vulkan
