#version 450
// Filters as conv_texture.comp reads them: fours of output channels; [4 outputs][tap][4 inputs][4] or, depthwise,
// [tap][4 channels]. The inputs are `span` fours from the one on where the first output's group begins. Zero where a
// channel is none of the output's group. An invocation makes one four.
//@ weights_pack_{IN=f32,f16}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const bool kHalf = false;  // into float16
layout(constant_id = 2) const bool kDepthwise = false;
layout(push_constant) uniform Push {
  uint n;
  int all_out, taps, span;
  int group_in, group_out;                   // channels of a group
  int filter_g, filter_o, filter_i, filter_s;  // strides of `from`
};
layout(set = 0, binding = 0) readonly buffer X { IN from[]; };
layout(set = 0, binding = 1) writeonly buffer W { vec4 ws[]; };
layout(set = 0, binding = 1) writeonly buffer H { uvec2 hs[]; };

void main() {
  const uint at = flat_id();
  if (at >= n) return;
  int rest = int(at), i = 0, o, tap;
  if (kDepthwise) {
    const int quads = (all_out + 3) / 4;
    tap = rest / quads;
    o = (rest - tap * quads) * 4;
  } else {
    i = rest % (span * 4);
    rest /= span * 4;
    tap = rest % taps;
    o = rest / taps * 4;
    i += o / group_out * group_in / 4 * 4;
  }
  vec4 w = vec4(0.0);
  [[unroll]] for (int k = 0; k < 4; ++k) {
    const int group = (o + k) / group_out, from_i = kDepthwise ? 0 : i - group * group_in;
    if (from_i >= 0 && from_i < group_in && o + k < all_out)
      w[k] =
          float(from[group * filter_g + (o + k - group * group_out) * filter_o + from_i * filter_i + tap * filter_s]);
  }
  if (kHalf)
    hs[at] = uvec2(packHalf2x16(w.xy), packHalf2x16(w.zw));
  else
    ws[at] = w;
}
