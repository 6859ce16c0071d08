#include <memory>

#include "backends/cpu/conv/conv_winograd_f32.h"
#include "backends/cpu/conv/winograd_choice.h"
#include "backends/cpu/conv/winograd_f32.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/gemm/gemm_f32.h"
#include "ops/conv/conv_shape.h"

namespace smelt {

std::unique_ptr<Kernel> make_conv_winograd_2x2_bf16(const KernelSpec& spec) {
  const auto g = ConvShape::in_lines(spec);
  if (!g || spec.outputs[0].shape.elements() == 0 || !has_dilated_winograd_form(*g)) return nullptr;
  if (g->groups > 1) return spec.refuse("the filters are in groups");
  if (g->c_in % 16 != 0) return spec.refuse("the channels are no whole vectors");
  if (spec.isa.has(IsaFeature::kAmx)) return spec.refuse("AMX multiplies faster than tiles are transformed");
  const auto setting = winograd_setting();
  if (!setting.ok() || !takes_winograd_bf16(*g, *setting))
    return spec.refuse("another way to convolve takes less time, or SMELT_CPU_WINOGRAD forbids this one");
  return make_conv_winograd_by(*g, gemm_bf16(spec.isa), winograd_2x2_bf16(spec.isa), spec);
}

}  // namespace smelt
