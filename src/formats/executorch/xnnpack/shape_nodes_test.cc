// Rows for nodes that move elements, pool and resize.
#include "support/xnn_cases.h"

namespace smelt::executorch::testing {
namespace {

const Dims kDims{2, 3, 5};

void add_transpose(Rows& rows) {
  Case c{XNodeUnion::XNNStaticTranspose,
         "",
         {{2, 3, 4}},
         {4, 2, 3},
         [](XnnBlob& b, const auto& in, uint32_t out) {
           const Dims perm{2, 0, 1};
           b.node(XNodeUnion::XNNStaticTranspose,
                  fb_xnnpack::CreateXNNStaticTransposeDirect(b.fbb, 3, &perm, in[0], out));
         },
         [](const std::vector<Reals>& x) {
           Reals y;
           for (size_t k = 0; k < 4; ++k)
             for (size_t i = 0; i < 2; ++i)
               for (size_t j = 0; j < 3; ++j) y.push_back(x[0][(i * 3 + j) * 4 + k]);
           return y;
         }};
  c.out_scale = 0;
  add(rows, c, kReals32);
}

void add_reshape(Rows& rows) {
  for (const Dims& shape : {Dims{6, 5}, Dims{0, 5}, Dims{3, 0}}) {
    const Dims out = shape[1] == 0 ? Dims{3, 10} : Dims{6, 5};
    Case c{XNodeUnion::XNNStaticReshape,
           "to " + shape_of(shape).str(),
           {kDims},
           out,
           [shape](XnnBlob& b, const auto& in, uint32_t to) {
             b.node(XNodeUnion::XNNStaticReshape,
                    fb_xnnpack::CreateXNNStaticReshapeDirect(b.fbb, 2, &shape, in[0], to));
           },
           [](const std::vector<Reals>& x) { return x[0]; }};
    c.out_scale = 0;
    add(rows, c, kReals32);
  }
}

void add_slice(Rows& rows) {
  Case c{XNodeUnion::XNNStaticSlice,
         "",
         {{4, 5}},
         {2, 4},
         [](XnnBlob& b, const auto& in, uint32_t out) {
           const Dims offsets{1, 1}, sizes{2, 0};
           b.node(XNodeUnion::XNNStaticSlice,
                  fb_xnnpack::CreateXNNStaticSliceDirect(b.fbb, 2, &offsets, &sizes, in[0], out));
         },
         [](const std::vector<Reals>& x) {
           Reals y;
           for (size_t i = 1; i < 3; ++i)
             for (size_t j = 1; j < 5; ++j) y.push_back(x[0][i * 5 + j]);
           return y;
         }};
  c.out_scale = 0;
  add(rows, c, kReals32);
}

void add_pad(Rows& rows) {
  Case c{XNodeUnion::XNNStaticConstantPad,
         "",
         {{2, 3}},
         {3, 6},
         [](XnnBlob& b, const auto& in, uint32_t out) {
           const Dims before{1, 1}, after{0, 2};
           b.node(XNodeUnion::XNNStaticConstantPad,
                  fb_xnnpack::CreateXNNStaticConstantPadDirect(b.fbb, &before, &after, 0.52f, in[0], out));
         },
         [](const std::vector<Reals>& x) {
           Reals y(18, 0.52);
           for (size_t i = 0; i < 2; ++i)
             for (size_t j = 0; j < 3; ++j) y[(i + 1) * 6 + j + 1] = x[0][i * 3 + j];
           return y;
         }};
  c.out_scale = 0;
  add(rows, c, kReal);
}

void add_concatenate(Rows& rows) {
  const XNodeUnion types[] = {XNodeUnion::XNNConcatenate2, XNodeUnion::XNNConcatenate3, XNodeUnion::XNNConcatenate4,
                              XNodeUnion::XNNConcatenate5};
  for (uint32_t n = 2; n <= 5; ++n)
    for (uint32_t axis : {1u, 0xffffffffu}) {
      Case c{types[n - 2],
             axis == 1 ? "axis 1" : "axis -1",
             std::vector<Dims>(n, Dims{2, 3}),
             {2, 3 * n},
             [=](XnnBlob& b, const auto& in, uint32_t out) {
               const auto id = [&](size_t i) { return i < in.size() ? in[i] : 0xffffffffu; };
               b.node(types[n - 2], fb_xnnpack::Create_XNNCat(b.fbb, axis, id(0), id(1), id(2), id(3), out, 0, id(4)));
             },
             [](const std::vector<Reals>& x) {
               Reals y;
               for (size_t r = 0; r < 2; ++r)
                 for (const Reals& part : x) y.insert(y.end(), part.begin() + r * 3, part.begin() + r * 3 + 3);
               return y;
             }};
      c.out_scale = 0;
      add(rows, c, kReals32);
    }
}

/// A 3 x 3 window over 5 x 5 images of 2 channels.
template <class Fold>
Reals pooled(const Reals& x, int pad, Fold fold) {
  Reals y;
  for (int oy = 0; oy < 2 + pad; ++oy)
    for (int ox = 0; ox < 2 + pad; ++ox)
      for (int ch = 0; ch < 2; ++ch) {
        Reals window;
        for (int ky = 0; ky < 3; ++ky)
          for (int kx = 0; kx < 3; ++kx) {
            const int iy = oy * 2 + ky - pad, ix = ox * 2 + kx - pad;
            if (iy >= 0 && iy < 5 && ix >= 0 && ix < 5)
              window.push_back(x[static_cast<size_t>((iy * 5 + ix) * 2 + ch)]);
          }
        y.push_back(fold(window));
      }
  return y;
}

void add_pooling(Rows& rows) {
  const auto mean = [](const Reals& w) {
    double sum = 0;
    for (double v : w) sum += v;
    return sum / static_cast<double>(w.size());
  };
  const auto largest = [](const Reals& w) { return *std::max_element(w.begin(), w.end()); };
  for (uint32_t pad : {0u, 1u})
    for (XNodeUnion type : {XNodeUnion::XNNAvgPooling2d, XNodeUnion::XNNMaxPooling2d}) {
      const bool max = type == XNodeUnion::XNNMaxPooling2d;
      Case c{type,
             pad == 0 ? "" : "padded",
             {{1, 5, 5, 2}},
             {1, 2 + pad, 2 + pad, 2},
             [=](XnnBlob& b, const auto& in, uint32_t out) {
               b.node(type,
                      fb_xnnpack::Create_XNNPooling2D(b.fbb, pad, pad, pad, pad, 3, 3, 2, 2, 1, 1, in[0], out, 0x40),
                      std::pair{-0.5f, 1.0f});
             },
             [=](const std::vector<Reals>& x) {
               const int p = static_cast<int>(pad);
               Reals y = max ? pooled(x[0], p, largest) : pooled(x[0], p, mean);
               for (double& v : y) v = std::clamp(v, -0.5, 1.0);
               return y;
             }};
      if (max) c.out_scale = 0;
      add(rows, c, kReal);
    }
}

void add_global_average_pooling(Rows& rows) {
  for (uint32_t flags : {0u, 0x40u}) {
    Case c{XNodeUnion::XNNGlobalAvgPooling2d,
           flags == 0 ? "" : "keeps dims",
           {{2, 3, 2, 4}},
           flags != 0 ? Dims{2, 1, 1, 4} : Dims{2, 4},
           [=](XnnBlob& b, const auto& in, uint32_t out) {
             b.node(XNodeUnion::XNNGlobalAvgPooling2d, fb_xnnpack::Create_XNNNode1x1(b.fbb, in[0], out, flags));
           },
           [](const std::vector<Reals>& x) {
             Reals y(8, 0);
             for (size_t n = 0; n < 2; ++n)
               for (size_t p = 0; p < 6; ++p)
                 for (size_t ch = 0; ch < 4; ++ch) y[n * 4 + ch] += x[0][(n * 6 + p) * 4 + ch] / 6;
             return y;
           }};
    add(rows, c, kReal);
  }
}

void check_argmax(XNNDatatype t, XNNDatatype index_type, BackendKind backend) {
  XnnBlob b;
  const Dims dims{1, 2, 4, 1}, out{1, 1, 2, 1};
  const XnnQuant q = params(t, kInputScale, kInputZero);
  const uint32_t x = b.input(t, dims, q), y = b.output(t, out, q), index = b.output(index_type, out);
  b.node(XNodeUnion::XNNArgMaxPooling2d, fb_xnnpack::CreateXNNArgMaxPooling2d(b.fbb, 0, 0, 0, 0, 2, 2, x, y, index));
  Reals meant;
  const Tensor stored = store({0.1, 0.5, 0, 0.2, 0.3, 0.4, 0.9, 0.8}, dims, t, meant);
  auto results = run_blob(b.finish(), {stored}, backend);
  ASSERT_TRUE(results.ok()) << results.error().message();
  EXPECT_EQ(get_double(results->at(0).tensor, 0), get_double(stored, 1));
  EXPECT_EQ(get_double(results->at(0).tensor, 1), get_double(stored, 6));
  // Counted column by column inside the window.
  EXPECT_EQ(get_double(results->at(1).tensor, 0), 2);
  EXPECT_EQ(get_double(results->at(1).tensor, 1), 1);
}

void add_argmax(Rows& rows) {
  for (XNNDatatype t : kReal)
    for (XNNDatatype index : {kI32, kF32})
      rows.push_back({XNodeUnion::XNNArgMaxPooling2d,
                      short_name(t) + " index " + short_name(index),
                      {{Slot::kInput, t}, {Slot::kOutput, t}, {Slot::kIndex, index}},
                      [=](BackendKind backend) { check_argmax(t, index, backend); }});
}

void add_resize_bilinear(Rows& rows) {
  constexpr uint32_t kLegacy = 4, kAlign = 8;
  for (uint32_t flags : {0u, kLegacy, kAlign}) {
    Case c{XNodeUnion::XNNStaticResizeBilinear2D,
           flags == kLegacy  ? "legacy"
           : flags == kAlign ? "align corners"
                             : "",
           {{1, 2, 3, 2}},
           {1, 4, 5, 2},
           [=](XnnBlob& b, const auto& in, uint32_t out) {
             b.node(XNodeUnion::XNNStaticResizeBilinear2D,
                    fb_xnnpack::CreateXNNStaticResizeBilinear2D(b.fbb, 4, 5, in[0], out, flags));
           },
           [=](const std::vector<Reals>& x) {
             const auto source = [&](int o, int in, int out) {
               const double s = static_cast<double>(in) / out;
               const double at = flags == kAlign    ? static_cast<double>(o) * (in - 1) / (out - 1)
                                 : flags == kLegacy ? o * s
                                                    : (o + 0.5) * s - 0.5;
               return std::clamp(at, 0.0, in - 1.0);
             };
             Reals y;
             for (int oy = 0; oy < 4; ++oy)
               for (int ox = 0; ox < 5; ++ox)
                 for (int ch = 0; ch < 2; ++ch) {
                   const double sy = source(oy, 2, 4), sx = source(ox, 3, 5);
                   const int y0 = static_cast<int>(sy), x0 = static_cast<int>(sx);
                   const int y1 = std::min(y0 + 1, 1), x1 = std::min(x0 + 1, 2);
                   const auto at = [&](int iy, int ix) { return x[0][static_cast<size_t>((iy * 3 + ix) * 2 + ch)]; };
                   const double top = at(y0, x0) + (at(y0, x1) - at(y0, x0)) * (sx - x0);
                   const double bottom = at(y1, x0) + (at(y1, x1) - at(y1, x0)) * (sx - x0);
                   y.push_back(top + (bottom - top) * (sy - y0));
                 }
             return y;
           }};
    c.out_scale = 0;
    add(rows, c, kReal);
  }
}

}  // namespace

std::vector<Row> shape_rows() {
  Rows rows;
  for (auto* add_to : {add_transpose, add_reshape, add_slice, add_pad, add_concatenate, add_pooling,
                       add_global_average_pooling, add_argmax, add_resize_bilinear})
    add_to(rows);
  return rows;
}

}  // namespace smelt::executorch::testing
