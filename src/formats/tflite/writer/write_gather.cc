// Look-ups, scattering, sorting, selection of boxes, random numbers, spectra, strings.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "formats/tflite/writer/scores.h"
#include "ops/attention/attention.h"
#include "ops/detection/detection.h"
#include "ops/gather/gather.h"
#include "ops/random/random.h"
#include "ops/signal/signal.h"
#include "ops/sort/sort.h"
#include "ops/strings/strings.h"
#include "tensor/numeric.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;

/// Indices without negative ones: constants are wrapped here, others by a SELECT_V2. `extent` is the dimension they
/// count in; -1: unknown.
std::optional<int> wrapped_indices(OpWriter& w, int i, bool negative, int64_t extent) {
  SubgraphWriter& s = w.subgraph();
  if (const Tensor* t = w.constant(i)) {
    Tensor out(t->dtype() == DType::kI64 ? DType::kI64 : DType::kI32, t->shape());
    for (int64_t k = 0; k < t->elements(); ++k) {
      const int64_t v = get_int(*t, k);
      if (v < 0 && (!negative || extent < 0)) return std::nullopt;
      set_int(out, k, v < 0 ? v + extent : v);
    }
    return s.constant(std::move(out));
  }
  int x = w.in(i);
  if (s.at(x).dtype != DType::kI64) x = s.cast(x, DType::kI32);
  if (!negative) return x;
  if (extent < 0) return std::nullopt;
  return w.select(
      {w.compare(Code::LESS, x, w.number_like(x, 0)), w.add(x, w.number_like(x, static_cast<double>(extent))), x});
}

/// Coordinates of input 0, int32, behind `batch_dims` dimensions; negative ones count from the ends.
int from_the_front(OpWriter& w, int at, int64_t batch_dims = 0) {
  SubgraphWriter& s = w.subgraph();
  const Shape &x = w.in_type(0).shape, &indices = w.in_type(1).shape;
  int extents = -1;
  if (w.in_type(0).is_static() && indices.back() >= 0) {
    const auto begin = x.begin() + batch_dims;
    extents = s.i32({begin, begin + indices.back()});
  } else {
    const int count = s.add(Code::SLICE, {dims_of(s, at), s.i32({indices.rank() - 1}), s.i32({1})}, DType::kI32);
    extents = s.add(Code::SLICE, {dims_of(s, w.in(0)), s.i32({batch_dims}), count}, DType::kI32);
  }
  return w.select({w.compare(Code::LESS, at, s.i32_scalar(0)), w.add(at, extents), at});
}

int64_t normal_axis(int64_t axis, int rank) { return axis < 0 ? axis + rank : axis; }

/// One place along an axis; LiteRT's GATHER takes strings of rank 1 alone.
bool slice_of_strings(OpWriter& w, int64_t axis, int rank) {
  SubgraphWriter& s = w.subgraph();
  const auto places = w.ints(1);
  if (!places || places->size() != 1 || places->front() < 0 || w.attrs<GatherAttrs>().batch_dims != 0) return false;
  std::vector<int64_t> begin(static_cast<size_t>(rank), 0), size(static_cast<size_t>(rank), -1);
  begin[static_cast<size_t>(axis)] = places->front();
  size[static_cast<size_t>(axis)] = 1;
  int y = s.add(Code::SLICE, {w.in(0), s.i32(begin), s.i32(size)}, DType::kString);
  if (w.rank(1) == 0)
    y = s.add(Code::SQUEEZE, {y}, DType::kString, options_of<tfl::SqueezeOptions>([=](auto& b) {
                const std::vector<int32_t> dims{static_cast<int32_t>(axis)};
                return tfl::CreateSqueezeOptionsDirect(b, &dims);
              }));
  w.out(0, y);
  return true;
}

}  // namespace

bool write_gather(OpWriter& w) {
  const auto& a = w.attrs<GatherAttrs>();
  const int rank = w.rank(0);
  if (!same_type(w.in_type(0), w.out_type(0)) || (a.negative && rank < 1)) return false;
  const int64_t axis = rank < 0 ? a.axis : normal_axis(a.axis, rank);
  if (w.in_type(0).dtype == DType::kString && rank > 1) return slice_of_strings(w, axis, rank);
  const int64_t extent = rank < 0 ? -1 : w.in_type(0).shape[static_cast<int>(axis)];
  const auto indices = wrapped_indices(w, 1, a.negative, extent);
  if (indices) return w.emit(Code::GATHER, {w.in(0), *indices}, gather_options(axis, a.batch_dims));
  // A dimension that is not known before the run: its size is taken from the value.
  SubgraphWriter& s = w.subgraph();
  if (w.constant(1)) {
    const auto values = w.ints(1);
    if (values && std::ranges::all_of(*values, [](int64_t v) { return v >= 0; }))
      return w.emit(Code::GATHER, {w.in(0), w.in(1)}, gather_options(axis, a.batch_dims));
  }
  const int dims =
      s.add(Code::SHAPE, {w.in(0)}, DType::kI32,
            options_of<tfl::ShapeOptions>([](auto& b) { return tfl::CreateShapeOptions(b, tfl::TensorType::INT32); }));
  const int n = s.add(Code::GATHER, {dims, s.i32_scalar(axis)}, DType::kI32, gather_options(0, 0));
  const int x = s.cast(w.in(1), DType::kI32);
  const int wrapped = w.select({w.compare(Code::LESS, x, s.i32_scalar(0)), w.add(x, n), x});
  return w.emit(Code::GATHER, {w.in(0), wrapped}, gather_options(axis, a.batch_dims));
}

/// Element-wise look-ups: GATHER_ND with all coordinates written out.
bool write_gather_elements(OpWriter& w) {
  const auto& a = w.attrs<GatherAttrs>();
  SubgraphWriter& s = w.subgraph();
  const ValueType &x = w.in_type(0), &indices = w.in_type(1);
  if (!x.ranked || !indices.is_static() || !same_type(x, w.out_type(0))) return false;
  const int rank = x.shape.rank();
  const int64_t axis = normal_axis(a.axis, rank), n = indices.shape.elements();
  if (n * rank > (int64_t{1} << 24)) return false;
  const int coordinates = element_coordinates(w, 1, axis, x.shape[static_cast<int>(axis)]);
  const auto [dtype, quant] = s.file_type(w.out_type(0));
  const int flat = s.add(Code::GATHER_ND, {w.in(0), coordinates}, dtype, {}, quant);
  w.out(0, s.reshape(flat, {indices.shape.begin(), indices.shape.end()}));
  return true;
}

bool write_gather_nd(OpWriter& w) {
  const auto& a = w.attrs<GatherAttrs>();
  SubgraphWriter& s = w.subgraph();
  const ValueType &x = w.in_type(0), &indices = w.in_type(1);
  if (!same_type(x, w.out_type(0)) || !x.ranked || !indices.ranked || indices.shape.rank() < 1) return false;
  if (!a.negative && a.batch_dims == 0) return w.emit(Code::GATHER_ND, {w.in(0), w.in(1)});
  int at = s.cast(w.in(1), DType::kI32);
  if (a.negative) at = from_the_front(w, at, a.batch_dims);
  if (a.batch_dims == 0) return w.emit(Code::GATHER_ND, {w.in(0), at});
  // The batch's own places stand in front of the given ones.
  if (!indices.is_static() || indices.shape.elements() > (1 << 24)) return false;
  std::vector<int64_t> rows(indices.shape.begin(), indices.shape.end() - 1);
  Shape places{std::span<const int64_t>(rows)};
  places.push_back(a.batch_dims);
  Tensor batch(DType::kI32, places);
  const Shape strides = indices.shape.strides();
  for (int64_t i = 0; i < batch.elements(); ++i) {
    const auto d = static_cast<int>(i % a.batch_dims);
    const int64_t row = i / a.batch_dims * indices.shape.back();
    batch.data<int32_t>()[i] = static_cast<int32_t>(row / strides[d] % indices.shape[d]);
  }
  const int all = s.add(Code::CONCATENATION, {s.constant(std::move(batch)), at}, DType::kI32,
                        concat_options(indices.shape.rank() - 1));
  return w.emit(Code::GATHER_ND, {w.in(0), all});
}

bool write_scatter_nd(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  const ValueType &x = w.in_type(0), &indices = w.in_type(1);
  if (!x.ranked || !indices.ranked || indices.shape.rank() < 1 || !w.unquantized()) return false;
  const int coordinates = from_the_front(w, s.cast(w.in(1), DType::kI32));
  return scatter_updates(w, coordinates, w.in(2));
}

bool write_scatter_new(OpWriter& w) { return w.emit(Code::SCATTER_ND, {w.in_i32(0), w.in(1), w.in_i32(2)}); }
bool write_sparse_to_dense(OpWriter& w) { return w.emit(Code::SPARSE_TO_DENSE, w.all()); }

bool write_one_hot(OpWriter& w) {
  const auto& a = w.attrs<OneHotAttrs>();
  SubgraphWriter& s = w.subgraph();
  int indices = w.in(0), on = -1, off = -1;
  if (w.has(3)) {
    on = w.in(2);
    off = w.in(3);
  } else {
    const auto value = [&](int64_t i) {
      return s.reshape(s.add(Code::SLICE, {w.in(2), s.i32({i}), s.i32({1})}, s.file_type(w.in_type(2)).first), {});
    };
    off = value(0);
    on = value(1);
  }
  if (is_float(s.at(indices).dtype)) indices = s.cast(indices, DType::kI32);
  if (s.at(indices).dtype != DType::kI64) indices = s.cast(indices, DType::kI32);
  int depth = w.in_i32(1);
  if (is_float(w.in_type(1).dtype)) depth = s.cast(w.in(1), DType::kI32);
  if (w.rank(1) != 0) depth = s.reshape(depth, {});
  if (a.wrap_negative) {
    const int n = s.cast(depth, s.at(indices).dtype);
    indices = w.select({w.compare(Code::LESS, indices, w.number_like(indices, 0)), w.add(indices, n), indices});
  }
  // Of the axes below 0, LiteRT takes -1 alone.
  const auto axis = static_cast<int32_t>(a.axis < -1 ? a.axis + w.rank(0) + 1 : a.axis);
  return w.emit(Code::ONE_HOT, {indices, depth, on, off},
                options_of<tfl::OneHotOptions>([=](auto& b) { return tfl::CreateOneHotOptions(b, axis); }));
}

bool write_embedding_lookup(OpWriter& w) { return w.emit(Code::EMBEDDING_LOOKUP, w.all()); }

bool write_embedding_lookup_sparse(OpWriter& w) {
  const auto combiner = static_cast<tfl::CombinerType>(w.attrs<EmbeddingSparseAttrs>().combiner);
  return w.emit(Code::EMBEDDING_LOOKUP_SPARSE, w.all(), options_of<tfl::EmbeddingLookupSparseOptions>([=](auto& b) {
                  return tfl::CreateEmbeddingLookupSparseOptions(b, combiner);
                }));
}

bool write_hashtable_lookup(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  const auto [dtype, quant] = s.file_type(w.out_type(0));
  const int y = s.add_tensor({.dtype = dtype, .quant = quant}), hits = s.add_tensor({.dtype = DType::kU8});
  s.bind(w.out_id(0), y);
  if (w.wants(1)) s.bind(w.out_id(1), hits);
  s.add_to(Code::HASHTABLE_LOOKUP, w.all(), {y, hits});
  return true;
}

bool write_dynamic_update_slice(OpWriter& w) {
  return w.emit(Code::DYNAMIC_UPDATE_SLICE, {w.in(0), w.in(1), w.in_i32(2)});
}

int slice_start(SubgraphWriter& s, int place, int64_t axis, int rank) {
  std::vector<int> parts;
  if (axis > 0) parts.push_back(s.i32(std::vector<int64_t>(static_cast<size_t>(axis), 0)));
  parts.push_back(place);
  if (axis + 1 < rank) parts.push_back(s.i32(std::vector<int64_t>(static_cast<size_t>(rank - axis - 1), 0)));
  return parts.size() == 1 ? place : s.add(Code::CONCATENATION, parts, DType::kI32, concat_options(0));
}

/// `new` written into the cache from an index along one axis on.
bool write_kv_append(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  const int rank = w.rank(0);
  if (rank < 1 || !same_type(w.in_type(0), w.in_type(1))) return false;
  const int64_t axis = normal_axis(w.attrs<KvAppendAttrs>().axis, rank);
  const int at = slice_start(s, s.reshape(s.cast(w.in(2), DType::kI32), {1}), axis, rank);
  return w.emit(Code::DYNAMIC_UPDATE_SLICE, {w.in(0), w.in(1), at});
}

namespace {

/// A type of integers in which -1 - x orders those of `dtype` backwards; kInvalid: there is none.
DType reversible(DType dtype) {
  if (bit_width(dtype) < 32) return DType::kI32;
  return dtype == DType::kU32 ? DType::kI64 : dtype == DType::kU64 ? DType::kInvalid : dtype;
}

}  // namespace

bool write_top_k(OpWriter& w) {
  const auto& a = w.attrs<TopKAttrs>();
  SubgraphWriter& s = w.subgraph();
  const int rank = w.rank(0);
  const DType dtype = w.in_type(0).dtype;
  if (rank < 1 || w.in_type(0).quant) return false;
  const bool integers = is_integer(dtype);
  if (!a.largest && integers && reversible(dtype) == DType::kInvalid) return false;
  const auto reversed = [&](int v) { return integers ? w.sub(w.number_like(v, -1), v) : w.call(Code::NEG, {v}); };
  int k = w.in_i32(1);
  if (w.rank(1) != 0) k = s.reshape(k, {});
  const int64_t axis = normal_axis(a.axis, rank);
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[static_cast<size_t>(axis)], perm.back());
  int x = s.transpose(w.in(0), perm);
  if (!a.largest) x = reversed(integers ? s.cast(x, reversible(dtype)) : x);
  const FileTensor from = s.at(x);
  const int values = s.add_tensor({.dtype = from.dtype, .quant = from.quant});
  const int places = s.add_tensor({.dtype = DType::kI32});
  s.add_to(Code::TOPK_V2, {x, k}, {values, places});
  if (w.wants(0)) {
    const int y = a.largest ? values : reversed(values);
    w.out(0, s.transpose(!a.largest && integers ? s.cast(y, dtype) : y, perm));
  }
  if (w.wants(1)) w.out(1, s.cast(s.transpose(places, perm), a.index_dtype));
  return true;
}

bool write_unique(OpWriter& w) {
  const auto& a = w.attrs<UniqueAttrs>();
  SubgraphWriter& s = w.subgraph();
  if (a.sorted || w.wants(1) || w.wants(3) || w.rank(0) != 1) return false;
  const tfl::TensorType type = tensor_type(a.index_dtype);
  const auto [dtype, quant] = s.file_type(w.in_type(0));
  const int y = s.add_tensor({.dtype = dtype, .quant = quant}), inverse = s.add_tensor({.dtype = a.index_dtype});
  if (w.wants(0)) s.bind(w.out_id(0), y);
  if (w.wants(2)) s.bind(w.out_id(2), inverse);
  s.add_to(Code::UNIQUE, {w.in(0)}, {y, inverse},
           options_of<tfl::UniqueOptions>([=](auto& b) { return tfl::CreateUniqueOptions(b, type); }));
  return true;
}

bool write_non_zero(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  if (w.in_type(0).quant) return false;
  int x = w.in(0);
  if (s.at(x).dtype != DType::kBool && s.file().prefer_int8) x = w.compare(Code::NOT_EQUAL, x, w.number_like(x, 0));
  const int rows = s.add(Code::WHERE, {x}, DType::kI64);
  w.out(0, w.attrs<NonZeroAttrs>().rows ? rows : s.transpose(rows, {1, 0}));
  return true;
}

bool write_bucketize(OpWriter& w) {
  const Tensor* edges = w.constant(1);
  if (!edges || w.out_type(0).dtype != DType::kI32) return false;
  std::vector<float> boundaries(static_cast<size_t>(edges->elements()));
  to_floats(*edges, boundaries.data());
  return w.emit(Code::BUCKETIZE, {w.in(0)}, options_of<tfl::BucketizeOptions>([=](auto& b) {
                  return tfl::CreateBucketizeOptionsDirect(b, &boundaries);
                }));
}

namespace {

/// Boxes and classes whose selections are written one after the other.
constexpr int64_t kMaxSelections = 1024;
/// Boxes of one class: twice their number is exact in float32.
constexpr int64_t kMaxBoxes = 1 << 22;

/// Corners (y1, x1, y2, x2), least first, of boxes [batch, n, 4]. A box without area overlaps no other, but TFLite
/// would select it again and again, since it does not overlap itself: one with an area far from all others takes its
/// place.
int ordered_corners(OpWriter& w, bool center) {
  SubgraphWriter& s = w.subgraph();
  const int boxes = w.real(0);
  const auto columns = [&](int64_t begin) {
    return s.add(Code::SLICE, {boxes, s.i32({0, 0, begin}), s.i32({-1, -1, 2})}, DType::kF32);
  };
  int low = columns(0), high = columns(2);
  if (center) {
    // Centre x, centre y, width, height.
    const auto swapped = [&](int v) { return s.add(Code::REVERSE_V2, {v, s.i32({2})}, DType::kF32); };
    const int middle = swapped(low), half = w.mul({swapped(high), s.f32(0.5)});
    low = w.sub(middle, half);
    high = w.add(middle, half);
  }
  const int first = w.binary(Code::MINIMUM, low, high), last = w.binary(Code::MAXIMUM, low, high);
  const int corners = s.add(Code::CONCATENATION, {first, last}, DType::kF32, concat_options(2));
  const int area = w.reduce(Code::REDUCE_PROD, w.sub(last, first), {2}, true);
  constexpr float kFar = 1e30f;
  const int64_t n = w.in_type(0).shape[1];
  Tensor apart(DType::kF32, Shape{n, 4});
  for (int64_t i = 0; i < n; ++i) {
    const auto row = static_cast<float>(2 * i);
    std::ranges::copy(std::array{row, kFar, row + 1, 2 * kFar}, apart.data<float>() + 4 * i);
  }
  return w.select({w.compare(Code::GREATER, area, s.f32(0)), corners, s.constant(std::move(apart))});
}

/// Boxes of each class by falling scores, equal ones by their places, as ONNX's operator takes them.
struct RankedBoxes {
  int places = -1;  ///< int32 [batch, classes, n]
  int scores =
      -1;  ///< [batch, classes, n]: n of the first, 1 of the last; less than 0 of one at or below the threshold
};

RankedBoxes ranked_boxes(OpWriter& w, int scores, int64_t n) {
  SubgraphWriter& s = w.subgraph();
  const int values = s.add_tensor({.dtype = DType::kF32}), places = s.add_tensor({.dtype = DType::kI32});
  s.add_to(Code::TOPK_V2, {scores, s.i32_scalar(n)}, {values, places});
  std::vector<float> falling(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) falling[static_cast<size_t>(i)] = static_cast<float>(n - i);
  const int least = w.has(4) ? s.reshape(w.real(4), {}) : s.f32(std::numeric_limits<float>::lowest());
  const int counts = w.compare(Code::GREATER, values, least);
  return {places, w.select({counts, f32_table(s, falling, Shape{n}), s.f32(-1)})};
}

/// Rows (batch, class, box) of all selections, one NON_MAX_SUPPRESSION_V4 for each class of each batch.
bool write_onnx_selection(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  const ValueType &boxes = w.in_type(0), &scores = w.in_type(1);
  if (!boxes.is_static() || !scores.is_static() || !w.has(2) || !w.unquantized()) return false;
  const int64_t batch = boxes.shape[0], n = boxes.shape[1], classes = scores.shape[1];
  if (batch * classes > kMaxSelections || batch * classes < 1 || n < 1 || n > kMaxBoxes) return false;
  const auto most = w.number(2);
  int count = -1;
  if (most)
    count = s.i32_scalar(static_cast<int64_t>(std::clamp(*most, 0.0, static_cast<double>(n))));
  else
    count = w.binary(Code::MINIMUM, {s.reshape(w.in_i32(2), {}), s.i32_scalar(n)});
  const int corners = ordered_corners(w, w.attrs<NmsAttrs>().center), all = w.real(1);
  // TFLite drops boxes from the threshold on, ONNX above it: the next larger number, at most 1, which a box has with
  // itself.
  const auto given = w.has(3) ? w.number(3) : std::optional(0.0);
  constexpr float kLeast = std::numeric_limits<float>::min();
  int overlap = -1;
  if (given) {
    overlap = s.f32(std::clamp(std::nextafter(static_cast<float>(*given), 2.0f), kLeast, 1.0f));
  } else {
    const int next = w.mul({s.reshape(w.real(3), {}), s.f32(1 + std::ldexp(1.0, -23))});
    overlap = w.binary(Code::MINIMUM, {w.add(next, s.f32(kLeast)), s.f32(1)});
  }
  const RankedBoxes ranked = ranked_boxes(w, all, n);
  std::vector<int> rows;
  const auto of_class = [&](int x, int64_t b, int64_t c) {
    return s.reshape(s.add(Code::SLICE, {x, s.i32({b, c, 0}), s.i32({1, 1, -1})}, s.at(x).dtype), {n});
  };
  for (int64_t b = 0; b < batch; ++b) {
    const int own = s.reshape(s.add(Code::SLICE, {corners, s.i32({b, 0, 0}), s.i32({1, -1, -1})}, DType::kF32), {n, 4});
    for (int64_t c = 0; c < classes; ++c) {
      const int order = of_class(ranked.places, b, c), score = of_class(ranked.scores, b, c);
      const int sorted = s.add(Code::GATHER, {own, order}, DType::kF32, gather_options(0));
      const int selected = s.add_tensor({.dtype = DType::kI32}), valid = s.add_tensor({.dtype = DType::kI32});
      s.add_to(Code::NON_MAX_SUPPRESSION_V4, {sorted, score, count, overlap, s.f32(0)}, {selected, valid});
      const int kept = s.add(Code::SLICE, {selected, s.i32({0}), s.reshape(valid, {1})}, DType::kI32);
      const int box = s.add(Code::GATHER, {order, kept}, DType::kI32, gather_options(0));
      Tensor widths(DType::kI32, Shape{2, 2});
      std::fill_n(widths.data<int32_t>(), 4, 0);
      widths.data<int32_t>()[2] = 2;
      const int wide = s.add(Code::PAD, {s.reshape(box, {-1, 1}), s.constant(std::move(widths))}, DType::kI32);
      rows.push_back(b == 0 && c == 0 ? wide : w.add(wide, s.i32({b, c, 0})));
    }
  }
  const int joined = rows.size() == 1 ? rows[0] : s.add(Code::CONCATENATION, rows, DType::kI32, concat_options(0));
  w.out(0, s.cast(joined, DType::kI64));
  return true;
}

}  // namespace

bool write_non_max_suppression(OpWriter& w) {
  const auto form = w.attrs<NmsAttrs>().form;
  if (form == NmsAttrs::Form::kOnnx) return write_onnx_selection(w);
  return w.emit_all(form == NmsAttrs::Form::kTflite4 ? Code::NON_MAX_SUPPRESSION_V4 : Code::NON_MAX_SUPPRESSION_V5,
                    w.all());
}

bool write_random(OpWriter& w) {
  const auto& a = w.attrs<RandomAttrs>();
  SubgraphWriter& s = w.subgraph();
  using Kind = RandomAttrs::Kind;
  const int64_t seed = a.seeded ? static_cast<int64_t>(a.seed) : 0;
  const auto options = options_of<tfl::RandomOptions>([=](auto& b) { return tfl::CreateRandomOptions(b, seed, 0); });
  if (a.kind == Kind::kMultinomial && (a.to == DType::kI32 || a.to == DType::kI64))
    return w.emit(Code::MULTINOMIAL, {w.in(0), s.i32_scalar(a.samples)}, options);
  if ((a.kind != Kind::kUniform && a.kind != Kind::kNormal) || !is_float(a.to)) return false;
  int y = s.add(a.kind == Kind::kUniform ? Code::RANDOM_UNIFORM : Code::RANDOM_STANDARD_NORMAL, {w.in_i32(0)},
                DType::kF32, options);
  const double scale = a.kind == Kind::kUniform ? a.b - a.a : a.b;
  if (scale != 1) y = w.mul(y, s.f32(scale));
  if (a.a != 0) y = w.add(y, s.f32(a.a));
  w.out(0, y);
  return true;
}

bool write_dft(OpWriter& w) {
  const auto& a = w.attrs<DftAttrs>();
  if (!a.onesided || !a.complex_dtype || a.dims != 2 || !w.has(1)) return false;
  return w.emit(Code::RFFT2D, {w.in(0), w.in_i32(1)});
}

bool write_skip_gram(OpWriter& w) {
  const auto& a = w.attrs<SkipGramAttrs>();
  const auto n = static_cast<int32_t>(a.ngram), skip = static_cast<int32_t>(a.max_skip);
  return w.emit(Code::SKIP_GRAM, {w.in(0)}, options_of<tfl::SkipGramOptions>([=, every = a.all_ngrams](auto& b) {
                  return tfl::CreateSkipGramOptions(b, n, skip, every);
                }));
}

bool write_hash(OpWriter& w) {
  using Kind = HashAttrs::Kind;
  const Kind kind = w.attrs<HashAttrs>().kind;
  if (kind != Kind::kLshSparse && kind != Kind::kLshDense) return false;
  const auto type = kind == Kind::kLshSparse ? tfl::LSHProjectionType::SPARSE : tfl::LSHProjectionType::DENSE;
  return w.emit(Code::LSH_PROJECTION, w.all(), options_of<tfl::LSHProjectionOptions>([=](auto& b) {
                  return tfl::CreateLSHProjectionOptions(b, type);
                }));
}

}  // namespace smelt::tflite
