// Shaders that give one element of y at a time define `float result(uint i)`, i a place in the tensor's order, and
// ELEMENTS_MAIN for main(). Buffers have `n` elements of ELEMENT. TEXTURE: images, y of `n` texels of `y_size`, packed
// along kPacked; x of `x_size` along kPackedX. Where result() sets `failed`, nothing is written.
bool failed = false;
#ifdef TEXTURE
#define X_AT(i) element(xs, int(i), x_size, kPackedX)
#define ELEMENTS_MAIN                                                                                               \
  void main() {                                                                                                     \
    if (flat_id() >= n) return;                                                                                     \
    const ivec3 t = texels_of(y_size, kPacked);                                                                     \
    const ivec4 place = place_of(int(flat_id()), t);                                                                \
    ivec4 e = place;                                                                                                \
    e[kPacked] <<= 2;                                                                                               \
    vec4 y = vec4(0.0);                                                                                             \
    for (int k = 0; k < 4 && e[kPacked] < y_size[kPacked]; ++k, ++e[kPacked])                                       \
      y[k] = result(uint(order_of(e, y_size)));                                                                     \
    if (!failed) put(ys, position_of(place, t), t.y, y);                                                            \
  }
#else
#define X_AT(i) float(xs[i])
#define ELEMENTS_MAIN                        \
  void main() {                              \
    if (flat_id() >= n) return;              \
    const float y = result(flat_id());       \
    if (!failed) ys[flat_id()] = ELEMENT(y);  \
  }
#endif
