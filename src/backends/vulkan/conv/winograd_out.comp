#version 450
// The results of Winograd's F(2x2, 3x3): 2x2 pixels act(A^T m A + bias) of each M[tile][16][channel]. One invocation an
// ELEMENT of channels. Channels-last images.
//@ winograd_out_{ELEMENT=f32,vec4_f32}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"

layout(constant_id = 1) const bool kBias = false;
layout(push_constant) uniform Push {
  int y_size[2], tiles[2];
  int channels, n;  // in ELEMENTs
  ACTIVATION
};
layout(set = 0, binding = 0) readonly buffer M { ELEMENT ms[]; };
layout(set = 0, binding = 1) readonly buffer B { ELEMENT bias[]; };
layout(set = 0, binding = 2) writeonly buffer Y { ELEMENT ys[]; };

ELEMENT activated(ELEMENT v) {
#ifdef ELEMENT_VECTOR
  [[unroll]] for (int k = 0; k < 4; ++k) v[k] = activate(v[k], act, act_a, act_b);
  return v;
#else
  return activate(v, act, act_a, act_b);
#endif
}

void main() {
  const int i = int(flat_id());
  if (i >= n) return;
  const int tile = i / channels, c = i - tile * channels;
  const int line = tile / tiles[1], column = tile - line * tiles[1];
  const int image = line / tiles[0], row = line - image * tiles[0];
  const int from = tile * 16 * channels + c;
  ELEMENT t[2][4];
  [[unroll]] for (int x = 0; x < 4; ++x) {
    const ELEMENT a = ms[from + x * channels], b = ms[from + (4 + x) * channels], d = ms[from + (8 + x) * channels],
                  e = ms[from + (12 + x) * channels];
    t[0][x] = a + b + d;
    t[1][x] = b - d - e;
  }
  const ELEMENT added = kBias ? bias[c] : ELEMENT(0);
  [[unroll]] for (int y = 0; y < 2; ++y) {
    const int py = row * 2 + y, px = column * 2;
    if (py >= y_size[0]) continue;
    const int to = ((image * y_size[0] + py) * y_size[1] + px) * channels + c;
    ys[to] = activated(t[y][0] + t[y][1] + t[y][2] + added);
    if (px + 1 < y_size[1]) ys[to + channels] = activated(t[y][1] - t[y][2] - t[y][3] + added);
  }
}
