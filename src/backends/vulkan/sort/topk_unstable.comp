#version 450
// The first `keep` elements in order along the middle of [outer, extent, inner], equal ones as the unstable algorithms
// of libstdc++ leave them, which PyTorch's results show: std::partial_sort where few are kept, else std::nth_element
// and std::sort of what comes before it. One invocation a row. Specialization constants: 1 largest first, 2 words of an
// index (0: none wanted), 3 values wanted, 4 whether few are kept, 5 whether what is selected is sorted.
//@ topk_unstable_{ELEMENT=f32,f16,i32,i64,i8,u8,i16}
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

const uint kMaxParts = 32;
layout(constant_id = 1) const bool kDescending = false;
layout(constant_id = 2) const uint kIndexWords = 1;
layout(constant_id = 3) const bool kValues = true;
layout(constant_id = 4) const bool kFew = false;
layout(constant_id = 5) const bool kSorted = true;
layout(push_constant) uniform Push { AXIS uint keep; };
layout(set = 0, binding = 0) readonly buffer X { ELEMENT xs[]; };
layout(set = 0, binding = 1) writeonly buffer Y { ELEMENT ys[]; };
layout(set = 0, binding = 2) writeonly buffer Indices { uint indices[]; };
layout(set = 0, binding = 3) buffer Order { uint order[]; };  // of each row, places in the row

#ifdef ELEMENT_INTEGER
#define IS_NAN(v) false
#else
#define IS_NAN(v) isnan(v)
#endif

uint row, line;  // the row, and where its order begins

uint address(uint place) { return (row / inner * extent + place) * inner + row % inner; }

// True if the element at place a comes before the one at b: not a number is largest.
bool before(uint a, uint b) {
  const ELEMENT_VALUE v = ELEMENT_VALUE(xs[address(a)]), w = ELEMENT_VALUE(xs[address(b)]);
  if (IS_NAN(v) || IS_NAN(w)) return IS_NAN(v) != IS_NAN(w) && IS_NAN(v) == kDescending;
  return kDescending ? v > w : v < w;
}

// The order from here on by its own numbers, of which `less` compares two.
uint get(uint i) { return order[line + i]; }
void set(uint i, uint place) { order[line + i] = place; }
bool less(uint i, uint j) { return before(get(i), get(j)); }
void exchange(uint i, uint j) {
  const uint place = get(i);
  set(i, get(j));
  set(j, place);
}

// Sinks the hole at `hole` of the heap of `size` from `first` on to a leaf, and lifts `place` from there.
void fill_hole(uint first, uint hole, uint size, uint place) {
  const uint top = hole;
  uint child = hole;
  while (2 * child + 2 < size) {
    child = 2 * child + 2;
    if (less(first + child, first + child - 1)) --child;
    set(first + hole, get(first + child));
    hole = child;
  }
  if (2 * child + 2 == size) {
    set(first + hole, get(first + size - 1));
    hole = size - 1;
  }
  while (hole > top && before(get(first + (hole - 1) / 2), place)) {
    set(first + hole, get(first + (hole - 1) / 2));
    hole = (hole - 1) / 2;
  }
  set(first + hole, place);
}

// A heap of what comes first of [first, last), at [first, middle).
void select_by_heap(uint first, uint middle, uint last) {
  const uint size = middle - first;
  for (uint k = size / 2; k > 0; --k) fill_hole(first, k - 1, size, get(first + k - 1));
  for (uint i = middle; i < last; ++i)
    if (less(i, first)) {
      const uint place = get(i);
      set(i, get(first));
      fill_hole(first, 0, size, place);
    }
}
void sort_heap(uint first, uint last) {
  for (; last > first + 1; --last) {
    const uint place = get(last - 1);
    set(last - 1, get(first));
    fill_hole(first, 0, last - 1 - first, place);
  }
}

// Moves the one at i down to its place among the sorted ones before it.
void insert(uint first, uint i) {
  const uint place = get(i);
  const bool least = before(place, get(first));
  for (; i > first && (least || before(place, get(i - 1))); --i) set(i, get(i - 1));
  set(i, place);
}

// Parts [first, last) by a median of three; returns where the second part begins.
uint part(uint first, uint last) {
  const uint a = first + 1, b = first + (last - first) / 2, c = last - 1;
  const bool ab = less(a, b), ac = less(a, c), bc = less(b, c);
  exchange(first, ab ? (bc ? b : ac ? c : a) : ac ? a : bc ? c : b);
  uint low = first + 1, high = last;
  while (true) {
    while (less(low, first)) ++low;
    --high;
    while (less(first, high)) --high;
    if (low >= high) return low;
    exchange(low, high);
    ++low;
  }
}

void select(uint nth, uint last) {
  uint first = 0;
  for (int depth = 2 * findMSB(last); last - first > 3; --depth) {
    if (depth == 0) {
      select_by_heap(first, nth + 1, last);
      exchange(first, nth);
      return;
    }
    const uint cut = part(first, last);
    if (cut <= nth)
      first = cut;
    else
      last = cut;
  }
  for (uint i = first + 1; i < last; ++i) insert(first, i);
}

void sort(uint last) {
  if (last < 2) return;
  uint firsts[kMaxParts], lasts[kMaxParts];
  int depths[kMaxParts];
  uint parts = 1;
  firsts[0] = 0;
  lasts[0] = last;
  depths[0] = 2 * findMSB(last);
  while (parts > 0) {
    --parts;
    const uint first = firsts[parts];
    uint end = lasts[parts];
    for (int depth = depths[parts]; end - first > 16; --depth) {
      if (depth == 0) {
        select_by_heap(first, end, end);
        sort_heap(first, end);
        break;
      }
      const uint cut = part(first, end);
      firsts[parts] = cut;
      lasts[parts] = end;
      depths[parts] = depth - 1;
      ++parts;
      end = cut;
    }
  }
  for (uint i = 1; i < last; ++i) insert(0, i);
}

void main() {
  row = flat_id();
  if (row >= rows) return;
  line = row * extent;
  for (uint k = 0; k < extent; ++k) set(k, k);
  if (kFew) {
    select_by_heap(0, keep, extent);
    sort_heap(0, keep);
  } else {
    select(keep - 1, extent);
    if (kSorted) sort(keep - 1);
  }
  for (uint k = 0; k < keep; ++k) {
    const uint to = (row / inner * keep + k) * inner + row % inner, place = get(k);
    if (kValues) ys[to] = xs[address(place)];
    if (kIndexWords > 0) indices[to * kIndexWords] = place;
    if (kIndexWords == 2) indices[to * 2 + 1] = 0;
  }
}
