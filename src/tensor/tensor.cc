#include "smelt/tensor.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>

#include "base/error.h"
#include "base/large_memory.h"
#include "base/mapped_file.h"
#include "tensor/pages.h"

namespace smelt {

const char* to_string(DType dtype) {
  switch (dtype) {
    case DType::kInvalid:
      return "invalid";
    case DType::kF32:
      return "float32";
    case DType::kF16:
      return "float16";
    case DType::kBF16:
      return "bfloat16";
    case DType::kF64:
      return "float64";
    case DType::kF8E4M3FN:
      return "float8e4m3fn";
    case DType::kF8E4M3FNUZ:
      return "float8e4m3fnuz";
    case DType::kF8E5M2:
      return "float8e5m2";
    case DType::kF8E5M2FNUZ:
      return "float8e5m2fnuz";
    case DType::kF8E8M0:
      return "float8e8m0";
    case DType::kF4E2M1:
      return "float4e2m1";
    case DType::kI2:
      return "int2";
    case DType::kU2:
      return "uint2";
    case DType::kI4:
      return "int4";
    case DType::kU4:
      return "uint4";
    case DType::kI8:
      return "int8";
    case DType::kU8:
      return "uint8";
    case DType::kI16:
      return "int16";
    case DType::kU16:
      return "uint16";
    case DType::kI32:
      return "int32";
    case DType::kU32:
      return "uint32";
    case DType::kI64:
      return "int64";
    case DType::kU64:
      return "uint64";
    case DType::kBool:
      return "bool";
    case DType::kString:
      return "string";
    case DType::kC64:
      return "complex64";
    case DType::kC128:
      return "complex128";
  }
  return "invalid";
}

const char* to_string(Rounding rounding) {
  static const char* const names[] = {"float_half_even", "fixed_double", "double_half_away", "xnnpack"};
  return names[static_cast<int>(rounding)];
}

int bit_width(DType dtype) {
  switch (dtype) {
    case DType::kInvalid:
    case DType::kString:
      return 0;
    case DType::kI2:
    case DType::kU2:
      return 2;
    case DType::kI4:
    case DType::kU4:
    case DType::kF4E2M1:
      return 4;
    case DType::kF8E4M3FN:
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2:
    case DType::kF8E5M2FNUZ:
    case DType::kF8E8M0:
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return 8;
    case DType::kF16:
    case DType::kBF16:
    case DType::kI16:
    case DType::kU16:
      return 16;
    case DType::kF32:
    case DType::kI32:
    case DType::kU32:
      return 32;
    case DType::kF64:
    case DType::kI64:
    case DType::kU64:
    case DType::kC64:
      return 64;
    case DType::kC128:
      return 128;
  }
  return 0;
}

bool is_float(DType dtype) { return dtype >= DType::kF32 && dtype <= DType::kF4E2M1; }
bool is_integer(DType dtype) { return dtype >= DType::kI2 && dtype <= DType::kU64; }
bool is_signed_integer(DType d) {
  return d == DType::kI2 || d == DType::kI4 || d == DType::kI8 || d == DType::kI16 || d == DType::kI32 ||
         d == DType::kI64;
}
bool is_complex(DType dtype) { return dtype == DType::kC64 || dtype == DType::kC128; }

Shape::Shape(std::span<const int64_t> dims) : rank_(static_cast<uint8_t>(dims.size())) {
  if (dims.size() > kMaxRank) throw std::length_error("a shape has too many dimensions");
  for (size_t i = 0; i < dims.size(); ++i) dims_[i] = dims[i];
}

void Shape::insert(int at, int64_t d) {
  for (int i = rank_; i > at; --i) dims_[i] = dims_[i - 1];
  dims_[at] = d;
  ++rank_;
}

void Shape::erase(int at) {
  for (int i = at; i + 1 < rank_; ++i) dims_[i] = dims_[i + 1];
  --rank_;
}

int64_t Shape::elements() const {
  uint64_t n = 1;  // wraps where checked_elements() gives an error
  for (int i = 0; i < rank_; ++i) n *= static_cast<uint64_t>(dims_[i]);
  return static_cast<int64_t>(n);
}

Result<int64_t> Shape::checked_elements() const {
  int64_t n = 1;
  bool empty = false;
  for (int i = 0; i < rank_; ++i) {
    if (dims_[i] < 0) return InvalidInput("shape ", str(), " has an unknown or negative dimension");
    if (dims_[i] == 0)
      empty = true;
    else if (__builtin_mul_overflow(n, dims_[i], &n) || n > (int64_t{1} << 62))
      return InvalidInput("shape ", str(), " has too many elements");
  }
  return empty ? 0 : n;
}

bool Shape::is_static() const {
  for (int i = 0; i < rank_; ++i)
    if (dims_[i] < 0) return false;
  return true;
}

Shape Shape::strides() const {
  Shape s = of_rank(rank_, 1);
  for (int i = rank_ - 2; i >= 0; --i) s[i] = s[i + 1] * dims_[i + 1];
  return s;
}

std::string Shape::str() const {
  std::string out = "[";
  for (int i = 0; i < rank_; ++i) {
    if (i) out += ',';
    if (dims_[i] < 0)
      out += '?';
    else
      out += Cat(dims_[i]);
  }
  return out + "]";
}

void Tensor::check_elements(size_t count, size_t width) const {
  const size_t wanted = dtype_ == DType::kString ? 0 : static_cast<size_t>(bit_width(dtype_)) / 8;
  if (width != wanted || bit_width(dtype_) % 8 != 0)
    throw std::invalid_argument(Cat("values of ", width, " bytes given for a tensor of ", to_string(dtype_)));
  if (count != static_cast<size_t>(elements_))
    throw std::invalid_argument(
        Cat(count, " values given for ", to_string(dtype_), shape_.str(), ", which has ", elements_));
}

size_t Tensor::byte_size(DType dtype, int64_t elements) {
  if (dtype == DType::kString) return static_cast<size_t>(elements) * sizeof(std::string);
  return (static_cast<size_t>(elements) * static_cast<size_t>(bit_width(dtype)) + 7) / 8;
}

namespace {

/// Memory of a tensor: one small block with the count of its owners, or a larger one aligned to 64 bytes. Null: there
/// is none.
std::shared_ptr<void> tensor_memory(size_t bytes, size_t align) {
  // Small blocks come faster from malloc, larger ones waste less where they are aligned.
  constexpr size_t kSmall = 4096;
  try {
    if (bytes <= kSmall) return std::make_shared_for_overwrite<std::byte[]>(bytes + align);
    void* const block = std::aligned_alloc(align, bytes);
    if (!block) return nullptr;
    return {block, [](void* p) { std::free(p); }};
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace

Result<Tensor> Tensor::allocate(DType dtype, const Shape& shape, bool zero) {
  SMELT_ASSIGN(const int64_t elements, shape.checked_elements());
  if (elements > (int64_t{1} << 40)) return LimitReached("a tensor of shape ", shape.str(), " is too large");
  Tensor t;
  t.dtype_ = dtype;
  t.shape_ = shape;
  t.elements_ = elements;
  if (dtype == DType::kString) {
    auto* strings = new (std::nothrow) std::string[static_cast<size_t>(elements)];
    if (!strings) return LimitReached("no memory for ", elements, " strings");
    t.data_ = strings;
    t.owner_ = std::shared_ptr<const void>(strings, [](const void* p) { delete[] static_cast<const std::string*>(p); });
    return t;
  }
  const size_t bytes = byte_size(dtype, elements);
  // 64 bytes of slack let vector kernels read past the end.
  const size_t padded = (bytes + 63) / 64 * 64 + 64;
  constexpr size_t kAlign = 64;
  auto block = tensor_memory(padded, kAlign);
  if (!block) return LimitReached("no memory for a tensor of ", bytes, " bytes");
  const size_t off = reinterpret_cast<uintptr_t>(block.get()) % kAlign;
  void* p = static_cast<char*>(block.get()) + (off == 0 ? 0 : kAlign - off);
  if (zero)
    std::memset(p, 0, padded);
  else
    std::memset(static_cast<char*>(p) + bytes, 0, padded - bytes);
  t.data_ = p;
  t.owner_ = std::move(block);
  return t;
}

Tensor::Tensor(DType dtype, const Shape& shape) {
  auto t = allocate(dtype, shape);
  if (!t.ok()) throw std::bad_alloc();
  *this = std::move(t).value();
}

Tensor Tensor::view(DType dtype, const Shape& shape, const void* data, std::shared_ptr<const void> owner) {
  Tensor t;
  t.dtype_ = dtype;
  t.shape_ = shape;
  t.elements_ = shape.elements();
  t.data_ = const_cast<void*>(data);
  t.owner_ = std::move(owner);
  return t;
}

namespace {
/// Bytes of a file that are not aligned for their elements, or what elements are derived from; and their aligned copy
/// once it was asked for.
struct CopiedBytes {
  std::shared_ptr<const void> owner;  ///< of the bytes of a file
  Tensor source;                      ///< of elements that are derived
  Tensor::Derive derive;
  std::once_flag copied;
  Tensor copy;
};
}  // namespace

Tensor Tensor::unaligned_view(DType dtype, const Shape& shape, const void* data, std::shared_ptr<const void> owner) {
  auto bytes = std::make_shared<CopiedBytes>();
  bytes->owner = std::move(owner);
  Tensor t = view(dtype, shape, data, std::move(bytes));
  t.form_ = Form::kUnaligned;
  return t;
}

Tensor Tensor::deferred(DType dtype, const Shape& shape, Tensor source, Derive derive) {
  auto bytes = std::make_shared<CopiedBytes>();
  bytes->source = std::move(source);
  bytes->derive = std::move(derive);
  const void* const identity = bytes.get();
  Tensor t = view(dtype, shape, identity, std::move(bytes));
  t.form_ = Form::kDeferred;
  return t;
}

const Tensor* Tensor::source() const {
  return form_ == Form::kDeferred ? &static_cast<const CopiedBytes*>(owner_.get())->source : nullptr;
}

void Tensor::copy_elements(int64_t first, int64_t count, void* to) const {
  if (form_ == Form::kDeferred) {
    const auto& bytes = *static_cast<const CopiedBytes*>(owner_.get());
    return bytes.derive(bytes.source, first, count, to);
  }
  copy_file_bytes(static_cast<const std::byte*>(data_) + byte_size(dtype_, first), byte_size(dtype_, count), to);
}

void* Tensor::kept_copy() const {
  auto& bytes = *static_cast<CopiedBytes*>(const_cast<void*>(owner_.get()));
  std::call_once(bytes.copied, [&] { bytes.copy = read_once(); });
  return bytes.copy.data_;
}

namespace {
/// Memory for a copy of `bytes`. Large copies lie apart from the heap, where they would leave gaps between objects that
/// live longer. Throws std::bad_alloc.
std::shared_ptr<void> copy_memory(size_t bytes) {
  constexpr size_t kSlack = 64;  // vector kernels read past the end
  const size_t padded = bytes + kSlack;
  const bool mapped = is_worth_mapping(padded);
  void* const p = mapped ? map_zeroed(padded) : allocate_large(padded);
  if (!p) throw std::bad_alloc();
  if (mapped) return {p, [padded](void* q) { unmap_zeroed(q, padded); }};
  std::memset(static_cast<char*>(p) + bytes, 0, kSlack);
  return {p, [](void* q) { std::free(q); }};
}
}  // namespace

Tensor Tensor::read_once() const {
  if (form_ == Form::kAligned) return *this;
  auto memory = copy_memory(bytes());
  if (bytes() > 0) copy_elements(0, elements_, memory.get());
  release_pages(*this);  // of a mapped file: the copy stands for them
  Tensor t = view(dtype_, shape_, memory.get(), memory);
  t.quant_ = quant_;
  return t;
}

std::shared_ptr<const void> elements_once(const Tensor& constant) {
  const Tensor read = constant.read_once();
  return {read.owner(), read.raw()};
}

Tensor Tensor::reshaped(const Shape& shape) const {
  Tensor t = *this;
  t.shape_ = shape;
  return t;
}

Tensor Tensor::clone() const {
  if (!defined()) return {};
  auto copy = allocate(dtype_, shape_, false);
  if (!copy.ok()) throw std::bad_alloc();
  Tensor t = std::move(copy).value();
  t.quant_ = quant_;
  if (dtype_ == DType::kString) {
    for (int64_t i = 0; i < elements_; ++i) t.data<std::string>()[i] = data<std::string>()[i];
  } else if (bytes() > 0) {
    std::memcpy(t.data_, read_unaligned_once().unaligned_bytes(), bytes());
  }
  return t;
}

}  // namespace smelt
