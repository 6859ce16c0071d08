#version 450
// The order of rows of more elements than sort.comp takes, by a bitonic network over kSlots places of each row in
// memory, in several dispatches: runs of kChunk places in shared memory first; then, for every longer run, steps
// between places that are far apart, and the near ones in shared memory again; at last the first `keep` are written.
// Rows are the middle of [outer, extent, inner]. Specialization constants: 1 the part, 2 largest first, 3 words of an
// index (0: none wanted), 4 values wanted.
//@ sort_long_{ELEMENT=f32,f16,i32,i64,i8,u8,i16}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

const uint kChunk = 1024;
const uint kSortChunks = 0, kStep = 1, kMergeChunks = 2, kWrite = 3;
layout(constant_id = 1) const uint kPart = 0;
layout(constant_id = 2) const bool kDescending = false;
layout(constant_id = 3) const uint kIndexWords = 1;
layout(constant_id = 4) const bool kValues = true;
layout(push_constant) uniform Push { AXIS uint keep, slots, run, apart; };
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) writeonly buffer Y { ELEMENT ys[]; };
layout(set = 0, binding = 2) writeonly buffer Indices { uint indices[]; };
layout(set = 0, binding = 3) buffer Places { uint places[]; };

shared ELEMENT_VALUE values[kChunk];
shared uint mine[kChunk];

#ifdef ELEMENT_INTEGER
#define IS_NAN(v) false
#else
#define IS_NAN(v) isnan(v)
#endif

uint address(uint row, uint place) { return (row / inner * extent + place) * inner + row % inner; }
ELEMENT_VALUE load(uint row, uint place) {
  return place < extent ? ELEMENT_VALUE(xs[address(row, place)]) : ELEMENT_VALUE(0);
}

// True if place i with value v comes before place j with w: not a number is largest, ties go by place, free slots are
// last.
bool before(uint i, ELEMENT_VALUE v, uint j, ELEMENT_VALUE w) {
  if (i >= extent || j >= extent) return i < j;
  if (IS_NAN(v) || IS_NAN(w)) {
    if (IS_NAN(v) && IS_NAN(w)) return i < j;
    return IS_NAN(v) == kDescending;
  }
  if (v == w) return i < j;
  return kDescending ? v > w : v < w;
}

// One chunk in shared memory: runs [from, to].
void chunk(uint from, uint to) {
  const uint at = flat_group(), chunks = slots / kChunk, lane = gl_LocalInvocationID.x, width = gl_WorkGroupSize.x;
  if (at >= rows * chunks) return;
  const uint row = at / chunks, base = at % chunks * kChunk;
  for (uint k = lane; k < kChunk; k += width) {
    mine[k] = kPart == kSortChunks ? base + k : places[row * slots + base + k];
    values[k] = load(row, mine[k]);
  }
  for (uint r = from; r <= to; r *= 2)
    for (uint step = min(r, kChunk) / 2; step > 0; step /= 2) {
      barrier();
      for (uint k = lane; k < kChunk / 2; k += width) {
        const uint a = k / step * step * 2 + k % step, b = a + step;
        if (before(mine[b], values[b], mine[a], values[a]) == (((base + a) & r) == 0)) {
          const ELEMENT_VALUE v = values[a];
          const uint p = mine[a];
          values[a] = values[b];
          mine[a] = mine[b];
          values[b] = v;
          mine[b] = p;
        }
      }
    }
  barrier();
  for (uint k = lane; k < kChunk; k += width) places[row * slots + base + k] = mine[k];
}

void main() {
  if (kPart == kSortChunks) {
    chunk(2, kChunk);
  } else if (kPart == kMergeChunks) {
    chunk(run, run);
  } else if (kPart == kStep) {
    const uint i = flat_id();
    if (i >= rows * (slots / 2)) return;
    const uint row = i / (slots / 2), k = i % (slots / 2), a = k / apart * apart * 2 + k % apart;
    const uint first = row * slots + a, second = first + apart, p = places[first], q = places[second];
    if (before(q, load(row, q), p, load(row, p)) == ((a & run) == 0)) {
      places[first] = q;
      places[second] = p;
    }
  } else {
    const uint i = flat_id();
    if (i >= rows * keep) return;
    const uint row = i / keep, k = i % keep, place = places[row * slots + k];
    const uint to = (row / inner * keep + k) * inner + row % inner;
    if (kValues) ys[to] = xs[address(row, place)];
    if (kIndexWords > 0) indices[to * kIndexWords] = place;
    if (kIndexWords == 2) indices[to * 2 + 1] = 0;
  }
}
