// Tensors as images (backends/vulkan/layout/image_layout.h). Variants define TEXTURE as 2 or 3, the dimensions of their
// images. Sizes are width, height, channels, batch. A position counts texels along width, height, and channels with
// batch.
#extension GL_EXT_samplerless_texture_functions : require

#if defined(TEXTURE) && TEXTURE == 2
#define READ_IMAGE texture2D
#define WRITE_IMAGE image2D
#else
#define READ_IMAGE texture3D
#define WRITE_IMAGE image3D
#endif

// Texels along width, height and channels of a tensor packed along dimension `axis`.
ivec3 texels_of(ivec4 size, uint axis) {
  ivec3 t = size.xyz;
  t[axis] = (t[axis] + 3) >> 2;
  return t;
}

// The i-th texel as a place along width, height, channels, batch, of `t` texels along the first three.
ivec4 place_of(int i, ivec3 t) {
  ivec4 p;
  p.w = i / t.x;
  p.x = i - p.w * t.x;
  i = p.w;
  p.w = i / t.y;
  p.y = i - p.w * t.y;
  i = p.w;
  p.w = i / t.z;
  p.z = i - p.w * t.z;
  return p;
}
ivec3 position_of(ivec4 place, ivec3 t) { return ivec3(place.xy, place.z + place.w * t.z); }

// The place of an element in a tensor's order.
int order_of(ivec4 e, ivec4 size) { return ((e.w * size.z + e.z) * size.y + e.y) * size.x + e.x; }

// `rows`: texels along the height. A 2-D image has the slices one below the other.
vec4 fetch(texture3D image, ivec3 at, int rows) { return texelFetch(image, at, 0); }
vec4 fetch(texture2D image, ivec3 at, int rows) { return texelFetch(image, ivec2(at.x, at.y + at.z * rows), 0); }

layout(constant_id = 20) const bool kHalfImage = false;  // results are float16
// The nearest float16 value, of two the even one. How stores into images round is up to the device.
float nearest_half(float x) {
  const uint sign = floatBitsToUint(x) & 0x80000000u;
  uint bits = floatBitsToUint(x) ^ sign;
  if (bits >= 0x7f800000u) return x;  // infinite or not a number
  if (bits < 0x38800000u)  // steps of 2^-24
    bits = floatBitsToUint(roundEven(uintBitsToFloat(bits) * 16777216.0) / 16777216.0);
  else
    bits = (bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu;
  return uintBitsToFloat((bits > 0x477fe000u ? 0x7f800000u : bits) | sign);
}
vec4 as_texel(vec4 x) {
  if (kHalfImage)
    [[unroll]] for (int k = 0; k < 4; ++k) x[k] = nearest_half(x[k]);
  return x;
}
void put(writeonly image3D image, ivec3 at, int rows, vec4 x) { imageStore(image, at, as_texel(x)); }
void put(writeonly image2D image, ivec3 at, int rows, vec4 x) {
  imageStore(image, ivec2(at.x, at.y + at.z * rows), as_texel(x));
}

// An element by its place in the tensor's order.
#define ELEMENT_OF(IMAGE)                                              \
  float element(IMAGE image, int order, ivec4 size, uint axis) {    \
    ivec4 e = place_of(order, size.xyz);                            \
    const int lane = e[axis] & 3;                                   \
    e[axis] >>= 2;                                                  \
    const ivec3 t = texels_of(size, axis);                          \
    return fetch(image, position_of(e, t), t.y)[lane];              \
  }
ELEMENT_OF(texture3D)
ELEMENT_OF(texture2D)

// The texel of an operand, which broadcasts to `all`, for the result's at `place`.
vec4 spread(READ_IMAGE image, ivec4 size, ivec4 all, ivec4 place, uint axis) {
  const ivec3 t = texels_of(size, axis);
  const vec4 x = fetch(image, position_of(min(place, ivec4(t, size.w) - 1), t), t.y);
  return size[axis] == 1 && all[axis] != 1 ? x.xxxx : x;
}

// How the pixels of an image lie: 0, channels first: (x, y, quad); 1, channels last: (quad, x, y); 2, one dimension,
// channels first: (x, quad). A quad is four channels; `h` and `quads` are those of an image of the batch.
ivec3 pixel_position(uint axes, int x, int y, int quad, int image, int h, int quads) {
  if (axes == 1) return ivec3(quad, x, image * h + y);
  return axes == 2 ? ivec3(x, quad, image) : ivec3(x, y, image * quads + quad);
}
// Texels along the height of such an image.
int pixel_rows(uint axes, int w, int h, int quads) { return axes == 0 ? h : axes == 1 ? w : quads; }
