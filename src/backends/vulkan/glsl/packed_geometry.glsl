// Push constants of convolutions with packed filters. Channels are those of one group, tiles of output channels too;
// x_pixel to y_channel are strides between pixels and channels, in elements.
//@ block PackedGeometry geometry
#define PACKED_GEOMETRY                                                             \
  int x_size[2], y_size[2], kernel[2], stride[2], dilation[2], pad[2]; /* h, w */   \
  int c_in, c_out, groups, tiles;                                                   \
  int x_pixel, x_channel, y_pixel, y_channel;
