#version 450
// Rotary embedding: pairs of a head's first elements turned by the angle of their position; the rest is copied.
// Specialization constants: 1 pairs are neighbours, 2 words of a position id (0: there are none).
//@ rotary_{ELEMENT=f32,f16} TABLE=ELEMENT
//@ rotary_{ELEMENT=f16}_{TABLE=f32}
//@ RotaryTexture: rotary_{TABLE=f32,f16}_{TEXTURE=3d,2d}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#ifdef TEXTURE
#include "texture.glsl"
layout(constant_id = 3) const uint kPacked = 0;
layout(constant_id = 4) const uint kPackedX = 0;
#endif
#include "elements.glsl"

layout(constant_id = 1) const bool kInterleaved = false;
layout(constant_id = 2) const uint kIdWords = 0;
// half_size: pairs of a row; id_batch and id_step: which id, or which row without ids, by batch entry and step;
// add_step 1: the row is the id plus the step.
//@ block RotaryGeometry geometry
#define GEOMETRY                                                                       \
  uint depth, half_size, heads, head_stride, steps, step_stride, batch_stride;         \
  uint id_batch, id_step, add_step, table_rows; float scale;
layout(push_constant) uniform Push {
#ifdef TEXTURE
  ivec4 x_size, y_size;
#endif
  uint n;
  GEOMETRY
  uint fault_code;
};
#ifdef TEXTURE
layout(set = 0, binding = 0) uniform READ_IMAGE xs;
layout(set = 0, binding = 5) writeonly uniform WRITE_IMAGE ys;
#else
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 5) writeonly buffer Y { ELEMENT ys[]; };
#endif
layout(set = 0, binding = 1) readonly buffer Cos { TABLE cosines[]; };
layout(set = 0, binding = 2) readonly buffer Sin { TABLE sines[]; };
layout(set = 0, binding = 3) readonly buffer Ids { int ids[]; };
layout(set = 0, binding = 4) buffer Faults { uint faults[]; };

float result(uint i) {
  const uint d = i % depth, step = i / step_stride % steps, batch = i / batch_stride;
  if (d >= 2 * half_size) return X_AT(i);
  const uint which = batch * id_batch + step * id_step;
  int row = int(which);
  bool far = false;
  if (kIdWords > 0) {
    row = ids[which * kIdWords];
    far = kIdWords == 2 && ids[which * kIdWords + 1] != 0;
  }
  far = far || row < 0 || row >= int(table_rows) - int(add_step * step);
  if (far) {
    faults[0] = fault_code;
    failed = true;
    return 0.0;
  }
  row += int(add_step * step);
  const bool second = kInterleaved ? (d & 1) != 0 : d >= half_size;
  const uint k = kInterleaved ? d / 2 : second ? d - half_size : d;
  const uint apart = kInterleaved ? 1 : half_size;
  const float c = float(cosines[uint(row) * half_size + k]), s = float(sines[uint(row) * half_size + k]);
  const float x = X_AT(i);
  const float y = second ? X_AT(i - apart) * s + x * c : x * c - X_AT(i + apart) * s;
  return y * scale;
}

ELEMENTS_MAIN
