#include "tensor/npy.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/write_file.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// Element types that .npy and DType have in common: kind and bytes of an element as in '<f4'.
struct NpyCode {
  DType dtype;
  char kind;
  int64_t size;
};
constexpr NpyCode kTypes[] = {
    {DType::kBool, 'b', 1}, {DType::kI8, 'i', 1},  {DType::kI16, 'i', 2}, {DType::kI32, 'i', 4},  {DType::kI64, 'i', 8},
    {DType::kU8, 'u', 1},   {DType::kU16, 'u', 2}, {DType::kU32, 'u', 4}, {DType::kU64, 'u', 8},  {DType::kF16, 'f', 2},
    {DType::kF32, 'f', 4},  {DType::kF64, 'f', 8}, {DType::kC64, 'c', 8}, {DType::kC128, 'c', 16}};

/// What the header of an .npy file says.
struct Header {
  char order = '|', kind = 0;  ///< byte order; kind 'S' and 'U' are strings
  int64_t size = 0;            ///< bytes of an element; of kind 'U': code points
  std::string_view code;       ///< byte order, kind and size as written, for messages
  bool fortran = false;
  Shape shape;
  size_t data = 0;  ///< offset of the elements

  bool text() const { return kind == 'S' || kind == 'U'; }
  int64_t item_bytes() const { return kind == 'U' ? size * 4 : size; }
  DType dtype() const {
    if (text()) return DType::kString;
    for (const NpyCode& t : kTypes)
      if (t.kind == kind && t.size == size) return t.dtype;
    return DType::kInvalid;
  }
};

std::string utf8(const uint32_t* code_points, size_t n) {
  std::string out;
  while (n > 0 && code_points[n - 1] == 0) --n;
  for (size_t i = 0; i < n; ++i) {
    const uint32_t c = code_points[i];
    if (c < 0x80)
      out += static_cast<char>(c);
    else if (c < 0x800)
      out += {static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
    else if (c < 0x10000)
      out += {static_cast<char>(0xe0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)),
              static_cast<char>(0x80 | (c & 63))};
    else
      out += {static_cast<char>(0xf0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 63)),
              static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
  }
  return out;
}

std::vector<uint32_t> code_points(const std::string& s) {
  std::vector<uint32_t> out;
  for (size_t i = 0; i < s.size();) {
    const auto c = static_cast<unsigned char>(s[i]);
    const int n = c < 0x80 ? 1 : c >> 5 == 6 ? 2 : c >> 4 == 14 ? 3 : c >> 3 == 30 ? 4 : 0;
    bool good = n > 0 && i + static_cast<size_t>(n) <= s.size();
    uint32_t v = n == 1 ? c : c & (0x7f >> n);
    for (int k = 1; good && k < n; ++k) {
      const auto d = static_cast<unsigned char>(s[i + static_cast<size_t>(k)]);
      good = d >> 6 == 2;
      v = v << 6 | (d & 63);
    }
    out.push_back(good ? v : c);  // bytes that are not UTF-8 count as Latin-1
    i += good ? static_cast<size_t>(n) : 1;
  }
  return out;
}

/// The text behind 'key': in the header's dictionary; empty if there is none.
std::string_view header_value(std::string_view header, std::string_view key) {
  size_t at = header.find(Cat("'", key, "'"));
  if (at == std::string_view::npos) return {};
  at = header.find(':', at);
  if (at == std::string_view::npos) return {};
  ++at;
  while (at < header.size() && header[at] == ' ') ++at;
  return header.substr(at);
}

/// The dimensions in "(2, 3)" and what follows it.
Result<Shape> parse_shape(std::string_view text) {
  if (text.empty() || text[0] != '(') return InvalidInput("no shape");
  text = text.substr(1, text.find(')') - 1);
  Shape shape;
  for (size_t i = 0; i < text.size();) {
    if (text[i] < '0' || text[i] > '9') {
      ++i;
      continue;
    }
    int64_t v = 0;
    while (i < text.size() && text[i] >= '0' && text[i] <= '9') {
      if (v > (int64_t{1} << 50)) return InvalidInput("a dimension is too large");
      v = v * 10 + (text[i++] - '0');
    }
    if (shape.rank() == Shape::kMaxRank) return InvalidInput("rank over 16");
    shape.push_back(v);
  }
  return shape;
}

Result<Header> parse_header(std::span<const std::byte> bytes) {
  if (bytes.empty()) return InvalidInput("it is empty");
  if (bytes.size() < 12 || !is_npy(bytes)) return InvalidInput("no NUMPY magic");
  const int version = static_cast<int>(bytes[6]);
  if (version < 1 || version > 3) return InvalidInput("version ", version);
  size_t length = static_cast<size_t>(bytes[8]) | static_cast<size_t>(bytes[9]) << 8, start = 10;
  if (version > 1) {
    length |= static_cast<size_t>(bytes[10]) << 16 | static_cast<size_t>(bytes[11]) << 24;
    start = 12;
  }
  if (length > bytes.size() - start) return InvalidInput("the header is cut off");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + start, length);
  const std::string_view descr = header_value(text, "descr");
  if (descr.size() < 4 || descr[0] != '\'') return InvalidInput("structured or missing dtype");
  Header h;
  h.order = descr[1];
  h.kind = descr[2];
  h.code = descr.substr(1, 3);
  h.size = std::strtoll(std::string(descr.substr(3, descr.substr(3).find('\''))).c_str(), nullptr, 10);
  h.fortran = header_value(text, "fortran_order").starts_with("True");
  SMELT_ASSIGN(h.shape, parse_shape(header_value(text, "shape")));
  h.data = start + length;
  return h;
}

/// The elements in the file's order, in this machine's byte order.
void read_elements(const Header& h, const uint8_t* data, Tensor& t) {
  const int64_t n = t.elements(), item = h.item_bytes();
  if (h.kind == 'S') {
    for (int64_t i = 0; i < n; ++i) {
      const char* s = reinterpret_cast<const char*>(data) + i * item;
      size_t length = static_cast<size_t>(item);
      while (length > 0 && s[length - 1] == 0) --length;
      t.data<std::string>()[i].assign(s, length);
    }
  } else if (h.kind == 'U') {
    for (int64_t i = 0; i < n; ++i) {
      std::vector<uint32_t> points(static_cast<size_t>(h.size));
      std::memcpy(points.data(), data + i * item, static_cast<size_t>(item));
      if (h.order == '>')
        for (uint32_t& p : points) p = __builtin_bswap32(p);
      t.data<std::string>()[i] = utf8(points.data(), points.size());
    }
  } else if (n > 0) {
    std::memcpy(t.raw(), data, static_cast<size_t>(n * item));
    if (h.order != '>' || item < 2) return;
    const int64_t unit = h.kind == 'c' ? item / 2 : item;
    auto* p = t.data<uint8_t>();
    for (int64_t i = 0; i < n * item; i += unit) std::reverse(p + i, p + i + unit);
  }
}

/// A row-major copy of elements in column-major order.
Tensor from_column_major(const Tensor& t, int64_t item) {
  const Shape& shape = t.shape();
  Tensor c(t.dtype(), shape);
  std::vector<int64_t> index(static_cast<size_t>(shape.rank()), 0);
  for (int64_t i = 0; i < t.elements(); ++i) {
    int64_t at = 0, stride = 1;
    for (int k = 0; k < shape.rank(); ++k) {
      at += index[static_cast<size_t>(k)] * stride;
      stride *= shape[k];
    }
    if (t.dtype() == DType::kString)
      c.data<std::string>()[i] = t.data<std::string>()[at];
    else
      std::memcpy(c.data<uint8_t>() + i * item, t.data<uint8_t>() + at * item, static_cast<size_t>(item));
    for (int k = shape.rank() - 1; k >= 0; --k) {
      if (++index[static_cast<size_t>(k)] < shape[k]) break;
      index[static_cast<size_t>(k)] = 0;
    }
  }
  return c;
}

/// The `descr` of an element type other than strings. Types that .npy lacks are written as 8- or 16-bit integers.
std::string descr_of(DType dtype) {
  if (dtype == DType::kBF16) return "<u2";
  if (dtype == DType::kI4 || dtype == DType::kI2) return "|i1";
  for (const NpyCode& t : kTypes)
    if (t.dtype == dtype) return Cat(t.size == 1 ? '|' : '<', t.kind, t.size);
  return "|u1";
}

/// A header whose elements are there and of a type that tensors have.
Result<Header> checked_header(std::span<const std::byte> bytes, const std::string& name) {
  const auto bad = [&](const std::string& why) { return InvalidInput(name, ": not a plain .npy file: ", why); };
  auto h = parse_header(bytes);
  if (!h.ok()) return bad(h.error().message());
  SMELT_ASSIGN(const int64_t n, h->shape.checked_elements());
  if (h->dtype() == DType::kInvalid) return bad(Cat("dtype '", h->code, "'"));
  const int64_t item = h->item_bytes();
  const size_t available = bytes.size() - h->data;
  if (item < 0 || (item > 0 && static_cast<uint64_t>(n) > available / static_cast<uint64_t>(item)))
    return bad("the data are cut off");
  return h;
}

}  // namespace

bool is_npy(std::span<const std::byte> bytes) {
  return bytes.size() >= 6 && std::memcmp(bytes.data(), "\x93NUMPY", 6) == 0;
}

Result<NpyType> npy_type(std::span<const std::byte> bytes, const std::string& name) {
  SMELT_ASSIGN(const Header h, checked_header(bytes, name));
  return NpyType{h.dtype(), h.shape};
}

Result<Tensor> read_npy(std::span<const std::byte> bytes, const std::string& name) {
  SMELT_ASSIGN(const Header h, checked_header(bytes, name));
  SMELT_ASSIGN(Tensor t, Tensor::allocate(h.dtype(), h.shape));
  read_elements(h, reinterpret_cast<const uint8_t*>(bytes.data()) + h.data, t);
  return h.fortran && h.shape.rank() > 1 && t.elements() > 0 ? from_column_major(t, h.item_bytes()) : t;
}

Result<Tensor> read_npy(const std::string& path) {
  SMELT_ASSIGN(const auto file, MappedFile::open(path));
  return read_npy(file->bytes(), path);
}

NpyFile npy_file(const Tensor& tensor) {
  NpyFile out;
  std::string descr = descr_of(tensor.dtype()), data;
  const int64_t n = tensor.elements();
  if (tensor.dtype() == DType::kString) {
    std::vector<std::vector<uint32_t>> all;
    size_t longest = 1;
    for (int64_t i = 0; i < n; ++i) {
      all.push_back(code_points(tensor.data<std::string>()[i]));
      longest = std::max(longest, all.back().size());
    }
    descr = Cat("<U", longest);
    for (auto& s : all) {
      s.resize(longest, 0);
      data.append(reinterpret_cast<const char*>(s.data()), longest * 4);
    }
  } else if (bit_width(tensor.dtype()) < 8) {
    const bool is_f4 = tensor.dtype() == DType::kF4E2M1;
    for (int64_t i = 0; i < n; ++i)
      data += static_cast<char>(is_f4 ? (tensor.data<uint8_t>()[i / 2] >> (i % 2 * 4)) & 15 : get_int(tensor, i));
  }
  std::string shape = "(";
  for (int i = 0; i < tensor.rank(); ++i)
    shape += Cat(tensor.dim(i), tensor.rank() == 1 || i + 1 < tensor.rank() ? "," : "");
  std::string header = Cat("{'descr': '", descr, "', 'fortran_order': False, 'shape': ", shape, "), }");
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  out.header.assign("\x93NUMPY\x01\x00", 8);
  out.header += static_cast<char>(header.size() & 0xff);
  out.header += static_cast<char>(header.size() >> 8);
  out.header += header;
  if (tensor.dtype() == DType::kString || bit_width(tensor.dtype()) < 8)
    out.converted = std::move(data);
  else
    out.own = {static_cast<const char*>(tensor.raw()), tensor.bytes()};
  return out;
}

Status write_npy(const std::string& path, const Tensor& tensor) {
  if (tensor.dtype() == DType::kInvalid) return Internal("an undefined tensor can't be written");
  const NpyFile file = npy_file(tensor);
  return write_file(path, {file.header, file.elements()});
}

}  // namespace smelt
