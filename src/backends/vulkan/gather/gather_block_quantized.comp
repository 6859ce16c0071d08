#version 450
// Slices of integers of 4 or 8 bits that computed indices pick along the first dimension, as reals: y = (q - zero) *
// scale, scales for each `block` of the last dimension. An index out of range sets `faults`.
//@ gather_block_quantized_{ELEMENT=f32,f16}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const uint kBits = 4;
layout(constant_id = 2) const bool kIsSigned = false;
layout(constant_id = 3) const bool kZeros = false;  // zero points for each block; else one
layout(constant_id = 4) const uint kIndexWords = 1;
layout(push_constant) uniform Push {
  uint n, extent, inner;  // extent: of the first dimension; inner: elements of a slice
  uint row, block, blocks;  // the last dimension: its extent, of a block, number of blocks
  int zero;
  uint fault_code;
};
layout(set = 0, binding = 0) readonly buffer X { uint words[]; };
layout(set = 0, binding = 1) readonly buffer I { int indices[]; };
layout(set = 0, binding = 2) readonly buffer S { float scales[]; };
layout(set = 0, binding = 3) readonly buffer Z { int zeros[]; };
layout(set = 0, binding = 4) writeonly buffer Y { ELEMENT ys[]; };
layout(set = 0, binding = 5) buffer F { uint faults[]; };

void main() {
  const uint i = flat_id();
  if (i >= n) return;
  const uint slice = i / inner;
  int index = indices[slice * kIndexWords];
  const bool good = kIndexWords == 1 || indices[slice * 2 + 1] == index >> 31;
  if (index < 0) index += int(extent);
  if (!good || index < 0 || index >= int(extent)) {
    faults[0] = fault_code;
    return;
  }
  const uint at = uint(index) * inner + i % inner, of_word = 32 / kBits;
  const uint place = at / row * blocks + at % row / block;
  const uint word = words[at / of_word];
  const int shift = int(at % of_word * kBits);
  const int q =
      kIsSigned ? bitfieldExtract(int(word), shift, int(kBits)) : int(bitfieldExtract(word, shift, int(kBits)));
  ys[i] = ELEMENT(float(q - (kZeros ? zeros[place] : zero)) * scales[place]);
}
