#include "cli/values.h"

#include "base/error.h"
#include "tensor/npy.h"
#include "tensor/numeric.h"

namespace smelt::cli {

Result<Datum> read_value(const std::string& path) {
  namespace fs = std::filesystem;
  if (path == "none") return Datum{};
  std::error_code ec;
  if (!fs::is_directory(path, ec)) {
    SMELT_ASSIGN(Tensor t, read_npy(path));
    return Datum(std::move(t));
  }
  if (fs::exists(fs::path(path) / "keys.npy", ec)) {
    SMELT_ASSIGN(Tensor keys, read_npy((fs::path(path) / "keys.npy").string()));
    SMELT_ASSIGN(Tensor values, read_npy((fs::path(path) / "values.npy").string()));
    return Datum::map(std::move(keys), std::move(values));
  }
  std::vector<Datum> items;
  for (int i = 0;; ++i) {
    const fs::path file = fs::path(path) / Cat(i, ".npy");
    if (!fs::exists(file, ec)) break;
    SMELT_ASSIGN(Tensor t, read_npy(file.string()));
    items.emplace_back(std::move(t));
  }
  if (items.empty() && fs::path(path).extension() != ".seq")
    return InvalidInput(path, ": a folder without 0.npy, 1.npy, ... or keys.npy and values.npy");
  return Datum::sequence(std::move(items));
}

namespace {
bool renames(DType have, DType want) {
  return (have == DType::kU16 && want == DType::kBF16) ||
         (bit_width(want) == 8 && is_float(want) && have == DType::kU8);
}
bool packs(DType have, DType want) {
  return bit_width(want) > 0 && bit_width(want) < 8 && (have == DType::kI8 || have == DType::kU8);
}
}  // namespace

bool adapts(DType have, DType want) { return renames(have, want) || packs(have, want); }

Datum adapt(Datum d, const Port& port) {
  if (!d.is_tensor() || d.tensor.dtype() == port.dtype || port.dtype == DType::kInvalid) return d;
  const DType have = d.tensor.dtype(), want = port.dtype;
  if (renames(have, want)) return Datum(Tensor::view(want, d.tensor.shape(), d.tensor.raw(), d.tensor.owner()));
  if (!packs(have, want)) return d;
  // 4-bit floats come as their codes.
  Tensor packed(is_float(want) ? DType::kU4 : want, d.tensor.shape());
  for (int64_t i = 0; i < packed.elements(); ++i) set_int(packed, i, get_int(d.tensor, i));
  return Datum(Tensor::view(want, packed.shape(), packed.raw(), packed.owner()));
}

Status write_value(const std::filesystem::path& parent, const std::string& stem, const Datum& d) {
  namespace fs = std::filesystem;
  std::error_code ec;
  switch (d.kind) {
    case Datum::Kind::kNone:
      return Ok();
    case Datum::Kind::kTensor:
      return write_npy((parent / Cat(stem, ".npy")).string(), d.tensor);
    case Datum::Kind::kSequence: {
      const fs::path folder = parent / Cat(stem, ".seq");
      fs::create_directories(folder, ec);
      if (ec) return Error(ErrorCode::kIo, Cat(folder.string(), ": ", ec.message()));
      for (size_t i = 0; i < d.items->size(); ++i)
        if ((*d.items)[i].is_tensor()) SMELT_TRY(write_npy((folder / Cat(i, ".npy")).string(), (*d.items)[i].tensor));
      // What an earlier, longer sequence left there.
      for (size_t i = d.items->size(); fs::remove(folder / Cat(i, ".npy"), ec); ++i) continue;
      return Ok();
    }
    case Datum::Kind::kMap: {
      const fs::path folder = parent / Cat(stem, ".map");
      fs::create_directories(folder, ec);
      if (ec) return Error(ErrorCode::kIo, Cat(folder.string(), ": ", ec.message()));
      SMELT_TRY(write_npy((folder / "keys.npy").string(), (*d.items)[0].tensor));
      return write_npy((folder / "values.npy").string(), (*d.items)[1].tensor);
    }
  }
  return Ok();
}

}  // namespace smelt::cli
