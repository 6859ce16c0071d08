#version 450
// Filters as conv_texture.comp reads them: fours of output channels; [4 outputs][tap][4 inputs][4] or, depthwise,
// [tap][4 channels]. Zero where there is no channel. An invocation makes one four.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const bool kHalf = false;  // into float16
layout(constant_id = 2) const bool kDepthwise = false;
layout(push_constant) uniform Push {
  uint n;
  int c_in, c_out, taps;
  int filter_o, filter_i, filter_s;  // strides of `from`
};
layout(set = 0, binding = 0) readonly buffer X { STORED from[]; };
layout(set = 0, binding = 1) writeonly buffer W { vec4 ws[]; };
layout(set = 0, binding = 1) writeonly buffer H { uvec2 hs[]; };

void main() {
  const uint at = flat_id();
  if (at >= n) return;
  int rest = int(at), i = 0, o, tap;
  if (kDepthwise) {
    const int quads = (c_out + 3) / 4;
    tap = rest / quads;
    o = (rest - tap * quads) * 4;
  } else {
    const int ins = (c_in + 3) / 4 * 4;
    i = rest % ins;
    rest /= ins;
    tap = rest % taps;
    o = rest / taps * 4;
  }
  vec4 w = vec4(0.0);
  [[unroll]] for (int k = 0; k < 4; ++k)
    if (i < c_in && o + k < c_out) w[k] = float(from[(o + k) * filter_o + i * filter_i + tap * filter_s]);
  if (kHalf)
    hs[at] = uvec2(packHalf2x16(w.xy), packHalf2x16(w.zw));
  else
    ws[at] = w;
}
