#pragma once

#include <string>

#include "base/cat.h"
#include "ops/conv/conv_shape.h"

namespace smelt {

/// True if a convolution is of unquantized float32.
inline bool unquantized_f32_conv(const NodeSpec& spec) {
  for (size_t i = 0; i < spec.inputs.size(); ++i)
    if (spec.has(i) && (spec.inputs[i].dtype != DType::kF32 || spec.inputs[i].quant)) return false;
  return spec.outputs[0].dtype == DType::kF32 && !spec.outputs[0].quant;
}

/// Key of packed filters: everything that their arrangement depends on.
inline std::string geometry_key(const char* kind, const ConvShape& g, int64_t nr, const void* bias) {
  return Cat(kind, ' ', g.groups, ' ', g.c_in, ' ', g.c_out, ' ', g.taps(), ' ', g.filter_o, ' ', g.filter_i, ' ',
             g.filter_s, ' ', nr, ' ', reinterpret_cast<uintptr_t>(bias));
}

}  // namespace smelt
