// Sparse constants, expanded at load.
#include <cstring>

#include "base/checked.h"
#include "formats/tflite/lowering.h"
#include "tensor/numeric.h"

namespace smelt::tflite {
namespace {

struct Level {
  bool sparse = false;
  int64_t extent = 0;  // of the dimension as traversed: coordinates are below it
  int dim = 0;         // dimension of the tensor that it moves along
  int64_t step = 1;    // coordinate * step is added to that dimension's index
  std::vector<int64_t> segments, indices;
};

Result<std::vector<int64_t>> index_vector(tfl::SparseIndexVector type, const void* table) {
  std::vector<int64_t> out;
  const auto copy = [&](const auto* values) {
    if (values) out.assign(values->begin(), values->end());
  };
  if (!table) return InvalidModel("a sparse dimension without index vectors");
  switch (type) {
    case tfl::SparseIndexVector::Int32Vector:
      copy(static_cast<const tfl::Int32Vector*>(table)->values());
      return out;
    case tfl::SparseIndexVector::Uint16Vector:
      copy(static_cast<const tfl::Uint16Vector*>(table)->values());
      return out;
    case tfl::SparseIndexVector::Uint8Vector:
      copy(static_cast<const tfl::Uint8Vector*>(table)->values());
      return out;
    default:
      return InvalidModel("index vector type ", static_cast<int>(type));
  }
}

Result<std::vector<Level>> read_levels(const tfl::SparsityParameters& s, const Shape& shape) {
  const int rank = shape.rank();
  const auto* order = s.traversal_order();
  const auto* meta = s.dim_metadata();
  const int blocks = s.block_map() ? static_cast<int>(s.block_map()->size()) : 0;
  const int count = rank + blocks;
  if (!order || !meta || static_cast<int>(order->size()) != count || static_cast<int>(meta->size()) != count)
    return InvalidModel("sparsity has ", order ? order->size() : 0, " traversed and ", meta ? meta->size() : 0,
                        " described dimensions, ", count, " expected");
  std::vector<Level> levels(static_cast<size_t>(count));
  std::vector<int64_t> block_size(static_cast<size_t>(blocks), 1);
  std::vector<char> seen(static_cast<size_t>(count), 0);
  for (int i = 0; i < count; ++i) {
    const int d = order->Get(static_cast<uint32_t>(i));
    if (d < 0 || d >= count || seen[static_cast<size_t>(d)] || (d < rank) != (i < rank))
      return InvalidModel("sparsity's traversal order is no permutation");
    seen[static_cast<size_t>(d)] = 1;
    Level& level = levels[static_cast<size_t>(i)];
    level.dim = d < rank ? d : s.block_map()->Get(static_cast<uint32_t>(d - rank));
    if (level.dim < 0 || level.dim >= rank) return InvalidModel("sparsity's block map names dimension ", level.dim);
    const tfl::DimensionMetadata* m = meta->Get(static_cast<uint32_t>(i));
    SMELT_TRY(check_enumerator(m->format(), "dimension format"));
    level.sparse = m->format() == tfl::DimensionType::SPARSE_CSR;
    if (level.sparse) {
      if (d >= rank) return Unsupported("a sparse block dimension");
      SMELT_ASSIGN(level.segments, index_vector(m->array_segments_type(), m->array_segments()));
      SMELT_ASSIGN(level.indices, index_vector(m->array_indices_type(), m->array_indices()));
    } else {
      level.extent = m->dense_size();
      if (level.extent < 1) return InvalidModel("a dense dimension of ", level.extent);
    }
    if (d >= rank) block_size[static_cast<size_t>(d - rank)] = level.extent;
  }
  for (int i = 0; i < rank; ++i) {
    Level& level = levels[static_cast<size_t>(i)];
    int64_t extent = shape[level.dim];
    for (int k = 0; k < blocks; ++k) {
      if (s.block_map()->Get(static_cast<uint32_t>(k)) != level.dim) continue;
      const int64_t size = block_size[static_cast<size_t>(k)];
      if (extent % size != 0) return InvalidModel("blocks of ", size, " do not divide a dimension of ", extent);
      extent /= size;
      level.step *= size;
    }
    if (!level.sparse && level.extent != extent)
      return InvalidModel("a dense dimension of ", level.extent, ", ", extent, " expected");
    level.extent = extent;
  }
  return levels;
}

/// Walks the tree of levels and scatters the values in the order of the file.
class Expander {
 public:
  Expander(const std::vector<Level>& levels, const Shape& shape, DType dtype, std::span<const uint8_t> bytes,
           Tensor& out)
      : levels_(levels),
        strides_(shape.strides()),
        width_(static_cast<size_t>(bit_width(dtype)) / 8),
        bytes_(bytes),
        out_(out) {}

  Status walk(size_t level, int64_t position, int64_t offset) {
    if (level == levels_.size()) return place(offset);
    const Level& l = levels_[level];
    const int64_t stride = strides_[l.dim] * l.step;
    if (!l.sparse) {
      for (int64_t i = 0; i < l.extent; ++i) SMELT_TRY(walk(level + 1, position * l.extent + i, offset + i * stride));
      return Ok();
    }
    if (position < 0 || position + 1 >= static_cast<int64_t>(l.segments.size()))
      return InvalidModel("sparsity has no segment ", position);
    const int64_t begin = l.segments[static_cast<size_t>(position)],
                  end = l.segments[static_cast<size_t>(position) + 1];
    if (begin < 0 || end < begin || end > static_cast<int64_t>(l.indices.size()))
      return InvalidModel("sparse segment [", begin, ", ", end, ") of ", l.indices.size(), " indices");
    if (end - begin > l.extent)
      return InvalidModel("a sparse segment of ", end - begin, " entries in a dimension of ", l.extent);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = l.indices[static_cast<size_t>(i)];
      if (at < 0 || at >= l.extent) return InvalidModel("sparse index ", at, " in a dimension of ", l.extent);
      SMELT_TRY(walk(level + 1, i, offset + at * stride));
    }
    return Ok();
  }

  size_t used() const { return next_; }

 private:
  Status place(int64_t offset) {
    if ((next_ + 1) * width_ > bytes_.size()) return InvalidModel("fewer values than sparsity describes");
    std::memcpy(out_.data<uint8_t>() + static_cast<size_t>(offset) * width_, bytes_.data() + next_ * width_, width_);
    ++next_;
    return Ok();
  }

  const std::vector<Level>& levels_;
  Shape strides_;
  size_t width_;
  std::span<const uint8_t> bytes_;
  Tensor& out_;
  size_t next_ = 0;
};

}  // namespace

Result<Tensor> densify(const tfl::SparsityParameters& sparsity, std::span<const uint8_t> packed_values, DType dtype,
                       const Shape& shape) {
  if (dtype == DType::kString) return InvalidModel("a sparse tensor of strings");
  // Sub-byte values are spread to one a byte, expanded, and packed again.
  std::vector<uint8_t> spread;
  DType wide = dtype;
  std::span<const uint8_t> bytes = packed_values;
  const int bits = bit_width(dtype);
  if (bits < 8) {
    const auto n = static_cast<int64_t>(packed_values.size()) * 8 / bits;
    const Tensor packed = Tensor::view(dtype, Shape{n}, packed_values.data(), nullptr);
    spread.resize(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) spread[static_cast<size_t>(i)] = static_cast<uint8_t>(get_int(packed, i));
    bytes = spread;
    wide = DType::kI8;
  }
  SMELT_ASSIGN(const int64_t n, shape.checked_elements());
  // What a small file may grow to.
  constexpr size_t kFree = size_t{16} << 20, kGrowth = 1024;
  if (Tensor::byte_size(wide, n) / kGrowth > packed_values.size() + kFree / kGrowth)
    return LimitReached("a sparse tensor of shape ", shape.str(), " with ", packed_values.size(), " bytes of values");
  SMELT_ASSIGN(const auto levels, read_levels(sparsity, shape));
  SMELT_ASSIGN(Tensor out, Tensor::allocate(wide, shape));
  Expander expander(levels, shape, wide, bytes, out);
  SMELT_TRY(expander.walk(0, 0, 0));
  if (bits >= 8) return out;
  SMELT_ASSIGN(Tensor packed, Tensor::allocate(dtype, shape));
  for (int64_t i = 0; i < n; ++i) set_int(packed, i, out.data<int8_t>()[i]);
  return packed;
}

}  // namespace smelt::tflite
