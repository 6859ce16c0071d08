#include "tensor/npy.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/write_file.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

struct Descr {
  char order = '|', kind = 0;
  int64_t size = 0;
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
    out.push_back(good ? v : c);  // bytes that are not UTF-8 stand for themselves (Latin-1)
    i += good ? static_cast<size_t>(n) : 1;
  }
  return out;
}

DType dtype_of(const Descr& d) {
  switch (d.kind) {
    case 'b':
      return d.size == 1 ? DType::kBool : DType::kInvalid;
    case 'i':
      return d.size == 1   ? DType::kI8
             : d.size == 2 ? DType::kI16
             : d.size == 4 ? DType::kI32
             : d.size == 8 ? DType::kI64
                           : DType::kInvalid;
    case 'u':
      return d.size == 1   ? DType::kU8
             : d.size == 2 ? DType::kU16
             : d.size == 4 ? DType::kU32
             : d.size == 8 ? DType::kU64
                           : DType::kInvalid;
    case 'f':
      return d.size == 2 ? DType::kF16 : d.size == 4 ? DType::kF32 : d.size == 8 ? DType::kF64 : DType::kInvalid;
    case 'c':
      return d.size == 8 ? DType::kC64 : d.size == 16 ? DType::kC128 : DType::kInvalid;
    default:
      return DType::kInvalid;
  }
}

/// Value text after 'key': in the header's dictionary, or empty.
std::string_view header_value(std::string_view header, std::string_view key) {
  size_t at = header.find(Cat("'", key, "'"));
  if (at == std::string_view::npos) return {};
  at = header.find(':', at);
  if (at == std::string_view::npos) return {};
  ++at;
  while (at < header.size() && header[at] == ' ') ++at;
  return header.substr(at);
}

}  // namespace

Result<Tensor> read_npy(const std::string& path) {
  SMELT_ASSIGN(auto file, MappedFile::open(path));
  const auto bytes = file->bytes();
  const auto bad = [&](const std::string& why) { return InvalidInput(path, ": not a plain .npy file: ", why); };
  if (bytes.size() > 4 && std::memcmp(bytes.data(), "PK\x03\x04", 4) == 0)
    return bad("an .npz archive; numpy.save writes each of its arrays as .npy");
  if (bytes.size() < 12 || std::memcmp(bytes.data(), "\x93NUMPY", 6) != 0) return bad("no NUMPY magic");
  const int version = static_cast<int>(bytes[6]);
  if (version < 1 || version > 3) return bad(Cat("version ", version));
  size_t length = static_cast<size_t>(bytes[8]) | static_cast<size_t>(bytes[9]) << 8, start = 10;
  if (version > 1) {
    length |= static_cast<size_t>(bytes[10]) << 16 | static_cast<size_t>(bytes[11]) << 24;
    start = 12;
  }
  if (length > bytes.size() - start) return bad("the header is cut off");
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + start, length);
  const std::string_view descr = header_value(header, "descr");
  if (descr.size() < 4 || descr[0] != '\'') return bad("structured or missing dtype");
  Descr d;
  d.order = descr[1];
  d.kind = descr[2];
  const std::string_view digits = descr.substr(3, descr.substr(3).find('\''));
  d.size = std::strtoll(std::string(digits).c_str(), nullptr, 10);
  const bool fortran = header_value(header, "fortran_order").starts_with("True");
  std::string_view shape_text = header_value(header, "shape");
  if (shape_text.empty() || shape_text[0] != '(') return bad("no shape");
  shape_text = shape_text.substr(1, shape_text.find(')') - 1);
  Shape shape;
  for (size_t i = 0; i < shape_text.size();) {
    if (shape_text[i] < '0' || shape_text[i] > '9') {
      ++i;
      continue;
    }
    int64_t v = 0;
    while (i < shape_text.size() && shape_text[i] >= '0' && shape_text[i] <= '9') {
      if (v > (int64_t{1} << 50)) return bad("a dimension is too large");
      v = v * 10 + (shape_text[i++] - '0');
    }
    if (shape.rank() == Shape::kMaxRank) return bad("rank over 16");
    shape.push_back(v);
  }
  SMELT_ASSIGN(const int64_t n, shape.checked_elements());
  const bool text = d.kind == 'S' || d.kind == 'U';
  const DType dtype = text ? DType::kString : dtype_of(d);
  if (dtype == DType::kInvalid) return bad(Cat("dtype '", std::string(descr.substr(1, 3)), "'"));
  const int64_t item = d.kind == 'U' ? d.size * 4 : d.size;
  const size_t available = bytes.size() - start - length;
  if (item < 0 || (item > 0 && static_cast<uint64_t>(n) > available / static_cast<uint64_t>(item)))
    return bad("the data are cut off");
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data()) + start + length;
  SMELT_ASSIGN(Tensor t, Tensor::allocate(dtype, shape));
  if (text) {
    for (int64_t i = 0; i < n; ++i) {
      if (d.kind == 'S') {
        const char* s = reinterpret_cast<const char*>(data) + i * item;
        size_t len = static_cast<size_t>(item);
        while (len > 0 && s[len - 1] == 0) --len;
        t.data<std::string>()[i].assign(s, len);
      } else {
        std::vector<uint32_t> points(static_cast<size_t>(d.size));
        std::memcpy(points.data(), data + i * item, static_cast<size_t>(item));
        if (d.order == '>')
          for (uint32_t& p : points) p = __builtin_bswap32(p);
        t.data<std::string>()[i] = utf8(points.data(), points.size());
      }
    }
  } else if (n > 0) {
    std::memcpy(t.raw(), data, static_cast<size_t>(n * item));
    if (d.order == '>' && item > 1) {
      const int64_t unit = d.kind == 'c' ? item / 2 : item;
      auto* p = t.data<uint8_t>();
      for (int64_t i = 0; i < n * item; i += unit) std::reverse(p + i, p + i + unit);
    }
  }
  if (fortran && shape.rank() > 1 && n > 0) {
    Tensor c(dtype, shape);
    std::vector<int64_t> index(static_cast<size_t>(shape.rank()), 0);
    for (int64_t i = 0; i < n; ++i) {
      int64_t at = 0, stride = 1;
      for (int k = 0; k < shape.rank(); ++k) {
        at += index[static_cast<size_t>(k)] * stride;
        stride *= shape[k];
      }
      if (text)
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
  return t;
}

Status write_npy(const std::string& path, const Tensor& tensor) {
  std::string descr;
  std::string data;
  const int64_t n = tensor.elements();
  switch (tensor.dtype()) {
    case DType::kF32:
      descr = "<f4";
      break;
    case DType::kF64:
      descr = "<f8";
      break;
    case DType::kF16:
      descr = "<f2";
      break;
    case DType::kBF16:
    case DType::kU16:
      descr = "<u2";
      break;
    case DType::kI16:
      descr = "<i2";
      break;
    case DType::kI32:
      descr = "<i4";
      break;
    case DType::kU32:
      descr = "<u4";
      break;
    case DType::kI64:
      descr = "<i8";
      break;
    case DType::kU64:
      descr = "<u8";
      break;
    case DType::kI8:
    case DType::kI4:
    case DType::kI2:
      descr = "|i1";
      break;
    case DType::kBool:
      descr = "|b1";
      break;
    case DType::kC64:
      descr = "<c8";
      break;
    case DType::kC128:
      descr = "<c16";
      break;
    case DType::kString:
      break;
    case DType::kInvalid:
      return Internal("an undefined tensor can't be written");
    default:
      descr = "|u1";
  }
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
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(header.size() & 0xff);
  head += static_cast<char>(header.size() >> 8);
  head += header;
  if (!data.empty() || tensor.dtype() == DType::kString) return write_file(path, {head, data});
  return write_file(path, {head, {static_cast<const char*>(tensor.raw()), tensor.bytes()}});
}

}  // namespace smelt
