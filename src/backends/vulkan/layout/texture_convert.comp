#version 450
// A tensor's elements from a buffer or image to another, in order. FROM and TO are texture3D, image2D and so on; a
// buffer is ELEMENT elements (FROM_BUFFER, TO_BUFFER), TO_FLOAT what becomes float32. An invocation for each texel of
// the target, or of the source when the target is a buffer.
//@ texture_convert_{ELEMENT=f32,f16,i32,i8,u8,bool}_{TO=3d:image3D,2d:image2D} FROM_BUFFER
//@ texture_convert_{FROM=3d:texture3D,2d:texture2D}_{ELEMENT=f32,f16} TO_BUFFER
//@ texture_convert_{FROM=3d:texture3D,2d:texture2D}_{TO=3d:image3D,2d:image2D}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "texture.glsl"

layout(constant_id = 1) const uint kFrom = 0;  // packed dimensions
layout(constant_id = 2) const uint kTo = 0;
layout(push_constant) uniform Push {
  ivec4 from_size, to_size;
  uint n;
};
#ifdef FROM_BUFFER
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
#else
layout(set = 0, binding = 0) uniform FROM xs;
#endif
#ifdef TO_BUFFER
layout(set = 0, binding = 1) writeonly buffer Y { ELEMENT ys[]; };
#else
layout(set = 0, binding = 1) writeonly uniform TO ys;
#endif

#ifndef FROM_BUFFER
float element(int order) { return element(xs, order, from_size, kFrom); }
#else
#ifdef ELEMENT_BOOL
float element(int order) { return float(bool(xs[order])); }
#else
float element(int order) { return float(xs[order]); }
#endif
#endif

void main() {
  const uint i = flat_id();
  if (i >= n) return;
#ifdef TO_BUFFER
  const ivec3 t = texels_of(from_size, kFrom);
  ivec4 e = place_of(int(i), t);
  const vec4 x = fetch(xs, position_of(e, t), t.y);
  e[kFrom] <<= 2;
  [[unroll]] for (int lane = 0; lane < 4; ++lane) {
    if (e[kFrom] < from_size[kFrom]) ys[order_of(e, from_size)] = ELEMENT(x[lane]);
    ++e[kFrom];
  }
#else
  const ivec3 t = texels_of(to_size, kTo);
  const ivec4 p = place_of(int(i), t);
  ivec4 e = p;
  e[kTo] <<= 2;
  vec4 y = vec4(0.0);
  [[unroll]] for (int lane = 0; lane < 4; ++lane) {
    if (e[kTo] < to_size[kTo]) y[lane] = element(order_of(e, to_size));
    ++e[kTo];
  }
  put(ys, position_of(p, t), t.y, y);
#endif
}
