#version 450
// The images of Winograd's F(2x2, 3x3): V[tile][16][channel] = B^T d B of each 4x4 patch d, two pixels apart. One
// invocation an ELEMENT of channels. Channels-last images.
//@ winograd_in_{ELEMENT=f32,vec4_f32}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(push_constant) uniform Push {
  int x_size[2], tiles[2], pad[2];
  int channels, n;  // in ELEMENTs
};
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) writeonly buffer V { ELEMENT vs[]; };

void main() {
  const int i = int(flat_id());
  if (i >= n) return;
  const int tile = i / channels, c = i - tile * channels;
  const int line = tile / tiles[1], column = tile - line * tiles[1];
  const int image = line / tiles[0], row = line - image * tiles[0];
  const int y0 = row * 2 - pad[0], x0 = column * 2 - pad[1];
  ELEMENT d[4][4];
  [[unroll]] for (int y = 0; y < 4; ++y)
    [[unroll]] for (int x = 0; x < 4; ++x) {
      const bool inside = y0 + y >= 0 && y0 + y < x_size[0] && x0 + x >= 0 && x0 + x < x_size[1];
      const int at = ((image * x_size[0] + y0 + y) * x_size[1] + x0 + x) * channels + c;
      d[y][x] = inside ? xs[inside ? at : c] : ELEMENT(0);
    }
  ELEMENT t[4][4];
  [[unroll]] for (int x = 0; x < 4; ++x) {
    t[0][x] = d[0][x] - d[2][x];
    t[1][x] = d[1][x] + d[2][x];
    t[2][x] = d[2][x] - d[1][x];
    t[3][x] = d[1][x] - d[3][x];
  }
  const int to = tile * 16 * channels + c;
  [[unroll]] for (int y = 0; y < 4; ++y) {
    vs[to + (y * 4 + 0) * channels] = t[y][0] - t[y][2];
    vs[to + (y * 4 + 1) * channels] = t[y][1] + t[y][2];
    vs[to + (y * 4 + 2) * channels] = t[y][2] - t[y][1];
    vs[to + (y * 4 + 3) * channels] = t[y][1] - t[y][3];
  }
}
