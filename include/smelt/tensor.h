#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "smelt/export.h"
#include "smelt/result.h"

namespace smelt {

/// Element types. Sub-byte types are stored packed, first element in the low bits, rows not padded.
enum class DType : uint8_t {
  kInvalid = 0,
  kF32,
  kF16,
  kBF16,
  kF64,
  kF8E4M3FN,
  kF8E4M3FNUZ,
  kF8E5M2,
  kF8E5M2FNUZ,
  kF8E8M0,
  kF4E2M1,
  kI2,
  kU2,
  kI4,
  kU4,
  kI8,
  kU8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kBool,    ///< one byte, 0 or 1
  kString,  ///< std::string per element
  kC64,
  kC128,
};

SMELT_API const char* to_string(DType dtype);  ///< "float32", "int8", ...
SMELT_API int bit_width(DType dtype);          ///< bits of one element as stored; 0 for kString and kInvalid
SMELT_API bool is_float(DType dtype);          ///< any real floating-point type, the 8- and 4-bit ones included
SMELT_API bool is_integer(DType dtype);        ///< any integer type, kBool excluded
SMELT_API bool is_signed_integer(DType dtype);
SMELT_API bool is_complex(DType dtype);

/// Dimensions of a tensor. Rank at most kMaxRank. A dimension of -1 is unknown; types of graph values may have some, a
/// Tensor has none.
class SMELT_API Shape {
 public:
  static constexpr int kMaxRank = 16;
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims);  ///< throws std::length_error above kMaxRank
  static Shape of_rank(int rank, int64_t fill) {
    Shape s;
    s.rank_ = static_cast<uint8_t>(rank);
    for (int i = 0; i < rank; ++i) s.dims_[i] = fill;
    return s;
  }
  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[i]; }
  int64_t& operator[](int i) { return dims_[i]; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  std::span<const int64_t> dims() const { return {dims_.data(), rank_}; }
  int64_t back() const { return dims_[rank_ - 1]; }
  void push_back(int64_t d) { dims_[rank_++] = d; }  ///< precondition: rank() < kMaxRank
  void insert(int at, int64_t d);
  void erase(int at);
  /// Product of the dimensions. Precondition: every dimension known; use checked_elements() on untrusted shapes.
  int64_t elements() const;
  /// Product, or an error on a negative dimension or on overflow of 2^62.
  Result<int64_t> checked_elements() const;
  bool is_static() const;  ///< no dimension is unknown
  /// Row-major strides in elements.
  Shape strides() const;
  std::string str() const;  ///< "[1,224,224,3]"; unknown dimensions print as "?"
  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a.dims_[i] != b.dims_[i]) return false;
    return true;
  }

 private:
  std::array<int64_t, kMaxRank> dims_{};
  uint8_t rank_ = 0;
};

/// How a real value is rounded when an integer kernel rescales its accumulator.
enum class Rounding : uint8_t {
  kFloatHalfEven,   ///< float multiply, round half to even (ONNX, XNNPACK, PyTorch)
  kFixedDouble,     ///< gemmlowp: 31-bit fixed-point multiplier, two roundings (TFLite CONV_2D and element-wise)
  kDoubleHalfAway,  ///< float64 multiplier, ties away from zero (TFLite FULLY_CONNECTED)
  kXnnpack,         ///< XNNPACK's element-wise operators, conversions and means (docs/arithmetic.md)
};

SMELT_API const char* to_string(Rounding rounding);

/// Affine quantization of a value: real = scale * (q - zero_point).
struct Quantization {
  enum class Kind : uint8_t {
    kPerTensor,  ///< scales.size() == 1
    kPerAxis,    ///< scales.size() == extent of dimension `axis`
    kPerBlock,   ///< dimension `axis` is cut into blocks of `block`; scales are row-major over
                 ///< the shape with that dimension replaced by ceil(extent / block)
    kPerToken,   ///< chosen at run time: a scale and zero point for each slice of the last `axis` dimensions
                 ///< (asymmetric int8 unless `symmetric`)
  };
  Kind kind = Kind::kPerTensor;
  std::vector<float> scales = {};
  std::vector<int32_t> zero_points = {};  ///< empty = all zero; else the size of scales (or 1 for all)
  int axis = 0;
  int64_t block = 0;
  bool symmetric = false;
  Rounding rounding = Rounding::kFloatHalfEven;

  float scale(int64_t i = 0) const { return scales.size() == 1 ? scales[0] : scales[static_cast<size_t>(i)]; }
  int32_t zero_point(int64_t i = 0) const {
    if (zero_points.empty()) return 0;
    return zero_points.size() == 1 ? zero_points[0] : zero_points[static_cast<size_t>(i)];
  }
};
using QuantPtr = std::shared_ptr<const Quantization>;

/// Type of a tensor as far as it is known. dtype kInvalid and ranked false: not known, or an absent optional operand.
struct TensorType {
  DType dtype = DType::kInvalid;
  bool ranked = false;
  Shape shape = {};     ///< -1: not known before the run
  QuantPtr quant = {};  ///< nullptr: not quantized
};

/// A dense row-major array. Copies share the storage, which is freed with the last copy. kString tensors hold
/// std::string elements.
class SMELT_API Tensor {
 public:
  Tensor() = default;
  /// Owned zero-filled storage. Throws std::bad_alloc for a shape with unknown dimensions or too large for memory.
  Tensor(DType dtype, const Shape& shape);
  /// Owned storage; kLimit for sizes that overflow or don't fit in memory. `zero` = false leaves the bytes undefined.
  static Result<Tensor> allocate(DType dtype, const Shape& shape, bool zero = true);
  /// A view of bytes that `owner` keeps alive (nullptr: the caller does). Precondition: `data` has the bytes of such a
  /// tensor.
  static Tensor view(DType dtype, const Shape& shape, const void* data, std::shared_ptr<const void> owner);
  /// A view of bytes that are not aligned for their elements: the first call of data() or raw() of this tensor or of a
  /// copy makes one aligned copy of them, which throws std::bad_alloc where memory is short. Not for kString.
  static Tensor unaligned_view(DType dtype, const Shape& shape, const void* data, std::shared_ptr<const void> owner);
  /// Writes `count` elements of a tensor that follows from `source` to `to`, from element `first` on: the same ones at
  /// each call.
  using Derive = std::function<void(const Tensor& source, int64_t first, int64_t count, void* to)>;
  /// A tensor whose elements `derive` makes when they are read. The first call of data(), raw() or unaligned_bytes() of
  /// this tensor or of a copy makes all of them to stay, and throws std::bad_alloc where memory is short; read_once()
  /// and copy_elements() keep none. Only for elements of whole bytes.
  static Tensor deferred(DType dtype, const Shape& shape, Tensor source, Derive derive);
  /// A tensor that owns a copy of `values`. Throws std::invalid_argument unless they are as many as the shape has
  /// elements and T is as wide as the element type.
  template <class T>
  static Tensor from(DType dtype, const Shape& shape, std::span<const T> values) {
    Tensor t(dtype, shape);
    t.check_elements(values.size(), std::is_same_v<T, std::string> ? 0 : sizeof(T));
    for (size_t i = 0; i < values.size(); ++i) t.template data<T>()[i] = values[i];
    return t;
  }

  bool defined() const { return dtype_ != DType::kInvalid; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  int64_t dim(int i) const { return shape_[i]; }
  int64_t elements() const { return elements_; }
  size_t bytes() const { return byte_size(dtype_, elements_); }
  const QuantPtr& quant() const { return quant_; }
  void set_quant(QuantPtr quant) { quant_ = std::move(quant); }

  template <class T>
  T* data() {
    return static_cast<T*>(raw());
  }
  template <class T>
  const T* data() const {
    return static_cast<const T*>(raw());
  }
  void* raw() { return form_ == Form::kAligned ? data_ : kept_copy(); }
  const void* raw() const { return form_ == Form::kAligned ? data_ : kept_copy(); }
  /// The address that tells this tensor's storage from others; nullptr without storage. Copies nothing.
  const void* identity() const { return data_; }
  /// The bytes, aligned or not. Copies nothing but deferred bytes.
  const std::byte* unaligned_bytes() const {
    return static_cast<const std::byte*>(form_ == Form::kDeferred ? kept_copy() : data_);
  }
  /// What the elements are derived from when they are read; nullptr: they are there. See deferred().
  const Tensor* source() const;
  /// This tensor, or a temporary aligned copy of an unaligned view or of deferred bytes: for data that are read once.
  Tensor read_once() const;
  /// As read_once(), for data that may be unaligned: of a view it is the view.
  Tensor read_unaligned_once() const { return source() ? read_once() : *this; }
  /// Writes `count` elements from `first` on to `to`, which are read this once. Only for elements of whole bytes.
  void copy_elements(int64_t first, int64_t count, void* to) const;
  const std::shared_ptr<const void>& owner() const { return owner_; }

  /// A tensor on the same storage with another shape of equally many elements.
  Tensor reshaped(const Shape& shape) const;
  /// A deep copy.
  Tensor clone() const;

  static size_t byte_size(DType dtype, int64_t elements);

 private:
  /// Throws std::invalid_argument unless the tensor has `count` elements of `width` bytes (0: std::string).
  void check_elements(size_t count, size_t width) const;
  enum class Form : uint8_t { kAligned, kUnaligned, kDeferred };
  /// The aligned copy that all tensors on this unaligned view or these deferred bytes share.
  void* kept_copy() const;

  DType dtype_ = DType::kInvalid;
  Form form_ = Form::kAligned;  ///< else owner_ is a CopiedBytes (tensor.cc)
  Shape shape_;
  int64_t elements_ = 0;
  void* data_ = nullptr;
  std::shared_ptr<const void> owner_;
  QuantPtr quant_;
};

/// A value at run time: a tensor, a sequence, a map, or nothing (an absent optional).
struct Datum {
  enum class Kind : uint8_t { kNone, kTensor, kSequence, kMap };
  Kind kind = Kind::kNone;
  Tensor tensor;                              ///< kTensor
  std::shared_ptr<std::vector<Datum>> items;  ///< kSequence: the elements; kMap: {keys tensor [n], values}

  Datum() = default;
  Datum(Tensor t) : kind(Kind::kTensor), tensor(std::move(t)) {}  // NOLINT(google-explicit-constructor)
  static Datum sequence(std::vector<Datum> elements) {
    Datum d;
    d.kind = Kind::kSequence;
    d.items = std::make_shared<std::vector<Datum>>(std::move(elements));
    return d;
  }
  static Datum map(Datum keys, Datum values) {
    Datum d;
    d.kind = Kind::kMap;
    d.items = std::make_shared<std::vector<Datum>>();
    d.items->push_back(std::move(keys));
    d.items->push_back(std::move(values));
    return d;
  }
  bool none() const { return kind == Kind::kNone; }
  bool is_tensor() const { return kind == Kind::kTensor; }
};

}  // namespace smelt
