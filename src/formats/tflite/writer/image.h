#pragma once

#include <optional>
#include <vector>

#include "formats/tflite/writer/op_writer.h"
#include "ops/conv/geometry.h"

namespace smelt::tflite {

/// The image that an input is, with channels last; of one spatial dimension with a height of 1 in front.
struct Image {
  int tensor = -1;
  int spatial = 0;            ///< number of spatial dimensions of the graph's value
  std::vector<int64_t> size;  ///< sizes of the spatial dimensions of `tensor`; -1: unknown
  int64_t channels = -1;
};

/// Input i as an image.
Image image_of(OpWriter& w, int i, Layout layout);
/// Binds output 0 to an image with channels last.
void bind_image(OpWriter& w, int y, Layout layout, int spatial);

/// Windows of a convolution or pool, one entry a spatial dimension of an Image.
struct Windows {
  std::vector<int64_t> kernel, stride, dilation, before, after;
};

/// A node's list with a height of 1 in front of one dimension; `fill` everywhere if the list is empty.
std::vector<int64_t> window_list(const std::vector<int64_t>& list, int spatial, int64_t fill);
Windows windows_of(std::vector<int64_t> kernel, const std::vector<int64_t>& strides,
                   const std::vector<int64_t>& dilations, const std::vector<int64_t>& pads, int spatial);

/// Padding as the format says it: SAME, VALID, or VALID behind a PAD.
struct PaddingChoice {
  tfl::Padding padding = tfl::Padding::VALID;
  bool pad = false;
};

/// Resolves the padding; `before` and `after` of `win` hold the explicit pads afterwards. Nothing if it depends on
/// sizes that are unknown.
std::optional<PaddingChoice> choose_padding(AutoPad mode, const Image& image, Windows& win);
/// PAD or, with a value, PADV2 of an image; negative pads crop by SLICE first.
int pad_image(OpWriter& w, const Image& image, const Windows& win, std::optional<double> value = std::nullopt);

/// Spatial sizes of a filter, with a height of 1 in front of one dimension.
std::vector<int64_t> filter_sizes(const Shape& shape, FilterLayout layout, int spatial);
/// A filter [O, W, I] with a height of 1 behind its first dimension. Nothing if its shape is unknown.
std::optional<int> with_height(SubgraphWriter& s, int filter);

/// True if a kernel multiplies these quantized values: int8 filters are symmetric, uint8 ones per tensor.
bool integer_operands(OpWriter& w, int x, int filter);

/// Operands of a weighted node as tensors: integers, or all as float32.
struct Weighted {
  int x = -1, filter = -1, bias = -1;
  DType dtype = DType::kF32;
  QuantPtr quant;
};
Weighted weighted_operands(OpWriter& w, int x, int filter, int bias_input, bool dynamic_quant);

/// A Pool node by windows of any number of dimensions, with gaps, or with the places of maxima. False if sizes are
/// unknown or the format has no form for it.
bool write_pool_windows(OpWriter& w);

/// Binds output 0 to y behind the activation, which stands as an operator of its own if it is not fused. False if the
/// format lacks the activation.
bool finish_image(OpWriter& w, int y, bool fused, const Activation& act, Layout layout, int spatial);

}  // namespace smelt::tflite
